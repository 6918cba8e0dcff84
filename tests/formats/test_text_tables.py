"""CSV and NDJSON files as tables: the same rows as DuckDB reads, whatever the lanes, in bounded memory."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError, col
from querymode.execute import lanes as lanes_module
from querymode.execute import stage_run
from querymode.execute.stage_run import StageRun
from querymode.table import text as text_module
from tests.raises import raises_code
from tests.unit.toy_executor import ToyExecutor

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 30_000


def plain(count: int = ROWS) -> str:
    return "id,x,name,day\n" + "".join(
        f"{i},{i / 4},name {i % 7},2024-01-{i % 28 + 1:02}\n" for i in range(count)
    )


def quoted(count: int = ROWS) -> str:
    """Line ends inside of quotes, also such that look like rows."""
    return "id,x,name,day\n" + "".join(
        f'{i},{i / 4},"name {i % 7}\n{i},1.0,""x"",2024-01-01\n",2024-01-{i % 28 + 1:02}\n'
        for i in range(count)
    )


def ndjson(count: int = ROWS) -> str:
    return "".join(
        json.dumps({"id": i, "x": i / 4, "name": f"name {i % 7}", "tags": [i % 3, None]}) + "\n"
        for i in range(count)
    )


TEXTS = {"plain.csv": plain(), "quoted.csv": quoted(), "lines.ndjson": ndjson()}
QUERIES = (
    "SELECT count(*) AS n FROM {t}",
    "SELECT name, sum(x) AS s, count(*) AS n FROM {t} GROUP BY name ORDER BY name",
    "SELECT sum(x) AS s FROM {t} WHERE id % 10 = 3",
    "SELECT id, name FROM {t} ORDER BY x DESC LIMIT 5",
    "SELECT id, x FROM {t} WHERE id BETWEEN 1000 AND 1010 ORDER BY id",
)


@pytest.fixture(params=[8 << 20, 20_000], ids=["one lane", "many lanes"])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(text_module, "LANE_SIZE", request.param)
    return int(request.param)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", TEXTS)
def test_same_rows_as_duckdb(tmp_path: Path, lanes: int, name: str, threads: int) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name])
    session = QueryMode.local(threads=threads)
    for query in QUERIES:
        ours = [tuple(row.values()) for row in session.sql(query.format(t=f"'{path}'")).rows]
        assert ours == duckdb.connect().execute(query.format(t=f"'{path}'")).fetchall(), query
    frame = session.table(path)
    in_memory = QueryMode.from_csv(TEXTS[name]) if name.endswith("csv") else QueryMode.from_json(TEXTS[name])
    assert frame.to_arrow().equals(in_memory.to_arrow())
    assert pa.Table.from_batches(frame.stream()).equals(in_memory.to_arrow())


@pytest.mark.parametrize("memory", ["256 MB", "4 GB"])
def test_streams_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    """Most lanes begin inside of quotes, where the text can be read too; with little memory they wait in the
    middle for the reader."""
    monkeypatch.setattr(text_module, "LANE_SIZE", 1 << 20)
    monkeypatch.setattr(stage_run, "STREAM_PART", 64)
    forgotten: list[int] = []
    forget = StageRun.forget_lane

    def noted(run: StageRun, lane: int) -> None:
        forgotten.append(lane)
        forget(run, lane)

    monkeypatch.setattr(StageRun, "forget_lane", noted)
    path = tmp_path / "t.csv"
    note_text = "\n9,8" * 40 + "\n9,"
    path.write_text("id,note\n" + "".join(f'{i},"{note_text}"\n' for i in range(60_000)))
    seen = 0
    for batch in QueryMode.local(threads=4, memory=memory).table(path).stream():
        assert batch.column("id").to_pylist() == list(range(seen, seen + batch.num_rows))
        assert set(batch.column("note").to_pylist()) == {note_text}
        seen += batch.num_rows
    assert seen == 60_000
    assert forgotten


def test_a_stream_that_ends_early(tmp_path: Path, lanes: int) -> None:
    path = tmp_path / "t.csv"
    path.write_text(quoted())
    session = QueryMode.local(threads=4)
    assert next(session.table(path).stream()).column("id")[0].as_py() == 0
    assert session.table(path).count() == ROWS


@pytest.mark.parametrize("name", TEXTS)
def test_packed_files(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(TEXTS[name].encode(), 1))
    (tmp_path / name).write_text(TEXTS[name])
    session = QueryMode.local()
    packed, unpacked = session.table(tmp_path / f"{name}.gz"), session.table(tmp_path / name)
    assert packed.count() == ROWS
    assert packed.to_arrow().equals(unpacked.to_arrow())


def test_zstandard(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "a.csv.zst"), compression="zstd") as target:
        target.write(TEXTS["quoted.csv"].encode())
    assert QueryMode.local().table(tmp_path / "a.csv.zst").count() == ROWS


def test_a_limit_stops_reading(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(plain(400_000))
    found = QueryMode.local().table(tmp_path / "a.csv").limit(3).collect()
    assert [row["id"] for row in found.rows] == [0, 1, 2]
    assert found.stats["bytes"] < 1 << 20


def test_an_error_says_where_and_what_to_do(tmp_path: Path, lanes: int) -> None:
    (tmp_path / "a.csv").write_text(plain() + "x,1,y,2024-01-01\n" + plain().partition("\n")[2])
    frame = QueryMode.local(threads=4).table(tmp_path / "a.csv")
    with raises_code("INVALID_FORMAT", match=r"a\.csv.*byte.*types="):
        frame.agg(col("id").sum()).collect()
    assert frame.select("x").count() == 2 * ROWS + 1  # what is not read is not looked at
    typed = QueryMode.local().table(tmp_path / "a.csv", types={"id": "utf8"})
    assert typed.filter(col("id") == "x").count() == 1


def test_folders_patterns_and_partitions(tmp_path: Path) -> None:
    for year, rows in ((2019, "1,2\n3,4\n"), (2020, "5,6.5\n")):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "part.csv").write_text("a,b\n" + rows)
    session = QueryMode.local(root=tmp_path)
    assert session.sql("SELECT sum(b) AS s FROM '.' WHERE year = 2020").rows == [{"s": 6.5}]
    assert session.table("*/part.csv").count() == 3
    assert session.table(".").dtypes() == {"a": "int64", "b": "float64", "year": "utf8"}


def test_options(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1;'x;y';NA\n2;z;3\n")
    frame = QueryMode.local().table(
        tmp_path / "a.txt", format="csv", delimiter=";", quote="'", header=False, null_strings=["NA"]
    )
    assert [tuple(row.values()) for row in frame.rows] == [(1, "x;y", None), (2, "z", 3)]
    (tmp_path / "b.csv").write_text("a,b\n01,2\n")
    assert QueryMode.local().table(tmp_path / "b.csv", infer_types=False).rows == [{"a": "01", "b": "2"}]
    with raises_code("INVALID_FORMAT", match="delimiter"):
        QueryMode.local().table(tmp_path / "b.csv", delimiter="ab")
    for kind in ("binary", "interval", "vector(f32,2)", "map<utf8,int64>", "list<int64>"):
        with raises_code("NOT_SUPPORTED", match="CSV is not read as"):
            QueryMode.local().table(tmp_path / "b.csv", types={"a": kind})
    for words in (5, "NA", [None]):
        with raises_code("INVALID_FORMAT", match="null_strings is a list of texts"):
            QueryMode.local().table(tmp_path / "b.csv", null_strings=words)
    (tmp_path / "c.csv").write_bytes(b"a\n\xff\n")
    with raises_code("INVALID_FORMAT", match=r"c\.csv.*UTF-8"):
        QueryMode.local().table(tmp_path / "c.csv")
    with raises_code("COLUMN_NOT_FOUND", match="types names 'c'"):
        QueryMode.local().table(tmp_path / "b.csv", types={"c": "int64"})
    with raises_code("NOT_SUPPORTED", match="no option"):
        QueryMode.local().table(tmp_path / "b.csv", separator=",")


def test_options_of_text_are_not_for_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with raises_code("NOT_SUPPORTED", match="delimiter= is for CSV and NDJSON files, and these are Parquet"):
        QueryMode.local().table(tmp_path / "a.parquet", delimiter=",")


def test_explain_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from querymode.cli import main

    (tmp_path / "a.csv").write_text(plain(100))
    frame = QueryMode.local().table(tmp_path / "a.csv").select("x")
    assert "CSV" in frame.explain() and "columns x" in frame.explain()
    assert "requests" in frame.explain(analyze=True)
    assert main([f"SELECT count(*) AS n FROM '{tmp_path}/a.csv'", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"n"', "100"]
    assert main(["count", str(tmp_path / "a.csv")]) == 0
    assert main(["head", str(tmp_path / "a.csv"), "-n", "2"]) == 0


def test_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    frame = QueryMode.local().table(tmp_path / "a.csv")
    assert frame.columns == ["a", "b"] and frame.count() == 0 and frame.rows == []


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_an_error_names_the_line(tmp_path: Path, lanes: int, ends: str) -> None:
    """Of the file, though a lane in its middle has met it, and rows go on over several lines."""
    text = quoted() + "x,1,y,2024-01-01\n" + quoted(100).partition("\n")[2]
    line = text[: text.index("x,1,y")].count("\n") + 1
    path = tmp_path / "a.csv"
    path.write_text(text.replace("\n", ends), newline="")
    message = f"a.csv: line {line:,}: column id: 'x' is not an int64 "
    with raises_code("INVALID_FORMAT", match=re.escape(message)) as caught:
        QueryMode.local(threads=2).table(path).select("id").collect()
    assert caught.value.column == "id"
    assert caught.value.offset == path.read_bytes().index(b"x,1,y")
    path = tmp_path / "a.ndjson"
    path.write_text('{"a":1}\n\n' * 30_000 + '{"a":"x"}\n')
    with raises_code("INVALID_FORMAT", match=r"a\.ndjson: line 60,001: expected an int64, found x"):
        QueryMode.local(threads=2).table(path).select("a").collect()


def test_an_error_in_packed_text_names_the_row(tmp_path: Path) -> None:
    text = plain() + "x,1,y,2024-01-01\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode(), 1))
    with raises_code(
        "INVALID_FORMAT", match=rf"a\.csv\.gz: row {ROWS + 1:,}: column id: 'x' is not an int64"
    ):
        QueryMode.local().table(tmp_path / "a.csv.gz").select("id").collect()


def test_parts_of_a_stage_say_where_a_file_is_wrong(tmp_path: Path, lanes: int) -> None:
    """Rows of lanes that ran elsewhere count, as do those of lanes that are run again."""
    from querymode.execute.misfit import located

    text = quoted() + "x,1,y,2024-01-01\n"
    (tmp_path / "a.csv").write_text(text)
    seen: list[int] = []

    def noted(table: object, failure: object, rows_before: int) -> QueryModeError:
        seen.append(rows_before + failure.row)  # type: ignore[attr-defined]
        return located(table, failure, rows_before)  # type: ignore[arg-type]

    executor = ToyExecutor()
    try:
        session = QueryMode.local()
        session._made_executor = executor
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lanes_module, "located", noted)
            with raises_code("INVALID_FORMAT", match=f"a.csv: line {text.count(chr(10)):,}: column id"):
                session.table(tmp_path / "a.csv").select("id").collect()
    finally:
        executor.close()
    assert seen == [ROWS]
