"""Errors name what is wrong and point at it."""

from __future__ import annotations

import pickle

import pytest

from querymode import QueryMode, QueryModeError
from querymode.errors import CODES
from tests.raises import raises_code


def failure(qm: QueryMode, sql: str) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        qm.sql(sql)
    assert caught.value.code in CODES
    return caught.value


@pytest.mark.parametrize(
    ("sql", "code", "line", "column", "marked"),
    [
        ("SELECT nosuch FROM t", "COLUMN_NOT_FOUND", 1, 8, "nosuch"),
        ("SELECT a,\n       t.nosuch\nFROM t", "COLUMN_NOT_FOUND", 2, 8, "t.nosuch"),
        ("SELECT a FROM t, u", "COLUMN_NOT_FOUND", 1, 8, "a"),
        ("SELECT a FROM\n  nosuch", "TABLE_NOT_FOUND", 2, 3, "nosuch"),
        ("SELECT a b c FROM t", "SQL_SYNTAX", 1, 12, "c"),
        ("SELECT (a FROM t", "SQL_SYNTAX", 1, 11, "FROM"),
        ("SELECT a FROM t WHERE a =", "SQL_SYNTAX", 1, 25, "="),
        ("SELECT 'abc", "SQL_SYNTAX", 1, 8, "'"),
        ("SELECT a,, b FROM t", "SQL_SYNTAX", 1, 10, ","),
        ("SELECT s FROM t GROUP BY a", "INVALID_AGGREGATE", 1, 8, "s"),
        ("SELECT a FROM t WHERE sum(a) > 1", "INVALID_AGGREGATE", 1, 23, "sum(a"),
        ("SELECT a FROM t WHERE a > 1 AND s", "INVALID_FILTER", 1, 33, "s"),
        ("SELECT a + (s * 2) FROM t", "INVALID_FILTER", 1, 13, "s * 2"),
        ("SELECT nosuchfunction(a) FROM t", "NOT_SUPPORTED", 1, 8, "nosuchfunction(a"),
        ("INSERT INTO t VALUES (1)", "NOT_SUPPORTED", 1, 1, "INSERT"),
        ("SELECT 1; SELECT 2", "NOT_SUPPORTED", 1, 11, "S"),
    ],
)
def test_place(qm: QueryMode, sql: str, code: str, line: int, column: int, marked: str) -> None:
    found = failure(qm, sql)
    assert found.code == code
    *_, where, text, carets = found.message.splitlines()
    assert where == f"line {line}, column {column}:"
    start = carets.index("^")
    assert text[start : start + carets.count("^")] == marked
    assert found.offset is not None and sql[found.offset :].startswith(marked[0])


def test_candidates_are_named(qm: QueryMode) -> None:
    assert "t.a or u.a" in failure(qm, "SELECT a FROM t, u").message
    assert "The columns are: a, b, s, d" in failure(qm, "SELECT nosuch FROM t").message
    assert "Registered are: t, u" in failure(qm, "SELECT a FROM nosuch").message


def test_a_long_line_is_cut_around_the_place(qm: QueryMode) -> None:
    sql = "SELECT " + "a + " * 200 + "nosuch" + " + a" * 200 + " FROM t"
    _, where, text, carets = failure(qm, sql).message.splitlines()
    assert where == f"line 1, column {sql.index('nosuch') + 1}:"
    assert len(text) < 120
    start = carets.index("^")
    assert text[start : start + carets.count("^")] == "nosuch"


def test_tabs_keep_the_carets_in_place(qm: QueryMode) -> None:
    *_, text, carets = failure(qm, "SELECT\t\tnosuch FROM t").message.splitlines()
    assert text == "  SELECT\t\tnosuch FROM t"
    assert carets == "        \t\t^^^^^^"


def test_errors_survive_pickling(qm: QueryMode) -> None:
    found = failure(qm, "SELECT nosuch FROM t")
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.code, copy.message, copy.offset) == (found.code, found.message, found.offset)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT row_number() OVER () FROM t", "window"),
        ("SELECT a FROM t QUALIFY a = 1", "QUALIFY"),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", "ROLLUP"),
        ("SELECT a FROM t TABLESAMPLE 10%", "SAMPLE"),
        ("SELECT * FROM t ASOF JOIN u ON t.a >= u.a", "ASOF"),
        ("WITH RECURSIVE q AS (SELECT 1 AS x UNION ALL SELECT x FROM q) SELECT * FROM q", "RECURSIVE"),
        ("SELECT a FROM t LIMIT 10%", "LIMIT"),
        ("SELECT a COLLATE nocase FROM t", "COLLATE"),
        ("PIVOT t ON a", "PIVOT"),
    ],
)
def test_what_is_not_supported_is_named(qm: QueryMode, sql: str, word: str) -> None:
    found = failure(qm, sql)
    assert found.code == "NOT_SUPPORTED" and word in found.message


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- nothing\n", "/* */"])
def test_no_statement(qm: QueryMode, sql: str) -> None:
    assert failure(qm, sql).code == "SQL_SYNTAX"


def test_deep_nesting_is_refused(qm: QueryMode) -> None:
    depth = 3_000
    assert failure(qm, "SELECT " + "(" * depth + "1" + ")" * depth).code == "NOT_SUPPORTED"


def test_long_chains_are_not_deep(qm: QueryMode) -> None:
    terms = " OR ".join(f"a = {number}" for number in range(2_000))
    assert qm.sql(f"SELECT a FROM t WHERE {terms}").count() == 3


def test_sql_takes_a_text(qm: QueryMode) -> None:
    with raises_code("SQL_SYNTAX"):
        qm.sql(5)  # type: ignore[arg-type]
