"""The same answers from another executor: see toy_executor.py."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError, col
from querymode.cli import main
from querymode.execute.lanes import lane_count, part_of
from querymode.stage.lower import lower
from querymode.table import text as text_module
from tests.unit.toy_executor import ToyExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 400_000
TEXT_ROWS = 50_000


def events() -> pa.Table:
    random = np.random.default_rng(7)
    keys = random.integers(0, 200_000, ROWS)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "key": pa.array(keys, mask=keys % 97 == 0),
            "few": keys % 13,
            "x": random.standard_normal(ROWS) * 10.0 ** random.integers(-8, 8, ROWS),
            "name": pa.array([f"name {key % 5000}" for key in keys]),
            "tags": pa.array([[int(key) % 3, None] for key in keys]),
        }
    )


def small() -> pa.Table:
    return pa.table({"key": range(0, 200_000, 7), "label": [f"label {n % 11}" for n in range(0, 200_000, 7)]})


@pytest.fixture(scope="module")
def executor() -> Iterator[ToyExecutor]:
    toy = ToyExecutor()
    yield toy
    toy.close()


def write(kind: str, table: pa.Table, path: Path) -> None:
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=30_000)
        return
    table = table.slice(0, TEXT_ROWS)
    if kind == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        return
    if "tags" in table.column_names:
        # A cut inside of quotes takes what follows for rows, and their ends for quotes.
        names = pa.array([f"{name}\n1,2,3,4,x\n" for name in table["name"].to_pylist()])
        table = table.drop_columns(["tags"]).set_column(4, "name", names)
    pc_csv.write_csv(table, path)


@pytest.fixture(scope="module", params=["memory", "parquet", "csv", "ndjson"])
def sessions(
    request: pytest.FixtureRequest, executor: ToyExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[QueryMode, QueryMode]]:
    kind = request.param
    ours, theirs = QueryMode.local(threads=2), QueryMode.local(threads=2)
    theirs._made_executor = executor
    folder: Path = tmp_path_factory.mktemp("executor")
    with pytest.MonkeyPatch.context() as patch:
        # The children need not know: tables travel with their lanes.
        patch.setattr(text_module, "LANE_SIZE", 150_000)
        for name, table in (("events", events()), ("small", small())):
            path = folder / f"{name}.{kind}"
            if kind != "memory":
                write(kind, table, path)
            for session in (ours, theirs):
                session.register(name, table if kind == "memory" else str(path))
        yield ours, theirs


QUERIES = {
    "rows": "SELECT id, x FROM events WHERE few = 3 AND x > 0",
    "nested": "SELECT id, tags FROM events WHERE id % 1000 = 1",
    "sums of floats": "SELECT sum(x) AS s, avg(x) AS a, stddev(x) AS d, count(*) AS n FROM events",
    "few groups": "SELECT few, sum(x) AS s, count(key) AS n FROM events GROUP BY few",
    "many groups": "SELECT key, sum(x) AS s, min(name) AS m FROM events GROUP BY key",
    "texts": "SELECT name, count(*) AS n, sum(x) AS s FROM events GROUP BY name HAVING count(*) > 3",
    "distinct": "SELECT count(DISTINCT key) AS k, count(DISTINCT name) AS n FROM events",
    "median": "SELECT few, median(x) AS m FROM events GROUP BY few",
    "in order": "SELECT few, string_agg(name, ',') AS t FROM events WHERE id < 5000 GROUP BY few",
    "join": "SELECT label, sum(x) AS s FROM events JOIN small USING (key) GROUP BY label",
    "left join": "SELECT count(*) AS n, count(label) AS l FROM events LEFT JOIN small USING (key)",
    "anti join": "SELECT count(*) AS n FROM events WHERE key NOT IN (SELECT key FROM small WHERE key > 5)",
    "a build of groups": (
        "SELECT sum(e.x) AS s FROM events e JOIN (SELECT few, max(id) AS id FROM events GROUP BY few) m "
        "ON e.few = m.few AND e.id < m.id"
    ),
    "union": "SELECT few FROM events WHERE id < 9 UNION ALL SELECT key FROM small WHERE key < 50",
    "shared": "WITH c AS (SELECT few, sum(x) AS s FROM events GROUP BY few) SELECT a.s + b.s AS t "
    "FROM c a JOIN c b ON a.few = b.few + 1",
    "nothing": "SELECT sum(x) AS s, count(*) AS n FROM events WHERE id < 0",
    "no rows": "SELECT id FROM events WHERE id < 0",
}
ORDERED = {
    "sort": "SELECT id, x FROM events ORDER BY x, id",
    "sort by text": "SELECT id, name FROM events WHERE few < 4 ORDER BY name DESC, id",
    "first rows": "SELECT id, x FROM events ORDER BY x DESC LIMIT 20",
    "a page": "SELECT id FROM events WHERE few = 2 LIMIT 50 OFFSET 1000",
}


@pytest.mark.parametrize("name", QUERIES)
def test_same_digest(sessions: tuple[QueryMode, QueryMode], name: str) -> None:
    if name == "nested" and "tags" not in sessions[0].table("events").columns:
        pytest.skip("CSV has no lists")
    ours, theirs = (session.sql(QUERIES[name]).collect() for session in sessions)
    assert (ours.row_count, ours.digest()) == (theirs.row_count, theirs.digest())


@pytest.mark.parametrize("name", ORDERED)
def test_same_rows_in_the_same_order(sessions: tuple[QueryMode, QueryMode], name: str) -> None:
    ours, theirs = (session.sql(ORDERED[name]).collect().rows for session in sessions)
    assert ours == theirs


def test_every_terminal_asks_the_executor(sessions: tuple[QueryMode, QueryMode], tmp_path: Path) -> None:
    ours, theirs = (session.table("events").filter(col("few") == 5).select("id", "x") for session in sessions)
    assert ours.to_arrow().equals(theirs.to_arrow())
    assert pa.Table.from_batches(theirs.stream()).equals(ours.to_arrow())
    theirs.write_parquet(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(ours.to_arrow())
    assert theirs.count() == ours.count()


def test_text_that_is_written(sessions: tuple[QueryMode, QueryMode], tmp_path: Path) -> None:
    ours, theirs = (session.table("events").filter(col("few") == 5).select("id", "x") for session in sessions)
    for frame, name in ((ours, "ours"), (theirs, "theirs")):
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_json(tmp_path / f"{name}.ndjson")
    for ending in ("csv", "ndjson"):
        assert (tmp_path / f"ours.{ending}").read_bytes() == (tmp_path / f"theirs.{ending}").read_bytes()
    assert len((tmp_path / "ours.csv").read_text().splitlines()) == ours.count() + 1


def test_parameters(sessions: tuple[QueryMode, QueryMode]) -> None:
    sql = "SELECT id, name FROM events WHERE few = ? AND id < ? ORDER BY id"
    ours, theirs = (session.sql(sql, [3, 500]).rows for session in sessions)
    assert ours == theirs and ours
    sql = "SELECT count(*) AS n FROM events WHERE few = $few"
    ours, theirs = (session.sql(sql, {"few": 4}).rows for session in sessions)
    assert ours == theirs


def test_who_measures_nothing_says_so(sessions: tuple[QueryMode, QueryMode]) -> None:
    """Estimates are not shown as what was read."""
    ours, theirs = (session.table("events").filter(col("few") == 5).select("id") for session in sessions)
    assert "this executor measures nothing" not in ours.explain(analyze=True)
    text = theirs.explain(analyze=True)
    assert text.splitlines()[1].strip().startswith("this executor measures nothing")
    assert "ms)" not in text and "~" in text.splitlines()[0]
    assert json.loads(theirs.explain(analyze=True, format="json"))["measured"] is False
    assert "measured" not in json.loads(theirs.explain(format="json"))


def test_command_line(
    executor: ToyExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(events().select(["id", "few", "x"]), tmp_path / "e.parquet", row_group_size=30_000)
    query = f"SELECT few, count(*) AS n FROM '{tmp_path}/e.parquet' GROUP BY few ORDER BY few"
    printed = []
    for theirs in (False, True):
        if theirs:
            monkeypatch.setattr(QueryMode, "_executor", property(lambda session: executor))
        executor.shares.clear()
        for words in ([query], ["--format", "csv", query], ["--format", "ndjson", query]):
            assert main(words) == 0
        printed.append(capsys.readouterr().out)
        assert bool(executor.shares) == theirs
    assert printed[0] == printed[1]


def negated(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"id": pc.negate(batch.column("id"))})


def test_functions_of_users(sessions: tuple[QueryMode, QueryMode]) -> None:
    frames = [
        session.table("events").filter(col("id") < 2000).select("id").map_batches(negated, {"id": "int64"})
        for session in sessions
    ]
    ours, theirs = (frame.collect() for frame in frames)
    assert ours.digest() == theirs.digest() and ours.row_count == 2000


def test_lanes_were_split(executor: ToyExecutor, sessions: tuple[QueryMode, QueryMode]) -> None:
    executor.shares.clear()
    sessions[1].sql(QUERIES["sums of floats"]).collect()
    assert any(few and few < many for few, many in executor.shares)


def test_a_task_holds_what_its_lanes_read(executor: ToyExecutor, tmp_path: Path) -> None:
    """And not what a manifest or hundreds of footers say of all others."""
    for number in range(300):
        rows = pa.table({"id": range(10 * number, 10 * number + 10), "t": [f"n{number}"] * 10})
        pq.write_table(rows, tmp_path / f"{number:03}.parquet", row_group_size=4)
    session = QueryMode.local(threads=2)
    frame = session.table(tmp_path)
    stage = lower(frame.filter(col("id") % 7 == 0).select("id", "t")._node).last
    whole = len(pickle.dumps(stage))
    count = lane_count(stage, {})
    parts = [part_of(stage, range(lane, lane + 1), {}) for lane in range(count)]
    assert count > 200 and max(len(pickle.dumps(part)) for part in parts) < whole / 20
    session._made_executor = executor
    executor.task_sizes.clear()
    assert frame.filter(col("id") % 7 == 0).select("id").to_arrow()["id"].to_pylist() == [*range(0, 3000, 7)]
    assert sum(executor.task_sizes) < 1.2 * whole, "two tasks"
    assert frame.filter(col("id").is_in([5, 2_995])).count() == 2, "evidence is a part's too"


@pytest.mark.parametrize("ending", ["", "9,x"])
def test_guesses_are_checked_by_whoever_gathers(
    executor: ToyExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Most cuts lie inside of quotes, where lines look like rows, some of which would not even be read."""
    monkeypatch.setattr(text_module, "LANE_SIZE", 5_000)
    path = tmp_path / "t.csv"
    rows = "".join(f'{number},"\n7,8\nnot,one\n"\n' for number in range(5_000))
    path.write_text("id,note\n" + rows + ending)
    ours, theirs = QueryMode.local(threads=2), QueryMode.local(threads=2)
    theirs._made_executor = executor
    executor.repeated.clear()
    query = f"SELECT count(*) AS n, sum(id) AS s, min(note) AS t FROM '{path}'"
    assert theirs.sql(query).rows == ours.sql(query).rows
    assert theirs.sql(f"SELECT id FROM '{path}' LIMIT 3000").rows == [{"id": n} for n in range(3000)]
    assert executor.repeated


def test_failures_that_are_somebodys(
    executor: ToyExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "LANE_SIZE", 50_000)
    path = tmp_path / "t.csv"
    path.write_text("id,note\n" + "".join(f"{number},x\n" for number in range(100_000)) + "wrong,x\n")
    session = QueryMode.local(threads=2)
    session._made_executor = executor
    with pytest.raises(QueryModeError, match="wrong") as caught:
        session.sql(f"SELECT sum(id) AS s FROM '{path}'").collect()
    assert caught.value.column == "id"


def test_credentials_do_not_travel(tmp_path: Path) -> None:
    pq.write_table(small(), tmp_path / "t.parquet")
    session = QueryMode.local(storage_options={"secret_access_key": "hidden"})
    work = lower(session.table(tmp_path / "t.parquet").select("key")._node)
    with pytest.raises(QueryModeError, match="secret_access_key") as caught:
        pickle.dumps(work.stages)
    assert caught.value.code == "NOT_SUPPORTED" and "hidden" not in str(caught.value)
