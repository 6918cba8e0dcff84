"""Random tables and random queries, every query in two spellings: DataFrame calls here, SQL for DuckDB.

A column is made of a handful of drawn values, repeated at random: equal values, ties and group keys come
by themselves, tables of 40,000 rows cost no more to draw than tables of 4, and a failure shrinks to few
values.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from querymode import Expr, col, lit

Strategy = st.SearchStrategy[Any]


class Kind(NamedTuple):
    """A type of column: what both engines call it, and values for it."""

    name: str
    sql: str
    family: str
    arrow: Any
    values: Strategy
    #: Values that are drawn for literals only, of another type or out of this one's range.
    strangers: Strategy = st.nothing()


def _integers(bits: int, signed: bool) -> Kind:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = st.sampled_from([low, low + 1, high - 1, high, 0, 1])
    values = st.one_of(st.integers(max(low, -20), min(high, 20)), edges, st.integers(low, high))
    beyond = st.sampled_from([low - 1, high + 1, 1000, -1000, -1])
    halves = st.sampled_from([0.5, -0.5, 2.5, 1e30, -1e30, float("inf"), float("nan")])
    name = f"{'' if signed else 'u'}int{bits}"
    word = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[bits]
    sql = word if signed else f"U{word}"
    # Against a 64-bit column, DuckDB rounds the column to the double beside it.
    strangers = st.one_of(beyond, halves) if bits < 64 else beyond
    return Kind(name, sql, "integer", getattr(pa, name)(), values, strangers)


def _decimals(precision: int, scale: int) -> Kind:
    # Of the widest, 40,000 must still have a sum of 38 digits.
    end = 10 ** min(precision, 33) - 1
    unscaled = st.one_of(st.integers(-2000, 2000), st.sampled_from([-end, end, 0]), st.integers(-end, end))
    values = unscaled.map(
        lambda number: (
            Decimal(number).scaleb(-scale)
            if abs(number) < 10**28
            else Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
        )
    )
    # More digits behind the point than the column has. Beside the widest, DuckDB has no type for both.
    finer = st.sampled_from([Decimal("0.000000000001"), Decimal("-1.005000000001")])
    strangers = st.one_of(finer, st.integers(-3, 3)) if precision < 38 else st.integers(-3, 3)
    return Kind(
        f"decimal({precision},{scale})",
        f"DECIMAL({precision},{scale})",
        "decimal",
        pa.decimal128(precision, scale),
        values,
        strangers,
    )


def _moments(unit: str, sql: str, zone: str | None) -> Kind:
    step = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if zone else None)
    near = st.integers(-3, 3).map(lambda ticks: start + dt.timedelta(microseconds=ticks * step))
    far = st.integers(-9_000_000_000 // 2, 9_000_000_000).map(lambda s: start + dt.timedelta(seconds=s))
    label = f"timestamp({unit}{', ' + zone if zone else ''})"
    return Kind(label, sql, "temporal", pa.timestamp(unit, zone), st.one_of(near, far))


_SPECIAL = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.0]
#: Sums of these neither overflow nor lose everything.
_FLOATS = st.one_of(st.sampled_from(_SPECIAL), st.floats(-1e6, 1e6), st.floats(-1e200, 1e200))
_FLOATS_32 = st.one_of(
    st.sampled_from(_SPECIAL), st.floats(-1e6, 1e6, width=32), st.floats(-(2.0**100), 2.0**100, width=32)
)
_TEXTS = st.one_of(
    st.text("abB%_\\é€😀 ", max_size=5),
    st.sampled_from(["", "a", "ab", "é", "a\x00", "\x00", "aa", "long text beyond twelve bytes", "日本語"]),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
_BYTES = st.one_of(st.binary(max_size=4), st.sampled_from([b"", b"\x00", b"\xff", b"a" * 20]))
_DATES = st.one_of(
    st.dates(dt.date(1969, 12, 29), dt.date(1970, 1, 3)), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
)

KINDS = (
    *(_integers(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    Kind("float64", "DOUBLE", "float", pa.float64(), _FLOATS, st.integers(-3, 3)),
    Kind("float32", "FLOAT", "float", pa.float32(), _FLOATS_32, st.integers(-3, 3)),
    Kind("bool", "BOOLEAN", "bool", pa.bool_(), st.booleans()),
    Kind("utf8", "VARCHAR", "text", pa.string(), _TEXTS),
    Kind("binary", "BLOB", "bytes", pa.binary(), _BYTES),
    Kind("fixed_binary(3)", "BLOB", "bytes", pa.binary(3), st.binary(min_size=3, max_size=3)),
    _decimals(9, 2),
    _decimals(18, 4),
    _decimals(38, 10),
    Kind("date", "DATE", "temporal", pa.date32(), _DATES),
    Kind("time(us)", "TIME", "temporal", pa.time64("us"), st.times()),
    _moments("s", "TIMESTAMP_S", None),
    _moments("ms", "TIMESTAMP_MS", None),
    _moments("us", "TIMESTAMP", None),
    _moments("ns", "TIMESTAMP_NS", None),
    _moments("us", "TIMESTAMPTZ", "UTC"),
)
NUMERIC = ("integer", "float", "decimal")
ANY_KIND = st.sampled_from(KINDS)


class Table(NamedTuple):
    """`arrow` has column `row`, the number of the row, behind the drawn ones."""

    arrow: pa.Table
    kinds: dict[str, Kind]
    #: The values each column is made of.
    pools: dict[str, list[Any]]

    def names(self, *families: str) -> list[str]:
        return [name for name, kind in self.kinds.items() if not families or kind.family in families]


SMALL = st.sampled_from([0, 1, 2, 5, 7, 8, 9, 31, 60])
LARGE = st.sampled_from([16_383, 16_384, 16_385, 40_000])


@st.composite
def tables(draw: Any, row_counts: Strategy = SMALL, kinds: Strategy = ANY_KIND) -> Table:
    chosen = draw(st.lists(kinds, min_size=1, max_size=3))
    names = ["a", "b", "the “c”"][: len(chosen)]
    row_count = draw(row_counts)
    skipped = draw(st.sampled_from([0, 0, 1, 5, 8]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    arrays, pools = [], {}
    for name, kind in zip(names, chosen, strict=True):
        pools[name] = draw(st.lists(kind.values, min_size=1, max_size=6))
        nulls = draw(st.sampled_from([0.0, 0.3, 0.3, 1.0]))
        arrays.append(_column(random, kind, pools[name], nulls, row_count + skipped))
    numbers = pa.array(np.arange(-skipped, row_count))
    table = pa.table([*arrays, numbers], [*names, "row"]).slice(skipped)
    cuts = draw(st.lists(st.integers(0, row_count), max_size=2))
    return Table(_in_chunks(table, sorted(cuts)), dict(zip(names, chosen, strict=True)), pools)


def _column(random: Any, kind: Kind, pool: list[Any], nulls: float, count: int) -> Any:
    indices = pa.array(random.integers(0, len(pool), count), mask=random.random(count) < nulls)
    return pa.array(pool, kind.arrow).take(indices)


def _in_chunks(table: pa.Table, cuts: list[int]) -> pa.Table:
    if not cuts:
        return table
    ends = [*cuts, table.num_rows]
    parts = [table.slice(start, end - start) for start, end in zip([0, *cuts], ends, strict=True)]
    return pa.concat_tables(parts)


class Spelled(NamedTuple):
    """An expression in both languages."""

    expr: Expr
    sql: str
    parameters: list[Any]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def column(name: str) -> Spelled:
    return Spelled(col(name), quoted(name), [])


def literal(value: Any, kind: Kind) -> Spelled:
    """A constant; in SQL it has the type that it has here by itself, or the column's."""
    return Spelled(lit(value), f"CAST(? AS {_literal_type(value, kind)})", [value])


def _literal_type(value: Any, kind: Kind) -> str:
    if isinstance(value, float) and kind.family == "integer":
        return "DOUBLE"
    if isinstance(value, int) and not isinstance(value, bool) and kind.family != "bool":
        return "HUGEINT"
    if isinstance(value, Decimal):
        return "DECIMAL(38,12)" if abs(value) < 10**20 and kind.name != "decimal(38,10)" else "DECIMAL(38,10)"
    return kind.sql


COMPARISONS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_PYTHON = {
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
}


@st.composite
def constants(draw: Any, table: Table, name: str) -> Any:
    """Mostly a value the column has; sometimes NULL, another value, or one of another type."""
    kind = table.kinds[name]
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return None
    if choice <= 2:
        return draw(kind.values)
    if choice == 3 and not kind.strangers.is_empty:
        return draw(kind.strangers)
    return draw(st.sampled_from(table.pools[name]))


def _are_comparable(a: Kind, b: Kind) -> bool:
    if a.family in NUMERIC and b.family in NUMERIC:
        return True
    moments = ("DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP")  # nanoseconds do not reach as far
    return a.name == b.name or (a.sql in moments and b.sql in moments)


@st.composite
def comparisons(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names()))
    word = draw(st.sampled_from(list(COMPARISONS)))
    others = [other for other in table.names() if _are_comparable(table.kinds[name], table.kinds[other])]
    if len(others) > 1 and draw(st.booleans()):
        right = column(draw(st.sampled_from(others)))
    else:
        right = literal(draw(constants(table, name)), table.kinds[name])
    left = column(name)
    if draw(st.booleans()):
        left, right = right, left
    sql = f"({left.sql} {COMPARISONS[word]} {right.sql})"
    return Spelled(_PYTHON[word](left.expr, right.expr), sql, left.parameters + right.parameters)


@st.composite
def betweens(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names()))
    low, high = (literal(draw(constants(table, name)), table.kinds[name]) for _ in range(2))
    negated = draw(st.booleans())
    expr = (col(name).not_between if negated else col(name).between)(low.expr, high.expr)
    sql = f"({quoted(name)} {'NOT ' if negated else ''}BETWEEN {low.sql} AND {high.sql})"
    return Spelled(expr, sql, low.parameters + high.parameters)


@st.composite
def memberships(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names()))
    count = draw(st.sampled_from([1, 2, 3, 12]))
    values = [draw(constants(table, name)) for _ in range(count)]
    negated = draw(st.booleans())
    expr = (col(name).not_in if negated else col(name).is_in)(values)
    marks = [literal(value, table.kinds[name]) for value in values]
    sql = f"({quoted(name)} {'NOT ' if negated else ''}IN ({', '.join(mark.sql for mark in marks)}))"
    return Spelled(expr, sql, values)


@st.composite
def likes(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names("text")))
    pattern = draw(
        st.one_of(
            st.text("ab%_é€B", max_size=6),
            st.sampled_from(["%", "", "_", "%a%", "a%", "%b", "%a%b%", "é_", "%😀%", "__", "%%", "a_%"]),
            st.sampled_from(table.pools[name]).map(lambda text: text.replace("\\", "") + "%"),
        )
    )
    escape = draw(st.sampled_from([None, "!"]))
    if escape:
        pattern = (
            pattern.replace("a", "!%", 1).replace("!", "") if "!" in pattern else pattern.replace("é", "!_")
        )
    negated = draw(st.booleans())
    expr = (col(name).not_like if negated else col(name).like)(pattern, escape)
    tail = f" ESCAPE '{escape}'" if escape else ""
    return Spelled(expr, f"({quoted(name)} {'NOT ' if negated else ''}LIKE ?{tail})", [pattern])


@st.composite
def null_tests(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names()))
    if draw(st.booleans()):
        return Spelled(col(name).is_null(), f"({quoted(name)} IS NULL)", [])
    return Spelled(col(name).is_not_null(), f"({quoted(name)} IS NOT NULL)", [])


@st.composite
def words(draw: Any, table: Table) -> tuple[tuple[Any, ...], str, list[Any]]:
    """One of the 14 operators by its word: what filter takes, SQL, parameters."""
    name = draw(st.sampled_from(table.names()))
    kind = table.kinds[name]
    singles = [*COMPARISONS, *(("like", "not_like") if kind.family == "text" else ())]
    word = draw(
        st.sampled_from([*singles, "in", "not_in", "between", "not_between", "is_null", "is_not_null"])
    )
    sign = COMPARISONS.get(word, word.upper().replace("_", " "))
    if word.startswith("is_"):
        return (name, word), f"{quoted(name)} {sign}", []
    if word in singles:
        value = draw(st.sampled_from(table.pools[name]))
        mark = "?" if word.endswith("like") else literal(value, kind).sql
        return (name, word, value), f"{quoted(name)} {sign} {mark}", [value]
    values = [draw(constants(table, name)) for _ in range(2)]
    marks = [literal(value, kind).sql for value in values]
    tail = f"({', '.join(marks)})" if word.endswith("in") else " AND ".join(marks)
    return (name, word, values), f"{quoted(name)} {sign} {tail}", values


def conditions(table: Table) -> Strategy:
    """Nests of AND, OR and NOT over all comparisons."""
    leaves = [comparisons(table), betweens(table), memberships(table), null_tests(table)]
    if table.names("text"):
        leaves.append(likes(table))
    if table.names("bool"):
        leaves.append(st.sampled_from(table.names("bool")).map(column))
    return st.recursive(st.one_of(leaves), _nest, max_leaves=5)


def _nest(inner: Strategy) -> Strategy:
    def joined(parts: tuple[Spelled, Spelled, bool]) -> Spelled:
        a, b, both = parts
        expr = a.expr & b.expr if both else a.expr | b.expr
        return Spelled(expr, f"({a.sql} {'AND' if both else 'OR'} {b.sql})", a.parameters + b.parameters)

    def negated(part: Spelled) -> Spelled:
        return Spelled(~part.expr, f"(NOT {part.sql})", part.parameters)

    return st.one_of(st.tuples(inner, inner, st.booleans()).map(joined), inner.map(negated))


# ---- computed columns ----

ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


@st.composite
def calculations(draw: Any, table: Table) -> Spelled:
    """Arithmetic between numbers, one or two deep. Constants stand in the text, as people write them."""
    left: Spelled = draw(_operands(table))
    for _ in range(draw(st.integers(1, 2))):
        sign = draw(st.sampled_from(list(ARITHMETIC)))
        right = draw(_operands(table))
        if draw(st.booleans()):
            left, right = right, left
        sql = f"({left.sql} {sign} {right.sql})"
        left = Spelled(ARITHMETIC[sign](left.expr, right.expr), sql, left.parameters + right.parameters)
    return left


@st.composite
def _operands(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names(*NUMERIC)))
    kind = table.kinds[name]
    choice = draw(st.integers(0, 9))
    if choice == 0 and not kind.name.startswith("uint"):
        return Spelled(-col(name), f"(-{quoted(name)})", [])
    if choice <= 2:
        value: Any = draw(st.integers(-3, 100))
        if kind.name == "float64":
            value = draw(st.floats(-100, 100))
            return Spelled(lit(value), "CAST(? AS DOUBLE)", [value])
        return Spelled(lit(value), f"({value})" if value < 0 else str(value), [])
    return column(name)


#: Casts to and from text are in test_casts.py.
CAST_TARGETS = {
    "integer": [
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        *("DOUBLE", "FLOAT", "BOOLEAN", "DECIMAL(9,2)", "DECIMAL(38,4)"),
    ],
    "float": ["TINYINT", "INTEGER", "BIGINT", "UBIGINT", "DOUBLE", "FLOAT", "DECIMAL(18,3)", "BOOLEAN"],
    "decimal": ["TINYINT", "BIGINT", "UBIGINT", "DOUBLE", "FLOAT", "DECIMAL(9,1)", "DECIMAL(38,5)"],
    "bool": ["INTEGER", "UTINYINT", "DOUBLE"],
    "temporal": ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"],
}


@st.composite
def casts(draw: Any, table: Table) -> Spelled:
    name = draw(st.sampled_from(table.names(*CAST_TARGETS)))
    kind = table.kinds[name]
    # Instants have no other type without a zone, and the engine has no zones.
    fixed = kind.sql in ("TIME", "TIMESTAMPTZ")
    target = kind.sql if fixed else draw(st.sampled_from(CAST_TARGETS[kind.family]))
    if draw(st.booleans()):
        return Spelled(col(name).cast(target), f"CAST({quoted(name)} AS {target})", [])
    return Spelled(col(name).cast(target, strict=False), f"TRY_CAST({quoted(name)} AS {target})", [])
