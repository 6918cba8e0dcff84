"""Lance tables by their manifests alone: versions, tags, columns and counts; what is refused."""

from __future__ import annotations

import json
import pickle
import time
from typing import TYPE_CHECKING

import pytest

from querymode import QueryMode
from querymode.plan.nodes import Scan
from querymode.table.files import FileTable
from tests.formats.lance_bytes import (
    MASK,
    data_file,
    field,
    fragment,
    integer,
    manifest,
    message,
    write_version,
)
from tests.raises import raises_code

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

ID = field("id", 0, "int64")


def table_of(path: Path, **options: Any) -> FileTable:
    node = QueryMode.local().table(path, **options)._node
    assert isinstance(node, Scan)
    assert isinstance(node.source, FileTable)
    return node.source


def count(path: Path, **options: Any) -> int:
    return QueryMode.local().table(path, **options).count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    for number in (1, 2, 3):
        fragments = [fragment(id, 10 * number) for id in range(number)]
        write_version(path, number, manifest(ID, *fragments, number=number))
    return path


# ---- which version ----


def test_the_newest_by_listing(path: Path) -> None:
    (path / "_versions" / "latest_version_hint.json").write_text('{"version":1}')
    for name in ("d9223372036854775809.manifest", "18446744073709551600.manifest#1", ".tmp-1", "x.manifest"):
        (path / "_versions" / name).write_bytes(b"nothing of ours")
    frame = QueryMode.local().table(path)
    assert frame.count() == 90
    write_version(path, 9, manifest(ID, fragment(0, 7), number=9))
    assert frame.count() == 7
    (path / "_versions" / f"{MASK - 9:020}.manifest").unlink()
    assert frame.count() == 90


def test_a_version_by_number(path: Path) -> None:
    assert [count(path, version=number) for number in (1, 2, 3)] == [10, 40, 90]
    pinned = QueryMode.local().table(path, version=2)
    write_version(path, 4, manifest(ID, number=4))
    assert pinned.count() == 40
    assert count(path) == 0
    for wrong in (5, 77):
        with raises_code("TABLE_NOT_FOUND", match=str(wrong)):
            count(path, version=wrong)
    for wrong_kind in (0, -1, True, 1.5):
        with raises_code("QUERY_FAILED"):
            count(path, version=wrong_kind)


def test_old_names(tmp_path: Path) -> None:
    for number in (2, 9, 10):
        write_version(tmp_path, number, manifest(ID, fragment(0, number)), name=f"{number}.manifest")
    assert count(tmp_path) == 10
    assert count(tmp_path, version=9) == 9
    write_version(tmp_path, 11, manifest(ID))
    with raises_code("INVALID_FORMAT", match="two ways"):
        count(tmp_path)


def test_tags(path: Path) -> None:
    tags = path / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "two.json").write_text(json.dumps({"branch": None, "version": 2, "manifestSize": 1}))
    (tags / "side.json").write_text(json.dumps({"branch": "side", "version": 2, "manifestSize": 1}))
    (tags / "odd.json").write_text("[" * 100_000)
    assert count(path, version="two") == count(path, ref="two") == 40
    frame = QueryMode.local().table(path, ref="two")
    assert frame.count() == 40
    (tags / "two.json").write_text(json.dumps({"version": 1, "manifestSize": 1}))
    assert frame.count() == 10
    with raises_code("NOT_SUPPORTED", match="branch"):
        count(path, ref="side")
    with raises_code("INVALID_FORMAT", match="odd.json"):
        count(path, ref="odd")
    with raises_code("TABLE_NOT_FOUND", match="three"):
        count(path, ref="three")
    for wrong in ("../../x", "", "..", "a/b"):
        with raises_code("QUERY_FAILED"):
            count(path, ref=wrong)
    with raises_code("QUERY_FAILED"):
        count(path, version=1, ref="two")


def test_a_dropped_table(path: Path) -> None:
    transaction = integer(1, 3) + message(2, "abc-def")
    dropped = message(19, message(1, "querymode.dropped") + message(2, "abc-def"))
    write_version(path, 4, manifest(dropped, number=4, transaction=transaction))
    with raises_code("TABLE_NOT_FOUND", match="dropped"):
        count(path)
    assert count(path, version=3) == 90
    # Every later commit carries the key on.
    write_version(path, 5, manifest(ID, dropped, number=5, transaction=message(2, "another")))
    assert count(path) == 0
    write_version(path, 6, manifest(ID, dropped, message(12, "5-abc-def.txn"), number=6))
    with raises_code("TABLE_NOT_FOUND"):
        count(path)


# ---- what it says ----


def test_columns_and_pieces(tmp_path: Path) -> None:
    fields = (
        ID,
        field("p", 1, "struct"),
        field("x", 2, "float", parent=1),
        field("l", 3, "list"),
        field("item", 4, "string", parent=3),
        field("v", 5, "fixed_size_list:float:3"),
        field("odd", 6, "something:else"),
    )
    files = data_file("a.lance", (0,), 1 << 24) + data_file("b.lance", (2, 4, 5), 1 << 24)
    deleted = message(3, integer(2, 3) + integer(3, 44) + integer(4, 5))
    write_version(tmp_path, 1, manifest(*fields, fragment(7, 100_000, files, deleted), fragment(9, 3)))
    table = table_of(tmp_path)
    assert (
        str(table.schema)
        == "Schema(id: int64, p: struct<x: float32>, l: list<utf8>, v: vector(f32, 3), odd: binary)"
    )
    assert table.row_count == 99_998
    assert table.cuts.row_counts.tolist() == [16_384] * 6 + [1696, 3]
    assert table.cuts.place(6) == (0, 6)
    first = table.files[0]
    assert first.name == f"{tmp_path}/data/a.lance"
    assert [file.location for file in first.files] == [f"{tmp_path}/data/{name}.lance" for name in "ab"]
    again = pickle.loads(pickle.dumps(table))
    assert again.row_count == 99_998
    assert again.files[1].name == f"{tmp_path}/data/a.lance"


@pytest.mark.parametrize(
    ("flag", "name"), [(64, "overlays"), (512, "512"), (2048, "blobs"), (1 << 40, str(1 << 40))]
)
def test_features_that_are_not_known(flag: int, name: str, tmp_path: Path) -> None:
    write_version(tmp_path, 1, manifest(ID, integer(9, flag | 3)))
    with raises_code("NOT_SUPPORTED", match=name):
        count(tmp_path)


def test_damaged_manifests(path: Path) -> None:
    data = manifest(ID, fragment(0))
    for wrong in (b"", data[:-1], data[:10], data[:-20] + b"x" * 20, b"\xff" * 200 + data[-16:]):
        write_version(path, 4, wrong)
        with raises_code("INVALID_FORMAT", match="version 4"):
            count(path)
    assert count(path, version=3) == 90


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../b", ".", ""])
def test_names_that_lead_elsewhere(name: str, tmp_path: Path) -> None:
    write_version(tmp_path, 1, manifest(ID, fragment(0, 10, data_file(name))))
    with raises_code("INVALID_FORMAT"):
        QueryMode.local().table(tmp_path).to_arrow()


def test_a_data_file_that_is_gone(path: Path) -> None:
    with raises_code("QUERY_FAILED", match="version 3") as caught:
        QueryMode.local().table(path).to_arrow()
    assert "a.lance" in str(caught.value)


def test_base_paths_and_allowed_paths(tmp_path: Path) -> None:
    base = message(18, integer(1, 0) + integer(3, 1) + message(4, f"{tmp_path}/elsewhere"))
    file = message(2, data_file("a.lance")[2:] + integer(7, 0))
    inside = tmp_path / "inside"
    write_version(inside, 1, manifest(ID, base, fragment(0, 10, file)))
    table = table_of(inside)
    assert table.files[0].name == f"{tmp_path}/elsewhere/data/a.lance"
    frame = QueryMode.local(allowed_paths=[inside]).table(inside)
    assert frame.count() == 10
    with raises_code("ACCESS_DENIED", match="elsewhere"):
        frame.to_arrow()


def test_folders_of_tables(path: Path) -> None:
    other = path.parent / "u.lance"
    write_version(other, 1, manifest(ID, fragment(0, 5)))
    (path / "data").mkdir()
    (path / "data" / "a.lance").write_bytes(b"LANC")
    for where in (
        path.parent,
        f"{path.parent}/*.lance",
        f"{path.parent}/**/*.lance",
        f"{path.parent}/*",
        [path, other],
    ):
        frame = QueryMode.local().table(where)
        assert frame.count() == 95, where
    with raises_code("NOT_SUPPORTED", match="Lance table"):
        QueryMode.local().table(path, format="parquet")


def test_many_fragments(tmp_path: Path) -> None:
    body = [
        fragment(id, 1000, data_file(f"{id:026x}{id:024b}.lance", range(20), 50_000)) for id in range(100_000)
    ]
    write_version(tmp_path, 1, manifest(*(field(f"c{id}", id, "int64") for id in range(20)), *body))
    count(tmp_path)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        assert count(tmp_path) == 100_000_000
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.1
