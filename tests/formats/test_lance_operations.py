"""Datasets that pylance has worked on: every version of them, and while it goes on.

An operation is done to a dataset of every version of files that can have it done; then each of the dataset's
versions says to us what it says to pylance: all rows, some of them, and how many.
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from querymode import QueryMode, QueryModeError, col
from tests.lance_tables import READS, VERSIONS, known_to_pylance, pylance, table_at
from tests.raises import raises_code
from tests.same_arrays import assert_same_tables

pa: Any = pyarrow
ROWS = 40
#: Of a fragment. Groups of files 0.1 are smaller still.
FILE_ROWS = 15


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryMode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=2)


def rows(*numbers: int) -> Any:
    """With a column of every kind of layout; none is NULL, which files 0.1 would not store."""
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "t": pa.array([f"text {number % 7}" for number in numbers], pa.string()),
            "s": pa.array(
                [{"x": number, "y": str(number)} for number in numbers],
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            ),
            "l": pa.array([[number] * (number % 3) for number in numbers], pa.list_(pa.int64())),
        }
    )


def made(path: Path, version: str = "2.2", count: int = ROWS, **options: Any) -> Any:
    return pylance().write_dataset(
        rows(*range(count)),
        str(path),
        data_storage_version=version,
        max_rows_per_file=FILE_ROWS,
        max_rows_per_group=4,
        **options,
    )


def versions_of(path: Path) -> list[int]:
    return [entry["version"] for entry in pylance().dataset(str(path)).versions()]


def check(session: QueryMode, path: Path) -> None:
    for version in (None, *versions_of(path)):
        wanted = known_to_pylance(path, version)
        held = QueryMode.from_arrow(wanted)
        frame = table_at(session, path, version)
        assert frame.count() == wanted.num_rows
        assert frame.dtypes() == held.dtypes()
        if pylance().dataset(str(path), version=version).data_storage_version not in READS:
            continue
        assert_same_tables(frame.to_arrow(), wanted)
        for name in wanted.column_names:
            assert_same_tables(frame.select(name).to_arrow(), wanted.select([name]))
        for condition in (
            col("n") < 7,
            col("n").is_in([2, 17, 39]),
            col("n").is_null(),
            col("t") == "text 3",
        ):
            if {"n", "t"} <= set(wanted.column_names) and held.dtypes()["t"] == "utf8":
                found = frame.filter(condition)
                assert_same_tables(found.to_arrow(), held.filter(condition).to_arrow())
                assert found.count() == held.filter(condition).count()


# ---- one operation ----

Operation = Callable[[Any], object]


def appended(dataset: Any, table: Any) -> None:
    pylance().write_dataset(table, dataset.uri, mode="append")


def merged(dataset: Any, table: Any, *also: str) -> None:
    builder = dataset.merge_insert("n").when_matched_update_all()
    for step in also:
        builder = getattr(builder, step)()
    builder.execute(table)


def compacted(dataset: Any, **options: Any) -> None:
    again(dataset).optimize.compact_files(target_rows_per_fragment=1_000, **options)


def again(dataset: Any) -> Any:
    return pylance().dataset(dataset.uri)


def doubled(batch: Any) -> Any:
    return pa.record_batch({"u": pa.array([number * 2 for number in batch.column("n").to_pylist()])})


def several(*steps: Operation) -> Operation:
    """Each sees what the one before has left."""

    def run(dataset: Any) -> None:
        for step in steps:
            step(again(dataset))

    return run


SINCE_2_0, SINCE_2_1 = VERSIONS[1:], VERSIONS[2:]
OTHERS = rows(3, 18, 100)

OPERATIONS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "append": (lambda dataset: appended(dataset, rows(100, 101)), VERSIONS),
    "append of nothing": (lambda dataset: appended(dataset, rows()), VERSIONS),
    "append of some columns": (
        lambda dataset: appended(dataset, rows(100, 101).select(["l", "n"])),
        SINCE_2_1,
    ),
    "delete": (lambda dataset: dataset.delete("n % 5 = 1"), VERSIONS),
    "delete twice": (
        several(lambda dataset: dataset.delete("n < 3"), lambda dataset: dataset.delete("n in (4, 30)")),
        VERSIONS,
    ),
    "delete a fragment": (
        lambda dataset: dataset.delete(f"n >= {FILE_ROWS} and n < {2 * FILE_ROWS}"),
        VERSIONS,
    ),
    "delete all": (lambda dataset: dataset.delete("true"), VERSIONS),
    "delete all, append": (
        several(lambda dataset: dataset.delete("true"), lambda dataset: appended(dataset, rows(7))),
        VERSIONS,
    ),
    "update": (lambda dataset: dataset.update({"t": "'new'"}, where="n in (1, 2, 20)"), VERSIONS),
    "update all": (lambda dataset: dataset.update({"n": "n + 1"}), VERSIONS),
    "merge": (lambda dataset: merged(dataset, OTHERS, "when_not_matched_insert_all"), VERSIONS),
    "merge, no new rows": (lambda dataset: merged(dataset, OTHERS), VERSIONS),
    "merge, others go": (
        lambda dataset: merged(
            dataset, OTHERS, "when_not_matched_insert_all", "when_not_matched_by_source_delete"
        ),
        VERSIONS,
    ),
    "merge of some columns": (lambda dataset: merged(dataset, OTHERS.select(["n", "t"])), VERSIONS),
    "add a column": (lambda dataset: dataset.add_columns({"d": "n * 10", "e": "upper(t)"}), VERSIONS),
    "add a column by a function": (
        lambda dataset: dataset.add_columns(doubled, read_columns=["n"]),
        VERSIONS,
    ),
    "add a column of no values": (
        lambda dataset: dataset.add_columns(
            [pa.field("f", pa.list_(pa.int32())), pa.field("g", pa.struct([("a", pa.float32())]))]
        ),
        SINCE_2_1,
    ),
    "add a column, append": (
        several(
            lambda dataset: dataset.add_columns({"d": "n * 10"}),
            lambda dataset: appended(dataset, rows(100).append_column("d", pa.array([1]))),
        ),
        VERSIONS,
    ),
    "join a column to it": (
        lambda dataset: dataset.merge(pa.table({"n": [1, 20], "extra": [1.5, 2.5]}), "n"),
        SINCE_2_0,
    ),
    "drop columns": (lambda dataset: dataset.drop_columns(["t", "l"]), VERSIONS),
    "drop a field": (lambda dataset: dataset.drop_columns(["s.x"]), VERSIONS),
    "drop a column, add it again": (
        several(
            lambda dataset: dataset.drop_columns(["t"]),
            lambda dataset: dataset.add_columns({"t": "concat('now ', cast(n as string))"}),
        ),
        VERSIONS,
    ),
    "rename": (lambda dataset: dataset.alter_columns({"path": "t", "name": "u"}), VERSIONS),
    "swap names": (
        several(
            lambda dataset: dataset.alter_columns({"path": "t", "name": "w"}),
            lambda dataset: dataset.alter_columns({"path": "l", "name": "t"}),
            lambda dataset: dataset.alter_columns({"path": "w", "name": "l"}),
        ),
        VERSIONS,
    ),
    "rename a field": (lambda dataset: dataset.alter_columns({"path": "s.x", "name": "z"}), VERSIONS),
    "cast": (lambda dataset: dataset.alter_columns({"path": "n", "data_type": pa.int16()}), VERSIONS),
    "cast a field": (
        lambda dataset: dataset.alter_columns({"path": "s.x", "data_type": pa.int32()}),
        SINCE_2_1,  # pylance cannot read what it has made of 2.0
    ),
    "cast, delete, append": (
        several(
            lambda dataset: dataset.alter_columns({"path": "t", "data_type": pa.large_string()}),
            lambda dataset: dataset.delete("n = 3"),
            lambda dataset: appended(dataset, again(dataset).to_table(limit=2)),
        ),
        VERSIONS,
    ),
    "compaction": (
        several(lambda dataset: appended(dataset, rows(50)), lambda dataset: compacted(dataset)),
        VERSIONS,
    ),
    "delete, compaction": (
        several(lambda dataset: dataset.delete("n in (1, 9, 30)"), lambda dataset: compacted(dataset)),
        VERSIONS,
    ),
    "indices": (
        several(
            lambda dataset: dataset.create_scalar_index("n", "BTREE"),
            lambda dataset: dataset.create_scalar_index("t", "BITMAP"),
            lambda dataset: dataset.create_scalar_index("n", "ZONEMAP", name="zones"),
            lambda dataset: appended(dataset, rows(2, 3, 100)),
            lambda dataset: dataset.delete("n = 17"),
        ),
        VERSIONS,
    ),
    "a zone map, compaction": (
        several(
            lambda dataset: dataset.create_scalar_index("n", "ZONEMAP"),
            lambda dataset: appended(dataset, rows(2, 3, 100)),
            lambda dataset: compacted(dataset),
            lambda dataset: appended(dataset, rows(4)),
            lambda dataset: dataset.optimize.optimize_indices(),
            lambda dataset: dataset.update({"n": "n + 500"}, where="n = 4"),
        ),
        VERSIONS,
    ),
    "a zone map, compaction that leaves it": (
        several(
            lambda dataset: dataset.create_scalar_index("n", "ZONEMAP"),
            lambda dataset: compacted(dataset, defer_index_remap=True),
        ),
        SINCE_2_0,
    ),
    "overwrite": (
        lambda dataset: pylance().write_dataset(
            pa.table({"n": [1.5], "t": ["other"]}), dataset.uri, mode="overwrite"
        ),
        VERSIONS,
    ),
    "restore": (
        several(
            lambda dataset: dataset.delete("n < 5"),
            lambda dataset: appended(dataset, rows(70)),
            lambda dataset: pylance().dataset(dataset.uri, version=1).restore(),
        ),
        VERSIONS,
    ),
    "settings": (
        several(
            lambda dataset: dataset.update_config({"lance.auto_cleanup.interval": "1000"}),
            lambda dataset: dataset.update_field_metadata({"n": {"said": "of a number"}}),
        ),
        VERSIONS,
    ),
    "a branch": (lambda dataset: dataset.create_branch("other"), VERSIONS),
}
CASES = [(name, version) for name, (_, versions) in OPERATIONS.items() for version in versions]


@pytest.mark.parametrize(("name", "version"), CASES, ids=[f"{name}-{version}" for name, version in CASES])
def test_operation(session: QueryMode, tmp_path: Path, name: str, version: str) -> None:
    operation, _ = OPERATIONS[name]
    dataset = made(tmp_path / "t.lance", version)
    operation(dataset)
    check(session, tmp_path / "t.lance")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_old_name", [False, True])
def test_one_after_the_other(session: QueryMode, tmp_path: Path, version: str, is_old_name: bool) -> None:
    """Everything that can be done to the same dataset."""
    dataset = made(tmp_path / "t.lance", version, enable_v2_manifest_paths=not is_old_name)
    for name in (
        *("delete", "append", "update", "merge of some columns", "a zone map, compaction", "delete twice"),
        *("compaction", "add a column", "cast a field", "rename a field", "overwrite"),
    ):
        operation, versions = OPERATIONS[name]
        if version in versions and not (name == "a zone map, compaction" and is_old_name):
            operation(again(dataset))
    assert len(versions_of(tmp_path / "t.lance")) > 12
    check(session, tmp_path / "t.lance")


@pytest.mark.parametrize("version", VERSIONS)
def test_row_ids_that_stay(session: QueryMode, tmp_path: Path, version: str) -> None:
    dataset = made(tmp_path / "t.lance", version, enable_stable_row_ids=True)
    for name in ("delete", "update", "append", "merge", "compaction", "update all"):
        OPERATIONS[name][0](again(dataset))
    check(session, tmp_path / "t.lance")


def test_many_deleted_rows(session: QueryMode, tmp_path: Path) -> None:
    """So many that a Roaring bitmap lists them, and a fragment's pieces begin and end within."""
    path = tmp_path / "t.lance"
    count = 200_000
    pylance().write_dataset(pa.table({"n": range(count), "t": ["x", "y"] * (count // 2)}), str(path))
    for condition in ("n % 10 = 3", "n > 70000 and n < 150000", "n = 199999", "n % 16384 < 2"):
        again(pylance().dataset(str(path))).delete(condition)
    check(session, path)


# ---- versions, tags ----


def test_versions_and_tags(session: QueryMode, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    dataset = made(path)
    for number in (100, 101):
        appended(dataset, rows(number))
    tags = pylance().dataset(str(path)).tags
    tags.create("first", 1)
    tags.create("later", 2)
    for version, count in ((1, ROWS), (2, ROWS + 1), (3, ROWS + 2), ("first", ROWS), ("later", ROWS + 1)):
        assert table_at(session, path, version).count() == count
    tags.update("later", 3)
    assert table_at(session, path, "later").count() == ROWS + 2
    tags.delete("first")
    for version in (4, 99, "first", "never"):
        with pytest.raises(QueryModeError, match=str(version)) as caught:
            table_at(session, path, version).count()
        assert caught.value.code == "TABLE_NOT_FOUND"


def test_a_version_stays_and_a_table_does_not(session: QueryMode, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    dataset = made(path)
    newest, first = session.table(path), session.table(path, version=1)
    assert newest.count() == first.count() == ROWS
    appended(dataset, rows(100))
    assert (newest.count(), first.count()) == (ROWS + 1, ROWS)
    again(dataset).delete("n < 10")
    assert (newest.count(), first.count()) == (ROWS - 9, ROWS)
    assert newest.filter(col("n") < 12).to_arrow().column("n").to_pylist() == [10, 11]
    pylance().write_dataset(pa.table({"other": [1]}), str(path), mode="overwrite")
    assert first.count() == ROWS
    with raises_code("SCHEMA_MISMATCH"):
        newest.to_arrow()
    assert session.table(path).to_arrow().to_pydict() == {"other": [1]}


def test_versions_that_were_cleaned_up(session: QueryMode, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    dataset = made(path)
    pinned = session.table(path, version=1)
    assert pinned.count() == ROWS
    again(dataset).delete("n < 20")
    compacted(dataset)
    again(dataset).cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    assert session.table(path).count() == ROWS - 20
    with pytest.raises(QueryModeError, match="1"):
        pinned.to_arrow()
    check(session, path)


def test_a_shallow_clone(session: QueryMode, tmp_path: Path) -> None:
    """Its manifest says where its files are; a session that may not go there says so."""
    base, clone = tmp_path / "base" / "t.lance", tmp_path / "clone" / "c.lance"
    dataset = made(base)
    dataset.delete("n = 5")
    again(dataset).shallow_clone(str(clone), 2)
    check(session, clone)
    pylance().write_dataset(rows(100), str(clone), mode="append")
    pylance().dataset(str(clone)).delete("n in (7, 100)")
    check(session, clone)
    appended(dataset, rows(200))
    assert session.table(clone).count() == ROWS - 2
    narrow = QueryMode.local(allowed_paths=[str(clone)], threads=1)
    with raises_code("ACCESS_DENIED"):
        narrow.table(clone).to_arrow()
    wide = QueryMode.local(allowed_paths=[str(clone), str(base)], threads=1)
    assert wide.table(clone).count() == ROWS - 2
    shutil.move(base, tmp_path / "elsewhere.lance")
    with pytest.raises(QueryModeError, match="base"):
        session.table(clone).to_arrow()


def test_a_dataset_that_was_moved(session: QueryMode, tmp_path: Path) -> None:
    """All of its paths are relative."""
    dataset = made(tmp_path / "t.lance")
    dataset.delete("n = 5")
    wanted = session.table(tmp_path / "t.lance").to_arrow()
    shutil.move(tmp_path / "t.lance", tmp_path / "other.lance")
    assert_same_tables(session.table(tmp_path / "other.lance").to_arrow(), wanted)
    check(session, tmp_path / "other.lance")


def test_a_table_that_is_made_anew(session: QueryMode, tmp_path: Path) -> None:
    """Numbers of versions begin again: nothing that was kept of the old ones counts."""
    path = tmp_path / "t.lance"
    made(path)
    frame = session.table(path)
    assert frame.count() == ROWS
    shutil.rmtree(path)
    pylance().write_dataset(rows(1, 2, 3), str(path))
    assert frame.count() == 3
    assert_same_tables(frame.to_arrow(), known_to_pylance(path))


# ---- every road ----


def test_sql_and_frames(session: QueryMode, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    made(path)
    other = QueryMode.local(root=str(tmp_path), threads=2)
    total = other.sql(f"select count(*) as n, sum(n) as total from '{path}' where n >= 10").rows
    assert total == [{"n": 30, "total": sum(range(10, 40))}]
    assert other.table("t").count() == ROWS  # by its name
    joined = other.sql(f"select a.n from '{path}' a join '{path}' b on a.n = b.s.x where b.n < 3 order by 1")
    assert [row["n"] for row in joined.rows] == [0, 1, 2]
    frame = session.table(path)
    assert frame.dtypes()["s"] == "struct<x: int64, y: utf8>"
    assert len(frame.describe()) > 0
    assert frame.explain().startswith("scan ")
    assert [batch.num_rows > 0 for batch in frame.stream()].count(False) == 0
    assert frame.sample(5).count() == 5
    assert frame.select("s.x").filter(col("s.x") == 7).rows == [{"s.x": 7}]


def test_threads_and_memory_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    count = 150_000
    table = pa.table(
        {"n": range(count), "f": [number / 7 for number in range(count)], "t": ["ab", "c"] * (count // 2)}
    )
    pylance().write_dataset(table, str(path), max_rows_per_file=40_000)
    answers = []
    for options in ({"threads": 1}, {"threads": 8}, {"threads": 2, "memory": "24MiB"}):
        frame = QueryMode.local(**options).table(path)
        groups = frame.group_by("t").agg(col("f").sum().alias("sum")).sort("t").rows
        answers.append((groups, frame.filter(col("n") % 999 == 5).to_arrow()))
    assert answers[0] == answers[1] == answers[2]


# ---- while pylance writes ----

#: Appends ten rows of one number after the other; now and then it deletes a number, or puts files together.
WRITER = """
import sys, pyarrow as pa, lance
path, count = sys.argv[1], int(sys.argv[2])
for number in range(1, count + 1):
    rows = pa.table({"batch": [number] * 10, "place": range(10), "text": [f"{number}"] * 10})
    lance.write_dataset(rows, path, mode="append")
    if number % 7 == 0:
        lance.dataset(path).delete(f"batch = {number - 3}")
    if number % 25 == 0:
        lance.dataset(path).optimize.compact_files()
"""
APPENDS = 60


def test_every_read_sees_a_whole_version(session: QueryMode, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    first = pa.table({"batch": [0] * 10, "place": range(10), "text": ["0"] * 10})
    pylance().write_dataset(first, str(path))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(APPENDS)])
    frame = session.table(path)
    pinned = session.table(path, version=1)
    last = 0
    reads = 0
    try:
        while writer.poll() is None or reads < 5:
            seen = frame.to_arrow()
            groups: Counter[Any] = Counter(seen.column("batch").to_pylist())
            assert set(groups.values()) == {10}, groups
            newest = max(groups)
            missing = set(range(newest)) - set(groups)
            assert newest >= last, "an older version than before"
            assert all((number + 3) % 7 == 0 for number in missing), missing
            (row,) = frame.agg(col("batch").count().alias("n"), col("place").sum().alias("sum")).rows
            assert row["sum"] == row["n"] // 10 * 45
            # Both sides of a join are of one version.
            pairs = session.sql(f"select count(*) as n from '{path}' a join '{path}' b using (batch, place)")
            assert pairs.rows[0]["n"] % 10 == 0
            assert pinned.count() == 10
            last = newest
            reads += 1
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0
    assert last == APPENDS and reads > 5
    assert_same_tables(frame.to_arrow(), known_to_pylance(path))


def test_a_query_keeps_its_version(session: QueryMode, tmp_path: Path) -> None:
    """A stream that has begun goes on over what it began with, whatever is committed meanwhile."""
    path = tmp_path / "t.lance"
    count = 100_000
    dataset = pylance().write_dataset(pa.table({"n": range(count)}), str(path), max_rows_per_file=10_000)
    stream = session.table(path).stream(1_000)
    total = next(stream).num_rows
    appended(dataset, pa.table({"n": range(50)}))
    again(dataset).delete("n >= 90000")
    compacted(dataset)
    started = time.monotonic()
    total += sum(batch.num_rows for batch in stream)
    assert total == count
    assert time.monotonic() - started < 60
    assert session.table(path).count() == 90_050
