"""Tables of files: what a path stands for, one schema for all files, partition folders, and permissions."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryModeError
from querymode.catalog.hive import partition_values
from querymode.catalog.pattern import matches, split_pattern
from querymode.format.footer_cache import FooterCache
from querymode.format.parquet import footer
from querymode.store.options import StoreOptions
from querymode.table.files import FileTable
from querymode.table.places import MISSING, is_constant
from querymode.types import decode_type
from tests.parquet_tables import open_table
from tests.raises import raises_code
from tests.s3_server import settings_of
from tests.unit.range_server import RangeServer

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"


@pytest.fixture(autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def write(path: Path, columns: dict[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns if columns is not None else {"id": [1, 2], "value": ["a", "b"]}), path)
    return path


def failure(*arguments: Any, **options: Any) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        open_table(*arguments, **options)
    assert caught.value.message
    return caught.value


def names(table: FileTable, root: Path | str = "") -> list[str]:
    prefix = f"{root}/" if root else ""
    return [file.name.removeprefix(prefix) for file in table.files]


def value_of(place: bytes) -> str | None:
    """The text of a constant."""
    assert is_constant(place)
    data_type, position = decode_type(place, 4)
    assert str(data_type) == "utf8"
    return None if place[position] else place[position + 5 :].decode()


def constants(table: FileTable, column: str) -> list[str | None]:
    return [value_of(file.places[table.schema.index(column)]) for file in table.files]


# ---- what a path stands for ----


def test_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    for where in (path, str(path), f"file://{path}", f"file:{path}"):
        table = open_table(where)
        assert names(table) == [str(path)]
        assert (table.row_count, table.lane_count) == (2, 1)
        assert str(table.schema) == "Schema(id: int64, value: utf8)"
    assert names(open_table("a.parquet", StoreOptions(root=tmp_path))) == [str(path)]
    assert open_table(path, format="parquet", name="t").name == "t"


def test_name_says_nothing_about_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv")
    assert open_table(path).row_count == 2


def test_folder(tmp_path: Path) -> None:
    for name in ("b.parquet", "sub/deep/c.parquet", "a.PARQUET", "x.parquet.gzip", "unnamed"):
        write(tmp_path / name)
    for name in ("_hidden.parquet", ".hidden.parquet", "_temporary/0/d.parquet", ".sub/e.parquet"):
        write(tmp_path / name)
    for name in ("_SUCCESS", "readme.md", "a.csv", "b.parquet.crc", "LICENSE"):
        (tmp_path / name).write_text("not data")
    for where in (tmp_path, f"{tmp_path}/"):
        table = open_table(where)
        assert names(table, tmp_path) == sorted(
            ["a.PARQUET", "b.parquet", "sub/deep/c.parquet", "unnamed", "x.parquet.gzip"]
        )


def test_folder_without_extensions(tmp_path: Path) -> None:
    write(tmp_path / "part-0")
    write(tmp_path / "part-1")
    assert open_table(tmp_path).row_count == 4
    (tmp_path / "part-2").write_text("a,b\n")  # here nothing says that it does not belong
    assert failure(tmp_path).code == "NOT_SUPPORTED"


def test_links_in_folders(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "b.parquet")
    write(tmp_path / "table" / "a.parquet")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "table" / "c.parquet").symlink_to(tmp_path / "elsewhere" / "b.parquet")
    (tmp_path / "table" / "circle").symlink_to(tmp_path / "table")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "table")
    found = names(open_table(tmp_path / "table"), tmp_path / "table")
    assert found[:1] == ["a.parquet"] and {"c.parquet", "link/b.parquet"} <= set(found)
    assert len(found) < 10


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", "_x.parquet a.parquet b.parquet"),
        ("?.parquet", "a.parquet b.parquet"),
        ("[b-z].parquet", "b.parquet"),
        ("[!b].parquet", "a.parquet"),
        ("*/*.parquet", "sub/c.parquet"),
        ("**/*.parquet", "_x.parquet a.parquet b.parquet sub/c.parquet sub/deep/d.parquet"),
        ("**/c*", "sub/c.parquet"),
        ("sub/**", "sub/c.parquet sub/deep/d.parquet"),
        ("sub/**/deep/*.parquet", "sub/deep/d.parquet"),
        ("**/deep/**/*.parquet", "sub/deep/d.parquet"),
        ("s*/deep/d.parquet", "sub/deep/d.parquet"),
        (".*.parquet", ".h.parquet"),
        ("_*.parquet", "_x.parquet"),
        ("su*", "sub/c.parquet sub/deep/d.parquet"),
        ("{a,b}*", ""),
        ("nothing*", ""),
        ("none/*.parquet", ""),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, expected: str) -> None:
    for name in ("a.parquet", "b.parquet", "_x.parquet", ".h.parquet", "sub/c.parquet", "sub/deep/d.parquet"):
        write(tmp_path / name)
    write(tmp_path / "_temporary" / "0" / "e.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    options = StoreOptions(root=tmp_path)
    if expected:
        assert names(open_table(pattern, options), tmp_path) == expected.split()
    else:
        problem = failure(pattern, options)
        assert problem.code == "TABLE_NOT_FOUND" and pattern in problem.message


def test_pattern_as_a_filter_of_names() -> None:
    base, parts = split_pattern("bucket/a/x*/**/*.parquet")
    assert base == "bucket/a/"
    assert matches(parts, ["x1", "f.parquet"]) and matches(parts, ["x", "y", "z", "f.parquet"])
    assert not matches(parts, ["y", "f.parquet"]) and not matches(parts, ["x1"])
    assert not matches(parts, ["x1", "_delta_log", "f.parquet"])


def test_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "a[1].parquet")
    assert names(open_table("a[1].parquet", StoreOptions(root=tmp_path)), tmp_path) == ["a[1].parquet"]


def test_list_keeps_its_order(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet")
    write(tmp_path / "a.parquet")
    write(tmp_path / "z" / "2.parquet")
    write(tmp_path / "z" / "1.parquet")
    where: list[str | Path] = ["b.parquet", Path("z"), "a*.parquet", "b.parquet"]
    table = open_table(where, StoreOptions(root=tmp_path))
    assert names(table, tmp_path) == ["b.parquet", "z/1.parquet", "z/2.parquet", "a.parquet", "b.parquet"]
    assert table.row_count == 10


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "_SUCCESS").write_text("")
    odd: tuple[Any, ...] = ("", [], ["missing"], 5, b"x", [5])
    for where in ("empty", "hidden", "missing", "missing.parquet", "a\0b", *odd):
        assert failure(where, StoreOptions(root=tmp_path)).code == "TABLE_NOT_FOUND"


def test_other_formats(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.orc").write_text("ORC")
    problem = failure(tmp_path / "other")
    assert problem.code == "NOT_SUPPORTED" and "a.orc" in problem.message
    assert failure(tmp_path / "text" / "a.csv", format="parquet").code == "INVALID_FORMAT"
    assert failure(tmp_path / "text" / "a.csv", format="orc").code == "NOT_SUPPORTED"
    (tmp_path / "empty.parquet").write_bytes(b"")
    assert failure(tmp_path / "empty.parquet").code == "INVALID_FORMAT"


def test_a_table_of_another_format(tmp_path: Path) -> None:
    """A folder with `_versions` is one of Lance, and nobody comes upon its files by chance."""
    write(tmp_path / "data" / "a.parquet")
    (tmp_path / "_versions").mkdir()
    (tmp_path / "_versions" / "1.manifest").write_text("{}")
    assert failure(tmp_path).code == "INVALID_FORMAT"
    assert failure(f"{tmp_path}/**/*.parquet").code == "TABLE_NOT_FOUND"
    assert open_table(f"{tmp_path}/data/*.parquet").row_count == 2


@pytest.mark.parametrize("mark", ["_delta_log/0.json", "metadata/v1.metadata.json"])
def test_other_tables(tmp_path: Path, mark: str) -> None:
    write(tmp_path / "data" / "a.parquet")
    (tmp_path / mark).parent.mkdir()
    (tmp_path / mark).write_text("{}")
    assert failure(tmp_path).code == "NOT_SUPPORTED"
    assert open_table(f"{tmp_path}/**/*.parquet").row_count == 2  # whoever wants it nevertheless


def test_a_folder_called_metadata_is_no_reason(tmp_path: Path) -> None:
    write(tmp_path / "metadata" / "a.parquet")
    assert open_table(tmp_path).row_count == 2


# ---- one schema ----


def test_columns_are_united_by_name(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"a": [1], "b": ["x"]})
    write(tmp_path / "2.parquet", {"b": ["y"], "c": [1.5], "a": [2]})
    write(tmp_path / "3.parquet", {"d": [True]})
    write(tmp_path / "4.parquet", {"a": [3], "b": ["z"]})
    table = open_table(tmp_path)
    assert str(table.schema) == "Schema(a: int64, b: utf8, c: float64, d: bool)"

    def column(number: int) -> bytes:
        return number.to_bytes(4, "little")

    assert [file.places for file in table.files] == [
        (column(0), column(1), MISSING, MISSING),
        (column(2), column(0), column(1), MISSING),
        (MISSING, MISSING, MISSING, column(0)),
        (column(0), column(1), MISSING, MISSING),
    ]
    assert table.files[0].places is table.files[3].places
    assert [table.null_count(index) for index in range(4)] == [1, 1, 3, 3]


def test_types_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"a": [1], "b": ["x"]})
    write(tmp_path / "2.parquet", {"a": [1], "b": [2]})
    problem = failure(tmp_path)
    assert (problem.code, problem.column) == ("SCHEMA_MISMATCH", "b")
    for word in ("1.parquet", "2.parquet", "'b'", "utf8", "int64"):
        assert word in problem.message


def test_null_type_goes_with_every_type(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"a": pa.nulls(2), "b": [1, 2]})
    write(tmp_path / "2.parquet", {"a": ["x"], "b": [3]})
    write(tmp_path / "3.parquet", {"a": pa.nulls(1), "b": [3]})
    table = open_table(tmp_path)
    assert str(table.schema) == "Schema(a: utf8, b: int64)"
    assert [file.places[0] for file in table.files] == [MISSING, b"\0\0\0\0", MISSING]


def test_repeated_names(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "1.parquet")
    assert open_table(tmp_path / "1.parquet").schema.names == ("a", "a")
    write(tmp_path / "2.parquet")
    problem = failure(tmp_path)
    assert problem.code == "SCHEMA_MISMATCH" and "1.parquet" in problem.message


# ---- partition folders ----


def test_partitions(tmp_path: Path) -> None:
    write(tmp_path / "region=us" / "day=2" / "a.parquet")
    write(tmp_path / "region=eu" / "day=1" / "b.parquet")
    write(tmp_path / "day=3" / "other" / f"region={'__HIVE_DEFAULT_PARTITION__'}" / "c.parquet")
    for where in (str(tmp_path), f"{tmp_path}/**/*.parquet", f"{tmp_path}/**/[abc].parquet"):
        table = open_table(where)
        assert str(table.schema) == "Schema(id: int64, value: utf8, day: utf8, region: utf8)"
        assert constants(table, "day") == ["3", "1", "2"]
        assert constants(table, "region") == [None, "eu", "us"]
        assert [table.null_count(index) for index in range(4)] == [0, 0, 0, 2]


def test_only_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "top=1"
    write(root / "k=a" / "a.parquet")
    assert open_table(root).schema.names == ("id", "value", "k")
    assert open_table(root / "k=a" / "a.parquet").schema.names == ("id", "value")
    assert open_table(f"{root}/k=a/*.parquet").schema.names == ("id", "value")
    assert open_table(f"{root}/k=*/a.parquet").schema.names == ("id", "value", "k")
    assert open_table(f"{root}/k=*").schema.names == ("id", "value", "k")
    assert open_table(root, hive_partitioning=False).schema.names == ("id", "value")


def test_partitions_of_lists(tmp_path: Path) -> None:
    write(tmp_path / "k=a" / "m=1" / "a.parquet")
    write(tmp_path / "m=2" / "k=b" / "b.parquet")
    write(tmp_path / "k=c" / "c.parquet")
    options = StoreOptions(root=tmp_path)
    table = open_table(["k=a/m=1/a.parquet", "m=2/k=b/b.parquet"], options)
    assert constants(table, "k") == ["a", "b"] and constants(table, "m") == ["1", "2"]
    uneven = ["k=a/m=1/a.parquet", "k=c/c.parquet"]
    assert open_table(uneven, options).schema.names == ("id", "value")
    assert failure(uneven, options, hive_partitioning=True).code == "SCHEMA_MISMATCH"
    assert open_table(["k=c"], options).schema.names == ("id", "value")


def test_file_without_a_partition(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    write(tmp_path / "k=1" / "b.parquet")
    table = open_table(tmp_path)
    assert table.schema.names == ("id", "value", "k")
    assert table.files[0].places[2] == MISSING
    assert value_of(table.files[1].places[2]) == "1"
    assert failure(tmp_path, hive_partitioning=True).code == "SCHEMA_MISMATCH"


def test_key_that_is_also_a_column(tmp_path: Path) -> None:
    write(tmp_path / "value=x" / "a.parquet", {"value": [1], "id": [1]})
    write(tmp_path / "value=y" / "b.parquet", {"value": ["other"], "id": [1]})
    table = open_table(tmp_path)
    assert str(table.schema) == "Schema(value: utf8, id: int64)"
    assert constants(table, "value") == ["x", "y"]
    write(tmp_path / "c.parquet", {"value": [1], "id": [1]})
    assert failure(tmp_path).code == "SCHEMA_MISMATCH"


def test_decoded_values() -> None:
    found = partition_values(["a%20b=c%2Fd", "plain", "=none", "x=", "y=p=q", "z=%C3%BC+", "k=\udcff"])
    assert found == {"a b": "c/d", "x": "", "y": "p=q", "z": "ü+", "k": "\ufffd"}


def test_typed_partitions(tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "ok=true" / "price=1.50" / "day=2024-02-29" / "a.parquet")
    write(tmp_path / "year=-1" / "ok=0" / "price=2" / "day=__HIVE_DEFAULT_PARTITION__" / "a.parquet")
    types = {"year": "int64", "ok": "bool", "price": "decimal(5,2)", "day": "date"}
    table = open_table(tmp_path, hive_types=types)
    assert str(table.schema) == (
        "Schema(id: int64, value: utf8, day: date, ok: bool, price: decimal(5,2), year: int64)"
    )
    year = [file.places[5][6:] for file in table.files]
    assert [int.from_bytes(value, "little", signed=True) for value in year] == [-1, 2024]
    assert table.null_count(2) == 2
    problem = failure(tmp_path, hive_types={"year": "int64", "price": "int32"})
    assert problem.code == "SCHEMA_MISMATCH" and "1.50" in problem.message
    assert failure(tmp_path, hive_types={"yeer": "int64"}).code == "COLUMN_NOT_FOUND"


@pytest.mark.skipif(not (CORPUS / "hive").exists(), reason="the corpus is not here")
def test_corpus() -> None:
    for item in json.loads((CORPUS / "manifest.json").read_text())["hive"]:
        table = open_table(CORPUS / item["dir"])
        assert list(table.schema.names) == [column["name"] for column in item["columns"]]
        assert table.row_count == item["rows"]


# ---- changed files ----


def test_replaced_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    table = open_table(path)
    with table.files[0].files[0].open() as source:
        assert source.size == path.stat().st_size
    write(path, {"id": [3, 4], "value": ["c", "d"]})
    with raises_code("QUERY_FAILED") as caught:
        table.files[0].files[0].open()
    assert "changed" in caught.value.message
    open_table(path).files[0].files[0].open().close()
    path.unlink()
    with raises_code("TABLE_NOT_FOUND"):
        table.files[0].files[0].open()


def test_touched_inode_is_the_same_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    table = open_table(path)
    identity = os.stat(path).st_ctime_ns
    while os.stat(path).st_ctime_ns == identity:
        os.chmod(path, 0o640)
    os.link(path, tmp_path / "b.parquet")
    table.files[0].files[0].open().close()


def test_rewritten_in_place_with_its_old_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"id": [1, 2, 3]})
    before = path.stat()
    table = open_table(path)
    write(path, {"id": [4, 5, 6]})
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with raises_code("QUERY_FAILED", match="changed"):
        table.files[0].files[0].open()


# ---- permissions ----


def test_allowed_paths(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(inside / "sub" / "a.parquet")
    write(outside / "b.parquet")
    options = StoreOptions(root=inside, allowed_paths=[inside])
    assert open_table(inside, options).row_count == 2
    assert open_table("**/*.parquet", options).row_count == 2
    for where in (
        *(outside, outside / "b.parquet", f"{outside}/*.parquet", "../outside", "../*/*.parquet", "/*"),
        *(
            f"{outside}/missing",
            f"file://{outside}/b.parquet",
            ["sub/a.parquet", str(outside)],
            "sub/../../o*",
        ),
    ):
        assert failure(where, options).code == "ACCESS_DENIED", where


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("where", [".", "*/b.parquet", "link*", "**/link*"])
def test_links_do_not_lead_out(tmp_path: Path, what: str, where: str) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(inside / "a.parquet")
    write(outside / "b.parquet")
    if what == "folder":
        (inside / "link").symlink_to(outside)
    else:
        (inside / "sub").mkdir()
        (inside / "sub" / "b.parquet").symlink_to(outside / "b.parquet")
        (inside / "link.parquet").symlink_to(outside / "b.parquet")
    options = StoreOptions(root=inside, allowed_paths=[inside])
    assert failure(where, options).code == "ACCESS_DENIED"
    assert (open_table(where, StoreOptions(root=inside)).row_count or 0) >= 2


def test_unreadable_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    write(tmp_path / "sub" / "a.parquet")
    (tmp_path / "sub").chmod(0)
    try:
        assert failure(tmp_path).code == "ACCESS_DENIED"
    finally:
        (tmp_path / "sub").chmod(0o700)


def test_no_network() -> None:
    options = StoreOptions(allow_network=False)
    for where in ("s3://lake/*.parquet", "s3://lake/folder/", "s3://lake/a.parquet", "http://x/a"):
        assert failure(where, options).code == "ACCESS_DENIED"


# ---- other machines ----


def test_http(tmp_path: Path) -> None:
    server = RangeServer(write(tmp_path / "a.parquet").read_bytes())
    cache = FooterCache(disk=False)
    try:
        table = open_table(server.url("/data/a.parquet"), cache=cache)
        assert table.row_count == 2 and server.spans == [f"bytes=-{footer.TAIL_SIZE}"]
        assert table.files[0].files[0].open().read(0, 4) == b"PAR1"
        open_table(server.url("/data/a.parquet"), cache=cache)
        assert server.spans[-1] == "bytes=0-0"  # nothing but whether it is still the same
        server.etag = '"v2"'
        with raises_code("QUERY_FAILED", match="changed"):
            table.files[0].files[0].open().read(0, 4)
        many = open_table([server.url(f"/k={number}/a") for number in range(20)], cache=cache)
        assert constants(many, "k") == [str(number) for number in range(20)]
        assert failure(server.url("/data/*.parquet")).code == "NOT_SUPPORTED"
        server.hook = lambda handler, number: handler.fail(404)
        problem = failure([server.url(f"/{number}") for number in range(20)], cache=cache)
        assert problem.code == "TABLE_NOT_FOUND"
    finally:
        server.close()


@pytest.fixture(scope="module")
def s3(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from querymode.store.s3 import ClientSettings

    storage_options = settings_of(s3_endpoint)
    client = ClientSettings(storage_options, 5.0).client()
    client.create_bucket(Bucket="lake")
    body = write(tmp_path_factory.mktemp("s3") / "a.parquet").read_bytes()
    for key in (
        *("t/k=1/a.parquet", "t/k=2/b.parquet", "t/_SUCCESS", "t/_temporary/0/x.parquet", "t/notes.md"),
        *("tt/other.parquet", "single.parquet", "spark.parquet/part-0.parquet", "spark.parquet/_SUCCESS"),
        *("bare", "folder/", "odd[1].parquet", "delta/_delta_log/0.json", "delta/a.parquet"),
    ):
        client.put_object(Bucket="lake", Key=key, Body=b"" if key.endswith("/") else body)
    return storage_options


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("t", "t/k=1/a.parquet t/k=2/b.parquet"),
        ("t/", "t/k=1/a.parquet t/k=2/b.parquet"),
        ("t/*/*.parquet", "t/k=1/a.parquet t/k=2/b.parquet"),
        ("t/**/[b-z].parquet", "t/k=2/b.parquet"),
        ("t*/*.parquet", "tt/other.parquet"),
        ("single.parquet", "single.parquet"),
        ("spark.parquet", "spark.parquet/part-0.parquet"),
        ("bare", "bare"),
        ("odd[1].parquet", "odd[1].parquet"),
        ("single.*", "single.parquet"),
    ],
)
def test_s3(s3: dict[str, Any], where: str, expected: str) -> None:
    table = open_table(f"s3://lake/{where}", StoreOptions(s3))
    assert names(table, "s3://lake") == expected.split()
    if "k=1" in expected:
        assert constants(table, "k") == ["1", "2"]
    assert table.files[0].files[0].open().read(0, 4) == b"PAR1"


def test_s3_problems(s3: dict[str, Any]) -> None:
    options = StoreOptions(s3)
    for where in ("missing", "missing/", "missing.parquet", "missing/*.parquet", "folder/"):
        assert failure(f"s3://lake/{where}", options).code == "TABLE_NOT_FOUND", where
    assert failure("s3://lake/delta", options).code == "NOT_SUPPORTED"
    narrow = StoreOptions(s3, allowed_paths=["s3://lake/t"])
    assert open_table("s3://lake/t/*/*.parquet", narrow).row_count == 4
    for where in ("tt", "t*/*.parquet", "single.parquet", "*"):
        assert failure(f"s3://lake/{where}", narrow).code == "ACCESS_DENIED", where


# ---- many files ----


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("many")
    body = write(folder / "body", {f"column_{number}": [number] for number in range(10)}).read_bytes()
    (folder / "body").unlink()
    for number in range(4000):
        (folder / f"{number:04}.parquet").write_bytes(body)
    yield folder
    shutil.rmtree(folder)


def seconds(action: Callable[[], object]) -> float:
    """Of the processor, so that neighbours do not count."""
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def test_twice_the_files_take_twice_the_time(many: Path) -> None:
    halves, wholes = [], []
    assert open_table(many, cache=FooterCache()).row_count == 4000
    for _ in range(9):  # until both had a quiet moment
        halves.append(seconds(lambda: open_table(f"{many}/[01]*.parquet", cache=FooterCache())))
        wholes.append(seconds(lambda: open_table(f"{many}/*.parquet", cache=FooterCache())))
        if min(wholes) <= 2.3 * min(halves):
            break
    assert min(wholes) <= 2.3 * min(halves)
    assert min(wholes) < 2.0  # about 80 µs a file


def test_few_descriptors(many: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        table = open_table(f"{many}/[0-1]*.parquet", cache=FooterCache())
        assert table.row_count == 2000
        sources = [file.files[0].open() for file in islice(table.files, 1000)]
        assert all(source.read(0, 4) == b"PAR1" for source in sources)
        for source in sources:
            source.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 20
