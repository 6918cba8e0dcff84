"""Random tables and random SQL over them, of a grammar wide enough to meet what nobody thought of.

Everything follows from a seed. Expressions are made by type, so that most queries mean something; where
DuckDB itself refuses one, there is nothing to compare. What docs/semantics.md says is
different is not written here.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u32")
NUMBERS = (*INTEGERS, "f32", "f64", "dec")
_ARROW = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "dec": pa.decimal128(9, 2),
    "text": pa.string(),
    "date": pa.date32(),
    "ts": pa.timestamp("us"),
    "bool": pa.bool_(),
}
_SQL_TYPES = {
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INTEGER",
    "i64": "BIGINT",
    "u8": "UTINYINT",
    "u32": "UINTEGER",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "dec": "DECIMAL(9,2)",
    "text": "VARCHAR",
    "date": "DATE",
    "ts": "TIMESTAMP",
    "bool": "BOOLEAN",
}
KINDS = tuple(_ARROW)
_TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "äöü",
    "日本",
    "x y",
    "  pad ",
    "a%b",
    "10",
    "-3",
    "2000-01-01",
    "ﬀ",
    "Z",
]
_EXTREMES: dict[str, list[object]] = {
    "i8": [127, -128, -1],
    "i16": [32767, -32768],
    "i32": [2**31 - 1, -(2**31)],
    "i64": [2**63 - 1, -(2**63), 2**53 + 1],
    "u8": [255],
    "u32": [2**32 - 1],
    "f32": [1e-45, -0.0, 3.4028234663852886e38, float("inf"), float("nan"), 1.5, 0.25],
    "f64": [5e-324, 1e-310, -0.0, 1.7976931348623157e308, float("-inf"), float("nan"), 1.5, -2.75],
    "dec": [Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.01"), Decimal("1.25")],
    "text": list(_TEXTS),
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(2000, 2, 29)],
    "ts": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12, 30, 1)],
    "bool": [True, False],
}


def _value(source: random.Random, kind: str, extreme: float) -> object:
    if source.random() < extreme:
        return source.choice(_EXTREMES[kind])
    small = source.randrange(0, 6)
    if kind in INTEGERS:
        return small
    if kind in ("f32", "f64"):
        return float(small)
    if kind == "dec":
        return Decimal(small)
    if kind == "text":
        return source.choice(_TEXTS[:6])
    if kind == "date":
        return dt.date(2000, 1, 1) + dt.timedelta(small)
    if kind == "ts":
        return dt.datetime(2000, 1, 1, small)
    return small > 2


def tables(seed: int) -> dict[str, pa.Table]:
    """`t` and `u` with a column of every kind, `k` narrow, `n` empty. NULLs are frequent."""
    source = random.Random(seed)
    extreme = source.choice([0.0, 0.0, 0.1, 0.4])
    counts = {"t": source.randrange(1, 25), "u": source.randrange(0, 12), "n": 0}
    found = {}
    for name, count in counts.items():
        nulls = source.choice([0.0, 0.2, 0.6])
        columns = {
            f"{kind}": pa.array(
                [None if source.random() < nulls else _value(source, kind, extreme) for _ in range(count)],
                _ARROW[kind],
            )
            for kind in KINDS
        }
        found[name] = pa.table({"id": pa.array(range(count), pa.int32()), **columns})
    return found


class Columns:
    """What names mean in a place: `(text, kind)`, outer ones apart."""

    def __init__(self, own: Sequence[tuple[str, str]], outer: Sequence[tuple[str, str]] = ()) -> None:
        self.own = list(own)
        self.outer = list(outer)


class Query:
    def __init__(self, text: str, kinds: Sequence[str], names: Sequence[str], ordered: bool = False) -> None:
        self.text = text
        self.kinds = list(kinds)
        self.names = list(names)
        #: Whether the rows' order is said in full.
        self.ordered = ordered

    def columns(self, alias: str) -> list[tuple[str, str]]:
        """Those whose kind is known, as a query around it sees them."""
        pairs = zip(self.names, self.kinds, strict=True)
        return [(f"{alias}.{name}", kind) for name, kind in pairs if kind]


class Fuzzer:
    """Queries, one after the other, of one seed."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        self._aliases = 0

    def _choice(self, items: Sequence[str]) -> str:
        return self._source.choice(items)

    def _chance(self, part: float) -> bool:
        return self._source.random() < part

    def _alias(self, letter: str = "r") -> str:
        self._aliases += 1
        return f"{letter}{self._aliases}"

    # ---- constants ----

    def constant(self, kind: str) -> str:
        if self._chance(0.08):
            return f"NULL::{_SQL_TYPES[kind]}"
        if kind in INTEGERS:
            value = self._source.choice(
                [0, 1, 2, 3, 5, 7, 100] if kind[0] == "u" else [0, 1, 2, 5, -1, -3, 100]
            )
            typed = self._chance(0.3)
            written = f"({value})" if value < 0 else str(value)
            return f"{written}::{_SQL_TYPES[kind]}" if typed else written
        if kind in ("f32", "f64"):
            return self._choice(
                ["0.5", "-1.5", "2", "1e0", "1e-310", "-0.0::DOUBLE", "0.1::FLOAT", "2.5::DOUBLE", "1e10"]
            )
        if kind == "dec":
            return self._choice(["1.25", "-0.5", "3.00", "2::DECIMAL(9,2)", "0.01", "7.5::DECIMAL(4,1)"])
        if kind == "text":
            return "'" + self._choice(_TEXTS) + "'"
        if kind == "date":
            return self._choice(["DATE '2000-01-03'", "'2000-01-01'::DATE", "DATE '1970-01-01'"])
        if kind == "ts":
            return self._choice(["TIMESTAMP '2000-01-01 02:00:00'", "'2000-01-02'::TIMESTAMP"])
        return self._choice(["TRUE", "FALSE"])

    # ---- expressions ----

    def expression(self, kind: str, columns: Columns, depth: int) -> str:
        own = [name for name, known in columns.own if known == kind]
        outer = [name for name, known in columns.outer if known == kind]
        if outer and self._chance(0.15):
            return self._choice(outer)
        if depth <= 0 or self._chance(0.3):
            return self._choice(own) if own and self._chance(0.8) else self.constant(kind)
        rule = self._source.choice(_RULES[kind if kind in _RULES else "integer"])
        return rule(self, kind, columns, depth - 1)

    def condition(self, columns: Columns, depth: int) -> str:
        return self.expression("bool", columns, depth)

    def _case(self, kind: str, columns: Columns, depth: int) -> str:
        values = [self.expression(kind, columns, depth) for _ in range(2)]
        return f"CASE WHEN {self.condition(columns, depth)} THEN {values[0]} ELSE {values[1]} END"

    def _coalesce(self, kind: str, columns: Columns, depth: int) -> str:
        # Two numbers in front of the first column would be INTEGERs together: one that was cast comes first.
        first = f"({self.expression(kind, columns, depth)})::{_SQL_TYPES[kind]}" if kind in INTEGERS else ""
        count = self._source.randrange(2, 4) - bool(first)
        values = [*([first] if first else []), *(self.expression(kind, columns, depth) for _ in range(count))]
        return f"{self._choice(['coalesce', 'greatest', 'least'])}({', '.join(values)})"

    def _nullif(self, kind: str, columns: Columns, depth: int) -> str:
        return f"nullif({self.expression(kind, columns, depth)}, {self.expression(kind, columns, depth)})"

    def _cast(self, kind: str, columns: Columns, depth: int) -> str:
        sources = {
            "text": ("i32", "date", "ts", "bool", "i8", "dec"),
            "date": ("ts",),
            "ts": ("date",),
            "bool": ("i32",),
        }.get(kind, NUMBERS)
        inner = self.expression(self._choice(sources), columns, depth)
        if kind in NUMBERS:
            return f"TRY_CAST({inner} AS {_SQL_TYPES[kind]})"
        return f"({inner})::{_SQL_TYPES[kind]}"

    def _arithmetic(self, kind: str, columns: Columns, depth: int) -> str:
        signs = ["+", "-", "*"] if kind not in INTEGERS else ["+", "-", "*", "%", "//"]
        sign = self._choice(signs)
        left, right = self.expression(kind, columns, depth), self.expression(kind, columns, depth)
        if sign in ("%", "//"):
            right = f"nullif({right}, 0)"
        return f"({left} {sign} {right})"

    def _minus(self, kind: str, columns: Columns, depth: int) -> str:
        if kind[0] == "u":
            return self._nullif(kind, columns, depth)
        return f"(-{self.expression(kind, columns, depth)})"

    def _divide(self, kind: str, columns: Columns, depth: int) -> str:
        left = self.expression(self._choice(("i32", "f64", "dec")), columns, depth)
        right = self.expression(self._choice(("i32", "f64")), columns, depth)
        quotient = f"({left} / {right})"
        return f"{quotient}::FLOAT" if kind == "f32" else quotient

    def _float_function(self, kind: str, columns: Columns, depth: int) -> str:
        name = self._choice(["abs", "sqrt", "floor", "ceil", "trunc", "round", "sign"])
        return f"{name}({self.expression(kind, columns, depth)})"

    def _integer_function(self, kind: str, columns: Columns, depth: int) -> str:
        choice = self._source.randrange(4)
        if choice == 0:
            return f"length({self.expression('text', columns, depth)})"
        if choice == 1:
            part = self._choice(["year", "month", "day", "dow"])
            dates = [name for name, known in columns.own if known == "date"] or ["DATE '2000-02-29'"]
            return f"extract({part} FROM {self._choice(dates)})"
        if choice == 2:
            return f"({self.expression('date', columns, depth)} - {self.expression('date', columns, depth)})"
        texts = [self.expression("text", columns, depth) for _ in range(2)]
        return f"position({texts[0]} IN {texts[1]})"

    def _text_function(self, kind: str, columns: Columns, depth: int) -> str:
        text = self.expression("text", columns, depth)
        choice = self._source.randrange(7)
        if choice == 0:
            return f"{self._choice(['upper', 'lower', 'trim', 'ltrim', 'rtrim'])}({text})"
        if choice == 1:
            return f"({text} || {self.expression('text', columns, depth)})"
        if choice == 2:
            return f"substring({text}, {self._source.randrange(-2, 4)}, {self._source.randrange(0, 4)})"
        if choice == 3:
            return f"replace({text}, {self.constant('text')}, {self.constant('text')})"
        if choice == 4:
            return f"{self._choice(['left', 'right'])}({text}, {self._source.randrange(-2, 3)})"
        if choice == 5:
            return f"concat({text}, {self.expression('i32', columns, depth)})"
        return f"lpad({text}, {self._source.randrange(0, 5)}, 'x')"

    def _moved(self, kind: str, columns: Columns, depth: int) -> str:
        if kind == "date":
            sign, days = self._choice(["+", "-"]), self._source.randrange(0, 40)
            return f"({self.expression(kind, columns, depth)} {sign} {days})"
        unit = self._choice(["DAY", "MONTH", "HOUR", "YEAR", "MINUTE"])
        count = self._source.randrange(-3, 4)
        moment = self.expression(self._choice(("ts", "date")), columns, depth)
        interval = self._choice([f"INTERVAL '{count}' {unit}", f"INTERVAL ({count}) {unit}"])
        return self._choice(
            [f"({moment} + {interval})", f"({moment} - {interval})", f"({interval} + {moment})"]
        )

    def _truncated(self, kind: str, columns: Columns, depth: int) -> str:
        part = self._choice(["year", "month", "day", "week", "quarter"])
        cut = f"date_trunc('{part}', {self.expression(kind, columns, depth)})"
        return f"{cut}::DATE" if kind == "date" else cut

    def _scalar(self, kind: str, columns: Columns, depth: int) -> str:
        name, inner = self._narrow(columns)
        value = self.expression(kind, inner, 0)
        where = f" WHERE {self.condition(inner, 1)}" if self._chance(0.7) else ""
        return f"(SELECT {self._choice(['min', 'max'])}({value}) FROM {name}{where})"

    def _comparison(self, kind: str, columns: Columns, depth: int) -> str:
        other = self._choice(KINDS[:-1])
        sides = [self.expression(other, columns, depth) for _ in range(2)]
        if other in INTEGERS and self._chance(0.3):
            sides[1] = self.expression(self._choice(NUMBERS), columns, depth)
        sign = self._choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return f"({sides[0]} {sign} {sides[1]})"

    def _logical(self, kind: str, columns: Columns, depth: int) -> str:
        left, right = self.condition(columns, depth), self.condition(columns, depth)
        return self._choice([f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"])

    def _predicate(self, kind: str, columns: Columns, depth: int) -> str:
        other = self._choice(KINDS[:-1])
        value = self.expression(other, columns, depth)
        negated = self._choice(["", "", "NOT "])
        choice = self._source.randrange(5)
        if choice == 0:
            return f"({value} IS {negated}NULL)"
        if choice == 1:
            items = ", ".join(self.constant(other) for _ in range(self._source.randrange(1, 5)))
            items += ", NULL" if self._chance(0.1) else ""
            return f"({value} {negated}IN ({items}))"
        if choice == 2:
            ends = [self.expression(other, columns, 0) for _ in range(2)]
            return f"({value} {negated}BETWEEN {ends[0]} AND {ends[1]})"
        if choice == 3:
            text = self.expression("text", columns, depth)
            pattern = self._choice(["a%", "%b", "_", "%", "", "%a%", "a\\%b", "ä%"])
            return f"({text} {negated}{self._choice(['LIKE', 'ILIKE'])} '{pattern}')"
        return f"({self.condition(columns, depth)} IS {negated}{self._choice(['TRUE', 'FALSE'])})"

    def _narrow(self, columns: Columns) -> tuple[str, Columns]:
        """A table for a subquery, with the columns around it as outer ones."""
        alias = self._alias("s")
        table = self._choice(["t", "t", "u", "u", "u", "n"])
        own = [(f"{alias}.{kind}", kind) for kind in KINDS]
        return f"{table} AS {alias}", Columns(own, columns.own)

    def _exists(self, kind: str, columns: Columns, depth: int) -> str:
        name, inner = self._narrow(columns)
        return f"({self._choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {name} WHERE {self.condition(inner, 1)}))"

    def _in_query(self, kind: str, columns: Columns, depth: int) -> str:
        other = self._choice(("i32", "text", "i64", "date", "i8"))
        name, inner = self._narrow(columns)
        where = f" WHERE {self.condition(inner, 1)}" if self._chance(0.6) else ""
        word = self._choice(["IN", "NOT IN", "= ANY", "<> ALL"])
        query = f"SELECT {self.expression(other, inner, 0)} FROM {name}{where}"
        return f"({self.expression(other, columns, depth)} {word} ({query}))"

    # ---- aggregates ----

    def aggregate(self, columns: Columns) -> tuple[str, str | None]:
        """A call, and its kind if others may go on with it."""
        name = self._choice(
            [
                "count",
                "count",
                "sum",
                "min",
                "max",
                "avg",
                "median",
                "any",
                "string_agg",
                "bool_and",
                "star",
                "count_if",
            ]
        )
        distinct = "DISTINCT " if self._chance(0.25) else ""
        tail = f" FILTER (WHERE {self.condition(columns, 1)})" if self._chance(0.25) else ""
        if name == "star":
            return f"count(*){tail}", "i64"
        if name == "count_if":
            return f"count_if({self.condition(columns, 1)}){tail}", None
        if name == "bool_and":
            return f"{self._choice(['bool_and', 'bool_or'])}({self.condition(columns, 1)}){tail}", "bool"
        if name == "string_agg":
            value = self.expression("text", columns, 1)
            return f"string_agg({distinct}{value}, ',' ORDER BY {value}){tail}", "text"
        if name in ("sum", "avg", "median"):
            kind = self._choice(("i32", "i8", "dec", "i16") if name != "median" else ("i32", "i8"))
            return f"{name}({distinct}{self.expression(kind, columns, 1)}){tail}", None
        kind = self._choice(KINDS)
        value = self.expression(kind, columns, 1)
        if name == "count":
            return f"count({distinct}{value}){tail}", "i64"
        return f"{self._choice(['min', 'max'])}({value}){tail}", kind

    # ---- FROM ----

    def source(self, depth: int) -> tuple[str, Columns]:
        text, columns = self._relation(depth)
        for _ in range(self._source.choice([0, 0, 1, 1, 2])):
            other, theirs = self._relation(depth - 1)
            kind = self._choice(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI JOIN", "ANTI JOIN"]
            )
            both = Columns([*columns.own, *theirs.own])
            if kind == "CROSS JOIN":
                text, columns = f"{text} CROSS JOIN {other}", both
                continue
            text = f"{text} {kind} {other} ON {self._join_condition(columns, theirs, both)}"
            columns = columns if kind in ("SEMI JOIN", "ANTI JOIN") else both
        return text, columns

    def _join_condition(self, ours: Columns, theirs: Columns, both: Columns) -> str:
        shared = [(a, b) for a, kind in ours.own for b, other in theirs.own if kind == other]
        terms = []
        if shared:
            a, b = self._source.choice(shared)
            terms.append(f"{a} = {b}")
        if not terms or self._chance(0.3):
            terms.append(self._plain(both))
        return " AND ".join(terms)

    def _plain(self, columns: Columns) -> str:
        """A condition without subqueries."""
        return self._comparison("bool", columns, 0)

    def _relation(self, depth: int) -> tuple[str, Columns]:
        alias = self._alias("q")
        if depth <= 0 or self._chance(0.7):
            table = self._choice(["t", "t", "t", "t", "u", "u", "u", "n"])
            return f"{table} AS {alias}", Columns([(f"{alias}.{kind}", kind) for kind in KINDS])
        query = self.select(depth - 1)
        return f"({query.text}) AS {alias}", Columns(query.columns(alias))

    # ---- queries ----

    def select(self, depth: int, kinds: Sequence[str] | None = None) -> Query:
        source, columns = self.source(depth)
        where = f" WHERE {self.condition(columns, 2)}" if self._chance(0.6) else ""
        wanted = list(kinds or [self._choice(KINDS) for _ in range(self._source.randrange(1, 4))])
        names = [self._alias("c") for _ in wanted]
        if kinds is None and self._chance(0.35):
            return self._grouped(source, columns, where)
        items = [self.expression(kind, columns, 2) for kind in wanted]
        shown = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        distinct = "DISTINCT " if self._chance(0.2) else ""
        text = f"SELECT {distinct}{shown} FROM {source}{where}"
        return Query(text, [_known(item, kind) for item, kind in zip(items, wanted, strict=True)], names)

    def _grouped(self, source: str, columns: Columns, where: str) -> Query:
        keys = [self._choice(KINDS) for _ in range(self._source.randrange(0, 3))]
        items = [self.expression(kind, columns, 1) for kind in keys]
        # A key that reads no column of this FROM would be taken for a place in the list.
        items = [item if any(name in item for name, _ in columns.own) else f"({item})" for item in items]
        calls = [self.aggregate(columns) for _ in range(self._source.randrange(1, 4))]
        names = [self._alias("c") for _ in (*keys, *calls)]
        shown = [*items, *(call for call, _ in calls)]
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(shown, names, strict=True))
        text = f"SELECT {listed} FROM {source}{where}"
        if keys:
            text += f" GROUP BY {', '.join(names[: len(keys)])}"
        if self._chance(0.3):
            call, kind = self.aggregate(columns)
            text += (
                f" HAVING {call} IS NOT NULL"
                if kind is None
                else f" HAVING {call} IS DISTINCT FROM {self.constant(kind)}"
            )
        return Query(text, [*("" for _ in keys), *(kind or "" for _, kind in calls)], names)

    def query(self) -> Query:
        """A whole statement."""
        choice = self._source.randrange(10)
        if choice < 2:
            found = self._set_operation()
        elif choice == 2:
            inner = self.select(1)
            name = self._alias("w")
            own = inner.columns(name)
            items = [column for column, _ in own] or [f"{name}.{inner.names[0]}"]
            where = f" WHERE {self.condition(Columns(own), 1)}" if self._chance(0.5) else ""
            shown = ", ".join(f"{item} AS x{place}" for place, item in enumerate(items))
            text = f"WITH {name} AS ({inner.text}) SELECT {shown} FROM {name}{where}"
            found = Query(text, ["" for _ in items], [f"x{place}" for place in range(len(items))])
        else:
            found = self.select(2)
        return self._with_tail(found) if self._chance(0.5) else found

    def _set_operation(self) -> Query:
        kinds = [self._choice(KINDS) for _ in range(self._source.randrange(1, 3))]
        left, right = self.select(1, kinds), self.select(1, kinds)
        word = self._choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        return Query(f"{left.text} {word} {right.text}", ["" for _ in kinds], left.names)

    def _with_tail(self, found: Query) -> Query:
        """An order that leaves nothing open but equal rows, and a part of the rows."""
        keys = []
        for name in found.names:
            keys.append(
                name + self._choice(["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST", " NULLS LAST"])
            )
        text = f"SELECT * FROM ({found.text}) ORDER BY {', '.join(keys)}"
        if self._chance(0.6):
            text += f" LIMIT {self._source.randrange(0, 8)}"
        if self._chance(0.3):
            text += f" OFFSET {self._source.randrange(0, 4)}"
        return Query(text, found.kinds, found.names, ordered=True)


def _known(item: str, kind: str) -> str:
    """The kind of a column of a derived table; arithmetic may have another than it was made for."""
    return kind if kind in ("text", "bool", "ts") else ""


_COMMON = [Fuzzer._case, Fuzzer._coalesce, Fuzzer._nullif, Fuzzer._cast, Fuzzer._scalar]
_RULES: dict[str, list[Callable[[Fuzzer, str, Columns, int], str]]] = {
    "integer": [*_COMMON, Fuzzer._arithmetic, Fuzzer._arithmetic, Fuzzer._minus, Fuzzer._integer_function],
    "f32": [*_COMMON, Fuzzer._arithmetic, Fuzzer._divide, Fuzzer._float_function, Fuzzer._minus],
    "f64": [*_COMMON, Fuzzer._arithmetic, Fuzzer._divide, Fuzzer._float_function, Fuzzer._minus],
    "dec": [*_COMMON, Fuzzer._arithmetic, Fuzzer._minus],
    "text": [*_COMMON, Fuzzer._text_function, Fuzzer._text_function],
    "date": [*_COMMON, Fuzzer._moved, Fuzzer._truncated],
    "ts": [*_COMMON, Fuzzer._moved, Fuzzer._truncated],
    "bool": [
        *(Fuzzer._comparison, Fuzzer._comparison, Fuzzer._logical, Fuzzer._predicate, Fuzzer._predicate),
        *(Fuzzer._exists, Fuzzer._in_query, Fuzzer._case),
    ],
}
