"""Random SQL over three small tables of integers with many NULLs: joins, groups, subqueries in subqueries.

Every query means one thing only: no LIMIT without a total order, no column that two relations could have.
"""

from __future__ import annotations

from hypothesis import strategies as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

#: Table → its columns.
TABLES = {"r": ("a", "b", "c"), "s": ("b", "d"), "t": ("a", "d", "e")}
_COMPARISONS = ("=", "=", "=", "<>", "<", ">=")


class _Frame:
    """Columns that an expression may name: of this query, and of those around it."""

    def __init__(self, columns: Sequence[str], outer: Sequence[str], count: int) -> None:
        self.columns = list(columns)
        self.outer = list(outer)
        #: Relations so far, for aliases that differ.
        self.count = count


@st.composite
def queries(draw: DrawFn) -> str:
    body = draw(_select([], 0, draw(st.integers(1, 2)), 2))
    if draw(st.integers(0, 4)) == 0:
        width = draw(st.integers(1, 2))
        word = draw(st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]))
        left, right = draw(_select([], 0, width, 1)), draw(_select([], 50, width, 1))
        return f"({left}) {word} ({right})"
    return body


@st.composite
def _select(draw: DrawFn, outer: Sequence[str], count: int, width: int, depth: int) -> str:
    """A SELECT of so many columns, in which queries may be nested `depth` deep."""
    source, columns, count = draw(_from(count, outer, depth))
    frame = _Frame(columns, outer, count)
    where = f" WHERE {draw(_condition(frame, depth))}" if draw(st.booleans()) else ""
    kind = draw(st.sampled_from(["plain", "plain", "distinct", "grouped", "aggregate"]))
    if kind == "grouped":
        keys = draw(st.lists(st.sampled_from(frame.columns), min_size=1, max_size=2, unique=True))
        inner = _Frame(keys, outer, count + 20)
        items = [draw(_grouped_item(frame, inner, depth)) for _ in range(width)]
        having = (
            f" HAVING {draw(_aggregate(frame))} > {draw(st.integers(0, 3))}" if draw(st.booleans()) else ""
        )
        return f"SELECT {_list(items)} FROM {source}{where} GROUP BY {', '.join(keys)}{having}"
    if kind == "aggregate":
        items = [draw(_aggregate(frame)) for _ in range(width)]
        return f"SELECT {_list(items)} FROM {source}{where}"
    items = [draw(_value(frame, depth)) for _ in range(width)]
    return f"SELECT {'DISTINCT ' * (kind == 'distinct')}{_list(items)} FROM {source}{where}"


def _list(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS x{place}" for place, item in enumerate(items))


@st.composite
def _from(draw: DrawFn, count: int, outer: Sequence[str], depth: int) -> tuple[str, list[str], int]:
    text, columns, count = draw(_relation(count, outer, depth))
    for _ in range(draw(st.integers(0, 1))):
        right, more, count = draw(_relation(count, outer, depth))
        word = draw(
            st.sampled_from(
                ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", ","]
            )
        )
        pair = f"{draw(st.sampled_from(columns))} = {draw(st.sampled_from(more))}"
        if word == ",":
            text += f", {right}"
        else:
            extra = (
                f" AND {draw(st.sampled_from(columns))} < {draw(st.sampled_from(more))}"
                if draw(st.booleans())
                else ""
            )
            text += f" {word} {right} ON {pair}{extra}"
        columns = columns if word in ("SEMI JOIN", "ANTI JOIN") else columns + more
    return text, columns, count


@st.composite
def _relation(draw: DrawFn, count: int, outer: Sequence[str], depth: int) -> tuple[str, list[str], int]:
    alias = f"q{count}"
    if depth > 0 and draw(st.integers(0, 5)) == 0:
        inner = draw(_select(outer, count + 100, 2, depth - 1))
        return f"({inner}) {alias}", [f"{alias}.x0", f"{alias}.x1"], count + 1
    name = draw(st.sampled_from(sorted(TABLES)))
    return f"{name} {alias}", [f"{alias}.{column}" for column in TABLES[name]], count + 1


@st.composite
def _value(draw: DrawFn, frame: _Frame, depth: int) -> str:
    choice = draw(st.integers(0, 11))
    if choice == 0 and depth > 0:
        return f"({draw(_scalar(frame, depth))})"
    if choice == 1:
        return f"({draw(_column(frame))} + {draw(st.integers(0, 3))})"
    if choice == 2:
        return f"coalesce({draw(_column(frame))}, {draw(_column(frame))}, {draw(st.integers(0, 3))})"
    if choice == 3:
        return f"CASE WHEN {draw(_condition(frame, depth))} THEN {draw(_column(frame))} ELSE 7 END"
    if choice == 4:
        return str(draw(st.integers(-1, 4)))
    return draw(_column(frame))


@st.composite
def _column(draw: DrawFn, frame: _Frame) -> str:
    """Of the queries around this one, now and then."""
    if frame.outer and draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(frame.outer))
    return draw(st.sampled_from(frame.columns))


@st.composite
def _scalar(draw: DrawFn, frame: _Frame, depth: int) -> str:
    """A query of one row: an aggregate without keys."""
    inner_outer = [*frame.columns, *frame.outer]
    source, columns, count = draw(_from(frame.count + 300, inner_outer, 0))
    inner = _Frame(columns, inner_outer, count)
    where = f" WHERE {draw(_condition(inner, depth - 1))}" if draw(st.integers(0, 3)) else ""
    having = " HAVING count(*) > 1" if draw(st.integers(0, 5)) == 0 else ""
    return f"SELECT {draw(_aggregate(inner))} FROM {source}{where}{having}"


@st.composite
def _aggregate(draw: DrawFn, frame: _Frame) -> str:
    column = draw(st.sampled_from(frame.columns))
    form = draw(
        st.sampled_from(
            ["count(*)", "count({})", "sum({})", "min({})", "max({})", "count(DISTINCT {})", "count({}) + 1"]
        )
    )
    return form.format(column)


@st.composite
def _grouped_item(draw: DrawFn, frame: _Frame, keys: _Frame, depth: int) -> str:
    if draw(st.booleans()):
        return draw(_aggregate(frame))
    return draw(_value(keys, depth))


@st.composite
def _condition(draw: DrawFn, frame: _Frame, depth: int) -> str:
    choice = draw(st.integers(0, 13 if depth > 0 else 7))
    if choice <= 3:
        right = draw(_column(frame)) if draw(st.booleans()) else str(draw(st.integers(0, 4)))
        return f"{draw(_column(frame))} {draw(st.sampled_from(_COMPARISONS))} {right}"
    if choice == 4:
        return f"{draw(_column(frame))} IS {'NOT ' * draw(st.booleans())}NULL"
    if choice == 5:
        last = draw(st.sampled_from(["3", "NULL"]))
        return f"{draw(_column(frame))} {'NOT ' * draw(st.booleans())}IN (1, 2, {last})"
    if choice == 6:
        word = draw(st.sampled_from(["AND", "OR"]))
        return f"({draw(_condition(frame, depth))} {word} {draw(_condition(frame, depth))})"
    if choice == 7:
        return f"NOT ({draw(_condition(frame, depth))})"
    inner = draw(_select([*frame.columns, *frame.outer], frame.count + 500, 1, depth - 1))
    if choice <= 9:
        return f"{'NOT ' * draw(st.booleans())}EXISTS ({inner})"
    if choice <= 11:
        return f"{draw(_column(frame))} {'NOT ' * draw(st.booleans())}IN ({inner})"
    if choice == 12:
        word = draw(st.sampled_from(["ANY", "ALL"]))
        return f"{draw(_column(frame))} {draw(st.sampled_from(_COMPARISONS))} {word} ({inner})"
    return f"{draw(_column(frame))} {draw(st.sampled_from(_COMPARISONS))} ({draw(_scalar(frame, depth))})"
