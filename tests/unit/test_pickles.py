"""Frames and sessions between processes, and copies of them in one."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError, col, count, lit, when
from querymode.expr.trees import identity
from querymode.plan.nodes import Scan
from querymode.store import settings
from tests.unit.test_trees import MADE

if TYPE_CHECKING:
    from pathlib import Path

    from querymode import DataFrame
    from querymode.expr.nodes import Expr

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int32()),
        "name": ["a", None, "ç", ""],
        "price": pa.array([Decimal("1.50"), None, Decimal("-3.00"), Decimal("0.25")], pa.decimal128(9, 2)),
        "day": [dt.date(2024, 5, 1), None, dt.date(1969, 1, 1), dt.date(2024, 5, 2)],
        "at": pa.array([0, 1, None, 3], pa.timestamp("us", "Europe/Berlin")),
        "tags": [["x"], [], None, ["y", None]],
        "place": [{"x": 1, "y": [1.5]}, None, {"x": None, "y": []}, {"x": 4, "y": None}],
        "flag": [True, None, False, True],
    }
)


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def child(pickled: Path, code: str, cwd: Path) -> Any:
    """What another process, started elsewhere, prints of what was pickled."""
    load = "import json, pickle, sys; frame = pickle.load(open(sys.argv[1], 'rb'))"
    program = f"{load}; print(json.dumps({code}))"
    run = subprocess.run(
        [sys.executable, "-c", program, str(pickled)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for year in (2023, 2024):
        (tmp_path / "data" / f"year={year}").mkdir()
        pq.write_table(pa.table({"v": [1, 2, year]}), tmp_path / "data" / f"year={year}" / "part.parquet")
    return tmp_path


def frames(qm: QueryMode) -> dict[str, DataFrame]:
    t = qm.from_arrow(TABLE, "t")
    qm.register("named", t)
    files = qm.table("data", hive_types={"year": "int32"})
    return {
        "files": files,
        "files, filtered": files.filter(col("v") > 1).select("year", (col("v") + 1).alias("w")),
        "memory": t,
        "memory, by name": qm.sql("select name, price * 2 as double from named where flag"),
        "memory with itself": t.join(t, "id", how="left").select("id", "name"),
        "memory and files": t.join(files, left_on="id", right_on="v").select("name", "year"),
        "groups": t.group_by("flag").agg(count().alias("n"), col("price").sum().alias("total")).sort("flag"),
        "constants": qm.sql("select x, y from (values (1, 'a'), (2, null)) t(x, y) where x < 5"),
        "one row": qm.sql("select 1 as a, date '2024-05-01' as b, 1.50 as c"),
        "a long list": t.filter(col("id").is_in(range(1000))).select("id"),
        "case": t.select(when(col("id") > 1).then(lit("big")).otherwise("small").alias("size")),
        "no rows": qm.from_arrow(TABLE.slice(0, 0)).select("id", "tags"),
        "rows of nothing": t.filter(lit(False)),
    }


NAMES = [
    "files",
    "files, filtered",
    "memory",
    "memory, by name",
    "memory with itself",
    "memory and files",
    "groups",
    "constants",
    "one row",
    "a long list",
    "case",
    "no rows",
    "rows of nothing",
]


@pytest.mark.parametrize("name", NAMES)
def test_frames_come_back(name: str, folder: Path) -> None:
    frame = frames(QueryMode.local(root=folder))[name]
    back = again(frame)
    assert back.schema == frame.schema
    assert back.collect().digest() == frame.collect().digest()
    assert again(back).collect().digest() == frame.collect().digest()


def test_every_frame_has_its_test(folder: Path) -> None:
    assert list(frames(QueryMode.local(root=folder))) == NAMES


@pytest.mark.parametrize("name", ["files, filtered", "memory and files", "groups", "constants", "memory"])
def test_frames_come_back_in_another_process(
    name: str, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its folder is another one, and the session's root was a relative path."""
    monkeypatch.chdir(folder)
    frame = frames(QueryMode.local(root=".", memory="64MiB", threads=2))[name]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    pickled = elsewhere / "frame.pickle"
    pickled.write_bytes(pickle.dumps(frame))
    asked = "[frame.collect().digest(), frame.dtypes(), frame._session.memory, frame._session.threads]"
    assert child(pickled, asked, elsewhere) == [frame.collect().digest(), frame.dtypes(), 64 << 20, 2]


def test_a_table_in_memory_is_cut_as_it_was() -> None:
    """Else sums of floats would differ in their last digits."""
    values = numpy.random.default_rng(5).random(2_000_000)
    frame = QueryMode.local().from_arrow(pa.table({"x": values, "y": values[::-1].copy()}))
    back = again(frame)
    ours, theirs = frame._node.source, back._node.source  # type: ignore[attr-defined]
    assert len(ours.morsels) > 2
    assert [part.row_count for part in theirs.morsels] == [part.row_count for part in ours.morsels]
    assert theirs.lanes == ours.lanes
    assert back.agg(col("x").sum()).rows == frame.agg(col("x").sum()).rows


def test_a_table_travels_once() -> None:
    text = "x" * 100_000
    frame = QueryMode.local().from_arrow(pa.table({"a": [1], "t": [text]}))
    both = frame.join(frame, "a")
    assert len(pickle.dumps(both)) < 1.5 * len(text)
    back = again([frame, frame.select("a")])
    assert back[0]._session is back[1]._session, "one session for all frames of a pickle"


def test_picked_rows_travel(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(1000)}), tmp_path / "a.parquet")
    picked = QueryMode.local(root=tmp_path).table("a.parquet").sample(5)
    assert again(picked).rows == picked.rows


def test_the_name_of_a_table_travels() -> None:
    frame = QueryMode.local().from_arrow(TABLE, "orders")
    assert again(frame)._node.source.name == "orders"


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_share_their_tables(how: Any, folder: Path) -> None:
    qm = QueryMode.local(root=folder)
    for frame in frames(qm).values():
        twin = how({"frame": frame})["frame"] if how is copy.deepcopy else how(frame)
        assert twin is not frame
        assert twin._node is frame._node
        assert twin._session is qm
    mapped = qm.from_arrow(TABLE).map_batches(lambda batch: batch)
    assert how(mapped).count() == 4, "functions too"
    assert how(qm) is qm


def test_groups_in_the_making_come_back() -> None:
    grouped = QueryMode.local().from_arrow(TABLE).group_by("flag", (col("id") % 2).alias("odd"))
    assert again(grouped).count().collect().digest() == grouped.count().collect().digest()


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("how", [again, copy.copy, copy.deepcopy])
def test_expressions_come_back(kind: type[Expr], how: Any) -> None:
    back = how(MADE[kind])
    assert type(back) is kind
    assert identity(back) == identity(MADE[kind])


def test_long_lists_come_back_without_what_was_found_out() -> None:
    listed = col("id").is_in(range(1000))
    assert identity(again(listed)) == identity(listed)
    QueryMode.local().from_arrow(TABLE).filter(listed).collect()
    assert identity(again(listed)) == identity(listed)


# ---- sessions ----


def test_options_of_a_session_travel(tmp_path: Path) -> None:
    qm = QueryMode.local(
        root=tmp_path,
        memory="100MiB",
        threads=3,
        timeout=7.5,
        storage_options={"region": "eu-west-1", "timeout": 5, "https://host/data": {"verify": True}},
        allowed_paths=["x", tmp_path],
        allow_network=False,
        hardened=True,
    )
    qm.register("t", TABLE)
    back = again(qm)
    for name in (
        *("root", "memory", "threads", "timeout", "storage_options"),
        *("allowed_paths", "allow_network", "hardened"),
    ):
        assert getattr(back, name) == getattr(qm, name), name
    assert not back._tables
    with pytest.raises(QueryModeError, match="TABLE_NOT_FOUND"):
        back.table("t")


def test_a_relative_root_is_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert again(QueryMode.local(root="data")).root == str(tmp_path / "data")
    assert again(QueryMode.local(root="s3://bucket/data")).root == "s3://bucket/data"


def test_the_default_session_is_the_default_one() -> None:
    frame = QueryMode.from_json([{"a": 1}])
    assert again(frame)._session is frame._session


def test_limits_hold_where_a_frame_arrives(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    qm = QueryMode.local(root=tmp_path, allowed_paths=[tmp_path])
    back = again(qm.table("a.parquet"))
    assert back.count() == 1
    with pytest.raises(QueryModeError, match=r"not allowed|allowed_paths"):
        back._session.table("/etc/passwd")


# ---- what does not travel ----

SECRET = "verysecret"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"password": SECRET}, "storage_options['password']"),
        ({"headers": {"X": SECRET}}, "storage_options['headers']"),
        ({"AWS_SECRET_ACCESS_KEY": SECRET}, "storage_options['AWS_SECRET_ACCESS_KEY']"),
        ({"s3.access-key-id": SECRET}, "storage_options['s3.access-key-id']"),
        ({"proxy": f"http://me:{SECRET}@proxy:80"}, "storage_options['proxy']"),
        (
            {"https://host/data": {"bearer_token": SECRET}},
            "storage_options['https://host/data']['bearer_token']",
        ),
        ({f"https://me:{SECRET}@host/data": {}}, "storage_options['https://host/data']"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_credentials_do_not_travel(options: dict[str, Any], named: str) -> None:
    qm = QueryMode.local(storage_options={"region": "x", **options})
    frame = qm.from_arrow(TABLE)
    for value in (qm, frame, [frame.select("id")]):
        with pytest.raises(QueryModeError, match="credentials do not travel") as caught:
            pickle.dumps(value)
        assert caught.value.code == "NOT_SUPPORTED"
        assert named in str(caught.value)
        assert SECRET not in str(caught.value)
    assert copy.deepcopy(frame).count() == 4


def test_settings_are_credentials_or_harmless() -> None:
    """Whoever adds a setting says which."""
    harmless = {
        *("timeout", "max_attempts", "retry_seconds", "whole_file_limit"),
        *("proxy", "ca_file", "ca_bundle", "verify"),  # a proxy's address is looked at for a password
        *("region", "region_name", "default_region", "endpoint_url", "endpoint", "endpoint_override"),
        *("anonymous", "anon", "skip_signature", "no_sign_request", "addressing_style", "url_style"),
        *("virtual_hosted_style_request", "force_virtual_addressing", "allow_http", "use_ssl"),
    }
    known = {*settings.GENERAL, *settings.HTTP, *settings.S3}
    assert known == harmless | settings.SECRETS
    assert not harmless & settings.SECRETS


def test_addresses_with_credentials_do_not_travel(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    frame = QueryMode.local(root=tmp_path).table("a.parquet")
    assert isinstance(frame._node, Scan)
    frame._node.source.origin.where = f"https://me:{SECRET}@host/a.parquet"  # type: ignore[union-attr]
    with pytest.raises(QueryModeError, match="credentials or a query, which do not travel") as caught:
        pickle.dumps(frame)
    assert SECRET not in str(caught.value)


def test_functions_do_not_travel() -> None:
    frame = QueryMode.local().from_arrow(TABLE).map_batches(lambda batch: batch)
    with pytest.raises(QueryModeError, match=r"NOT_SUPPORTED.*function"):
        pickle.dumps(frame)


def test_a_descriptor_cannot_name_what_travels_beside_it() -> None:
    scan = {"node": "scan", "table": {"attached": 0}}
    with pytest.raises(QueryModeError, match="malformed"):
        QueryMode.local().from_descriptor({"querymode": 1, "nodes": [scan]})
