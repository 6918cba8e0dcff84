"""Tables are looked at again for every query: it sees what is there by then, and one state of it."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import DataFrame, QueryMode, col
from querymode.catalog import reference
from querymode.catalog.reference import Reference
from querymode.plan.snapshots import pinned, resolved
from querymode.stage.lower import lower
from querymode.table.stored import StoredTable
from tests.raises import raises_code
from tests.s3_server import settings_of
from tests.unit.range_server import RangeServer


def write(path: Path, **columns: object) -> Path:
    """As writers do that mean it well: readers of the old file keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    return path


@pytest.fixture
def session(tmp_path: Path) -> QueryMode:
    return QueryMode.local(root=tmp_path, threads=2)


def total(frame: DataFrame) -> object:
    return frame.agg(col("x").sum().alias("s")).rows[0]["s"]


TERMINALS: dict[str, Callable[[DataFrame], int]] = {
    "collect": lambda frame: frame.collect().row_count,
    "to_arrow": lambda frame: frame.to_arrow().num_rows,
    "stream": lambda frame: sum(batch.num_rows for batch in frame.stream()),
    "count": lambda frame: frame.count(),
    "sorted": lambda frame: frame.sort("x").collect().row_count,
    "describe": lambda frame: frame.describe()[0]["rows"],
    "sample": lambda frame: frame.sample(100).count(),
    "analyze": lambda frame: 3 if "(3 rows" in frame.filter("x", "gt", 0).explain(analyze=True) else 2,
}


@pytest.mark.parametrize("how", TERMINALS)
@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_every_terminal_sees_new_rows(session: QueryMode, tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / f"t.{kind}"

    def put(values: list[int]) -> None:
        if kind == "parquet":
            write(path, x=values)
        elif kind == "csv":
            path.write_text("x\n" + "".join(f"{value}\n" for value in values))
        else:
            path.write_text("".join(f'{{"x": {value}}}\n' for value in values))

    put([1, 2])
    frame = session.table(path)
    ask = TERMINALS[how]
    assert ask(frame) == 2
    put([1, 2, 3])
    assert ask(frame) == 3
    assert ask(frame) == 3


@pytest.mark.parametrize("how", ["write_parquet", "write_csv", "write_json"])
def test_writers(session: QueryMode, tmp_path: Path, how: str) -> None:
    frame = session.table(write(tmp_path / "t.parquet", x=[1, 2]))
    write(tmp_path / "t.parquet", x=[1, 2, 3])
    assert getattr(frame, how)(tmp_path / "copy") == 3


def test_sql_and_registered_names(session: QueryMode, tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", x=[1, 2])
    session.register("t", "t.parquet")
    by_name = session.sql("SELECT sum(x) AS s FROM t")
    by_path = session.sql("SELECT sum(x) AS s FROM 't.parquet'")
    for frame in (by_name, by_path):
        assert frame.rows == [{"s": 3}]
    write(tmp_path / "t.parquet", x=[10, 20])
    for frame in (by_name, by_path):
        assert frame.rows == [{"s": 30}]


# ---- folders, patterns and lists ----


@pytest.mark.parametrize("where", ["t", "t/*.parquet", "t/**/*.parquet"])
def test_files_come_and_go(session: QueryMode, tmp_path: Path, where: str) -> None:
    write(tmp_path / "t" / "a.parquet", x=[1])
    frame = session.table(where)
    assert total(frame) == 1
    write(tmp_path / "t" / "b.parquet", x=[10])
    assert total(frame) == 11
    (tmp_path / "t" / "a.parquet").unlink()
    assert total(frame) == 10
    (tmp_path / "t" / "b.parquet").unlink()
    with raises_code("TABLE_NOT_FOUND"):
        total(frame)


def test_partitions_come(session: QueryMode, tmp_path: Path) -> None:
    write(tmp_path / "t" / "k=a" / "1.parquet", x=[1])
    frame = session.table("t").group_by("k").agg(col("x").sum().alias("s")).sort("k")
    assert frame.rows == [{"k": "a", "s": 1}]
    write(tmp_path / "t" / "k=b" / "1.parquet", x=[2])
    assert frame.rows == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]


def test_a_list_of_files(session: QueryMode, tmp_path: Path) -> None:
    paths = [write(tmp_path / name, x=[1]) for name in ("a.parquet", "b.parquet")]
    frame = session.table(paths)
    write(paths[1], x=[5])
    assert total(frame) == 6
    paths.clear()  # the list is the caller's
    assert total(frame) == 6
    (tmp_path / "a.parquet").unlink()
    with raises_code("TABLE_NOT_FOUND", match="a.parquet"):
        total(frame)


def test_options_are_kept(session: QueryMode, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1;2\n")
    frame = session.table("t.csv", delimiter=";", header=False, types={"column0": "utf8"})
    before = frame.rows
    (tmp_path / "t.csv").write_text("3;4\n")
    (after,) = frame.rows
    assert list(after.values()) == ["3", 4] and before[0].keys() == after.keys()


# ---- columns ----


def test_columns_stay_those_that_it_was_bound_to(session: QueryMode, tmp_path: Path) -> None:
    frame = session.table(write(tmp_path / "t.parquet", x=[1], y=["a"]))
    write(tmp_path / "t.parquet", z=[0.5], y=["b"], x=[2])
    assert frame.rows == [{"x": 2, "y": "b"}]
    assert frame.filter("y", "eq", "b").sort("x").rows == [{"x": 2, "y": "b"}]
    assert session.table("t.parquet").columns == ["z", "y", "x"]


@pytest.mark.parametrize(
    ("now", "message"), [({"y": [1]}, "is gone"), ({"x": ["1"]}, "is utf8 now, and was")]
)
def test_a_column_that_is_gone_or_another(
    session: QueryMode, tmp_path: Path, now: dict[str, object], message: str
) -> None:
    path = write(tmp_path / "t.parquet", x=[1])
    frame = session.table(path)
    write(path, **now)
    for ask in (frame.collect, frame.count, frame.to_arrow, frame.explain, lambda: list(frame.stream())):
        with raises_code("SCHEMA_MISMATCH", match=message) as caught:
            ask()
        assert caught.value.column == "x"
    write(path, x=[4])
    assert frame.rows == [{"x": 4}]


def test_fields_of_structures(session: QueryMode, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", s=[{"a": 1, "b": "x"}])
    frame = session.table(path).select(col("s.a").alias("a"))
    assert frame.rows == [{"a": 1}]
    write(path, other=[1], s=[{"a": 2, "b": "y"}])
    assert frame.rows == [{"a": 2}]


# ---- one snapshot a query ----


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Reference]:
    found: list[Reference] = []
    original = Reference.current

    def current(self: Reference) -> StoredTable:
        found.append(self)
        return original(self)

    monkeypatch.setattr(Reference, "current", current)
    return found


def test_a_query_asks_once_for_what_it_reads_twice(
    session: QueryMode, tmp_path: Path, asked: list[Reference]
) -> None:
    write(tmp_path / "t.parquet", x=[1, 2])
    write(tmp_path / "u.parquet", x=[2, 3])
    twice = "SELECT count(*) AS n FROM 't.parquet' a JOIN 't.parquet' b ON a.x = b.x"
    assert session.sql(twice).rows == [{"n": 2}]
    assert len(asked) == 1
    frame = session.table("t.parquet")
    asked.clear()
    assert frame.join(session.table("t.parquet"), on="x").count() == 2
    assert len(asked) == 1
    asked.clear()
    assert frame.join(session.table("u.parquet"), on="x").count() == 1
    assert len(asked) == 2
    asked.clear()
    frame.explain(analyze=True)
    assert len(asked) == 1


def test_both_sides_see_the_same(session: QueryMode, tmp_path: Path) -> None:
    """Frames that were bound to different states of one file."""
    path = write(tmp_path / "t.parquet", x=[1], y=[1])
    old = session.table(path)
    write(path, x=[1, 2], y=[1, 2], z=[1, 2])
    new = session.table(path)
    joined = old.join(new.select("x", "z"), on="x")
    assert joined.count() == 2
    write(path, z=[7, 8, 9], x=[1, 2, 3], y=[4, 5, 6])
    assert joined.sort("x").rows[0] == {"x": 1, "y": 4, "z": 7}
    assert joined.count() == 3


def test_a_sample_is_of_one_snapshot(session: QueryMode, tmp_path: Path, asked: list[Reference]) -> None:
    frame = session.table(write(tmp_path / "t.parquet", x=list(range(10_000))))
    asked.clear()
    assert frame.sample(5).count() == 5
    assert len(asked) == 1


# ---- what it costs ----


def settled(path: Path) -> Path:
    time.sleep(0.05)  # until its times would tell of another change
    return path


def test_what_did_not_change_is_planned_once(session: QueryMode, tmp_path: Path) -> None:
    path = settled(write(tmp_path / "t.parquet", x=[1]))
    frame = session.table(path).filter("x", "gt", 0)
    node = frame._node
    assert resolved(node) is node
    work = lower(node)
    assert frame.count() == 1 and lower(resolved(node)) is work
    settled(write(path, x=[1, 2]))
    changed = resolved(node)
    assert changed is not node and resolved(node) is changed
    assert lower(resolved(node)) is lower(changed)
    assert frame.count() == 2


def test_nothing_is_kept(session: QueryMode, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", x=[1])
    frame = session.table(path).filter("x", "gt", 0)
    assert frame.count() == 1
    write(path, x=[1, 2])
    assert frame.count() == 2
    nodes = [weakref.ref(frame._node), weakref.ref(resolved(frame._node)), weakref.ref(pinned(frame._node))]
    del frame
    gc.collect()
    assert [node() for node in nodes] == [None, None, None]


def test_local_files_are_not_opened_to_look(
    session: QueryMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write(tmp_path / "t" / f"{number}.parquet", x=[number])
    settled(tmp_path)
    frame = session.table("t")
    assert frame.count() == 20

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr("querymode.catalog.opening.LocalFile.__init__", refuse)
    assert frame.count() == 20


# ---- other machines ----


def parquet(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RangeServer]:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path / "cache"))
    # However slow the machine is, a table is young for its first query, until a test makes it old.
    monkeypatch.setattr(reference, "FRESH_SECONDS", 3600.0)
    made = RangeServer(parquet(x=[1, 2]))
    yield made
    made.close()


def test_http(session: QueryMode, server: RangeServer) -> None:
    frame = session.table(server.url("/t.parquet"))
    opened = len(server.log)
    assert frame.count() == 2  # the opening was for this
    assert len(server.log) == opened
    assert frame.count() == 2  # the server says in one request that nothing has changed
    assert len(server.log) == opened + 1
    assert frame.collect().stats["opening_requests"] == 1
    server.data, server.etag = parquet(x=[1, 2, 3]), '"v2"'
    assert frame.count() == 3
    assert total(frame) == 6


def test_http_that_waited_too_long(
    session: QueryMode, server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "FRESH_SECONDS", 0.0)
    frame = session.table(server.url("/t.parquet"))
    server.data, server.etag = parquet(x=[1, 2, 3]), '"v2"'
    assert frame.count() == 3


def test_looking_again_counts(session: QueryMode, server: RangeServer) -> None:
    urls = [server.url(f"/{number}.parquet") for number in range(3)]
    frame = session.table(urls)
    assert frame.count() == 6
    assert frame.collect(max_requests=6).row_count == 6  # one for each to look, and one to read
    with raises_code("BUDGET_EXCEEDED"):
        frame.collect(max_requests=2)


@pytest.mark.filterwarnings("ignore:.*does not answer range requests")
def test_a_server_without_ranges_is_read_once(session: QueryMode, server: RangeServer) -> None:
    server.ranges = False
    frame = session.table(server.url("/t.parquet"))
    assert [frame.count(), total(frame), total(frame)] == [2, 3, 3]
    assert len(server.log) == 1


def test_s3(session: QueryMode, server: RangeServer, s3: dict[str, object]) -> None:
    from querymode.store.s3 import ClientSettings

    lake = QueryMode.local(storage_options=s3)
    client = ClientSettings(s3, 5.0).client()
    client.create_bucket(Bucket="snapshots")
    client.put_object(Bucket="snapshots", Key="t/a.parquet", Body=parquet(x=[1]))
    folder, single = lake.table("s3://snapshots/t/"), lake.table("s3://snapshots/t/a.parquet")
    for frame in (folder, single):
        assert [frame.count(), frame.count()] == [1, 1]
    client.put_object(Bucket="snapshots", Key="t/b.parquet", Body=parquet(x=[10]))
    assert [total(folder), total(single)] == [11, 1]
    client.put_object(Bucket="snapshots", Key="t/a.parquet", Body=parquet(x=[2]))
    assert [total(folder), total(single)] == [12, 2]
    assert folder.collect().stats["opening_requests"] == 1  # a listing
    client.delete_object(Bucket="snapshots", Key="t/a.parquet")
    assert total(folder) == 10
    with raises_code("TABLE_NOT_FOUND"):
        total(single)


@pytest.fixture
def s3(s3_endpoint: str) -> dict[str, object]:
    return settings_of(s3_endpoint)
