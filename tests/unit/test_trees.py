"""The one walker over expressions: every class, every place in it, however deep in tuples it stands."""

from __future__ import annotations

import datetime as dt
import gc
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy
import pytest

from querymode import QueryMode
from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode.expr.intervals import Interval
from querymode.expr.nodes import (
    Aggregate,
    Alias,
    And,
    Arithmetic,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Expr,
    Field,
    Function,
    InList,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Then,
    col,
    in_values,
    lit,
)
from querymode.expr.trees import (
    column_uses,
    columns_in,
    columns_of,
    conjuncts,
    disjuncts,
    identity,
    map_children,
    parts_of,
    reads_columns,
    rename,
    slots_of,
    substitute,
    transform,
)
from querymode.types import INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A, B, C, D = map(Column, "abcd")


class Sorted(Expr):
    """Keys with their directions, in tuples of tuples: as windows and ordered aggregates have."""

    __slots__ = ("keys", "value")
    OPERANDS = ("value", "keys")

    def __init__(self, value: Expr, keys: tuple[object, ...]) -> None:
        self.value = value
        self.keys = keys

    def __str__(self) -> str:
        return f"sorted({self.value})"


def made() -> dict[type[Expr], Expr]:
    """One of every class, with a column in every place that takes an expression."""
    found: list[Expr] = [
        A,
        Literal(5, INT32),
        Compare(CompareOp.LT, A, B),
        Between(A, B, C),
        InList(A, (1, B, None, C)),
        Like(A, "x%", "!", True),
        IsNull(A, True),
        And((A, B, C)),
        Or((A, B, C)),
        Not(A),
        Arithmetic(ArithmeticOp.ADD, A, B),
        Negate(A),
        Cast(A, INT64, True),
        Function("concat", (A, B, C)),
        Case((A, B), (C, D, A)),
        Then((A,), (B,)),
        Coalesce((A, B)),
        Field(A, "x"),
        Alias(A, "x"),
        Aggregate(AggregateOp.STRING_AGG, A, (B,), distinct=True, where=C),
        Sorted(A, ((B, True, False), ((C, ("x", D)), 5))),
    ]
    return {type(expression): expression for expression in found}


MADE = made()
EACH = pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)


def classes(base: type[Expr] = Expr) -> Iterator[type[Expr]]:
    for kind in base.__subclasses__():
        yield kind
        yield from classes(kind)


def all_columns(value: object) -> list[str]:
    """Found without the walker: through all slots and tuples."""
    if isinstance(value, Column):
        return [value.name]
    if isinstance(value, Expr):
        return [name for slot in slots_of(type(value)) for name in all_columns(getattr(value, slot))]
    return [name for item in value for name in all_columns(item)] if isinstance(value, tuple) else []


def test_every_class_is_here() -> None:
    assert {kind.__name__ for kind in classes()} == {kind.__name__ for kind in MADE}


@EACH
def test_operands_are_all_slots_that_hold_expressions(kind: type[Expr]) -> None:
    node = MADE[kind]
    holding = {slot for slot in slots_of(kind) if all_columns(getattr(node, slot))}
    assert set(kind.OPERANDS) == (set() if kind is Column else holding)
    assert set(kind.OPERANDS) <= set(slots_of(kind))


@EACH
def test_every_column_is_found(kind: type[Expr]) -> None:
    node = MADE[kind]
    names = all_columns(node)
    assert sorted(column_uses(node)) == sorted(names)
    assert columns_in(node) == set(names) == columns_in(node, node)
    into = {"z"}
    columns_of(node, into)
    assert into == {"z", *names}
    assert reads_columns(node) == bool(names)
    if kind is not Column:
        assert sorted(name for part in parts_of(node) for name in column_uses(part)) == sorted(names)


@EACH
def test_every_column_is_replaced(kind: type[Expr]) -> None:
    node = MADE[kind]
    before = identity(node)
    for name in sorted(columns_in(node)):
        other = substitute(node, {name: Function("abs", (Column("new"),))})
        assert type(other) is (Function if kind is Column else kind)
        assert columns_in(other) == columns_in(node) - {name} | {"new"}
        assert sorted(column_uses(other)) == sorted(
            "new" if used == name else used for used in column_uses(node)
        )
        assert identity(other) != before
        assert identity(rename(node, {name: "new"})) == identity(substitute(node, {name: Column("new")}))
    assert identity(node) == before, "nodes do not change"
    assert substitute(node, {"z": A}) is node
    assert rename(node, {}) is node


@EACH
def test_every_part_makes_another(kind: type[Expr]) -> None:
    node = MADE[kind]
    assert identity(node) == identity(made()[kind])
    assert hash(identity(node)) == hash(identity(made()[kind]))
    for slot in slots_of(kind):
        changed = object.__new__(kind)
        for name in slots_of(kind):
            object.__setattr__(changed, name, getattr(node, name))
        object.__setattr__(changed, slot, ("something else",))
        assert identity(changed) != identity(node), slot


def test_classes_are_not_each_other() -> None:
    assert len({identity(node) for node in MADE.values()}) == len(MADE)


def test_operands_of_a_class_that_counts_from_another() -> None:
    assert identity(Not(A)) != identity(Negate(A))
    assert identity(And((A, B))) != identity(Or((A, B))) != identity(And((B, A)))


NAN = float("nan")
SAME: list[tuple[object, object]] = [
    (1, 1),
    (1.5, 1.5),
    (NAN, float("nan")),
    (Decimal("1.0"), Decimal("1.0")),
    (Decimal("NaN"), Decimal("NaN")),
    (Decimal("sNaN"), Decimal("sNaN")),
    (bytearray(b"ab"), bytearray(b"ab")),
    (memoryview(bytearray(b"ab")), memoryview(bytearray(b"ab"))),
    (dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 1)),
    (numpy.int64(5), numpy.int64(5)),
    (Interval(1, 2, 3), Interval(1, 2, 3)),
    (None, None),
]
DIFFERENT: list[tuple[object, object]] = [
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    (numpy.float32(0.0), numpy.float32(-0.0)),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal("0"), Decimal("-0")),
    (Decimal("1"), 1),
    ("1", b"1"),
    (b"ab", bytearray(b"ab")),
    (dt.date(2024, 5, 1), dt.datetime(2024, 5, 1)),
    (
        dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC),
        dt.datetime(2024, 5, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ),
    (numpy.datetime64("2024-05-01"), numpy.datetime64("2024-05-01T00:00:00")),
    (Interval(1, 2, 3), (1, 2, 3)),
    # Their texts leave out what is in the middle.
    (numpy.zeros(5000), numpy.arange(5000) % 4999 * (numpy.arange(5000) == 2500)),
    ({}, {}),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=lambda value: type(value).__name__)
def test_constants_that_are_the_same(one: object, other: object) -> None:
    assert identity(Literal(one)) == identity(Literal(other))
    assert hash(identity(Literal(one))) == hash(identity(Literal(other)))
    assert identity(InList(A, (one,))) == identity(InList(A, (other,)))


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=lambda value: type(value).__name__)
def test_constants_that_are_not_the_same(one: object, other: object) -> None:
    assert identity(Literal(one)) != identity(Literal(other))
    assert identity(InList(A, (one,))) != identity(InList(A, (other,)))
    assert hash(identity(Literal(one))) == hash(identity(Literal(one)))


def test_types_of_constants_count() -> None:
    assert identity(lit(5, "int8")) != identity(lit(5, "int16")) != identity(lit(5))
    assert identity(lit(5, "int8")) != identity(lit(5, "int8", fixed=False))


def test_long_lists_are_the_same_by_their_values() -> None:
    def of(first: object) -> object:
        return identity(InList(A, in_values([first, *range(1, 1000)])))

    assert of(0) == of(0)
    assert of(0) != of(5)
    assert of(0) != of(0.0)


def test_what_is_only_itself_stays_itself() -> None:
    """An identity that is kept also keeps what it speaks of: a number of an object may be given again."""
    known = set()
    for number in range(50):
        known.add(identity(Literal({"number": number})))
        gc.collect()
    assert len(known) == 50


def test_transform_replaces_the_outermost_first() -> None:
    def change(part: Expr) -> Expr | None:
        return Column("sum") if isinstance(part, Arithmetic) else None

    node = Case((Compare(CompareOp.LT, A + (B + C), D),), (-(A + B), D))
    assert str(transform(node, change)) == str(
        Case((Compare(CompareOp.LT, Column("sum"), D),), (-Column("sum"), D))
    )
    assert transform(node, lambda _: None) is node


def test_named_tuples_stay_what_they_are() -> None:
    node = Sorted(A, (Interval(1, 2, 3), B))
    assert isinstance(node, Sorted)
    changed = map_children(node, lambda part: Negate(part))
    assert isinstance(changed, Sorted)
    assert type(changed.keys[0]) is Interval
    assert str(changed.keys[1]) == "-col('b')"


def test_terms_however_they_are_nested() -> None:
    assert [str(term) for term in conjuncts(And((A, And((B, Or((C, D)))))))] == [
        "col('a')",
        "col('b')",
        "(col('c') | col('d'))",
    ]
    assert [str(term) for term in disjuncts(Or((A, Or((B, And((C, D)))))))] == [
        "col('a')",
        "col('b')",
        "(col('c') & col('d'))",
    ]


@pytest.mark.parametrize(
    "change",
    [lambda x, y: x * y, lambda x, y: (x + y).abs()],
    ids=["multiplied", "added"],
)
def test_decimals_of_another_scale_are_not_shared(change: Callable[[Expr, Expr], Expr]) -> None:
    """They are equal for Python; the columns they make differ in type."""
    qm = QueryMode.local()
    frame = qm.sql("select cast(x as decimal(5, 1)) as x from (values (1.5), (2.5)) t(x)")
    one = change(col("x"), lit(Decimal("1.0")))
    other = change(col("x"), lit(Decimal("1.000")))
    answer = frame.select(one.alias("one"), other.alias("other"))
    one_type, other_type = (str(kind) for kind in answer.to_arrow().schema.types)
    assert one_type != other_type
