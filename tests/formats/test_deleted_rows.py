"""Rows that a bitmap of their row group calls deleted: out before any filter, however the scan goes."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import _abi
from querymode.engine.instance import Instance
from querymode.plan.nodes import Scan
from querymode.session import QueryMode
from querymode.table.files import FileTable
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 60_000
GROUP_ROWS = 25_000
FLAGS_AT = _abi.SCAN_REQUEST_OFFSETS["flags"]


def rows_of(share: str) -> set[int]:
    """Deleted rows of the whole file."""
    random = Random(share)
    few = set(random.sample(range(ROWS), 50))
    return {
        "none": set[int](),
        "few": few,
        "most": set(range(ROWS)) - few,
        "a run": set(range(20_000, 45_000)),
        "all": set(range(ROWS)),
        "half": set(random.sample(range(ROWS), ROWS // 2)),
    }[share]


def bitmaps(deleted: set[int]) -> dict[int, bytes]:
    found = {}
    for group, first in enumerate(range(0, ROWS, GROUP_ROWS)):
        count = min(GROUP_ROWS, ROWS - first)
        bits = bytearray((count + 7) // 8)
        for row in range(count):
            bits[row >> 3] |= (first + row in deleted) << (row & 7)
        if any(bits):
            found[group] = bytes(bits)
    return found


def record(row: int) -> dict[str, Any]:
    return {"id": row, "x": row / 4, "t": f"text {row % 17}" if row % 5 else None, "u": [row] * (row % 3)}


@pytest.fixture(scope="module", params=["index", "no index"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deleted") / "rows.parquet"
    table = pa.Table.from_pylist([record(row) for row in range(ROWS)])
    indexed = request.param == "index"
    pq.write_table(table, path, row_group_size=GROUP_ROWS, data_page_size=8192, write_page_index=indexed)
    return path


@pytest.fixture(params=["at once", "filter first"])
def _order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    scan_open = Instance.scan_open
    if request.param == "filter first":

        def opened(self: Instance, query: int, wire: bytes, *format: int) -> int:
            changed = bytearray(wire)
            changed[FLAGS_AT] |= _abi.SCAN_FILTER_FIRST
            return scan_open(self, query, bytes(changed), *format)

        monkeypatch.setattr(Instance, "scan_open", opened)


def opened(path: Path, deleted: set[int]) -> QueryMode:
    session = QueryMode.local(threads=2)
    frame = session.register("t", path)
    assert isinstance(frame._node, Scan)
    table = frame._node.source
    assert isinstance(table, FileTable)
    table.deleted = bitmaps(deleted)
    return session


#: Filters, and which rows they keep.
CONDITIONS: dict[str, Callable[[int], bool]] = {
    "true": lambda row: True,
    "x < 2500": lambda row: row < 10_000,
    "id % 3 = 0": lambda row: row % 3 == 0,
    "t = 'text 3'": lambda row: row % 5 > 0 and row % 17 == 3,
    "t is null and x > 1": lambda row: row % 5 == 0 and row > 4,
    "id in (7, 21000, 59999)": lambda row: row in (7, 21_000, 59_999),
}


def kept(condition: str, deleted: set[int]) -> list[int]:
    return [row for row in range(ROWS) if row not in deleted and CONDITIONS[condition](row)]


@pytest.mark.usefixtures("_order")
@pytest.mark.parametrize("share", ["none", "few", "most", "a run", "all", "half"])
def test_rows(share: str, path: Path) -> None:
    deleted = rows_of(share)
    session = opened(path, deleted)
    for condition in CONDITIONS:
        expected = kept(condition, deleted)
        found = session.sql(f"select id, x, t, u from t where {condition}").to_arrow().to_pylist()
        assert found == [record(row) for row in expected], condition
        (counts,) = session.sql(
            f"select count(t) as n, sum(x) as s, max(t) as most from t where {condition} and id >= -id"
        ).rows
        texts = [text for row in expected if (text := record(row)["t"]) is not None]
        assert counts["n"] == len(texts), condition
        assert counts["s"] == (sum(row / 4 for row in expected) if expected else None), condition
        assert counts["most"] == max(texts, default=None), condition


@pytest.mark.usefixtures("_order")
@pytest.mark.parametrize("share", ["few", "most", "half", "all"])
def test_plans_that_look_at_few_columns(share: str, path: Path) -> None:
    deleted = rows_of(share)
    session = opened(path, deleted)
    left = kept("true", deleted)
    assert len(session.sql("select 1 as one from t").rows) == len(left)
    assert session.sql("select count(*) as n from t where id % 2 = 0").rows == [
        {"n": sum(row % 2 == 0 for row in left)}
    ]
    groups = session.sql("select t, count(*) as n from t group by t").rows
    assert sum(group["n"] for group in groups) == len(left)
    ids = [row["id"] for row in session.sql("select id from t limit 10").rows]
    assert ids == left[:10]
    everything = session.sql("select * from t").to_arrow()
    everything.validate(full=True)
    assert everything["id"].to_pylist() == left


def test_named_rows(path: Path) -> None:
    deleted = rows_of("half")
    frame = QueryMode.local().table(path)
    assert isinstance(frame._node, Scan)
    table = frame._node.source.with_rows(range(0, ROWS, 7))
    assert isinstance(table, FileTable)
    table.deleted = bitmaps(deleted)
    found = frame._with(Scan(table, frame._node.names)).select("id").to_arrow()
    assert found["id"].to_pylist() == [row for row in range(0, ROWS, 7) if row not in deleted]


@pytest.mark.parametrize("size", [1, GROUP_ROWS // 8 - 1, GROUP_ROWS // 8 + 1, GROUP_ROWS])
def test_a_bitmap_of_another_size(size: int, path: Path) -> None:
    session = opened(path, set())
    frame = session.table(path)
    assert isinstance(frame._node, Scan)
    table = frame._node.source
    assert isinstance(table, FileTable)
    table.deleted = {0: bytes(size)}
    with raises_code("INTERNAL"):
        frame.select("id").to_arrow()


def test_a_bitmap_that_is_cut_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan_open = Instance.scan_open
    at = _abi.SCAN_REQUEST_OFFSETS["deleted_size"]

    def cut(self: Instance, query: int, wire: bytes, *format: int) -> int:
        changed = bytearray(wire)
        changed[at : at + 4] = struct.pack("<I", GROUP_ROWS // 8)
        return scan_open(self, query, bytes(changed), *format)

    monkeypatch.setattr(Instance, "scan_open", cut)
    with raises_code("INTERNAL"):
        QueryMode.local().table(path).select("id").to_arrow()
