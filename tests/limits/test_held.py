"""What a query says that its answers hold is what they hold: in the middle of it, and after a failure."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querymode import QueryMode
from querymode.errors import MemoryExceededError
from querymode.execute.batch import Batch
from querymode.execute.query_run import QueryRun
from querymode.execute.stage_run import StageRun

ROWS = 3_000_000
#: Of batches that are on their way at the moment when somebody looks.
ON_THE_WAY = 24 << 20


def referenced() -> int:
    return sum(b.size for b in gc.get_objects() if type(b) is Batch and b.data is not None)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    keys = np.random.default_rng(1).permutation(ROWS)
    return pa.table({"k": keys, "v": np.arange(ROWS), "u": np.arange(ROWS)})


QUERIES = {
    "groups": "SELECT k, sum(v) AS s, min(u) AS m FROM t GROUP BY k",
    "sort": "SELECT * FROM t ORDER BY k",
    "join": "SELECT a.k, b.v FROM (SELECT k, max(v) v FROM t GROUP BY k) a JOIN t b USING (k) ORDER BY a.v",
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_given_back_is_free(table: pa.Table, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: list[tuple[int, int]] = []
    part = StageRun._part_with

    def look(run: StageRun, instance: Any) -> None:
        seen.append((referenced(), run.query.held))
        part(run, instance)

    gc.collect()
    monkeypatch.setattr(StageRun, "_part_with", look)
    session = QueryMode.local(threads=2, memory="1GiB")
    session.register("t", table)
    assert session.sql(QUERIES[name]).collect().stats["rows"] == ROWS
    assert seen
    assert max(there - counted for there, counted in seen) < ON_THE_WAY


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_is_left_of_an_attempt(table: pa.Table, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An answer that does not fit: every further attempt begins with all of the memory."""
    begun: list[int] = []
    begin = QueryRun.__init__

    def look(run: QueryRun, *arguments: Any, **options: Any) -> None:
        begun.append(referenced())
        begin(run, *arguments, **options)

    gc.collect()
    gc.disable()
    try:
        monkeypatch.setattr(QueryRun, "__init__", look)
        session = QueryMode.local(threads=2, memory="120MiB")
        session.register("t", table)
        with pytest.raises(MemoryExceededError) as caught:
            session.sql(QUERIES[name]).collect()
        begun.append(referenced())
    finally:
        gc.enable()
    assert caught.value.code == "MEMORY_EXCEEDED"
    assert len(begun) > 2
    assert max(begun) == 0
