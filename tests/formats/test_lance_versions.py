"""Versions of Lance tables as pylance writes them, on this machine and on S3."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from querymode import QueryMode, col
from querymode.catalog.reference import Reference
from querymode.plan.nodes import Scan
from querymode.store.s3 import ClientSettings
from tests.raises import raises_code
from tests.s3_server import settings_of

BUCKET = "lance-versions"

if TYPE_CHECKING:
    from pathlib import Path

lance = pytest.importorskip("lance")


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {"id": ids, "t": [f"row {id}" for id in ids], "p": [{"x": id, "y": {"z": -id}} for id in ids]}
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Five versions: written, appended, deleted in few and in many rows, a column added."""
    path = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 20_000), path, max_rows_per_file=8000)
    table = lance.write_dataset(rows(20_000, 10), path, mode="append")
    table.tags.create("before", 2)
    table.delete("id % 1000 = 7")
    table.delete("id >= 8000 and id < 16000 and id % 7 > 0")
    table.add_columns({"n": "id * 2"})
    return path


def test_every_version_has_pylance_rows(path: Path) -> None:
    session = QueryMode.local()
    for number in range(1, lance.dataset(path).version + 1):
        expected = lance.dataset(path, version=number)
        frame = session.table(path, version=number)
        assert frame.count() == expected.count_rows(), number
        assert frame.to_arrow().to_pydict() == expected.to_table().to_pydict(), number
        few = frame.filter((col("id") % 1000 > 5) & (col("id") % 1000 < 9)).select("id").to_arrow()
        kept = expected.to_table(filter="id % 1000 > 5 and id % 1000 < 9", columns=["id"])
        assert few.to_pydict() == kept.to_pydict(), number
    assert session.table(path, version="before").count() == 20_010


def test_a_frame_sees_what_comes(path: Path) -> None:
    frame = QueryMode.local().table(path).select("id")
    before = frame.count()
    lance.write_dataset(lance.dataset(path).to_table(limit=3), path, mode="append")
    assert frame.count() == before + 3
    assert len(frame.rows) == before + 3


def test_old_names_and_versions_of_files(tmp_path: Path) -> None:
    path = tmp_path / "old"
    lance.write_dataset(rows(0, 100), path, enable_v2_manifest_paths=False)
    lance.write_dataset(rows(100, 5), path, mode="append")
    assert (path / "_versions" / "2.manifest").exists()
    assert QueryMode.local().table(path).count() == 105
    for version in ("2.0", "2.1", "2.2"):
        lance.write_dataset(rows(0, 50), tmp_path / version, data_storage_version=version)
        assert QueryMode.local().table(tmp_path / version).count() == 50
    lance.write_dataset(rows(0, 50), tmp_path / "new", data_storage_version="next")
    with raises_code("NOT_SUPPORTED", match=r"2\.3"):
        QueryMode.local().table(tmp_path / "new")


def test_a_shallow_clone(path: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    lance.dataset(path).shallow_clone(str(clone), 2)
    expected = lance.dataset(clone).to_table().to_pydict()
    assert QueryMode.local().table(clone).to_arrow().to_pydict() == expected
    with raises_code("ACCESS_DENIED"):
        QueryMode.local(allowed_paths=[clone]).table(clone).to_arrow()


def test_a_file_that_was_cleaned_up(path: Path) -> None:
    frame = QueryMode.local().table(path, version=1)
    for file in (path / "data").iterdir():
        file.unlink()
    assert frame.count() == 20_000
    with raises_code("QUERY_FAILED", match="version 1"):
        frame.to_arrow()


def test_single_files(path: Path, tmp_path: Path) -> None:
    from lance.file import LanceFileWriter

    single = tmp_path / "single.lance"
    with LanceFileWriter(str(single), rows(0, 1).schema) as writer:
        writer.write_batch(rows(0, 70_000))
    for session, where in ((QueryMode.local(), single), (QueryMode.local(root=tmp_path), "single.lance")):
        frame = session.table(where)
        assert frame.count() == 70_000
        assert frame.filter(col("id") == 66_666).select("t", "p").to_arrow().to_pylist() == [
            {"t": "row 66666", "p": {"x": 66_666, "y": {"z": -66_666}}}
        ]
    with raises_code("NOT_SUPPORTED", match="version"):
        QueryMode.local().table(single, version=1)
    with raises_code("NOT_SUPPORTED", match="files of a Lance table"):
        QueryMode.local().table(path / "data")
    with raises_code("NOT_SUPPORTED", match="files of a Lance table"):
        QueryMode.local().table(next((path / "data").iterdir()))


def test_names(path: Path) -> None:
    session = QueryMode.local(root=path.parent)
    assert session.table("t").count() == lance.dataset(path).count_rows()
    assert session.table("t", version=1).count() == 20_000
    assert session.sql("select count(*) as n from 't'").rows[0]["n"] == lance.dataset(path).count_rows()


def test_what_is_known_of_versions(path: Path) -> None:
    node = QueryMode.local().table(path)._node
    assert isinstance(node, Scan)
    reference = node.source.reference
    assert isinstance(reference, Reference)
    found = reference.versions()
    theirs = lance.dataset(path).versions()
    assert [each["version"] for each in found] == [each["version"] for each in theirs]
    assert [each["rows"] for each in found] == [
        lance.dataset(path, version=each["version"]).count_rows() for each in theirs
    ]
    assert [each["operation"] for each in found[:4]] == ["overwrite", "append", "delete", "delete"]
    for each, other in zip(found, theirs, strict=True):
        assert abs(each["timestamp"].timestamp() - other["timestamp"].timestamp()) < 0.001


# ---- S3 ----


@pytest.fixture(scope="module")
def settings(s3_endpoint: str) -> dict[str, Any]:
    settings = settings_of(s3_endpoint)
    ClientSettings(settings, 5.0).client().create_bucket(Bucket=BUCKET)
    return settings


def upload(settings: dict[str, Any], path: Path, prefix: str) -> None:
    client = ClientSettings(settings, 5.0).client()
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            client.upload_file(file, BUCKET, prefix + os.path.relpath(file, path))


@pytest.mark.parametrize("name", ["t.lance", "plain"])
def test_on_s3(name: str, settings: dict[str, Any], path: Path) -> None:
    upload(settings, path, f"{name}/")
    session = QueryMode.local(storage_options=settings)
    expected = lance.dataset(path).to_table().to_pydict()
    for where in (f"s3://lance-versions/{name}", f"s3://lance-versions/{name}/"):
        frame = session.table(where)
        assert frame.count() == len(expected["id"])
        assert frame.to_arrow().to_pydict() == expected
    assert session.table(f"s3://lance-versions/{name}", version=1).count() == 20_000
    assert session.table(f"s3://lance-versions/{name}", ref="before").count() == 20_010
    with raises_code("TABLE_NOT_FOUND"):
        session.table(f"s3://lance-versions/{name}", version=99)
    lance.write_dataset(lance.dataset(path).to_table(limit=3), path, mode="append")
    upload(settings, path, f"{name}/")
    assert frame.count() == len(expected["id"]) + 3


def test_requests_on_s3(settings: dict[str, Any], path: Path) -> None:
    upload(settings, path, "counted.lance/")
    session = QueryMode.local(storage_options=settings)
    result = session.table("s3://lance-versions/counted.lance", version=1).select("id").collect()
    # A listing, the manifest, and of three files the end and one read, unless the end was all of it.
    assert result.row_count == 20_000
    assert result.stats["requests"] <= 2 + 2 * 3
    with raises_code("BUDGET_EXCEEDED"):
        session.table("s3://lance-versions/counted.lance", version=2).select("t").collect(max_requests=3)
