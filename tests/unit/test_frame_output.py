"""Ways out of a frame: digests, pages, printed tables, files."""

from __future__ import annotations

import csv
import json
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from querymode import DataFrame, QueryMode, QueryModeError, col
from querymode.output.writers import ParquetFormat
from tests.formats.sample_columns import SAMPLES, column
from tests.raises import raises_code

FRAME: Any = QueryMode.from_json([{"n": number, "t": f"t{number % 7}"} for number in range(1000)])


# ---- digest ----


def digest(table: Any) -> str:
    return QueryMode.from_arrow(table).collect().digest()


def test_a_digest_knows_no_order() -> None:
    whole = FRAME.collect().digest()
    assert len(whole) == 32 and int(whole, 16)
    assert FRAME.sort("n", descending=True).collect().digest() == whole
    assert FRAME.sort("t").collect().digest() == whole
    assert FRAME.union_all(FRAME).distinct().collect().digest() == whole
    parts = FRAME.filter(col("n") > 300).union_all(FRAME.filter(col("n") <= 300))
    assert parts.collect().digest() == whole


def test_a_digest_knows_rows_names_and_types() -> None:
    others = [
        FRAME,
        FRAME.limit(999),
        FRAME.union_all(FRAME.limit(1)),
        FRAME.rename({"n": "m"}),
        FRAME.select("t", "n"),
        FRAME.cast({"n": "int32"}),
        FRAME.with_columns(n=col("n") + 1),
        FRAME.with_columns(t=None),
    ]
    assert len({frame.collect().digest() for frame in others}) == len(others)
    # The same values, paired otherwise.
    first = pa.table({"a": [1, 2], "b": [3, 4]})
    assert digest(first) != digest(pa.table({"a": [1, 2], "b": [4, 3]}))
    assert digest(pa.table({"a": pa.array([], pa.int64())})) != digest(
        pa.table({"a": pa.array([], pa.int32())})
    )


def test_equal_values_have_one_digest() -> None:
    nan = float("nan")
    negative = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    assert digest(pa.table({"f": [0.0, nan]})) == digest(pa.table({"f": [-0.0, negative]}))
    hidden = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(bytes(8) + b"\xff" * 8)]
    )
    assert digest(pa.table({"i": hidden})) == digest(pa.table({"i": pa.array([0, None], pa.int64())}))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_type_has_a_digest(sample: Any) -> None:
    table = pa.table({"x": column(sample.written, 200), "n": range(200)})
    turned = pa.concat_tables([table.slice(77), table.slice(0, 77)])
    assert digest(table) == digest(turned)
    assert digest(table) != digest(table.slice(1))


def test_digests_do_not_depend_on_threads(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    count = 300_000
    texts = random.integers(0, 99, count).astype(str)
    table = pa.table({"k": random.integers(0, 5000, count), "f": random.random(count), "t": texts})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20_000)
    found = set()
    for threads in (1, 2, 8):
        session = QueryMode.local(root=tmp_path, threads=threads)
        frame = session.table("x.parquet")
        groups = frame.group_by("k").agg(col("f").sum().alias("s"), col("t").max().alias("m"))
        joined = frame.join(groups, on="k").filter(col("f") > 0.5)
        found.add(tuple(one.collect().digest() for one in (frame, groups, joined)))
    assert len(found) == 1


def test_float_sums_are_the_same_with_any_number_of_threads() -> None:
    random = np.random.default_rng(4)
    table = pa.table({"k": random.integers(0, 100, 400_000), "f": random.random(400_000) * 1e9})
    digests = set()
    for threads in (1, 2, 8):
        frame = QueryMode.local(threads=threads).from_arrow(table)
        digests.add(frame.group_by("k").agg(col("f").sum().alias("s")).collect().digest())
    assert len(digests) == 1


# ---- pages ----


def test_pages() -> None:
    pages = FRAME.sort("n", "desc").lazy()
    assert [row["n"] for row in pages.page(10, 3)] == [989, 988, 987]
    assert pages.page(999, 10).row_count == 1 and pages.page(1000, 10).row_count == 0
    assert FRAME.limit(5).lazy().page(3, 10).row_count == 2
    assert pages.count() == 1000
    assert [row["n"] for row in FRAME.lazy()] == list(range(1000))
    assert next(iter(FRAME.lazy())) == {"n": 0, "t": "t0"}


def test_pipe() -> None:
    def at_least(frame: DataFrame, name: str, low: int, *, first: int) -> DataFrame:
        return frame.filter(col(name) >= low).limit(first)

    assert FRAME.pipe(at_least, "n", 990, first=3).count() == 3


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    FRAME.show(2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["n  t", "-  --", "0  t0", "1  t1"] and "more" in lines[4]
    FRAME.limit(1).show()
    assert capsys.readouterr().out.splitlines() == ["n  t", "-  --", "0  t0", "1 row"]


# ---- files ----


def read_back(path: Path) -> Any:
    return duckdb.connect().sql(f"SELECT * FROM '{path}'").fetchall()


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    assert FRAME.write_parquet(path, row_group_size=300) == 1000
    assert pq.ParquetFile(path).num_row_groups == 4
    assert read_back(path) == [tuple(row.values()) for row in FRAME.rows]
    assert QueryMode.local().table(path).collect().digest() == FRAME.collect().digest()
    for compression in ("none", "snappy", "lz4"):
        FRAME.write_parquet(path, compression=compression, overwrite=True)
        assert pq.ParquetFile(path).num_row_groups == 1
        assert QueryMode.local().table(path).count() == 1000
    assert FRAME.filter(col("n") < 0).write_parquet(path, overwrite=True) == 0
    assert QueryMode.local().table(path).dtypes() == FRAME.dtypes()


def test_row_groups_have_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querymode.output.writers.ROW_GROUP_SIZE_MAX", 1 << 20)
    table = pa.table({"a": range(500_000)})
    QueryMode.from_arrow(table).write_parquet(tmp_path / "x.parquet")
    written = pq.ParquetFile(tmp_path / "x.parquet")
    assert written.num_row_groups >= 3 and written.read().equals(table)


def test_arrow(tmp_path: Path) -> None:
    assert FRAME.write_arrow(tmp_path / "x.arrow") == 1000
    assert pyarrow.feather.read_table(tmp_path / "x.arrow").to_pylist() == FRAME.rows


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = pa.table(
        {
            "i": [1, None],
            "t": ['a "b", c\nd', ""],
            "raw": [b"\x00\xff", None],
            "list": [[1, None], None],
            "half": pa.array(np.array([0.5, 0], np.float16), mask=np.array([False, True])),
            "d": pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)),
        }
    )
    assert QueryMode.from_arrow(rows).write_csv(path) == 2
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["i", "t", "raw", "list", "half", "d"],
            ["1", 'a "b", c\nd', "00ff", "[1, null]", "0.5", "1.20"],
            ["", "", "", "", "", ""],
        ]
    assert path.read_text().splitlines()[-1] == ',"",,,,'
    FRAME.write_csv(path, delimiter=";", header=False, overwrite=True)
    assert path.read_text().splitlines()[0] == '0;"t0"'


def test_json(tmp_path: Path) -> None:
    assert FRAME.write_json(tmp_path / "x.json") == 1000
    assert json.loads((tmp_path / "x.json").read_text()) == FRAME.rows
    assert FRAME.write_json(tmp_path / "x.ndjson", lines=True) == 1000
    assert [json.loads(line) for line in (tmp_path / "x.ndjson").read_text().splitlines()] == FRAME.rows
    nothing = FRAME.limit(0)
    nothing.write_json(tmp_path / "none.json")
    nothing.write_json(tmp_path / "none.ndjson", lines=True)
    assert (tmp_path / "none.json").read_text() == "[]\n" and (tmp_path / "none.ndjson").read_text() == ""


WRITERS = ("write_parquet", "write_csv", "write_json", "write_arrow")


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_there_stays_unless_asked(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "x"
    path.write_text("mine")
    with raises_code("TABLE_EXISTS", match="overwrite=True"):
        getattr(FRAME, writer)(path)
    assert path.read_text() == "mine"
    assert getattr(FRAME, writer)(path, overwrite=True) == 1000
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("writer", WRITERS)
def test_a_query_that_fails_leaves_nothing(tmp_path: Path, writer: str) -> None:
    failing = FRAME.select((100 // (col("n") - 999)).alias("x"))
    with raises_code("QUERY_FAILED"):
        getattr(failing, writer)(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_name(tmp_path: Path) -> None:
    """One of them wins; the other is told; neither leaves a part of a file."""
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def write() -> None:
        start.wait()
        try:
            FRAME.write_csv(tmp_path / "x.csv")
            outcomes.append("written")
        except QueryModeError as failure:
            outcomes.append(failure.code)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["TABLE_EXISTS"] * 3 + ["written"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.csv"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    session = QueryMode.local(root=tmp_path, allowed_paths=[tmp_path / "in"])
    frame = session.from_json([{"a": 1}])
    (tmp_path / "in").mkdir()
    assert frame.write_csv("in/x.csv") == 1  # below the root
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    for path, code in (
        (tmp_path / "x.csv", "ACCESS_DENIED"),
        ("in/../x.csv", "ACCESS_DENIED"),
        ("in/out/x.csv", "ACCESS_DENIED"),
        ("in", "QUERY_FAILED"),
        ("in/none/x.csv", "QUERY_FAILED"),
        ("", "QUERY_FAILED"),
        (5, "QUERY_FAILED"),
        ("in/a\0b", "QUERY_FAILED"),
        ("s3://bucket/x.csv", "NOT_SUPPORTED"),
        ("https://host/x.csv?secret=1", "NOT_SUPPORTED"),
    ):
        with raises_code(code) as caught:
            frame.write_csv(path)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def test_options_are_checked_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "x"
    intervals = QueryMode.from_arrow(pa.table({"i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))
    cases: list[tuple[str, Any]] = [
        ("NOT_SUPPORTED", lambda: FRAME.write_parquet(path, compression="rar")),
        ("QUERY_FAILED", lambda: FRAME.write_parquet(path, row_group_size=0)),
        ("QUERY_FAILED", lambda: FRAME.write_csv(path, delimiter="ab")),
        ("QUERY_FAILED", lambda: FRAME.write_csv(path, delimiter='"')),
        ("NOT_SUPPORTED", lambda: intervals.write_parquet(path)),
    ]
    for code, ask in cases:
        with raises_code(code):
            ask()
    assert not path.exists()
    assert intervals.write_csv(path) == 1


def test_every_type_goes_to_parquet_and_back(tmp_path: Path) -> None:
    for sample in SAMPLES:
        name = str(sample.written)
        frame = QueryMode.from_arrow(pa.table({"x": column(sample.written, 50)}))
        path = tmp_path / "x.parquet"
        try:
            ParquetFormat().check(frame)
        except QueryModeError as failure:
            assert failure.code == "NOT_SUPPORTED", name
            continue
        frame.write_parquet(path, overwrite=True)
        assert QueryMode.local().table(path).count() == 50, name
        for writer in (frame.write_csv, frame.write_json, frame.write_arrow):
            assert writer(path, overwrite=True) == 50, name
