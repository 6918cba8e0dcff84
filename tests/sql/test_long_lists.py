"""IN lists that are taken out of the text in one piece mean what short ones do."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from querymode import QueryMode, QueryModeError, col
from querymode.expr.nodes import InList
from querymode.expr.value_list import ValueList
from querymode.plan.nodes import Filter
from querymode.sql import plan_sql
from querymode.sql.lift import lift
from tests.raises import raises_code

DAY = dt.date(2024, 1, 1)
TABLE = pa.table(
    {
        "i8": pa.array([1, 2, None, 100, -5], pa.int8()),
        "i": pa.array([1, 200, None, 5000, -7], pa.int64()),
        "u": pa.array([1, 200, None, 5000, 7], pa.uint64()),
        "f": pa.array([1.0, 2.5, None, float("nan"), -7.0]),
        "g": pa.array([1.0, 2.5, None, 4.25, -7.0], pa.float32()),
        "m": pa.array([Decimal("1.00"), Decimal("2.50"), None, Decimal("99.99"), Decimal("-7.00")]),
        "s": pa.array(["1", "it's", None, "a,b)", ""]),
        "d": pa.array([DAY, DAY + dt.timedelta(9), None, DAY + dt.timedelta(400), DAY]),
        "t": pa.array(
            [dt.datetime(2024, 1, 1, 5), None, None, dt.datetime(2030, 1, 1), None], pa.timestamp("us")
        ),
        "b": pa.array([True, False, None, True, False]),
    }
)
FILL = [str(1000 + number) for number in range(600)]
TEXTS = [f"'x{number}'" for number in range(600)]


@pytest.fixture(scope="module")
def qm() -> QueryMode:
    session = QueryMode.local(threads=1)
    session.register("t", TABLE)
    return session


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("t", TABLE)
    return connection


LISTS = {
    "integers": ["1", "200", "-7", *FILL],
    "with NULL": ["1", "NULL", *FILL, "null"],
    "decimals": ["1.0", "2.5", "-7", *FILL],
    "many digits": ["1", "99999999999999999999", *FILL],
    "beyond int8": ["1", "2", "300", *FILL],
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("column", ["i8", "i", "u", "m", "i + 1"])
@pytest.mark.parametrize("word", ["IN", "NOT IN", "in"])
def test_numbers(qm: QueryMode, oracle: duckdb.DuckDBPyConnection, name: str, column: str, word: str) -> None:
    sql = f"SELECT {column} {word} ({', '.join(LISTS[name])}) AS r FROM t"
    assert [row["r"] for row in qm.sql(sql).collect().rows] == [row[0] for row in oracle.sql(sql).fetchall()]


@pytest.mark.parametrize(
    ("column", "items"),
    [
        ("s", ["'1'", "'it''s'", "'a,b)'", *TEXTS]),
        ("s", ["''", "NULL", *TEXTS]),
        ("f", ["1.0e0", "2.5e0", "-7e0", *FILL]),
        ("f", ["1", *FILL]),
        ("g", ["1e0", "4.25e0", *FILL]),
        ("d", ["'2024-01-01'", *(f"'{DAY + dt.timedelta(number)}'" for number in range(2, 300))]),
        ("d", ["'2024-01-01'", "NULL", *(f"'{DAY + dt.timedelta(number)}'" for number in range(2, 300))]),
        ("t", ["'2024-01-01 05:00:00'", *(f"'{DAY + dt.timedelta(number)}'" for number in range(2, 300))]),
        ("i", ["'1'", "'200'", *(f"'{number}'" for number in FILL)]),
        ("b", ["true"] * 200),
        ("5", FILL),
        ("1234", FILL),
        ("'x7'", TEXTS),
        ("NULL", FILL),
    ],
)
def test_other_types(qm: QueryMode, oracle: duckdb.DuckDBPyConnection, column: str, items: list[str]) -> None:
    for word in ("IN", "NOT IN"):
        sql = f"SELECT {column} {word} ({', '.join(items)}) AS r FROM t"
        ours = [row["r"] for row in qm.sql(sql).collect().rows]
        assert ours == [row[0] for row in oracle.sql(sql).fetchall()], sql[:60]


def test_blanks_and_comments_inside(qm: QueryMode) -> None:
    items = ",\n -- not 5, 6)\n /* nor 7) */ ".join(["1", *FILL])
    text = f"SELECT count(*) AS n FROM t WHERE i /* in (9) */ IN /* */ -- x\n (\n{items}\n) AND s = '1'"
    assert len(lift(text)[1]) == 1
    assert qm.sql(text).collect().rows == [{"n": 1}]


@pytest.mark.parametrize(
    "around",
    [
        "SELECT 'i IN ({})' FROM t",
        'SELECT 1 AS "i IN ({})" FROM t',
        "SELECT $$ i IN ({}) $$ FROM t",
        "SELECT $a$ i IN ({}) $a$ FROM t",
        "SELECT e'\\' i IN ({}) ' FROM t",
        "SELECT 1 -- i IN ({})\n FROM t",
        "SELECT 1 /* /* */ i IN ({}) */ FROM t",
        "SELECT abin ({}) FROM t",
        "SELECT i IN ({}, i) FROM t",
        "SELECT i IN ({}, ) FROM t",
        "SELECT i IN ({} FROM t",
        "SELECT i IN ({}, $1) FROM t",
    ],
)
def test_what_is_not_such_a_list_stays_in_the_text(around: str) -> None:
    text = around.format(", ".join(FILL))
    assert lift(text) == (text, {})


def test_several_lists_and_what_stands_between_them(qm: QueryMode) -> None:
    fill = ", ".join(FILL)
    lists = f"i IN (1, {fill}) AS a, 'in (' AS b, i IN (200, {fill}, 1) AS c, i IN (1, 2) AS d"
    text = f"SELECT i, {lists} FROM t LIMIT 2"
    lifted, found = lift(text)
    assert len(found) == 2 and len(lifted) == len(text)
    assert qm.sql(text).collect().rows == [
        {"i": 1, "a": True, "b": "in (", "c": True, "d": True},
        {"i": 200, "a": False, "b": "in (", "c": True, "d": False},
    ]


def test_places_behind_a_list_are_those_of_the_text(qm: QueryMode) -> None:
    text = f"SELECT 1 FROM t\nWHERE i IN ({', '.join(FILL)})\n  AND nobody = 1"
    with pytest.raises(QueryModeError, match="line 3, column 7") as failure:
        qm.sql(text)
    assert failure.value.offset == text.index("nobody")


def test_an_error_of_types_points_at_the_list(qm: QueryMode) -> None:
    text = f"SELECT 1 FROM t\nWHERE d IN ({', '.join(FILL)})"
    with raises_code("INVALID_FILTER", match=r"cannot look for 1000 in d \(date\)\nline 2, column 7"):
        qm.sql(text)


def test_where_a_list_does_not_belong(qm: QueryMode) -> None:
    with pytest.raises(QueryModeError) as failure:
        qm.sql(f"SELECT position('a' IN ({', '.join(TEXTS)}))")
    assert failure.value.code in ("NOT_SUPPORTED", "SQL_SYNTAX")


def test_the_plan_holds_one_piece_and_groups_know_it_again(qm: QueryMode) -> None:
    fill = ", ".join(FILL)
    plan = plan_sql(qm, f"SELECT i FROM t WHERE i IN (1, {fill})")
    while not isinstance(plan, Filter):
        (plan,) = plan.children
    assert isinstance(plan.predicate, InList) and isinstance(plan.predicate.values, ValueList)
    rows = (
        qm.sql(f"SELECT i IN (1, {fill}) AS k, count(*) AS n FROM t GROUP BY i IN (1, {fill})").collect().rows
    )
    assert sorted((str(row["k"]), row["n"]) for row in rows) == [("False", 3), ("None", 1), ("True", 1)]


VALUES: list[list[object]] = [
    list(range(500)),
    [*range(500), None],
    [float(number) for number in range(500)],
    [Decimal(number) for number in range(500)],
    [1, 2.5, *range(500)],
    [True, *range(2, 500)],
    [str(number) for number in range(500)],
    [DAY + dt.timedelta(number) for number in range(500)],
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: type(values[-2]).__name__)
@pytest.mark.parametrize("column", TABLE.column_names)
def test_frames_answer_as_one_comparison_a_value(qm: QueryMode, column: str, values: list[object]) -> None:
    """Beside the tuple that a short list is: same rows, or the same error."""
    frame = qm.table("t")
    answers = []
    for held in (ValueList.of(values), tuple(values)):
        try:
            answers.append(frame.filter(InList(col(column), held)).collect().rows.__repr__())
        except QueryModeError as failure:
            answers.append(failure.code + failure.message)
    assert answers[0] == answers[1]


def test_a_list_of_a_frame_goes_there_and_back(qm: QueryMode) -> None:
    frame = qm.table("t").filter("i", "in", [1, None, *range(1000, 2000)])
    again = qm.from_descriptor(frame.to_descriptor())
    assert again.collect().rows == frame.collect().rows
    assert "1003" not in frame.explain() or len(frame.explain()) < 5000
    code = frame.to_code()
    assert "1999" in code
