"""Answers that stand in the text are the engine's."""

from __future__ import annotations

import duckdb
import pytest

from querymode import QueryMode
from querymode.optimize.constant_answers import constant_batch
from querymode.output.result import Result
from querymode.stage.lower import lower

CONSTANT = [
    "SELECT 1",
    "SELECT 1 AS a, 'x' AS b, NULL AS c, TRUE AS d, DATE '2024-02-29' AS e, 1.50 AS f",
    "SELECT -5 AS a, 1e300 AS b, '' AS c, 'é😀' AS d",
    "VALUES (1, 'a'), (NULL, NULL), (3, '')",
    "SELECT col1, col0 FROM (VALUES (1, TRUE), (2, NULL), (NULL, FALSE))",
    "SELECT TIMESTAMP '2024-01-01 12:00:00' AS t, TIME '12:30:00' AS u",
    "SELECT INTERVAL 3 DAY AS i",
    "SELECT 123456789012345678901234567890 AS big",
]
COMPUTED = ["SELECT a + 1 FROM (VALUES (1), (2)) t(a)", "SELECT a FROM (VALUES (1), (2)) t(a) WHERE a > 1"]


@pytest.mark.parametrize("sql", CONSTANT)
def test_constants_are_what_the_engine_says(sql: str) -> None:
    session = QueryMode.local()
    frame = session.sql(sql)
    batch = constant_batch(frame._node)
    assert batch is not None
    here = Result([batch], frame.schema, {})
    answer = session._executor.run(lower(frame._node), session._limits())
    engine = Result(answer.batches, frame.schema, {})
    assert here.rows == engine.rows and here.digest() == engine.digest()
    assert frame.collect().row_count == frame.collect().stats["rows"] == here.row_count
    ours = [tuple(row.values()) for row in frame.rows]
    if "INTERVAL" not in sql:
        assert ours == duckdb.connect().sql(sql).fetchall()


@pytest.mark.parametrize("sql", COMPUTED)
def test_what_is_computed_is_the_engines(sql: str) -> None:
    assert constant_batch(QueryMode.local().sql(sql)._node) is None
