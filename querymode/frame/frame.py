"""DataFrame: a query in the making. Nothing runs until a terminal asks: collect, count, first, exists, …

Every method returns a new frame and checks its arguments at once: a misspelt column fails at the call
that misspelt it.
"""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode._checks import row_count
from querymode._secrets import hide
from querymode._shutdown import guards_shutdown
from querymode.errors import column_not_found, error
from querymode.expr.nodes import (
    AGGREGATE_WORDS,
    Aggregate,
    And,
    Column,
    Expr,
    Literal,
    Or,
    aggregate_by_word,
    condition,
    joined,
    unnamed,
)
from querymode.frame.arguments import column_name, flat, named, new_name
from querymode.frame.columns import ColumnMethods
from querymode.frame.filters import FilterMethods
from querymode.frame.joins import JoinMethods
from querymode.frame.sinks import OutputMethods
from querymode.plan.bind import output_name
from querymode.plan.nodes import Filter, GroupBy, Limit, Node, Project, Repeat, Sort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    import pandas
    import polars
    import pyarrow

    from querymode.output.result import Result
    from querymode.schema import Schema
    from querymode.session import QueryMode


@guards_shutdown
class DataFrame(FilterMethods, ColumnMethods, JoinMethods, OutputMethods):
    """Rows and columns that a query describes."""

    def __init__(self, session: QueryMode, node: Node) -> None:
        self._session = session
        self._node = node

    def _with(self, node: Node) -> DataFrame:
        return DataFrame(self._session, node)

    def __reduce__(self) -> tuple[Any, ...]:
        """The query, its session's options, and its tables in memory; see frame/pickling.py."""
        from querymode.frame.pickling import reduce_frame

        return reduce_frame(self._session, self._node)

    def __copy__(self) -> DataFrame:
        """The same query over the same tables: nothing of it ever changes."""
        return self._with(self._node)

    def __deepcopy__(self, memo: object) -> DataFrame:
        return self._with(self._node)

    # ---- what it is ----

    @property
    def schema(self) -> Schema:
        return self._node.schema

    @property
    def columns(self) -> list[str]:
        return list(self._node.schema.names)

    def dtypes(self) -> dict[str, str]:
        """Column names and their types as text."""
        return {name: str(data_type) for name, data_type in self._node.schema}

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.dtypes().items())
        return f"<DataFrame: {hide(columns)}>"

    # ---- rows ----

    def filter(self, *condition_or_words: object) -> DataFrame:
        """Rows for which a condition is true: `filter("id", "gt", 5)` or `filter(col("id") > 5)`.

        Several expressions must all be true.
        """
        return self._with(Filter(self._node, _predicate(condition_or_words)))

    where = filter

    def where_or(self, *groups: Sequence[Sequence[object]]) -> DataFrame:
        """Rows that match any group; all conditions of a group must hold.

        `where_or([("region", "eq", "us"), ("age", "gt", 25)], [("region", "eq", "eu")])`. A row that
        matches two groups comes once.
        """
        if not groups:
            raise error("INVALID_FILTER", "where_or takes at least one group of (column, operator, value)")
        return self._with(Filter(self._node, joined(Or, [_group(group) for group in groups])))

    def limit(self, count: int) -> DataFrame:
        """The first `count` rows. Beside `offset`, in either order, it is LIMIT … OFFSET …."""
        count = row_count("limit", count)
        node = self._node
        if isinstance(node, Limit):
            count = count if node.count is None else min(node.count, count)
            return self._with(Limit(node.input, node.offset, count))
        return self._with(Limit(node, 0, count))

    def offset(self, count: int) -> DataFrame:
        """Without the first `count` rows."""
        count = row_count("offset", count)
        node = self._node
        if isinstance(node, Limit):
            return self._with(Limit(node.input, node.offset + count, node.count))
        return self._with(Limit(node, count, None))

    def head(self, count: int = 5) -> DataFrame:
        return self.limit(count)

    def slice(self, offset: int, count: int | None = None) -> DataFrame:
        """`count` rows, or all, from row `offset` on: of this frame as it is, whatever limit it has."""
        first = row_count("slice", offset)
        return self._with(Limit(self._node, first, None if count is None else row_count("slice", count)))

    def tail(self, count: int = 5) -> DataFrame:
        """The last `count` rows. Rows are counted at once; files know their number."""
        wanted = row_count("tail", count)
        return self.slice(max(0, self.count() - wanted))

    def repeat(self, count: str | Expr | int) -> DataFrame:
        """Every row as often as a number or an int64 expression says; where it is NULL or below 1, never."""
        times = Literal(row_count("repeat", count)) if isinstance(count, int) else named(count)[1]
        return self._with(Repeat(self._node, times))

    def sample(self, count: int, seed: int = 0) -> DataFrame:
        """`count` rows chosen at random, in their order; all of them where there are no more.

        The same seed chooses the same rows. The query runs at once, and the rows stay in memory.
        """
        from querymode.frame.sample import sample

        with self._session._call():
            return sample(self, row_count("sample", count), seed)

    def sort(
        self,
        *keys: str | Expr | Sequence[str | Expr],
        descending: bool | Sequence[bool] | None = None,
        nulls_first: bool | Sequence[bool] | None = None,
    ) -> DataFrame:
        """In order of one or more keys; `sort("amount", "desc")` too. NULLs come last unless asked."""
        names = flat(keys)
        words = [key for key in names[1:] if isinstance(key, str) and key.lower() in ("asc", "desc")]
        if len(names) == 2 and words and words[0] not in self._node.schema:
            descending = words[0].lower() == "desc" if descending is None else descending
            names.pop()
        if not names:
            raise error("QUERY_FAILED", "sort takes at least one column")
        directions = _directions(descending, len(names), "directions")
        nulls = _directions(nulls_first, len(names), "places for NULLs")
        ordered = [
            (named(key)[1], down, first) for key, down, first in zip(names, directions, nulls, strict=True)
        ]
        return self._with(Sort(self._node, ordered))

    # ---- columns ----

    def select(self, *items: str | Expr | Sequence[str | Expr]) -> DataFrame:
        """These columns or expressions, in this order. Aggregates alone make one row."""
        found = [named(item) for item in flat(items)]
        if not found:
            raise error("QUERY_FAILED", "select takes at least one column or expression")
        if any(_aggregate_of(item) is not None for _, item in found):
            return self._with(GroupBy(self._node, (), [_named_call(item) for _, item in found]))
        return self._with(Project(self._node, found))

    # ---- aggregates ----

    def group_by(self, *keys: str | Expr | Sequence[str | Expr]) -> GroupedFrame:
        found = [named(key) for key in flat(keys)]
        if not found:
            raise error("INVALID_AGGREGATE", "group_by takes at least one column")
        for name, key in found:
            if isinstance(key, Column) and name not in self._node.schema:
                raise column_not_found(name, self._node.schema.names)
        return GroupedFrame(self, found)

    def agg(self, *calls: Expr) -> DataFrame:
        """Aggregates over all rows: one row."""
        return self._with(GroupBy(self._node, (), _calls(calls)))

    def aggregate(
        self, function: str, column: str | Expr | None = None, alias: str | None = None
    ) -> DataFrame:
        """`aggregate("sum", "amount", "total")`: one aggregate over all rows."""
        return self._with(GroupBy(self._node, (), [worded_call(function, column, alias)]))

    def value_counts(self, column: str | Expr, sort: bool = True, name: str = "count") -> DataFrame:
        """How often every value of a column is there, as a column called `name`; the most frequent first."""
        key, expression = named(column)
        if isinstance(expression, Column):
            column_name("value_counts", column, self._node.schema)
        calls = [(new_name("value_counts", name), Aggregate(AggregateOp.COUNT_ROWS, None))]
        counts = GroupBy(self._node, [(key, expression)], calls)
        if not sort:
            return self._with(counts)
        return self._with(Sort(counts, [(Column(name), True, False), (Column(key), False, False)]))

    # ---- terminals ----

    def collect(
        self,
        *,
        memory: int | str | None = None,
        timeout: float | None = None,
        max_requests: int | None = None,
        max_bytes: int | str | None = None,
    ) -> Result:
        """Runs the query. The arguments lower what it may use: BUDGET_EXCEEDED before it uses more."""
        limits = self._session._limits(
            memory=memory, timeout=timeout, max_requests=max_requests, max_bytes=max_bytes
        )
        return self._session._execute(self._node, limits)

    def stream(
        self,
        batch_size: int = 65_536,
        *,
        memory: int | str | None = None,
        timeout: float | None = None,
        max_requests: int | None = None,
        max_bytes: int | str | None = None,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Arrow batches of at most `batch_size` rows, in order, while the query still runs.

        The answer is never in memory as a whole. The other arguments are those of `collect`.
        """
        rows = row_count("stream", batch_size)
        if rows == 0:
            raise error("QUERY_FAILED", "stream takes the rows of a batch, which are at least one")
        limits = self._session._limits(
            memory=memory, timeout=timeout, max_requests=max_requests, max_bytes=max_bytes
        )
        for batches in self._session._stream(self._node, limits):
            for batch in batches:
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)

    def explain(self, analyze: bool = False, format: str = "text") -> str:
        """What the query would do: its steps, and for files what would be read and what is left out."""
        from querymode.output.explain import explain

        with self._session._call():
            return hide(explain(self._session, self._node, analyze=analyze, format=format))

    def describe(self) -> list[dict[str, Any]]:
        """Per column: type, rows, NULLs, least and greatest value; from metadata where that is enough."""
        from querymode.frame.describe import describe

        with self._session._call():
            return describe(self)

    def count(self) -> int:
        """How many rows there are."""
        counted = self._with(GroupBy(self._node, (), [("count", Aggregate(AggregateOp.COUNT_ROWS, None))]))
        count = counted.collect().rows[0]["count"]
        assert isinstance(count, int)
        return count

    def first(self) -> dict[str, Any] | None:
        """The first row, or None."""
        rows = self.limit(1).collect().rows
        return rows[0] if rows else None

    def exists(self) -> bool:
        """Whether there is any row."""
        return self.limit(1).collect().row_count > 0

    def shape(self) -> tuple[int, int]:
        return self.count(), len(self._node.schema)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.collect().rows

    def to_arrow(self) -> pyarrow.Table:
        return self._session._execute_arrow(self._node, self._session._limits())

    def to_pandas(self) -> pandas.DataFrame:
        return self.collect().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        return self.collect().to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.collect().__arrow_c_stream__(requested_schema)


@guards_shutdown
class GroupedFrame:
    """Rows by group; ask it for aggregates."""

    def __init__(self, frame: DataFrame, keys: Sequence[tuple[str, Expr]]) -> None:
        self._frame = frame
        self._keys = tuple(keys)

    def agg(self, *calls: Expr) -> DataFrame:
        """One row a group: the keys, then these aggregates."""
        return self._frame._with(GroupBy(self._frame._node, self._keys, _calls(calls)))

    def aggregate(
        self, function: str, column: str | Expr | None = None, alias: str | None = None
    ) -> DataFrame:
        call = worded_call(function, column, alias)
        return self._frame._with(GroupBy(self._frame._node, self._keys, [call]))

    def keys(self) -> DataFrame:
        """One row a group: its keys alone."""
        return self._frame._with(GroupBy(self._frame._node, self._keys, ()))

    def count(self) -> DataFrame:
        """Rows of every group, as column `count`."""
        return self.aggregate("count", None, "count")


def _predicate(arguments: tuple[object, ...]) -> Expr:
    if arguments and all(isinstance(argument, Expr) for argument in arguments):
        return joined(And, [argument for argument in arguments if isinstance(argument, Expr)])
    if len(arguments) >= 2 and isinstance(arguments[0], str) and isinstance(arguments[1], str):
        return condition(arguments[0], arguments[1], *arguments[2:])
    raise error(
        "INVALID_FILTER",
        'filter takes (column, operator, value) as in filter("id", "gt", 5), '
        'or expressions as in filter(col("id") > 5)',
    )


def _group(conditions: Sequence[Sequence[object]]) -> Expr:
    if isinstance(conditions, (str, bytes)) or not hasattr(conditions, "__iter__"):
        raise error("INVALID_FILTER", "a group of where_or is a list of (column, operator, value)")
    terms = [item if isinstance(item, Expr) else _condition(item) for item in conditions]
    if not terms:
        raise error("INVALID_FILTER", "a group of where_or has no condition")
    return joined(And, terms)


def _condition(item: object) -> Expr:
    if not isinstance(item, (tuple, list)):
        raise error("INVALID_FILTER", f"a condition of where_or is (column, operator, value), not {item!r}")
    return _predicate(tuple(item))


def _directions(given: object, count: int, what: str) -> list[bool]:
    if given is None or type(given).__name__ in ("bool", "bool_"):  # numpy's too
        return [bool(given)] * count
    if not isinstance(given, (list, tuple)):
        raise error("QUERY_FAILED", f"sort takes True or False, or a list of them, not {given!r}")
    if len(given) != count:
        raise error("QUERY_FAILED", f"sort has {count} keys and {len(given)} {what}")
    return [bool(one) for one in given]


def _aggregate_of(item: Expr) -> Aggregate | None:
    call = unnamed(item)
    return call if isinstance(call, Aggregate) else None


def _named_call(item: object) -> tuple[str, Aggregate]:
    call = _aggregate_of(item) if isinstance(item, Expr) else None
    if call is None:
        raise error(
            "INVALID_AGGREGATE",
            f"{item} is not an aggregate; use one such as col('amount').sum(), "
            "and group_by for columns beside it",
        )
    assert isinstance(item, Expr)
    return output_name(item), call


def _calls(calls: Iterable[object]) -> list[tuple[str, Aggregate]]:
    found = [_named_call(call) for call in flat(calls)]
    if not found:
        raise error("INVALID_AGGREGATE", "agg takes at least one aggregate, such as col('amount').sum()")
    return found


def worded_call(function: str, column: str | Expr | None, alias: str | None) -> tuple[str, Aggregate]:
    """`aggregate("sum", "amount", "total")` as a call and its name."""
    word = function.lower() if isinstance(function, str) else ""
    if word not in AGGREGATE_WORDS:
        known = ", ".join(AGGREGATE_WORDS)
        raise error("INVALID_AGGREGATE", f"{function!r} is not an aggregate; there are {known}")
    if not isinstance(alias, (str, type(None))):
        raise error("INVALID_AGGREGATE", f"alias takes a name (str), not {type(alias).__name__}")
    if word == "count" and (column is None or (isinstance(column, str) and column == "*")):
        return alias or "count", Aggregate(AggregateOp.COUNT_ROWS, None)
    if column is None:
        raise error("INVALID_AGGREGATE", f"{function} takes a column")
    call = aggregate_by_word(word, named(column)[1])
    assert call is not None
    return alias or output_name(call), call
