"""An aggregate's rule is a row on each side: the engine's and the planner's must say the same."""

from __future__ import annotations

import pytest

from querymode._abi import AGGREGATE_RULES, AggregateOp
from querymode.errors import QueryModeError
from querymode.expr.aggregate_rules import RULES, SQL_NAMES, WORDS
from querymode.expr.nodes import Aggregate, Literal, aggregate_by_word, col
from querymode.plan.aggregates import result_type, state_types
from querymode.types import BOOL, FLOAT64, INT64, INT128, UTF8, decimal


def test_every_aggregate_has_a_row() -> None:
    assert set(RULES) == set(AGGREGATE_RULES) == set(AggregateOp)


@pytest.mark.parametrize("op", AggregateOp, ids=lambda op: op.name.lower())
def test_both_sides_have_the_same_rule(op: AggregateOp) -> None:
    rule = RULES[op]
    ours = (
        rule.takes,
        rule.gives,
        rule.states,
        rule.constant,
        rule.splits,
        rule.counts_repeats,
        rule.shows_order,
    )
    assert ours == AGGREGATE_RULES[op]


@pytest.mark.parametrize("op", AggregateOp, ids=lambda op: op.name.lower())
def test_types_follow_from_the_rule(op: AggregateOp) -> None:
    call = Aggregate(op, None if op == AggregateOp.COUNT_ROWS else col("x"))
    defined = 0
    for argument in (INT64, FLOAT64, BOOL, UTF8, decimal(10, 2)):
        try:
            given = result_type(call, argument)
        except QueryModeError as refused:
            assert refused.code == "INVALID_AGGREGATE"
            continue
        defined += 1
        states = state_types(call, argument)
        assert len(states) == len(RULES[op].states)
        for name, data_type in zip(RULES[op].states, states, strict=True):
            if name == "count":
                assert data_type == INT64
            if name == "total":
                assert data_type in (INT128, FLOAT64, decimal(38, 2))
        if RULES[op].gives in RULES[op].states:
            assert given == states[RULES[op].states.index(RULES[op].gives)]
    assert defined > 0


def test_names_are_found() -> None:
    for word, op in WORDS.items():
        found = aggregate_by_word(word, col("x"))
        assert found is not None
        assert found.op == op
        assert bool(found.extra) == (RULES[op].constant != "none")
        assert all(isinstance(item, Literal) for item in found.extra)
    assert all(op in RULES for op in SQL_NAMES.values())
    assert {RULES[op].name for op in SQL_NAMES.values()} == {rule.name for rule in RULES.values()}
