"""Rows that a bitmap of their fragment calls deleted: out before any filter, however the scan goes, and
out of whatever is answered without one."""

from __future__ import annotations

import struct
from array import array
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import _abi, col
from querymode.engine.instance import Instance
from querymode.format.parquet.statistics import FooterEvidence
from querymode.plan.nodes import Scan
from querymode.session import QueryMode
from querymode.table.evidence import KnownValues, ManifestEvidence
from querymode.table.files import DeletedRows, FileTable
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from querymode.table.files import Deleted
    from querymode.table.table import Table

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


def bitmap(rows: Iterable[int], count: int) -> bytes:
    bits = bytearray((count + 7) // 8)
    for row in rows:
        bits[row >> 3] |= 1 << (row & 7)
    return bytes(bits)


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


def without(table: Table, deleted: Deleted) -> FileTable:
    """A table of the same files, without these rows."""
    assert isinstance(table, FileTable)
    left = FileTable(table.schema, table.files, table.cuts, table.name, deleted=deleted)
    left.use_evidence(FooterEvidence(left))
    return left


def registered(paths: list[Path], deleted: Deleted) -> QueryMode:
    session = QueryMode.local(threads=2)
    frame = session.table([*map(str, paths)])
    assert isinstance(frame._node, Scan)
    session.register("t", frame._with(Scan(without(frame._node.source, deleted), frame._node.names)))
    return session


def opened(path: Path, deleted: set[int]) -> QueryMode:
    return registered([path], DeletedRows({0: bitmap(deleted, ROWS)}))


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


@pytest.mark.parametrize("share", ["none", "few", "most", "half", "all"])
def test_answers_that_need_no_run(share: str, path: Path) -> None:
    """Footers count and bound rows that are gone."""
    deleted = rows_of(share)
    session = opened(path, deleted)
    left = kept("true", deleted)
    texts = [row for row in left if row % 5]
    counts = {"n": len(left), "t": len(texts)}
    bounds = {"least": min(left, default=None), "most": max(left, default=None)}
    assert session.sql("select count(*) as n, count(t) as t from t").rows == [counts]
    assert session.sql("select min(id) as least, max(id) as most from t").rows == [bounds]
    sql = "select count(*) as n, count(t) as t, min(id) as least, max(id) as most from t"
    assert session.sql(sql).rows == [counts | bounds]
    assert session.table("t").count() == len(left)
    assert session.table("t").agg(col("t").count()).to_arrow()[0].to_pylist() == [len(texts)]
    has_footers = "answered from footers" in session.table("t").agg(col("id").max()).explain()
    assert has_footers == (not deleted)


def test_several_fragments_of_several_pieces(tmp_path: Path) -> None:
    """Pieces that do not end where bytes of a bitmap do. The second fragment lost nothing, the fourth all."""
    gone_of: list[tuple[int, set[int]]] = [
        (10_003, {*range(0, 10_003, 3), *range(2_000, 5_000)}),
        (7_001, set()),
        (20_000, {19_999}),
        (1_000, {*range(1_000)}),
    ]
    paths, bitmaps, left, first = [], {}, list[int](), 0
    for number, (count, gone) in enumerate(gone_of):
        paths.append(tmp_path / f"{number}.parquet")
        rows = pa.Table.from_pylist([record(first + row) for row in range(count)])
        pq.write_table(rows, paths[-1], row_group_size=1_003)
        if gone:
            bitmaps[number] = bitmap(gone, count)
        left += [first + row for row in range(count) if row not in gone]
        first += count
    session = registered(paths, DeletedRows(bitmaps))
    assert session.sql("select id from t").to_arrow()["id"].to_pylist() == left
    assert session.table("t").count() == len(left)
    sql = "select count(t) as t, max(id) as most, sum(id) as s from t"
    texts = sum(row % 5 > 0 for row in left)
    assert session.sql(sql).rows == [{"t": texts, "most": max(left), "s": sum(left)}]
    assert session.sql("select max(id) as m, min(id) as n from t").rows == [{"m": max(left), "n": min(left)}]
    found = session.sql("select id from t where id between 1990 and 5010").to_arrow()["id"].to_pylist()
    assert found == [row for row in left if 1_990 <= row <= 5_010]
    last = session.sql("select id from t order by id desc limit 3").to_arrow()["id"].to_pylist()
    assert last == left[:-4:-1]
    sampled = session.table("t").sample(40, seed=1).to_arrow()["id"].to_pylist()
    assert len(sampled) == 40 and set(sampled) <= set(left)
    frame = session.table("t")
    assert isinstance(frame._node, Scan)
    table = frame._node.source
    parts: list[Any] = []
    for lane in range(0, table.lane_count, 5):
        part = Scan(table.slice(range(lane, min(lane + 5, table.lane_count))), frame._node.names)
        parts += frame._with(part).select("id").to_arrow()["id"].to_pylist()
    assert parts == left


def test_a_manifest_counts_rows_that_are_gone(path: Path) -> None:
    """Half of the rows are NULL, and most of the others deleted: as many NULLs as rows are left."""
    rows = pa.table({"id": [None] * 50 + [*range(50, 100)]})
    pq.write_table(rows, path.with_name("half.parquet"))
    frame = QueryMode.local().table(path.with_name("half.parquet"))
    assert isinstance(frame._node, Scan)
    table = without(frame._node.source, DeletedRows({0: bitmap([*range(5), *range(52, 97)], 100)}))
    bounds = ((50).to_bytes(8, "little"), (99).to_bytes(8, "little"))
    table.use_evidence(ManifestEvidence(table, {"id": KnownValues(*bounds, array("q", [50]))}.get))
    left = frame._with(Scan(table))
    assert left.filter(col("id") > 0).select("id").to_arrow()["id"].to_pylist() == [50, 51, 97, 98, 99]
    assert left.count() == 50
    assert left.agg(col("id").count()).to_arrow()[0].to_pylist() == [5]


def test_lists_that_may_overlap(path: Path) -> None:
    """Then nobody knows how many rows are left before they are read."""

    class Overlapping(DeletedRows):
        def __init__(self, bitmaps: dict[int, bytes]) -> None:
            super().__init__(bitmaps)
            self.row_count = None

    frame = QueryMode.local().table(path)
    assert isinstance(frame._node, Scan)
    deleted = rows_of("few")
    left = frame._with(Scan(without(frame._node.source, Overlapping({0: bitmap(deleted, ROWS)}))))
    assert left.count() == ROWS - len(deleted)
    assert left.filter(col("id") >= 0).count() == ROWS - len(deleted)
    assert left.agg(col("id").count()).to_arrow()[0].to_pylist() == [ROWS - len(deleted)]


def test_rows_that_all_are_gone_are_not_read(path: Path) -> None:
    session = opened(path, set(range(GROUP_ROWS)))
    every = opened(path, set()).sql("select sum(x) as s from t").collect().stats
    few = session.sql("select sum(x) as s from t").collect().stats
    assert few["bytes"] < every["bytes"] * 3 // 4
    assert f"{few['bytes']:,} bytes" in session.table("t").agg(col("x").sum()).explain()


@pytest.mark.parametrize("size", [1, ROWS // 8 - 1, ROWS // 8 + 1, ROWS])
def test_a_bitmap_of_another_size(size: int, path: Path) -> None:
    frame = registered([path], DeletedRows({0: b"\1" * size})).table("t")
    with raises_code("INTERNAL"):
        frame.select("id").to_arrow()


def test_a_bitmap_with_more_bits_than_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "t.parquet")
    frame = registered([tmp_path / "t.parquet"], DeletedRows({0: b"\0\4"})).table("t")
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
        opened(path, {1}).table("t").select("id").to_arrow()
