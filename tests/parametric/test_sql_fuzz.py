"""Random SQL beside DuckDB: rows, their order where it is said, and types.

A failure names its seed: with QUERYMODE_FUZZ_SEED=1234 that one is asked again, with
QUERYMODE_FUZZ_SEED=5000-9000 all of these.
"""

from __future__ import annotations

import math
import os
from decimal import Decimal

import duckdb
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.expr.intervals import Interval
from querymode.sql.constants import type_name
from tests.parametric.sql_fuzz import Fuzzer, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

#: Queries that share their tables.
QUERIES_A_DATASET = 25
COUNT = 300
SOAK_COUNT = 10_000
#: What we do not do, and rows that no answer needs but ours computes: docs/semantics.md says which.
REFUSED = ("NOT_SUPPORTED", "QUERY_FAILED")


def _seeds(count: int) -> range:
    said = os.environ.get("QUERYMODE_FUZZ_SEED")
    if not said:
        return range(count)
    first, _, last = said.partition("-")
    return range(int(first), int(last or first) + 1)


def _sessions(found: dict[str, Any], folder: Path) -> list[tuple[str, QueryMode]]:
    sessions = []
    for threads in (1, 2):
        memory, files = QueryMode.local(threads=threads), QueryMode.local(threads=threads)
        for name, table in found.items():
            path = folder / f"{name}.parquet"
            if threads == 1:
                pq.write_table(table, path, row_group_size=7)
            memory.register(name, table)
            files.register(name, path)
        sessions += [(f"memory, {threads} threads", memory), (f"Parquet, {threads} threads", files)]
    return sessions


class _Dataset:
    def __init__(self, number: int, folder: Path) -> None:
        folder.mkdir()
        found = tables(number)
        self.oracle = duckdb.connect()
        self.oracle.execute("SET TimeZone = 'UTC'; SET threads = 1")
        for name, table in found.items():
            self.oracle.register(name, table)
        self.sessions = _sessions(found, folder)

    def check(self, seed: int) -> str | None:
        """What is wrong with the answer to a seed's query."""
        query = Fuzzer(seed).query()
        try:
            relation = self.oracle.sql(query.text)
            kinds, theirs = [str(kind) for kind in relation.types], relation.fetchall()
        except duckdb.Error:
            return None
        place, session = self.sessions[seed % len(self.sessions)]
        try:
            result = session.sql(query.text).collect()
        except QueryModeError as failure:
            if failure.code in REFUSED:
                return None
            return f"seed {seed} ({place}): {failure}\n{query.text}"
        ours = [tuple(row.values()) for row in result.rows]
        own_kinds = [type_name(kind) for kind in result.schema.types]
        if not all(map(_same_kind, own_kinds, kinds)):
            return f"seed {seed} ({place}): types {own_kinds}, DuckDB {kinds}\n{query.text}"
        if not _same(ours, theirs, query.ordered):
            return f"seed {seed} ({place}):\nours   {ours[:12]}\nDuckDB {theirs[:12]}\n{query.text}"
        return None


def _same_kind(ours: str, theirs: str) -> bool:
    """Decimals have other digits where a whole constant stands beside one, and NULLs alone some type."""
    if ours.startswith("DECIMAL") and theirs.startswith("DECIMAL"):
        return True
    return ours == theirs or theirs == '"NULL"'


def _same(ours: Sequence[Any], theirs: Sequence[Any], ordered: bool) -> bool:
    if len(ours) != len(theirs):
        return False
    if not ordered:
        ours, theirs = sorted(ours, key=_key), sorted(theirs, key=_key)
    return all(_same_row(*pair) for pair in zip(ours, theirs, strict=True))


def _same_row(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_same_value, ours, theirs))


def _same_value(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=0.0)
    if isinstance(ours, Interval):
        return theirs is not None
    return bool(ours == theirs)


def _key(row: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((type(value).__name__, _shown(value)) for value in row)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value + 0.0:.6g}"  # of the two zeros, one
    return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, Decimal) else str(value)


def _failures(seeds: range, folder: Path) -> Iterator[str]:
    dataset: _Dataset | None = None
    number = -1
    for seed in seeds:
        if seed // QUERIES_A_DATASET != number:
            number = seed // QUERIES_A_DATASET
            dataset = _Dataset(number, folder / str(number))
        assert dataset is not None
        failure = dataset.check(seed)
        if failure is not None:
            yield failure


def test_random_queries(tmp_path: Path) -> None:
    failures = list(_failures(_seeds(COUNT), tmp_path))
    assert not failures, "\n\n".join(failures[:10])


@pytest.mark.soak
def test_many_random_queries(tmp_path: Path) -> None:
    failures = list(_failures(_seeds(SOAK_COUNT), tmp_path))
    assert not failures, f"{len(failures)} failures\n\n" + "\n\n".join(failures[:20])
