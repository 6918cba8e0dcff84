"""Aggregates, one row each: what they are called, what they take and give, and what lanes exchange.

The engine's rows are in wasm/src/operator/accumulator.zig; tests/abi compares the two.

    takes     what the engine aggregates; `plan/aggregates.py` says what is cast to that
    states    what a partial aggregate hands to its final one, a column each:

        count      int64
        total      int128, float64 or decimal(38, s)
        mean       float64, and with it
        squares    float64: the sum of squared distances from the mean
        value      as the argument
        present    bool: whether there was a row

Medians and percentiles do not split: they need all rows of a group in one place. So does DISTINCT, where
repeats count.
"""

from __future__ import annotations

from querymode._abi import AggregateOp


class Rule:
    """A row. Not a NamedTuple: the package is imported without `typing`."""

    __slots__ = (
        "constant",
        "counts_repeats",
        "gives",
        "method",
        "name",
        "shows_order",
        "splits",
        "sql",
        "states",
        "takes",
        "words",
    )

    def __init__(
        self,
        name: str,
        takes: str,
        gives: str,
        states: tuple[str, ...],
        *,
        constant: str = "none",
        splits: bool = True,
        counts_repeats: bool = True,
        shows_order: bool = False,
        words: tuple[str, ...] | None = None,
        sql: tuple[str, ...] | None = None,
        method: str = "",
    ) -> None:
        #: In messages, in names of columns and in plans as text.
        self.name = name
        self.takes = takes
        self.gives = gives
        self.states = states
        #: A separator or a fraction, beside the value.
        self.constant = constant
        #: Lanes may each do a part of it.
        self.splits = splits
        #: A value that comes twice counts twice; where not, DISTINCT changes nothing.
        self.counts_repeats = counts_repeats
        #: The order of rows shows in the answer.
        self.shows_order = shows_order
        #: What `aggregate("…")` calls it, and SQL; its own name, where nothing is said.
        self.words = (name,) if words is None else words
        self.sql = (name,) if sql is None else sql
        #: The method of expressions, where that is not called by its name.
        self.method = method


_VARIANCE = ("count", "mean", "squares")

RULES = {
    AggregateOp.COUNT_ROWS: Rule("count", "nothing", "count", ("count",), words=(), sql=()),
    AggregateOp.COUNT: Rule("count", "anything", "count", ("count",)),
    AggregateOp.SUM: Rule("sum", "summable", "total", ("total",)),
    AggregateOp.MIN: Rule("min", "ordered", "value", ("value",), counts_repeats=False),
    AggregateOp.MAX: Rule("max", "ordered", "value", ("value",), counts_repeats=False),
    AggregateOp.AVG: Rule(
        "avg", "numbers", "float64", ("total", "count"), words=("avg", "mean"), sql=("avg", "mean")
    ),
    AggregateOp.STDDEV_SAMP: Rule(
        "stddev_samp",
        "float64",
        "float64",
        _VARIANCE,
        words=("std", "stddev", "stddev_samp"),
        sql=("stddev", "stddev_samp"),
        method="std()",
    ),
    AggregateOp.STDDEV_POP: Rule("stddev_pop", "float64", "float64", _VARIANCE, method="std(ddof=0)"),
    AggregateOp.VAR_SAMP: Rule(
        "var_samp",
        "float64",
        "float64",
        _VARIANCE,
        words=("var", "variance", "var_samp"),
        sql=("variance", "var_samp"),
        method="var()",
    ),
    AggregateOp.VAR_POP: Rule("var_pop", "float64", "float64", _VARIANCE, method="var(ddof=0)"),
    AggregateOp.MEDIAN: Rule("median", "median", "value", ("value",), splits=False),
    AggregateOp.PERCENTILE_CONT: Rule(
        "percentile_cont",
        "continuous",
        "value",
        ("value",),
        constant="fraction",
        splits=False,
        words=(),
        sql=("quantile_cont", "percentile_cont"),
        method="quantile({})",
    ),
    AggregateOp.PERCENTILE_DISC: Rule(
        "percentile_disc",
        "ordered",
        "value",
        ("value",),
        constant="fraction",
        splits=False,
        words=(),
        sql=("quantile_disc", "quantile", "percentile_disc"),
        method="quantile({}, 'discrete')",
    ),
    AggregateOp.FIRST: Rule(
        "first",
        "anything",
        "value",
        ("value", "present"),
        counts_repeats=False,
        shows_order=True,
        sql=("first", "arbitrary"),
    ),
    AggregateOp.LAST: Rule(
        "last", "anything", "value", ("value", "present"), counts_repeats=False, shows_order=True
    ),
    AggregateOp.ANY_VALUE: Rule(
        "any_value", "anything", "value", ("value",), counts_repeats=False, shows_order=True
    ),
    AggregateOp.BOOL_AND: Rule(
        "bool_and",
        "bools",
        "value",
        ("value",),
        counts_repeats=False,
        words=("bool_and", "all"),
        method="all()",
    ),
    AggregateOp.BOOL_OR: Rule(
        "bool_or",
        "bools",
        "value",
        ("value",),
        counts_repeats=False,
        words=("bool_or", "any"),
        method="any()",
    ),
    AggregateOp.STRING_AGG: Rule(
        "string_agg",
        "text",
        "value",
        ("value",),
        constant="separator",
        shows_order=True,
        sql=("string_agg", "group_concat", "listagg"),
    ),
}

#: What `aggregate("sum", …)` accepts; the names in SQL.
WORDS = {word: op for op, rule in RULES.items() for word in rule.words}
SQL_NAMES = {name: op for op, rule in RULES.items() for name in rule.sql}
