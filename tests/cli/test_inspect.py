"""`querymode inspect`, against pyarrow's idea of the same files."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode._abi import FileFormat
from querymode.engine.instance import Instance
from querymode.errors import InternalError
from querymode.format.parquet import report as file_report
from querymode.format.parquet.report import FileReport
from querymode.frame.report import report_of
from querymode.output.cells import to_json
from tests.cli.conftest import GROUP_ROWS, ROW_COUNT
from tests.cli.terminal import run_in_terminal
from tests.cli.test_rows import Capture, fail, run
from tests.parquet_tables import open_table
from tests.unit.range_server import RangeServer

LEAVES = (
    *("id", "name", "price", "day", "at", "tags.item", "person.age", "person.x.y"),
    *("pairs.key", "pairs.value", "raw", "flag", "nothing", "small"),
)


def inspect(capsys: Capture, *words: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(capsys, "inspect", "--json", *words))
    return answer


def inspect_file(capsys: Capture, *words: object) -> dict[str, Any]:
    (file,) = inspect(capsys, *words)["files"]
    assert isinstance(file, dict)
    return file


# ---- footers ----


def test_file_and_row_groups(sample_path: Path, capsys: Capture) -> None:
    expected = pq.read_metadata(sample_path)
    answer = inspect(capsys, sample_path)
    file = answer["files"][0]
    assert (answer["row_count"], len(answer["files"])) == (ROW_COUNT, 1)
    assert (file["name"], file["size"]) == (str(sample_path), sample_path.stat().st_size)
    assert file["created_by"] == expected.created_by
    assert (file["row_count"], file["row_group_count"]) == (expected.num_rows, expected.num_row_groups)
    assert (file["column_count"], file["leaf_count"]) == (12, expected.num_columns)
    first_row = 0
    for number, group in enumerate(file["row_groups"]):
        wanted = expected.row_group(number)
        columns = [wanted.column(index) for index in range(wanted.num_columns)]
        assert (group["number"], group["row_count"], group["first_row"]) == (
            number,
            wanted.num_rows,
            first_row,
        )
        assert group["uncompressed_size"] == wanted.total_byte_size
        assert group["compressed_size"] == sum(column.total_compressed_size for column in columns)
        assert group["offset"] == min(chunk["offset"] for chunk in group["chunks"])
        first_row += wanted.num_rows


def test_column_chunks(sample_path: Path, capsys: Capture) -> None:
    expected = pq.read_metadata(sample_path)
    for number, group in enumerate(inspect_file(capsys, sample_path)["row_groups"]):
        assert [chunk["column"] for chunk in group["chunks"]] == list(LEAVES)
        for index, chunk in enumerate(group["chunks"]):
            check_chunk(chunk, expected.row_group(number).column(index))


def check_chunk(chunk: dict[str, Any], wanted: pq.ColumnChunkMetaData) -> None:
    assert chunk["physical_type"] == wanted.physical_type
    assert chunk["codec"] == wanted.compression
    assert set(chunk["encodings"]) == set(wanted.encodings)
    assert chunk["compressed_size"] == wanted.total_compressed_size
    assert chunk["uncompressed_size"] == wanted.total_uncompressed_size
    assert chunk["value_count"] == wanted.num_values
    assert chunk["data_page_offset"] == wanted.data_page_offset
    dictionary = wanted.dictionary_page_offset
    assert chunk["offset"] == (wanted.data_page_offset if dictionary is None else dictionary)
    assert (chunk["dictionary_size"] is None) == (dictionary is None)
    assert (chunk["offset_index"] is not None) == wanted.has_offset_index
    assert (chunk["column_index"] is not None) == wanted.has_column_index
    statistics = wanted.statistics
    assert statistics is not None
    assert chunk["null_count"] == statistics.null_count
    assert chunk["bounds"] == ("used" if statistics.has_min_max else "none")
    if statistics.has_min_max:
        assert [chunk["min"], chunk["max"]] == [to_json(statistics.min), to_json(statistics.max)]
    else:
        assert chunk["min"] is chunk["max"] is None


def test_schema(sample_path: Path, capsys: Capture) -> None:
    schema = {node["name"]: node for node in inspect_file(capsys, sample_path)["schema"]}
    assert schema["at"] == {
        "name": "at",
        "type": "timestamp(us, UTC)",
        "nullable": True,
        "physical_type": "INT64",
    }
    assert schema["price"]["type"] == "decimal(9,2)"
    assert (schema["raw"]["type"], schema["raw"]["width"]) == ("fixed_binary(2)", 2)
    assert schema["person"]["type"] == "struct<age: int64, x: struct<y: float64>>"
    assert schema["person"]["children"][1]["children"][0]["physical_type"] == "DOUBLE"
    (item,) = schema["tags"]["children"]
    assert item == {"name": "item", "type": "utf8", "nullable": True, "physical_type": "BYTE_ARRAY"}
    assert [child["nullable"] for child in schema["pairs"]["children"]] == [False, True]


def test_columns_that_may_not_be_null(tmp_path: Path, capsys: Capture) -> None:
    fields = [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())]
    path = tmp_path / "required.parquet"
    pq.write_table(pa.table([[1], [2]], schema=pa.schema(fields)), path)
    assert [node["nullable"] for node in inspect_file(capsys, path)["schema"]] == [False, True]
    assert "int32 not null" in run(capsys, "inspect", path)


def test_files_without_rows_or_columns(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), path)
    file = inspect_file(capsys, "--pages", path)
    assert file["row_count"] == 0 and [node["name"] for node in file["schema"]] == ["a"]
    run(capsys, "inspect", "--pages", path)
    run(capsys, "head", path)


def test_bloom_filters_of_duckdb(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bloom.parquet"
    with duckdb.connect() as connection:
        connection.sql(f"COPY (SELECT i % 100 AS x FROM range(5000) t(i)) TO '{path}'")
        query = f"SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata('{path}')"
        expected = connection.sql(query).fetchall()
    chunks = [group["chunks"][0] for group in inspect_file(capsys, path)["row_groups"]]
    assert [(chunk["bloom_filter"]["offset"], chunk["bloom_filter"]["size"]) for chunk in chunks] == expected
    assert f"{expected[0][1]:,} bytes" in run(capsys, "inspect", path)


def test_bounds_that_are_not_believed(tmp_path: Path, capsys: Capture) -> None:
    """A max below the min is nonsense: it is there, and nobody uses it."""
    path = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"x": pa.array([7001, 7002], pa.int64())}), path, use_dictionary=False)
    data = bytearray(path.read_bytes())
    low, high = ((7001).to_bytes(8, "little"), (7002).to_bytes(8, "little"))
    for place in range(data.rfind(b"x"), len(data) - 8):
        if data[place : place + 8] == low:
            data[place : place + 8] = (9999).to_bytes(8, "little")
    assert high in data
    path.write_bytes(data)
    chunk = inspect_file(capsys, path)["row_groups"][0]["chunks"][0]
    assert (chunk["bounds"], chunk["min"], chunk["max"]) == ("not trusted", None, None)
    assert "(not trusted)" in run(capsys, "inspect", path)


# ---- pages ----


def test_pages_follow_each_other(sample_path: Path, capsys: Capture) -> None:
    data = sample_path.read_bytes()
    for group in inspect_file(capsys, "--pages", sample_path)["row_groups"]:
        for chunk in group["chunks"]:
            check_pages(chunk, group["row_count"], data)


def check_pages(chunk: dict[str, Any], row_count: int, data: bytes) -> None:
    offset = chunk["offset"]
    for number, page in enumerate(chunk["pages"]):
        assert (page["number"], page["offset"]) == (number, offset)
        offset += page["header_size"]
        assert page["crc"] == zlib.crc32(data[offset : offset + page["compressed_size"]])
        offset += page["compressed_size"]
        assert page["encoding"] in chunk["encodings"]
    assert offset == chunk["offset"] + chunk["compressed_size"]
    sizes = sum(page["header_size"] + page["uncompressed_size"] for page in chunk["pages"])
    assert sizes == chunk["uncompressed_size"]
    pages = [page for page in chunk["pages"] if page["type"] != "DICTIONARY_PAGE"]
    assert len(chunk["pages"]) - len(pages) == (chunk["dictionary_size"] is not None)
    assert sum(page["value_count"] for page in pages) == chunk["value_count"]
    check_rows_and_nulls(chunk, pages, row_count)


def check_rows_and_nulls(chunk: dict[str, Any], pages: list[dict[str, Any]], row_count: int) -> None:
    repeats = chunk["column"] in ("tags.item", "pairs.key", "pairs.value")
    rows, nulls = ([page[key] for page in pages] for key in ("row_count", "null_count"))
    if pages[0]["type"] == "DATA_PAGE_V2":
        assert (sum(rows), sum(nulls)) == (row_count, chunk["null_count"])
    else:
        assert set(rows) == {None} if repeats else sum(rows) == row_count


def test_there_are_many_pages(sample_path: Path, capsys: Capture) -> None:
    file = inspect_file(capsys, "--pages", "--column", "id", "--row-group", 0, sample_path)
    (chunk,) = file["row_groups"][0]["chunks"]
    assert len(chunk["pages"]) >= 9
    assert {page["type"] for page in chunk["pages"]} == {
        "DATA_PAGE_V2" if "2.0" in str(sample_path) else "DATA_PAGE"
    }


def test_any_window_finds_the_same_pages(sample_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = FileReport(open_table(sample_path).files[0])
    expected = [report.pages(1, leaf) for leaf in range(len(LEAVES))]
    for window in (1, 10, 100, 1000):
        monkeypatch.setattr(file_report, "WINDOW", window)
        assert [report.pages(1, leaf) for leaf in range(len(LEAVES))] == expected
    assert report.pages(1, 0, limit=3) == expected[0][:3]


def test_long_pages_are_skipped(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    path = tmp_path / "long.parquet"
    values = np.random.default_rng(3).random(500_000)
    pq.write_table(pa.table({"x": values}), path, use_dictionary=False, data_page_size=1 << 20)
    report = FileReport(open_table(path).files[0])
    reads.clear()
    assert len(report.pages(0, 0)) >= 3
    assert sum(size for _, size in reads) < path.stat().st_size / 8


def test_through_http(sample_path: Path, server: RangeServer, capsys: Capture) -> None:
    server.data = sample_path.read_bytes()
    local = inspect_file(capsys, "--pages", "--row-group", 2, sample_path)
    remote = inspect_file(capsys, "--pages", "--row-group", 2, server.url("/x.parquet"))
    assert remote["row_groups"] == local["row_groups"]


def test_damaged_headers_are_named(sample_path: Path, tmp_path: Path, capsys: Capture) -> None:
    data = bytearray(sample_path.read_bytes())
    chunk = FileReport(open_table(sample_path).files[0]).chunk(1, 0)
    data[chunk["offset"] : chunk["offset"] + 8] = b"\xff" * 8
    path = tmp_path / "damaged.parquet"
    path.write_bytes(data)
    message = fail(capsys, "inspect", "--pages", "--column", "id", "--json", path)
    assert message.startswith(f"INVALID_FORMAT: {path}, column 'id': ")
    assert f"near byte {chunk['offset']}" in message


def test_pages_that_end_early(sample_path: Path, tmp_path: Path) -> None:
    """Sizes that a header makes up lead out of the file, not out of memory."""
    report = FileReport(open_table(sample_path).files[0])
    first = report.pages(0, 0)[0]
    data = bytearray(sample_path.read_bytes())
    header = data[first["offset"] : first["offset"] + first["header_size"]]
    # Type, uncompressed and compressed size come first, as zigzag varints.
    place = first["offset"] + header.index(0x15, header.index(0x15, 1) + 1) + 1
    data[place : place + 2] = b"\xfe\xff"
    data[place + 2 : place + 5] = b"\xff\xff\x0f"
    path = tmp_path / "early.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="INVALID_FORMAT"):
        FileReport(open_table(path).files[0]).pages(0, 0)


# ---- what is picked and shown ----


def test_picks(sample_path: Path, capsys: Capture) -> None:
    words = ("--row-group", 2, "--column", "person", "--column", "tags.item", sample_path)
    file = inspect_file(capsys, *words)
    (group,) = file["row_groups"]
    assert group["number"] == 2
    assert [chunk["column"] for chunk in group["chunks"]] == ["tags.item", "person.age", "person.x.y"]
    text = run(capsys, "inspect", *words)
    assert "row group 2\n" in text and "row group 0\n" not in text and "price" not in text


def test_wrong_picks(sample_path: Path, capsys: Capture) -> None:
    assert fail(capsys, "inspect", "--row-group", 3, sample_path).startswith("QUERY_FAILED: there is no row")
    message = fail(capsys, "inspect", "--column", "person.agee", sample_path)
    assert message.startswith("COLUMN_NOT_FOUND: ") and "'person.age'" in message
    assert fail(capsys, "inspect", "--column", "pers", sample_path).startswith("COLUMN_NOT_FOUND: ")


def test_text(sample_path: Path, capsys: Capture) -> None:
    lines = run(capsys, "inspect", "--pages", sample_path).splitlines()
    assert lines[0] == str(sample_path)
    assert f"rows        {ROW_COUNT:,} in 3 row groups" in lines
    assert "    y    float64             DOUBLE" in lines
    id_line = next(line for line in lines if line.startswith("id") and "ZSTD" in line)
    assert f"{GROUP_ROWS - 1}" in id_line
    assert "pages of tags.item in row group 0" in lines
    assert any(line.startswith("… and more") for line in lines)


def test_many_columns_are_cut(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{index}": [index] for index in range(300)}), path, row_group_size=1)
    lines = run(capsys, "inspect", path).splitlines()
    assert len(lines) < 120 and "… 260 more; --json has all" in lines
    assert "… 260 more columns; --column NAME picks some, --json has all" in lines
    assert len(inspect_file(capsys, path)["row_groups"][0]["chunks"]) == 300


def test_many_row_groups_are_cut(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tall.parquet"
    pq.write_table(pa.table({"x": range(100)}), path, row_group_size=1)
    text = run(capsys, "inspect", path)
    assert len(text.splitlines()) < 300 and "… 60 more row groups" in text
    assert "… " not in run(capsys, "inspect", "--row-group", 99, path)


def test_several_files(tmp_path: Path, capsys: Capture) -> None:
    for region in ("eu", "us"):
        (tmp_path / f"region={region}").mkdir()
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / f"region={region}" / "a.parquet", row_group_size=1)
    answer = inspect(capsys, tmp_path)
    assert [node["name"] for node in answer["schema"]] == ["x", "region"]
    assert [len(file["row_groups"]) for file in answer["files"]] == [2, 2]
    text = run(capsys, "inspect", tmp_path)
    assert text.startswith("2 files, 4 rows\n") and "row group 0" not in text
    assert run(capsys, "inspect", "--row-group", 1, tmp_path).count("\nrow group 1\n") == 2


def test_a_terminal_gets_drawn_tables(sample_path: Path) -> None:
    status, text = run_in_terminal("inspect", "--row-group", "0", str(sample_path), columns=160)
    assert status == 0 and "┃ column " in text and "┃ bloom filter ┃" in text
    assert max(map(len, text.splitlines())) <= 160


# ---- the doors ----


def test_the_doors_refuse_what_is_not_there(sample_path: Path) -> None:
    footer = open_table(sample_path).files[0].footer
    with Instance() as instance:
        file = instance.file_open(footer.blob)
        assert instance.leaf_bounds(file, 0).row_count == footer.row_group_count
        for handle, leaf in ((file, footer.leaf_count), (file + 1, 0), (0, 0)):
            with pytest.raises(InternalError):
                instance.leaf_bounds(handle, leaf)
        with pytest.raises(InternalError):
            instance.pages(FileFormat.PARQUET + 1, b"")
        assert instance.pages(FileFormat.PARQUET, b"").row_count == 0


def test_bounds_agree_with_those_of_pruning(sample_path: Path) -> None:
    """The same answer as MIN and MAX, which ask by way of a plan."""
    report = FileReport(open_table(sample_path).files[0])
    chunks = [report.chunk(group, 0) for group in range(3)]
    (described,) = (row for row in QueryMode.local().table(sample_path).describe() if row["column"] == "id")
    found = min(chunk["min"] for chunk in chunks), max(chunk["max"] for chunk in chunks)
    assert found == (described["min"], described["max"])


def test_only_tables_of_files_have_a_report(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    qm = QueryMode.local(root=tmp_path)
    report = report_of(qm.table("a.parquet"))
    assert report.no_groups is None and report.paths() == ["a"]
    for frame in (qm.table("a.parquet").select("a"), qm.from_json([{"a": 1}])):
        with pytest.raises(QueryModeError, match=r"NOT_SUPPORTED.*files"):
            report_of(frame)
