"""What a query reads, in bytes and requests: a page or two where there is a page index, and no more.

`explain()` says it before, `stats` says it after, and for http the server's own log says it too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from querymode import DataFrame, QueryMode, QueryModeError, col
from tests.raises import raises_code
from tests.unit.range_server import Handler, RangeServer

MILLION = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def session(cache_directory: None) -> QueryMode:
    return QueryMode.local(threads=2)


def foreseen(frame: DataFrame) -> tuple[int, int]:
    """Requests and bytes that explain promises."""
    found = re.search(r"([\d,]+) requests, ([\d,]+) bytes", frame.explain())
    assert found is not None, frame.explain()
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def spent(frame: DataFrame) -> tuple[int, int]:
    stats = frame.collect().stats
    return stats["requests"], stats["bytes"]


def failure(frame: DataFrame, **limits: Any) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        frame.collect(**limits)
    return caught.value


# ---- a million rows in order ----


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(MILLION),
            "v": random.random(MILLION),
            "k": pa.array(random.integers(0, 50, MILLION)).cast(pa.string()),
        }
    )


FILES: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": ["k"], "write_page_index": True},
    "groups": {"use_dictionary": ["k"], "write_page_index": True, "row_group_size": 100_000},
    "no index": {"use_dictionary": ["k"]},
    "dictionary": {"write_page_index": True},
    "two groups": {"write_page_index": True, "row_group_size": 600_000, "data_page_version": "2.0"},
    "a small dictionary": {"write_page_index": True, "dictionary_pagesize_limit": 100_000},
    "no dictionary": {"write_page_index": True, "use_dictionary": False},
}

#: Column chunks of these begin with pages that a dictionary codes, and go on without.
MIXED = ("dictionary", "two groups", "a small dictionary")


@pytest.fixture(scope="module")
def files(million: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("million")
    for name, options in FILES.items():
        pq.write_table(
            million, folder / f"{name}.parquet", compression="zstd", compression_level=1, **options
        )
    return {name: folder / f"{name}.parquet" for name in FILES}


def test_last_pages_only(session: QueryMode, files: dict[str, Path]) -> None:
    """Pages have 20,000 rows: the last 10,000 of a million lie in one of each column.

    Of a small row group with a few pages the index is not worth a request, and all of it is read.
    """
    for name, part in (("plain", 20), ("groups", 8)):
        frame = session.table(files[name])
        chosen = frame.filter("id", "gt", 990_000)
        answer = chosen.collect()
        assert answer.row_count == 9_999
        assert answer.stats["bytes"] < frame.collect().stats["bytes"] / part
        assert answer.stats["requests"] <= 4
        assert min(row["id"] for row in answer.rows[:10]) == 990_001


def test_row_groups_are_left_out_without_an_index(
    session: QueryMode, million: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(million, tmp_path / "t.parquet", row_group_size=50_000)
    frame = session.table(tmp_path / "t.parquet")
    answer = frame.filter("id", "gt", 990_000).collect()
    assert answer.stats["row_groups_skipped"] == 19
    assert answer.stats["bytes"] < frame.collect().stats["bytes"] / 15


def test_answers_of_footers(session: QueryMode, files: dict[str, Path]) -> None:
    """Counts, and least and greatest values where they are exact, read nothing."""
    for path in files.values():
        frame = session.table(path)
        assert frame.count() == MILLION
        asked = frame.agg(
            col("id").min().alias("low"), col("id").max().alias("high"), col("k").count().alias("n")
        )
        answer = asked.collect()
        assert answer.rows == [{"low": 0, "high": MILLION - 1, "n": MILLION}]
        assert (answer.stats["requests"], answer.stats["bytes"]) == (0, 0) == foreseen(asked)
        assert frame.shape() == (MILLION, 3)


def test_bounds_that_are_not_exact_are_no_answer(session: QueryMode, tmp_path: Path) -> None:
    """Of long texts statistics know the beginning only; of floats without a count of NaN not the greatest."""
    texts = [f"{'x' * 100}{number:03}" for number in range(300)]
    table = pa.table({"s": texts, "f": [float("nan"), *range(298), 1.5]})
    several: list[dict[str, Any]] = [{}, {"write_page_index": True}, {"write_statistics": False}]
    for options in several:
        pq.write_table(table, tmp_path / "t.parquet", **options)
        frame = session.table(tmp_path / "t.parquet")
        calls = [
            call
            for name in "sf"
            for call in (col(name).min().alias(f"{name}0"), col(name).max().alias(f"{name}1"))
        ]
        (row,) = frame.agg(*calls).collect().rows
        assert (row["s0"], row["s1"], row["f0"]) == (texts[0], texts[-1], 0.0)
        assert row["f1"] != row["f1"]


def queries(frame: DataFrame) -> dict[str, DataFrame]:
    low_or_high = (col("id") < 10) | (col("id") > 999_000)
    return {
        "everything": frame,
        "a column": frame.select("v"),
        "two columns": frame.select("k", "id"),
        "a sum": frame.agg(col("v").sum()),
        "groups": frame.group_by("k").agg(col("v").sum()),
        "the first fifth": frame.filter("id", "lt", 200_000),
        "the middle": frame.filter("id", "between", [300_000, 500_000]).select("v", "k"),
        "where dictionaries end": frame.filter("id", "between", [90_000, 290_000]),
        "the last fifth": frame.filter("id", "gt", 800_000),
        "the last fifth of others": frame.filter("id", "gt", 800_000).select("v"),
        "first and last": frame.filter((col("id") < 100_000) | (col("id") > 900_000)),
        "the filter's own column": frame.filter("id", "lt", 10_000).select("id"),
        "its last rows": frame.filter("id", "gt", 990_000).select("id"),
        "the last pages": frame.filter("id", "gt", 990_000),
        "the last pages of others": frame.filter("id", "gt", 990_000).select("k", "v"),
        "one row": frame.filter("id", "eq", 500_000).select("v"),
        "two places": frame.filter(low_or_high).select("v", "k"),
        "a filter that prunes nothing": frame.filter("v", "gt", 0.5).select("id"),
        "a filter on few values": frame.filter("k", "eq", "7").select("id"),
        "nothing": frame.filter("id", "lt", 0),
    }


@pytest.mark.parametrize("name", FILES)
def test_explain_is_what_happens(session: QueryMode, files: dict[str, Path], name: str) -> None:
    exact = 0
    for what, frame in queries(session.table(files[name])).items():
        for _ in range(2):
            assert "about" not in frame.explain() and "dictionaries" not in frame.explain()
            if "then what surviving rows need" in frame.explain():
                assert foreseen(frame) <= spent(frame), what
            else:
                exact += 1
                assert foreseen(frame) == spent(frame), what
    assert exact >= 2 * 12


@pytest.mark.parametrize("name", MIXED)
def test_dictionaries_are_read_where_pages_use_them(
    session: QueryMode, files: dict[str, Path], name: str
) -> None:
    """Of a fifth of all rows, ids and values take less without their dictionaries than with them."""
    metadata = pq.read_metadata(files[name])
    frame = session.table(files[name]).select("id", "v")

    def dictionary_sizes(group: int) -> int:
        chunks = [metadata.row_group(group).column(index) for index in range(2)]
        return sum(chunk.data_page_offset - int(chunk.dictionary_page_offset or 0) for chunk in chunks)

    plain = spent(session.table(files["no dictionary"]).select("id", "v").filter("id", "gt", 800_000))[1]
    late = spent(frame.filter("id", "gt", 800_000))[1]
    assert late < plain + dictionary_sizes(metadata.num_row_groups - 1)
    early = frame.filter("id", "lt", 10_000)
    assert early.collect().row_count == 10_000
    assert spent(early)[1] > dictionary_sizes(0)


@pytest.mark.parametrize("name", MIXED)
def test_explain_says_what_it_cannot_know(
    session: QueryMode, files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """Of files by writers that nobody knows, pages tell whether they use a dictionary, and they alone."""
    data = files[name].read_bytes()
    assert data.count(b"parquet-cpp-arrow version") == 1
    (tmp_path / "t.parquet").write_bytes(
        data.replace(b"parquet-cpp-arrow version", b"parquet-cpp-other version")
    )
    unknown = queries(session.table(tmp_path / "t.parquet"))
    unsure = 0
    for what, frame in queries(session.table(files[name])).items():
        assert unknown[what].to_arrow() == frame.to_arrow(), what
        if "and dictionaries if pages use them" in unknown[what].explain():
            unsure += 1
            assert foreseen(unknown[what]) <= spent(unknown[what]), what
        elif "then what surviving rows need" not in unknown[what].explain():
            assert foreseen(unknown[what]) == spent(unknown[what]), what
    assert unsure >= 5
    late = unknown["the last fifth"]
    assert foreseen(late) == spent(late), "no page of these uses a dictionary"


def test_explain_of_columns_in_pieces_is_rough(million: pa.Table, tmp_path: Path) -> None:
    """With little memory a column chunk is read in several pieces, each from the beginning of a page on."""
    path = tmp_path / "t.parquet"
    pq.write_table(million, path, compression="none", use_dictionary=False)
    little = QueryMode.local(threads=2, memory="24MiB").table(path).agg(col("id").sum(), col("v").sum())
    assert "reads about " in little.explain()
    requests, size = spent(little)
    assert requests > 2
    assert requests * 0.7 <= foreseen(little)[0] <= requests * 1.4
    assert size * 0.7 <= foreseen(little)[1] <= size
    plenty = QueryMode.local(threads=2).table(path).agg(col("id").sum(), col("v").sum())
    assert "about" not in plenty.explain()
    assert foreseen(plenty) == spent(plenty)


def test_explain_of_a_limit_is_at_most(session: QueryMode, files: dict[str, Path]) -> None:
    frame = session.table(files["groups"]).filter("id", "gte", 0).limit(10)
    assert "at most" in frame.explain()
    assert spent(frame) < foreseen(frame)


@pytest.mark.parametrize(
    "name",
    [
        "groups",
        "plain",
    ],
)
def test_limit_reads_the_beginning(session: QueryMode, files: dict[str, Path], name: str) -> None:
    frame = session.table(files[name])
    assert spent(frame.limit(10))[1] < spent(frame)[1] / 5


def test_page_index_is_read_by_filters_only(session: QueryMode, files: dict[str, Path]) -> None:
    """A scan without a filter does not pay for indexes."""
    metadata = pq.read_metadata(files["plain"])
    sizes = [metadata.row_group(0).column(index).total_compressed_size for index in range(3)]
    assert spent(session.table(files["plain"])) == (1, sum(sizes))
    assert spent(session.table(files["plain"]).select("id")) == (1, sizes[0])


# ---- over http: the file of 2 million rows ----

DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
compute: Any = pc


def hexadecimal(random: Any, count: int, width: int) -> Any:
    """Random texts, all of them different in all likelihood."""
    raw = np.frombuffer(random.bytes(count * (width + 1) // 2 * 2), np.uint8).reshape(count, -1)
    text = DIGITS[raw[:, :width] & 15].tobytes()
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(text))


@pytest.fixture(scope="module")
def two_million() -> tuple[bytes, pa.Table]:
    """About 57 MB in two row groups: ids in order, 20,000 rows a page, dictionaries that ended early."""
    random = np.random.default_rng(3)
    count = 2 * MILLION
    table = pa.table(
        {
            "id": pa.array(np.arange(count)),
            "v": pa.array(random.random(count)),
            "txt": hexadecimal(random, count, 18),
            "name": compute.binary_join_element_wise(
                "u", pa.array(random.integers(0, 10**7, count)).cast(pa.string()), ""
            ),
            "n": pa.array(random.integers(0, 1 << 31, count).astype(np.int32)),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=MILLION, write_page_index=True)
    return sink.getvalue().to_pybytes(), table


class Remote:
    """A server whose every table is a new one: nothing is cached."""

    def __init__(self, data: bytes) -> None:
        self.server = RangeServer(data)
        self.session = QueryMode.local(threads=2)
        self.number = 0

    def table(self) -> DataFrame:
        return self.session.table(self.url())

    def url(self) -> str:
        self.number += 1
        self.server.etag = f'"{self.number}"'
        self.server.log.clear()
        return self.server.url(f"/{self.number}.parquet")

    @property
    def bytes(self) -> int:
        """What was asked for since the table was opened, the footer included."""
        total = 0
        for span in self.server.spans:
            assert span is not None, "the whole object was asked for"
            first, last = span.removeprefix("bytes=").split("-")
            total += int(last) - int(first) + 1 if first else int(last)
        return total

    @property
    def requests(self) -> int:
        return len(self.server.log)


@pytest.fixture(scope="module")
def remote(two_million: tuple[bytes, pa.Table]) -> Iterator[Remote]:
    made = Remote(two_million[0])
    yield made
    made.server.close()


def test_ten_ids(remote: Remote, two_million: tuple[bytes, pa.Table]) -> None:
    ids = list(range(1_500_000, 1_500_010))
    chosen = (
        remote.table().filter("id", "in", ids).agg(col("v").sum().alias("s"), col("txt").max().alias("m"))
    )
    rows: Any = two_million[1].slice(ids[0], 10)
    assert chosen.collect().rows == [
        {"s": pytest.approx(sum(rows["v"].to_pylist())), "m": max(rows["txt"].to_pylist())}
    ]
    assert remote.bytes <= 500_000
    assert remote.requests <= 6


def test_one_id(remote: Remote, two_million: tuple[bytes, pa.Table]) -> None:
    chosen = remote.table().filter("id", "eq", 1_234_567).select("txt")
    assert chosen.collect().rows == [{"txt": two_million[1]["txt"][1_234_567].as_py()}]
    assert remote.bytes <= 300_000
    assert remote.requests <= 5


def test_no_match_in_a_column_without_order(remote: Remote) -> None:
    """Statistics do not help; but no payload is read for rows that are not there."""
    assert remote.table().filter("name", "eq", "u500000x").select("txt").collect().rows == []
    assert remote.bytes <= 9_500_000


def test_stats_are_what_the_server_saw(remote: Remote) -> None:
    frame = remote.table()
    assert frame.count() == 2 * MILLION  # which pays for the opening
    requests, size = remote.requests, remote.bytes
    for chosen in (
        frame.filter("id", "gt", 1_999_990).select("txt", "n"),
        frame.filter("n", "lt", 100).select("id"),
        frame.select("n"),
        frame.filter("id", "lt", 0),
    ):
        stats = chosen.collect().stats
        seen = (remote.requests - requests, remote.bytes - size)
        assert seen == (
            stats["requests"] + stats["opening_requests"],
            stats["bytes"] + stats["opening_bytes"],
        )
        assert stats["opening_requests"] == 1  # whether the file is still the same
        requests, size = remote.requests, remote.bytes


# ---- folders ----


@pytest.fixture
def regions(tmp_path: Path) -> Path:
    for number, region in enumerate(("us", "de", "a%20b", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "regions" / f"region={region}" / f"year={2020 + number}"
        folder.mkdir(parents=True)
        # More than comes with the footer, which is kept or not as the clock has it.
        noise = np.random.default_rng(number).bytes(300_000)
        filler = pa.array([noise[row * 300 : row * 300 + 300] for row in range(1000)])
        ids = pa.array(range(number * 1000, number * 1000 + 1000))
        pq.write_table(pa.table({"id": ids, "filler": filler}), folder / "0.parquet")
    return tmp_path / "regions"


def test_partitions_are_pruned(session: QueryMode, regions: Path) -> None:
    frame = session.table(regions, hive_types={"year": "int64"})
    whole = spent(frame)
    assert whole[0] == 4
    for chosen, first in (
        (frame.filter("region", "eq", "de"), 1000),
        (frame.filter("region", "eq", "a b"), 2000),
        (frame.filter("region", "is_null"), 3000),
        (frame.filter("year", "lt", 2021), 0),
        (frame.filter((col("year") == 2021) & col("region").like("d%")), 1000),
        (frame.filter("region", "in", ["de", "fr"]), 1000),
    ):
        answer = chosen.collect()
        assert [row["id"] for row in answer.rows] == list(range(first, first + 1000))
        assert answer.stats["requests"] == whole[0] / 4
        assert answer.stats["row_groups_skipped"] == 3
        assert foreseen(chosen) == (answer.stats["requests"], answer.stats["bytes"])
    assert spent(frame.filter("region", "eq", "fr")) == (0, 0)
    assert spent(frame.filter("year", "gt", 3000)) == (0, 0)


def test_other_files_are_not_touched(session: QueryMode, regions: Path) -> None:
    """Damage in a partition that the filter rules out goes unnoticed; elsewhere it does not."""
    broken = regions / "region=us" / "year=2020" / "0.parquet"
    data = bytearray(broken.read_bytes())
    metadata = pq.read_metadata(broken).row_group(0).column(0)
    start = metadata.dictionary_page_offset or metadata.data_page_offset
    data[start : start + 30] = bytes(30)
    broken.write_bytes(data)
    frame = session.table(regions)
    assert frame.filter("region", "eq", "de").count() == 1000
    caught = failure(frame.filter("region", "eq", "us"))
    assert caught.code == "INVALID_FORMAT"
    assert str(broken) in caught.message and "'id'" in caught.message
    assert (caught.table, caught.column) == (str(broken), "id")


def test_files_with_other_columns(session: QueryMode, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"c": [1.5], "a": [3]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["y"]}), tmp_path / "2.parquet")
    time.sleep(0.05)  # until their times would tell of another change: then they are looked at once
    frame = session.table(tmp_path)
    assert frame.dtypes() == {"a": "int64", "b": "utf8", "c": "float64"}
    assert frame.to_arrow().to_pylist() == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": None, "c": None},
        {"a": 3, "b": None, "c": 1.5},
        {"a": None, "b": "y", "c": None},
    ]
    for words, found in (
        (("c", "is_not_null"), [3]),
        (("a", "gte", 2), [2, 3]),
        (("b", "is_null"), [2, 3]),
        (("c", "gt", 5.0), []),
        (("a", "is_null"), [None]),
    ):
        chosen = frame.filter(*words).select("a")
        assert [row["a"] for row in chosen.collect().rows] == found, words
        assert foreseen(chosen) == spent(chosen)
    # A file that lacks the column has nothing to say to the filter, and is not read.
    assert frame.filter("c", "gt", 1.0).collect().stats["row_groups_skipped"] == 2
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "3.parquet")
    with raises_code("SCHEMA_MISMATCH") as caught:
        session.table(tmp_path)
    assert "0.parquet" in caught.value.message and "3.parquet" in caught.value.message


def test_a_table_without_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    frame = QueryMode.local(threads=2, timeout=60).table(tmp_path / "t.parquet")
    for chosen in (frame, frame.filter("a", "gt", 1), frame.filter("a", "is_null")):
        assert chosen.to_arrow().num_rows == chosen.count() == 0
        assert foreseen(chosen) == spent(chosen) == (0, 0)


# ---- files that change, and limits ----


def _other(path: Path) -> bytes:
    table = pa.table({"id": range(500_000, 1_000_000), "v": range(500_000)})
    pq.write_table(table, path, row_group_size=50_000)
    return path.read_bytes()


@pytest.mark.parametrize("way", ["replaced", "rewritten", "truncated"])
def test_a_file_that_changes(session: QueryMode, tmp_path: Path, way: str) -> None:
    """Between opening and asking it is another table; while a stream is being read, it is an error."""
    path, other = tmp_path / "t.parquet", _other(tmp_path / "other.parquet")
    table = pa.table({"id": range(500_000), "v": range(500_000)})

    def change() -> None:
        if way == "replaced":
            (tmp_path / "new").write_bytes(other)
            os.replace(tmp_path / "new", path)
        elif way == "rewritten":
            path.write_bytes(other)
        else:
            os.truncate(path, path.stat().st_size // 2)

    pq.write_table(table, path, row_group_size=50_000)
    frame = session.table(path)
    change()
    if way == "truncated":
        caught = failure(frame)
        assert caught.code == "INVALID_FORMAT" and str(path) in caught.message
    else:
        assert frame.agg(col("id").min().alias("m")).rows == [{"m": 500_000}]
        assert frame.select("id").to_arrow()["id"].to_pylist() == list(range(500_000, 1_000_000))

    pq.write_table(table, path, row_group_size=50_000)
    ids: list[Any] = []
    with pytest.raises(QueryModeError) as during:
        for number, batch in enumerate(QueryMode.local(threads=1, memory="32MiB").table(path).stream(10_000)):
            ids += batch.column(0).to_pylist()
            if number == 0:
                change()
    assert during.value.code in ("QUERY_FAILED", "INVALID_FORMAT")
    assert str(path) in during.value.message
    assert ids == list(range(len(ids)))


def test_an_object_that_changes_is_an_error(remote: Remote) -> None:
    frame = remote.table().select("n")

    def hook(handler: Handler, number: int) -> bool:
        if number == 3:
            remote.server.etag = '"another"'
        return False

    remote.server.hook = hook
    try:
        caught = failure(frame)
    finally:
        remote.server.hook = None
    assert caught.code == "QUERY_FAILED"
    assert "changed" in caught.message


def test_budgets(session: QueryMode, files: dict[str, Path]) -> None:
    frame = session.table(files["groups"])
    requests, size = spent(frame)
    assert frame.collect(max_requests=requests, max_bytes=size).row_count == MILLION
    for limits in (
        {"max_requests": requests - 1},
        {"max_bytes": size - 1},
        {"max_bytes": "1kB"},
        {"max_requests": 0},
    ):
        assert failure(frame, **limits).code == "BUDGET_EXCEEDED", limits
    chosen = frame.filter("id", "gt", 990_000)
    requests, size = spent(chosen)
    assert chosen.collect(max_requests=requests, max_bytes=size).row_count == 9_999
    assert failure(chosen, max_bytes=size - 1).code == "BUDGET_EXCEEDED"
    assert frame.agg(col("id").max()).collect(max_requests=0, max_bytes=1).row_count == 1


def test_nothing_is_read_beyond_a_budget(remote: Remote) -> None:
    """The request that would be one too many is not made."""
    frame = remote.table()
    opened, size = remote.requests, remote.bytes
    assert failure(frame, max_bytes=MILLION).code == "BUDGET_EXCEEDED"
    assert remote.bytes - size <= MILLION
    size, opened = remote.bytes, remote.requests
    assert failure(frame.select("n"), max_requests=0).code == "BUDGET_EXCEEDED"
    assert (remote.requests, remote.bytes) == (opened, size)


@pytest.mark.parametrize("ask", ["frame", "sql", "count"])
def test_opening_a_table_counts(remote: Remote, ask: str) -> None:
    """Whatever a budget allows, the server sees no more of it, the opening of the table included."""

    def frame() -> DataFrame:
        if ask == "sql":
            return remote.session.sql(f"SELECT n FROM '{remote.url()}' LIMIT 5")
        table = remote.table()
        return table.select("n").limit(5) if ask == "frame" else table.agg(col("n").count())

    answer = frame().collect()
    opened = answer.stats["opening_requests"]
    assert opened > 0
    assert answer.stats["opening_bytes"] > 0
    needed = opened + answer.stats["requests"]
    assert needed == remote.requests
    assert failure(frame(), max_requests=needed - 1).code == "BUDGET_EXCEEDED"
    assert failure(frame(), max_bytes=answer.stats["opening_bytes"] - 1).code == "BUDGET_EXCEEDED"
    again = frame()
    assert again.collect(max_requests=needed).stats["opening_requests"] == opened
    # The table is open now: the next query over it asks whether the file is the same, and no more.
    assert again.collect(max_requests=needed - opened + 1).stats["opening_requests"] == 1
