"""Random queries over random tables: DuckDB's answer is ours."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querymode import DataFrame, QueryMode, QueryModeError, col
from tests.parametric.strategies import (
    KINDS,
    LARGE,
    NUMERIC,
    Spelled,
    Table,
    calculations,
    casts,
    conditions,
    quoted,
    tables,
    words,
)

RELAXED = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False)
ORACLE = duckdb.connect()
ORACLE.execute("SET TimeZone = 'UTC'")
ORACLE.execute("SET threads = 1")


def frame_of(table: Table) -> DataFrame:
    return QueryMode.from_arrow(table.arrow)


def asked(table: Table, sql: str, parameters: list[Any]) -> pa.Table:
    ORACLE.register("t", table.arrow)
    answer: pa.Table = ORACLE.sql(sql, params=parameters).to_arrow_table()
    return answer


def bits_of(array: Any) -> Any:
    """Comparable bits of floats: every NaN is the same one, −0.0 is not 0.0."""
    values = array.combine_chunks().fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values), np.nan, values).view(f"u{values.itemsize}")


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    """The same rows in the same order."""
    assert ours.num_rows == theirs.num_rows, f"{ours.num_rows} rows, not {theirs.num_rows}"
    for index, name in enumerate(ours.column_names):
        a = ours.column(index)
        b = theirs.column(index).cast(a.type)
        if pa.types.is_floating(a.type):
            same = a.is_valid().equals(b.is_valid()) and np.array_equal(bits_of(a), bits_of(b))
        else:
            same = a.equals(b)
        assert same, f"{name} of {a.type}: {a.slice(0, 20)} is not {b.slice(0, 20)}"


def check(table: Table, frame: DataFrame, sql: str, parameters: list[Any]) -> None:
    """The same rows in the same order; where DuckDB refuses a value, we do too.

    We keep the order of the table where nothing sorts. DuckDB does not always, and is told to.
    """
    try:
        theirs = asked(table, sql, parameters)
    except (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException) as refused:
        with pytest.raises(QueryModeError) as failure:
            frame.collect()
        assert failure.value.code == "QUERY_FAILED", f"{failure.value} ({refused})"
        return
    assert_same(frame.to_arrow(), theirs)


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=200)
def test_filter(table: Table, data: Any) -> None:
    condition = data.draw(conditions(table))
    frame = frame_of(table).filter(condition.expr)
    check(table, frame, f"SELECT * FROM t WHERE {condition.sql} ORDER BY row", condition.parameters)


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=100)
def test_words(table: Table, data: Any) -> None:
    """`filter` by words, and `where_or` of groups of them."""
    groups = data.draw(st.lists(st.lists(words(table), min_size=1, max_size=3), min_size=1, max_size=3))
    parameters = [value for group in groups for _, _, values in group for value in values]
    sql = " OR ".join("(" + " AND ".join(f"({text})" for _, text, _ in group) + ")" for group in groups)
    frame = frame_of(table).where_or(*[[given for given, _, _ in group] for group in groups])
    check(table, frame, f"SELECT * FROM t WHERE {sql} ORDER BY row", parameters)
    given, text, values = groups[0][0]
    check(table, frame_of(table).filter(*given), f"SELECT * FROM t WHERE {text} ORDER BY row", values)


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=100)
def test_condition_as_column(table: Table, data: Any) -> None:
    """NULL is not false: seen only where a condition is selected."""
    condition = data.draw(conditions(table))
    frame = frame_of(table).select(condition.expr.alias("x"), "row")
    check(table, frame, f"SELECT {condition.sql}, row FROM t ORDER BY row", condition.parameters)


numbers = st.sampled_from([kind for kind in KINDS if kind.family in NUMERIC])


@given(table=tables(kinds=numbers), data=st.data())
@settings(RELAXED, max_examples=170)
def test_arithmetic(table: Table, data: Any) -> None:
    value = data.draw(calculations(table))
    frame = frame_of(table).select(value.expr.alias("x"), "row")
    check(table, frame, f"SELECT {value.sql}, row FROM t ORDER BY row", value.parameters)


castable = st.sampled_from([kind for kind in KINDS if kind.family not in ("bytes", "text")])


@given(table=tables(kinds=castable), data=st.data())
@settings(RELAXED, max_examples=130)
def test_cast(table: Table, data: Any) -> None:
    value = data.draw(casts(table))
    frame = frame_of(table).select(value.expr.alias("x"), "row")
    check(table, frame, f"SELECT {value.sql}, row FROM t ORDER BY row", value.parameters)


@st.composite
def orders(draw: Any, table: Table) -> tuple[Any, str]:
    """How to sort: our call and SQL's clause."""
    names = draw(st.lists(st.sampled_from(table.names()), min_size=1, max_size=3, unique=True))
    downs = [draw(st.booleans()) for _ in names]
    nulls_first = draw(st.booleans())
    places = "NULLS FIRST" if nulls_first else "NULLS LAST"
    words = [
        f"{quoted(name)} {'DESC' if down else 'ASC'} {places}"
        for name, down in zip(names, downs, strict=True)
    ]
    # Behind the drawn keys the number of the row, so that there is one right order.
    keys, directions = [*names, "row"], [*downs, False]
    return (
        lambda frame: frame.sort(*keys, descending=directions, nulls_first=nulls_first),
        f"ORDER BY {', '.join(words)}, row",
    )


@st.composite
def windows(draw: Any, row_count: int) -> tuple[Any, str]:
    """LIMIT and OFFSET, either, both or neither, in either order."""
    edge = st.sampled_from([0, 1, 2, 5, row_count // 2, row_count, row_count + 3])
    limit, offset = draw(st.none() | edge), draw(st.none() | edge)
    sql = (f" LIMIT {limit}" if limit is not None else "") + (
        f" OFFSET {offset}" if offset is not None else ""
    )
    limit_first = draw(st.booleans())

    def apply(frame: DataFrame) -> DataFrame:
        if limit is not None and limit_first:
            frame = frame.limit(limit)
        if offset is not None:
            frame = frame.offset(offset)
        return frame.limit(limit) if limit is not None and not limit_first else frame

    return apply, sql


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=130)
def test_sort_and_limit(table: Table, data: Any) -> None:
    sort, order = data.draw(orders(table))
    window, clause = data.draw(windows(table.arrow.num_rows))
    check(table, window(sort(frame_of(table))), f"SELECT * FROM t {order}{clause}", [])


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=60)
def test_limit_keeps_the_order_of_the_table(table: Table, data: Any) -> None:
    condition = data.draw(conditions(table))
    window, clause = data.draw(windows(table.arrow.num_rows))
    frame = window(frame_of(table).filter(condition.expr))
    check(table, frame, f"SELECT * FROM t WHERE {condition.sql} ORDER BY row{clause}", condition.parameters)


# ---- aggregates ----


@st.composite
def aggregates(draw: Any, table: Table) -> list[tuple[str, str]]:
    """(function, column); a function may stand twice."""
    calls = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(table.names()))
        kind = table.kinds[name]
        functions = ["count", "min", "max"]
        if kind.family in NUMERIC:
            functions += ["sum", "avg", "sum", "avg"]
        calls.append((draw(st.sampled_from(functions)), name))
    return calls


def plain(value: Any) -> Any:
    """Equal where SQL groups: NaN is NaN, −0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def by_key(table: pa.Table, key_count: int) -> dict[Any, list[Any]]:
    columns = []
    for chunked in table.columns:
        is_moment = pa.types.is_temporal(chunked.type) and not pa.types.is_date(chunked.type)
        columns.append((chunked.cast(pa.int64()) if is_moment else chunked).to_pylist())
    rows = list(zip(*columns, strict=True))
    groups = {tuple(map(plain, row[:key_count])): list(row[key_count:]) for row in rows}
    assert len(groups) == len(rows), "a group comes twice"
    return groups


def check_groups(
    table: Table, frame: DataFrame, keys: list[str], calls: list[tuple[str, str]], condition: Spelled | None
) -> None:
    """Exact, except for sums of floats, which may differ by rounding: 1e-9 of what was added."""
    words = [quoted(key) for key in keys]
    for function, name in calls:
        words.append(f"{function}({quoted(name)})")
    for function, name in calls:
        is_rounded = function in ("sum", "avg") and table.kinds[name].family in NUMERIC
        # What rounding is measured by; abs() of the lowest integer overflows.
        words.append(f"{function}(abs({quoted(name)}::DOUBLE))" if is_rounded else "0")
    where = f" WHERE {condition.sql}" if condition else ""
    group = f" GROUP BY {', '.join(map(quoted, keys))}" if keys else ""
    theirs = asked(
        table, f"SELECT {', '.join(words)} FROM t{where}{group}", condition.parameters if condition else []
    )
    answer = frame.to_arrow()
    columns = [theirs.column(index) for index in range(len(keys) + len(calls))]
    for index, field in enumerate(answer.schema):
        columns[index] = columns[index].cast(field.type)
    columns += theirs.columns[len(columns) :]
    expected = by_key(pa.table(columns, [str(index) for index in range(len(columns))]), len(keys))
    found = by_key(answer, len(keys))
    assert found.keys() == expected.keys()
    for key, values in found.items():
        wanted, scales = expected[key][: len(calls)], expected[key][len(calls) :]
        for value, right, scale, (function, name) in zip(values, wanted, scales, calls, strict=True):
            place = f"{function}({name}) of {key}: {value!r}, not {right!r}"
            if isinstance(value, float) and function in ("sum", "avg") and np.isfinite([value, right]).all():
                assert abs(value - right) <= 1e-9 * scale, place
            else:
                assert plain(value) == plain(right), place


def called(calls: list[tuple[str, str]]) -> list[Any]:
    return [getattr(col(name), function)().alias(f"x{index}") for index, (function, name) in enumerate(calls)]


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=110)
def test_aggregates(table: Table, data: Any) -> None:
    calls = data.draw(aggregates(table))
    condition = data.draw(st.none() | conditions(table))
    frame = frame_of(table)
    if condition is not None:
        frame = frame.filter(condition.expr)
    check_groups(table, frame.agg(*called(calls)), [], calls, condition)


@given(table=tables(), data=st.data())
@settings(RELAXED, max_examples=130)
def test_group_by(table: Table, data: Any) -> None:
    calls = data.draw(aggregates(table))
    keys = data.draw(st.lists(st.sampled_from(table.names()), min_size=1, max_size=2, unique=True))
    condition = data.draw(st.none() | conditions(table))
    frame = frame_of(table)
    if condition is not None:
        frame = frame.filter(condition.expr)
    check_groups(table, frame.group_by(*keys).agg(*called(calls)), keys, calls, condition)


# ---- several morsels, lanes, threads and budgets ----


@given(
    table=tables(row_counts=st.sampled_from([0, 1, 60, 61, 500])),
    data=st.data(),
    rows=st.sampled_from([1, 7, 64, 100]),
)
@settings(RELAXED, max_examples=120)
def test_many_lanes(table: Table, data: Any, rows: int) -> None:
    """A few rows a lane: what lanes do on their own and what is done once must agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("querymode.table.from_arrow.morsel_rows", lambda size, count: rows)
        frame = frame_of(table)
    check_any_query(table, frame, data)


@given(table=tables(row_counts=LARGE), data=st.data())
@settings(RELAXED, max_examples=40)
def test_many_chunks(table: Table, data: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr("querymode.table.from_arrow.morsel_rows", lambda size, count: 16_384)
        frame = frame_of(table)
    check_any_query(table, frame, data)


def check_any_query(table: Table, frame: DataFrame, data: Any) -> None:
    condition = data.draw(st.none() | conditions(table))
    where, parameters = (f" WHERE {condition.sql}", condition.parameters) if condition else ("", [])
    if condition:
        frame = frame.filter(condition.expr)
    form = data.draw(st.sampled_from(["rows", "sort", "limit", "agg", "group"]))
    if form == "rows":
        check(table, frame, f"SELECT * FROM t{where} ORDER BY row", parameters)
    elif form == "limit":
        window, clause = data.draw(windows(table.arrow.num_rows))
        check(table, window(frame), f"SELECT * FROM t{where} ORDER BY row{clause}", parameters)
    elif form == "sort":
        sort, order = data.draw(orders(table))
        window, clause = data.draw(windows(table.arrow.num_rows))
        check(table, window(sort(frame)), f"SELECT * FROM t{where} {order}{clause}", parameters)
    else:
        calls = data.draw(aggregates(table))
        names = st.lists(st.sampled_from(table.names()), min_size=1, max_size=2, unique=True)
        keys = data.draw(names) if form == "group" else []
        grouped = frame.group_by(*keys).agg(*called(calls)) if keys else frame.agg(*called(calls))
        check_groups(table, grouped, keys, calls, condition)
        assert frame.count() == asked(table, f"SELECT count(*) FROM t{where}", parameters)[0][0].as_py()


@given(
    table=tables(row_counts=st.sampled_from([5_000, 40_000])),
    data=st.data(),
    rows=st.sampled_from([997, 4_096, 16_384]),
)
@settings(RELAXED, max_examples=12)
def test_threads_and_budgets_change_nothing(table: Table, data: Any, rows: int) -> None:
    """Not a bit: sums of floats too, because lanes are cut from the table alone."""
    condition = data.draw(conditions(table))
    calls = [(function, name) for name in table.names(*NUMERIC) for function in ("sum", "avg", "min", "max")]
    calls.append(("count", table.names()[0]))
    key = data.draw(st.sampled_from(table.names()))
    queries: list[Any] = [
        lambda frame: frame.filter(condition.expr),
        lambda frame: frame.filter(condition.expr).agg(*called(calls)),
        lambda frame: frame.group_by(key).agg(*called(calls)),
        lambda frame: frame.sort(key, "row").limit(100),
        lambda frame: frame.sort(key, "desc").limit(100),
        lambda frame: frame.filter(condition.expr).offset(3).limit(2_000),
    ]
    answers = []
    for settings_of in ({"threads": 1}, {"threads": 2}, {"threads": 8}, {"threads": 3, "memory": "64MiB"}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("querymode.table.from_arrow.morsel_rows", lambda size, count: rows)
            frame = QueryMode.local(**settings_of).register("t", table.arrow)
        answers.append([query(frame).to_arrow() for query in queries])
    for other in answers[1:]:
        for first, second in zip(answers[0], other, strict=True):
            assert first.schema == second.schema
            assert_same(first, second)
