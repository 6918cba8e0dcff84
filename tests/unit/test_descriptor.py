"""Queries as JSON and as Python: what comes back is the same query."""

from __future__ import annotations

import ast
import datetime as dt
import json
import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import querymode
from querymode import (
    DataFrame,
    Expr,
    QueryMode,
    QueryModeError,
    call,
    coalesce,
    col,
    count,
    interval,
    lit,
    when,
)
from querymode.expr.nodes import Literal
from querymode.expr.trees import slots_of
from querymode.plan.descriptor import NODE_DEPTH_MAX
from querymode.plan.expression_json import _FORMS, decode_expression, encode_expression
from querymode.qmcb import Interval
from tests.parametric.strategies import calculations, casts, conditions, tables
from tests.raises import raises_code
from tests.slt.data import tables as sql_tables
from tests.slt.runner import Record, records


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> QueryMode:
    """Files below a root, and tables in memory with names."""
    root = tmp_path_factory.mktemp("described")
    rows = {"k": [1, 2, None, 3, 3], "v": [1.0, None, 2.5, 4.0, 5.0], "t": ["a", "b", None, "d", "e"]}
    pq.write_table(pa.table(rows), root / "a.parquet")
    (root / "year=2024").mkdir()
    pq.write_table(pa.table(rows), root / "year=2024" / "b.parquet")
    qm = QueryMode.local(root=root)
    qm.register("m", pa.table({"k": [1, 3, 3, None], "w": ["x", "y", "z", None]}))
    qm.register("named", "a.parquet")
    qm.register("view", qm.table("m").filter(col("k") > 1))
    return qm


def run_code(code: str, qm: QueryMode) -> DataFrame:
    """Runs what `to_code` wrote, whose last statement is the query."""
    names: dict[str, Any] = {name: getattr(querymode, name) for name in querymode.__all__} | {"qm": qm}
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "code", "exec"), names)
    frame = eval(compile(ast.Expression(last.value), "code", "eval"), names)
    assert isinstance(frame, DataFrame)
    return frame


def check(frame: DataFrame, qm: QueryMode, *, code: bool = True) -> None:
    text = frame.to_descriptor()
    again = qm.from_descriptor(text)
    assert again.to_descriptor() == text
    assert again.dtypes() == frame.dtypes()
    if code:
        assert run_code(frame.to_code(), qm).to_descriptor() == text


# ---- frames ----

FRAMES: list[Callable[[QueryMode], DataFrame]] = [
    lambda qm: qm.table("a.parquet"),
    lambda qm: qm.table("named"),
    lambda qm: qm.table("m"),
    lambda qm: qm.table("view"),
    lambda qm: qm.table(["a.parquet", "year=2024/b.parquet"]),
    lambda qm: qm.table("year=*/b.parquet", hive_types={"year": "int32"}, format="parquet", verify_crc=True),
    lambda qm: qm.table("year=*/b.parquet", hive_partitioning=False),
    lambda qm: qm.table("m").filter("k", "gt", 1).filter(col("w").is_not_null()).limit(3).offset(1),
    lambda qm: qm.table("m").offset(2),
    lambda qm: qm.table("m").limit(5).slice(1, 3).slice(1),
    lambda qm: qm.table("m").where_or([("k", "eq", 1), ("w", "like", "x%")], [("k", "in", [3, None])]),
    lambda qm: qm.table("m").select("w", (col("k") * 2 + 1).alias("z"), -col("k")),
    lambda qm: qm.table("m").rename(str.upper).drop("W").with_columns(q=1, K=None),
    lambda qm: qm.table("m").cast({"k": "float32"}, strict=False).fill_null({"w": "?"}),
    lambda qm: qm.table("m").sort(
        "k", col("w").alias("x"), descending=[True, False], nulls_first=[False, True]
    ),
    lambda qm: qm.table("m").sort("k", "desc"),
    lambda qm: qm.table("m").group_by("k", (col("w") == "x").alias("is_x")).agg(count().alias("n")),
    lambda qm: qm.table("m").group_by("w").keys(),
    lambda qm: qm.table("m").agg(
        count().filter(col("k") > 1),
        col("k").sum().distinct(),
        col("k").quantile(0.25),
        col("k").quantile(0.25, "discrete"),
        col("k").std(),
        col("k").var(ddof=0),
        col("w").string_agg("; "),
        (col("k") > 1).all().alias("all"),
        (col("k") > 1).any().alias("any"),
        col("k").median(),
        col("w").first(),
        col("w").last(),
        col("w").any_value(),
        col("k").n_unique(),
    ),
    lambda qm: qm.table("m").distinct(),
    lambda qm: qm.table("m").unique("k"),
    lambda qm: qm.table("m").value_counts("k"),
    lambda qm: qm.table("m").join(qm.table("a.parquet"), on="k", how="full", nulls_equal=True),
    lambda qm: qm.table("m").join(qm.table("a.parquet"), on="k", how="right"),
    lambda qm: qm.table("m").join(qm.table("m"), on="k", suffix="_2", where=col("w") < col("w_2")),
    lambda qm: qm.table("m").join(qm.table("a.parquet"), how="cross"),
    lambda qm: qm.table("m").join(qm.table("a.parquet"), left_on=col("k") + 1, right_on=["k"], how="left"),
    lambda qm: qm.table("m").join(qm.table("a.parquet"), on="k", how="anti"),
    lambda qm: qm.table("m").join(qm.table("a.parquet").select("t"), where=lit(True)),
    lambda qm: qm.table("m").join(qm.table("a.parquet").limit(1), how="single"),
    lambda qm: qm.table("m").filter_in("k", qm.table("a.parquet")),
    lambda qm: qm.table("m").filter_not_in("k", qm.table("a.parquet")),
    lambda qm: qm.table("m").filter_not_in(["k", "w"], qm.table("a.parquet"), ["k", "t"]),
    lambda qm: qm.table("m").union(qm.table("m"), qm.table("a.parquet").select("k", "t")),
    lambda qm: qm.table("m").intersect(qm.table("a.parquet").select("k", "t"), all=True),
    lambda qm: qm.table("m").except_(qm.table("a.parquet").select("k", "t"), all=True),
    lambda qm: qm.table("m").concat(qm.table("a.parquet")),
    lambda qm: qm.table("m").repeat(2).repeat("k"),
    lambda qm: qm.table("m").filter(lit(False) | lit(None)),
]


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_frames_come_back(session: QueryMode, number: int) -> None:
    frame = FRAMES[number](session)
    check(frame, session)
    again = session.from_descriptor(frame.to_descriptor())
    assert again.collect().digest() == frame.collect().digest()
    assert run_code(frame.to_code(), session).collect().digest() == frame.collect().digest()


def test_what_is_shared_stays_shared(session: QueryMode) -> None:
    part = session.table("m").filter(col("k") > 0)
    for _ in range(12):  # written out, this would be thousands of filters
        part = part.union_all(part)
    frame = part.join(part.rename({"k": "j", "w": "u"}), left_on="k", right_on="j")
    described = json.loads(frame.to_descriptor())["nodes"]
    assert [node["node"] for node in described].count("filter") == 1
    assert len(frame.to_code()) < 5000 and frame.to_code().count(".filter(") == 1
    check(frame, session)


def test_random_frames_come_back() -> None:
    @given(table=tables(), data=st.data())
    @settings(deadline=None, derandomize=True, max_examples=150, suppress_health_check=list(HealthCheck))
    def run(table: Any, data: Any) -> None:
        qm = QueryMode.local()
        frame = qm.register("t", table.arrow).filter(data.draw(conditions(table)).expr)
        spelled = [data.draw(conditions(table)).expr.alias("condition")]
        if table.names("integer", "float", "decimal"):
            number = data.draw(calculations(table)).expr.alias("number")
            spelled += [number] if _is_good(frame, number) else []
        if table.names("integer", "float", "decimal", "bool"):
            cast = data.draw(casts(table)).expr.alias("cast")
            spelled += [cast] if _is_good(frame, cast) else []
        frame = frame.select("row", *spelled).sort("row").limit(10)
        check(frame, qm)

    run()


def _is_good(frame: DataFrame, item: Expr) -> bool:
    """Decimals may need too many digits; some casts have no meaning."""
    try:
        frame.select(item)
    except QueryModeError:
        return False
    return True


# ---- SQL ----


@pytest.fixture(scope="module")
def sql_session() -> QueryMode:
    qm = QueryMode.local()
    for name, table in sql_tables().items():
        qm.register(name, table)
    return qm


STATEMENTS = [record for record in records() if record.error is None]


def _planned(qm: QueryMode, record: Record) -> DataFrame | None:
    """None where there is no plan; tests/slt is where that is a failure."""
    try:
        return qm.sql(record.sql)
    except QueryModeError:
        return None


@pytest.mark.parametrize("record", STATEMENTS, ids=[record.place for record in STATEMENTS])
def test_statements_come_back(sql_session: QueryMode, record: Record) -> None:
    frame = _planned(sql_session, record)
    if frame is None:
        return
    text = frame.to_descriptor()
    again = sql_session.from_descriptor(text)
    assert again.to_descriptor() == text and again.dtypes() == frame.dtypes()
    built = run_code(frame.to_code(), sql_session)
    assert built.dtypes() == frame.dtypes()


def test_statements_answer_the_same(sql_session: QueryMode) -> None:
    chosen = random.Random(5).sample(STATEMENTS, min(60, len(STATEMENTS)))
    for record in chosen:
        frame = _planned(sql_session, record)
        if frame is None:
            continue
        answer = frame.collect()
        again = sql_session.from_descriptor(frame.to_descriptor()).collect()
        built = run_code(frame.to_code(), sql_session).collect()
        if not record.differs and "limit" not in record.sql.lower():
            assert again.digest() == answer.digest(), record.sql
            assert built.digest() == answer.digest(), record.sql


# ---- constants and expressions ----

CONSTANTS: list[Any] = [
    *(None, True, False, 0, -5, 1 << 100, 0.5, -0.0, float("inf"), float("-inf")),
    *("", "text", "quote ' \" \\ \n \x00 é 😀", b"", b"\x00\xff"),
    *(Decimal("1.50"), Decimal("-1e-5"), Decimal("123456789012345678901234567890.12345678")),
    *(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.time(23, 59, 59, 999999)),
    *(dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=30))),
    *(dt.timedelta(-1, 5, 7), interval(months=14, days=-3, nanoseconds=5), UUID(int=5)),
]


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants_come_back(session: QueryMode, value: Any) -> None:
    found = decode_expression(json.loads(json.dumps(encode_expression(Literal(value)))))
    assert isinstance(found, Literal)
    assert found.value == value and type(found.value) is type(value) and repr(found.value) == repr(value)
    check(session.table("m").select(lit(value).alias("x")), session)


def test_other_libraries_constants_are_plain(session: QueryMode) -> None:
    for value, plain in (
        (np.int32(5), 5),
        (np.float32(0.5), 0.5),
        (np.datetime64("2024-01-01"), dt.datetime(2024, 1, 1)),
        (pa.scalar("x"), "x"),
        (np.bool_(True), True),
        (bytearray(b"a"), b"a"),
    ):
        found = decode_expression(encode_expression(Literal(value)))
        assert isinstance(found, Literal) and found.value == plain and type(found.value) is type(plain)
    assert np.isnan(decode_expression(encode_expression(Literal(float("nan")))).value)  # type: ignore[attr-defined]
    with raises_code("NOT_SUPPORTED"):
        encode_expression(Literal(object()))


EXPRESSIONS: list[Expr] = [
    when(col("k") > 1).then("x").when(col("k").is_null()).then(None).otherwise(col("w")),
    when(col("k") > 1).then(1),
    coalesce(col("k"), 5, col("k")),
    call("lower", col("w")),
    call("IF", col("k") > 1, 1, lit(2, "int8")),
    col("w").like("a!%", "!") | col("w").ilike("A_") | ~col("w").like("%"),
    (col("k") > 1) & ((col("k") < 5) & (col("k") != 3)) & ~((col("k") == 2) | (col("k") == 9)),
    lit(5) > col("k"),
    (5 - col("k")) // 2 % 3 / 4,
    -(-col("k")),  # noqa: B002
    ~~(col("k") > 1),
    col("k").is_in([1, None, col("k") + 1]),
    col("k").is_in([]),
    col("k").between(col("k") - 1, lit(7, "int16")),
    col("k").cast("decimal(10,2)").cast("float64", strict=False),
    col("k").alias("inner") + 1,
    lit(None, "timestamp(ns, Europe/Berlin)"),
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_expressions_come_back(session: QueryMode, number: int) -> None:
    check(session.table("m").select(EXPRESSIONS[number].alias("x")), session)


def test_fields_of_structures_come_back() -> None:
    qm = QueryMode.local()
    frame = qm.register("s", pa.table({"s": [{"a b": 1, "c": {"d": [1]}}]}))
    check(frame.select(col("s").field("c").field("d").alias("d"), col("s").field("a b").alias("a")), qm)


def test_every_part_has_a_form() -> None:
    """Whoever adds a part to an expression adds its form. (tests/unit/test_visitors.py has the classes.)"""
    for kind, (_, parts) in _FORMS.items():
        assert sorted(name for name, _, _ in parts) == sorted(slots_of(kind)), kind


# ---- what cannot be written down ----


def test_functions_cannot_be_written_down(session: QueryMode) -> None:
    for frame in (
        session.table("m").map_batches(lambda batch: batch),
        session.table("m").computed("x", len, "int64").filter(col("x") > 1),
    ):
        for ask in (frame.to_descriptor, frame.to_code):
            with raises_code("NOT_SUPPORTED", match="function"):
                ask()


def test_tables_in_memory_need_a_name() -> None:
    qm = QueryMode.local()
    frame = qm.from_json([{"a": 1}])
    for ask in (frame.to_descriptor, frame.to_code):
        with raises_code("NOT_SUPPORTED", match="register"):
            ask()
    qm.register("t", frame)
    assert json.loads(frame.to_descriptor())["nodes"][0]["table"] == {"name": "t"}
    assert frame.to_code() == "qm.table('t')"
    with raises_code("TABLE_NOT_FOUND", match="'t'"):
        QueryMode.local().from_descriptor(frame.to_descriptor())
    other = QueryMode.local()
    other.register("t", other.from_json([{"a": 1}]).filter(col("a") > 1))
    with raises_code("SCHEMA_MISMATCH"):
        other.from_descriptor(frame.to_descriptor())


def test_credentials_are_not_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from querymode.table.table import Origin

    for address, is_secret in (
        ("https://user:pass@host/x.parquet", True),
        ("https://host/x.parquet?X-Amz-Signature=abc", True),
        ("https://host/x.parquet", False),
        ("s3://bucket/what?.parquet", False),
        ("/local/a@b?.parquet", False),
    ):
        assert Origin(address, {}).is_secret is is_secret
        assert Origin(("plain.parquet", address), {}).is_secret is is_secret
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    qm = QueryMode.local(root=tmp_path, storage_options={"secret": "hidden"})
    frame: Any = qm.table("x.parquet")
    assert "hidden" not in frame.to_descriptor() + frame.to_code()
    frame._node.source.origin = Origin("https://me:hidden@host/x.parquet", {})
    with raises_code("NOT_SUPPORTED") as caught:
        frame.to_descriptor()
    assert "hidden" not in str(caught.value)
    qm.register("secret_table", frame)
    assert "hidden" not in frame.to_descriptor() and "secret_table" in frame.to_descriptor()


# ---- what is read is not trusted ----


def nodes(*parts: Any) -> dict[str, Any]:
    return {"querymode": 1, "nodes": list(parts)}


SCAN = {"node": "scan", "table": {"name": "m"}}


def filtered(where: Any) -> dict[str, Any]:
    return nodes(SCAN, {"node": "filter", "input": 0, "where": where})


def deep_expression(depth: int) -> Any:
    found: Any = ["compare", "gt", ["col", "k"], 1]
    for _ in range(depth):
        found = ["not", found]
    return found


MALFORMED: list[Any] = [
    *("", "{", "[]", "5", "null", b"\xff\xfe", '{"querymode": 1}', '{"nodes": []}', 5, None, [], {}),
    *("[" * 100_000, '{"querymode":1,"nodes":' + "[" * 100_000, "9" * 10_000),
    *({"querymode": 2, "nodes": [SCAN]}, {"querymode": "1", "nodes": [SCAN]}, {"querymode": 1, "nodes": [5]}),
    {"querymode": 1, "nodes": [SCAN] * 10_001},
    *(nodes({}), nodes({"node": "drop_table"}), nodes({"node": None}), nodes({"node": ["scan"]})),
    *(nodes({"node": "scan"}), nodes({"node": "scan", "table": 5}), nodes({"node": "scan", "table": {}})),
    nodes({"node": "scan", "table": {"path": 5}}),
    nodes({"node": "scan", "table": {"paths": []}}),
    nodes({"node": "scan", "table": {"path": "a.parquet", "options": []}}),
    nodes({"node": "scan", "table": {"path": "a.parquet", "options": {"shell": "rm"}}}),
    nodes({"node": "scan", "table": {"path": "missing.parquet"}}),
    nodes({"node": "scan", "table": {"name": 5}}),
    nodes({"node": "scan", "table": {"name": "m"}, "names": ["x"]}),
    nodes({"node": "scan", "table": {"name": "m"}, "names": ["x", "x"]}),
    nodes({"node": "scan", "table": {"name": "m"}, "names": ["x", 5]}),
    nodes({"node": "scan", "table": {"columns": [["a", "int8"]], "rows": [[300]]}}),
    nodes({"node": "scan", "table": {"columns": [["a", "int8"]], "rows": [["x"]]}}),
    nodes({"node": "scan", "table": {"columns": [["a", "int8"]], "rows": [[1, 2]]}}),
    nodes({"node": "scan", "table": {"columns": [["a", "sint"]], "rows": []}}),
    nodes({"node": "scan", "table": {"columns": [], "rows": [[]]}}),
    nodes({"node": "scan", "table": {"columns": [["a", "int8"]]}}),
    *(filtered(5), filtered("x"), filtered([]), filtered([5]), filtered(["col"])),
    *(filtered(["col", 5]), filtered(["col", "nowhere"]), filtered(["exec", "rm"]), filtered({"date": "x"})),
    *(filtered({"date": 5}), filtered({"a": 1, "b": 2}), filtered({}), filtered({"bytes": "zz"})),
    *(filtered({"decimal": 5}), filtered({"decimal": "x"}), filtered({"interval": [1, 2]})),
    *(
        filtered({"interval": [1, 2, 1 << 80]}),
        filtered({"float": "5"}),
        filtered({"timedelta": [1 << 60, 0, 0]}),
    ),
    *(filtered({"value": 300, "type": "int8"}), filtered({"value": 5, "type": 5}), filtered({"value": [5]})),
    *(filtered(["compare", "gt", ["col", "k"]]), filtered(["compare", "like", ["col", "k"], 1])),
    *(filtered(["compare", 4, ["col", "k"], 1]), filtered(["compare", "gt", ["col", "k"], [[]]])),
    *(filtered(["and"]), filtered(["or"]), filtered(["and", 5]), filtered(["in", ["col", "k"], 5])),
    *(filtered(["like", ["col", "w"], 5, None, False]), filtered(["like", ["col", "w"], "x", None, 1])),
    *(filtered(["like", ["col", "w"], "x", "ab", False]), filtered(["case", [], []])),
    *(filtered(["case", [True], [1, 2, 3]]), filtered(["coalesce", []]), filtered(["call", "nothing", []])),
    *(
        filtered(["call", 5, []]),
        filtered(["cast", ["col", "k"], 5, False]),
        filtered(["field", ["col", "k"], "x"]),
    ),
    filtered(["aggregate", "sum", [["col", "k"]], {}]),
    filtered(deep_expression(150)),
    nodes(SCAN, {"node": "filter", "input": 1, "where": True}),
    nodes(SCAN, {"node": "filter", "input": -1, "where": True}),
    nodes(SCAN, {"node": "filter", "input": True, "where": True}),
    nodes(SCAN, {"node": "filter", "input": "0", "where": True}),
    nodes(SCAN, {"node": "filter", "where": True}),
    nodes(SCAN, {"node": "project", "input": 0}),
    nodes(SCAN, {"node": "project", "input": 0, "items": [["x"]]}),
    nodes(SCAN, {"node": "project", "input": 0, "items": [[5, 1]]}),
    nodes(SCAN, {"node": "project", "input": 0, "items": [["x", 1], ["x", 2]]}),
    nodes(SCAN, {"node": "group_by", "input": 0, "keys": [], "calls": [["x", ["col", "k"]]]}),
    nodes(SCAN, {"node": "group_by", "input": 0, "keys": [], "calls": [["x", ["aggregate", "sum", [], {}]]]}),
    nodes(SCAN, {"node": "group_by", "input": 0, "keys": [], "calls": [["x", ["aggregate", "sum", 5, {}]]]}),
    nodes(
        SCAN, {"node": "group_by", "input": 0, "keys": [], "calls": [["x", ["aggregate", "total", [1], {}]]]}
    ),
    nodes(
        SCAN,
        {
            "node": "group_by",
            "input": 0,
            "keys": [],
            "calls": [["x", ["aggregate", "sum", [["col", "w"]], {}]]],
        },
    ),
    nodes(
        SCAN,
        {"node": "group_by", "input": 0, "keys": [], "calls": [["x", ["aggregate", "count_rows", [1], {}]]]},
    ),
    nodes(SCAN, {"node": "sort", "input": 0, "keys": []}),
    nodes(SCAN, {"node": "sort", "input": 0, "keys": [[["col", "k"], 1, 0]]}),
    nodes(SCAN, {"node": "limit", "input": 0, "offset": -1, "count": 1}),
    nodes(SCAN, {"node": "limit", "input": 0, "offset": 0, "count": 1 << 70}),
    nodes(SCAN, {"node": "limit", "input": 0, "offset": 0.5, "count": 1}),
    nodes(SCAN, {"node": "repeat", "input": 0, "count": ["col", "w"]}),
    nodes(SCAN, {"node": "union", "inputs": []}),
    nodes(SCAN, {"node": "union", "inputs": [0, 5]}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "inner", "keys": []}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "outer", "keys": []}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "mark", "keys": []}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "semi", "keys": [5]}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "semi", "keys": [], "mark": "x"}),
    nodes(SCAN, {"node": "join", "left": 0, "right": 0, "kind": "semi", "keys": [], "nulls_equal": 1}),
    nodes(SCAN, *({"node": "distinct", "input": 0},)),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_malformed_descriptors_are_refused(session: QueryMode, number: int) -> None:
    with pytest.raises(QueryModeError) as caught:
        session.from_descriptor(MALFORMED[number])
    assert len(str(caught.value)) < 1000
    assert caught.value.code != "INTERNAL"


def test_depth_is_bounded(session: QueryMode) -> None:
    chain = [
        SCAN,
        *({"node": "limit", "input": place, "offset": 0, "count": 9} for place in range(NODE_DEPTH_MAX - 1)),
    ]
    assert session.from_descriptor(nodes(*chain)).count() == 4
    for _ in range(2):
        chain.append({"node": "limit", "input": len(chain) - 1, "offset": 0, "count": 9})
    with raises_code("NOT_SUPPORTED"):
        session.from_descriptor(nodes(*chain))


def test_mutated_descriptors_never_break(session: QueryMode) -> None:
    """Whatever is read gives a query or an error of ours."""
    draw = random.Random(11)
    texts = [make(session).to_descriptor() for make in FRAMES]
    parts = [
        "null",
        "true",
        "5",
        "-1",
        '"x"',
        "[]",
        "{}",
        "1e999",
        '["col","k"]',
        '"col"',
        '{"date":"2024-01-01"}',
    ]
    for _ in range(1500):
        tree = json.loads(draw.choice(texts))
        for _ in range(draw.randrange(1, 4)):
            spots = list(_spots(tree))
            holder, key = draw.choice(spots)
            holder[key] = json.loads(draw.choice(parts))
        try:
            session.from_descriptor(tree).to_descriptor()
        except QueryModeError as failure:
            assert failure.code != "INTERNAL"


def _spots(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _spots(value)


def test_a_restricted_session_opens_no_other_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    (tmp_path / "in").mkdir()
    free = QueryMode.local(root=tmp_path)
    text = free.table("x.parquet").to_descriptor()
    bound = QueryMode.local(root=tmp_path, allowed_paths=[tmp_path / "in"])
    with raises_code("ACCESS_DENIED"):
        bound.from_descriptor(text)


@pytest.mark.alone
def test_small_plans_are_quick(session: QueryMode) -> None:
    frame = (
        session.table("m")
        .filter(col("k") > 1)
        .group_by("w")
        .agg(col("k").sum().alias("s"))
        .sort("s")
        .limit(5)
    )
    text = frame.to_descriptor()

    def best(ask: Callable[[], object]) -> float:
        times = []
        for _ in range(30):
            started = time.perf_counter()
            ask()
            times.append(time.perf_counter() - started)
        return min(times)

    assert best(frame.to_descriptor) < 0.001
    assert best(lambda: session.from_descriptor(text)) < 0.001


def test_from_descriptor_of_the_class_and_of_parsed_json() -> None:
    text = json.dumps(nodes({"node": "scan", "table": {"columns": [["a", "int8"]], "rows": [[1], [None]]}}))
    for given_ in (text, text.encode(), json.loads(text)):
        assert QueryMode.from_descriptor(given_).rows == [{"a": 1}, {"a": None}]


def test_intervals_are_one_class() -> None:
    assert isinstance(interval(days=1), Interval)
