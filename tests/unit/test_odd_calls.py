"""Calls that a careful user makes once by mistake, and answers that were wrong once."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col, lit
from querymode.qmcb import (
    DTYPE_F64,
    DTYPE_NULL,
    DTYPE_UTF8,
    ColumnarBatch,
    ColumnarColumn,
    columnar_batch_to_rows,
    columnar_k_way_merge,
    concat_qmcb_batches,
    encode_columnar_batch,
    slice_columnar_batch,
)
from tests.forked import in_child
from tests.raises import raises_code

FRAME = QueryMode.from_arrow(
    pa.table({"a": [1, 2, 3], "f": [1.0, float("nan"), None], "t": pa.array([1, 2, 3], pa.time64("us"))})
)


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("INVALID_FILTER", lambda: FRAME.filter(col("t") != dt.time(1, tzinfo=dt.UTC))),
        (
            "INVALID_FILTER",
            lambda: lit(dt.time(1, tzinfo=dt.UTC)) and FRAME.select(lit(dt.time(1, tzinfo=dt.UTC))),
        ),
        ("INVALID_FILTER", lambda: FRAME.filter("a", "lt", Decimal("1e999999"))),
        ("INVALID_FILTER", lambda: FRAME.filter("a", "lt", Decimal("1." + "0" * 5000))),
        ("INVALID_FILTER", lambda: FRAME.filter(col("a").cast("int32").like("a!", "!"))),
        ("INVALID_AGGREGATE", lambda: FRAME.aggregate("sum", "a", ["x"])),  # type: ignore[arg-type]
        ("QUERY_FAILED", lambda: FRAME.sort("a", descending="yes")),  # type: ignore[arg-type]
        ("QUERY_FAILED", lambda: FRAME.sort("a", nulls_first=[True, False])),
        ("QUERY_FAILED", lambda: QueryMode.local(root=None)),  # type: ignore[arg-type]
        ("QUERY_FAILED", lambda: QueryMode.local(allowed_paths=5)),  # type: ignore[arg-type]
        ("NOT_SUPPORTED", lambda: QueryMode.local().table("x", format="orc")),
        ("INVALID_FORMAT", lambda: QueryMode.from_csv("a\n1\n", header="yes")),
        ("INVALID_FORMAT", lambda: QueryMode.from_csv("a\n1\n", delimiter="\ud800")),
        ("INVALID_FORMAT", lambda: QueryMode.from_json([{(1, 2): 3}])),
        ("QUERY_FAILED", lambda: FRAME.agg(col("a").count()).collect(memory="lots")),
    ],
)
def test_mistakes_have_codes(code: str, ask: Any) -> None:
    with raises_code(code):
        _ = ask().rows


def test_nan_by_any_name_is_greater_than_every_number() -> None:
    for value in (float("nan"), Decimal("NaN")):
        assert FRAME.filter("f", "eq", value).count() == 1
        assert FRAME.filter("f", "lt", value).count() == 1
        assert FRAME.filter("f", "in", [value]).count() == 1


def test_what_should_work_does() -> None:
    assert QueryMode.local(timeout=float("inf")).register("t", FRAME).count() == 3
    assert QueryMode.local(allowed_paths="/data").allowed_paths == ("/data",)
    assert FRAME.limit(np.int64(2)).count() == 2  # type: ignore[arg-type]
    assert FRAME.aggregate("sum", col("a") * 2, "s").rows == [{"s": 12}]
    assert FRAME.sort("a", descending=np.bool_(True)).rows[0]["a"] == 3  # type: ignore[arg-type]
    assert QueryMode.from_json([MappingProxyType({"a": [1]})]).rows == [{"a": [1]}]
    assert QueryMode.from_json([{"a": np.array([1])}]).rows == [{"a": [1]}]


def test_tables_made_by_a_session_have_its_limits() -> None:
    session = QueryMode.local(memory="64MiB", threads=1, timeout=5)
    for frame in (session.from_json([{"a": 1}]), session.from_csv("a\n1\n"), session.from_arrow(FRAME)):
        assert frame._session is session


def test_ties_over_many_keys_and_long_texts() -> None:
    texts = pa.table({f"c{i}": ["x" * 510] * 2 for i in range(40)})
    assert QueryMode.from_arrow(texts).sort(*texts.column_names).count() == 2
    ones = QueryMode.from_arrow(pa.table({"a": [1, 1], "b": [1, 2]}))
    keys = [col("a") + number for number in range(1500)]
    assert ones.sort(*keys, "b", descending=[False] * 1500 + [True]).rows[0]["b"] == 2


@pytest.mark.parametrize(("precision", "scale"), [(12, 2), (18, 4), (38, 10), (38, 25)])
def test_averages_of_decimals_are_duckdbs(precision: int, scale: int) -> None:
    draw = random.Random(precision * 100 + scale)
    oracle = duckdb.connect()
    for _ in range(40):
        digits = [draw.randrange(-(10 ** (precision - 3)), 10 ** (precision - 3)) for _ in range(5)]
        values = [Decimal(number).scaleb(-scale) for number in digits]
        table = pa.table({"d": pa.array(values, pa.decimal128(precision, scale))})
        oracle.register("t", table)
        expected = oracle.sql("SELECT avg(d) FROM t").fetchall()[0][0]
        assert QueryMode.from_arrow(table).agg(col("d").avg().alias("v")).rows == [{"v": expected}]


LONG_OFFSETS: Any = np.array([0, 3])
INTEGERS: Any = np.array([1, 2, 3])
SHORT_FLOATS: Any = np.array([1, 2, 3], np.float32)


def batch_of(*values: float) -> ColumnarBatch:
    data = struct.pack(f"<{len(values)}d", *values)
    return ColumnarBatch([ColumnarColumn("x", DTYPE_F64, data, len(values))], len(values))


@pytest.mark.parametrize(
    "column",
    [
        ColumnarColumn("x", DTYPE_UTF8, b"abc", 1, LONG_OFFSETS),
        ColumnarColumn("x", DTYPE_F64, INTEGERS, 3),
        ColumnarColumn("x", DTYPE_F64, SHORT_FLOATS, 3),
    ],
)
def test_buffers_of_another_kind_are_refused(column: ColumnarColumn) -> None:
    with raises_code("INVALID_FORMAT"):
        encode_columnar_batch(ColumnarBatch([column], column.row_count))


def test_batch_functions_take_what_they_say() -> None:
    encoded = [encode_columnar_batch(batch_of(1.0)), encode_columnar_batch(batch_of(2.0))]
    assert len(concat_qmcb_batches(iter(encoded))) > 0  # type: ignore[arg-type]
    broken = encode_columnar_batch(
        ColumnarBatch([ColumnarColumn("x", DTYPE_UTF8, b"ab", 1, b"\0\0\0\0\2\0\0\0")], 1)
    )
    with raises_code("INVALID_FORMAT"):
        concat_qmcb_batches([broken.replace(b"ab", b"\xff\xff")])
    for limit in (-1, 2.0, True, 1 << 70):
        with raises_code("QUERY_FAILED"):
            slice_columnar_batch(batch_of(1.0), 0, limit)  # type: ignore[arg-type]
    nulls = ColumnarBatch([ColumnarColumn("x", DTYPE_NULL, b"", 2)], 2)
    assert columnar_batch_to_rows(columnar_k_way_merge([nulls, nulls], "x", "asc", 3)) == [{"x": None}] * 3


def test_a_child_does_not_wait_for_its_parents_queries() -> None:
    session = QueryMode.local(memory="64MiB", threads=1)
    frame = session.register("t", FRAME)

    def work() -> None:
        assert frame.filter(col("a") > 1).count() == 2

    with session._budget.reserve(64 << 20):
        in_child(work)


def test_limits_and_options_of_files_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    session = QueryMode.local()
    frame = session.table(path)
    for count in ("x", -1, True, 1.5):
        with raises_code("QUERY_FAILED"):
            frame.collect(max_requests=count)  # type: ignore[arg-type]
    with raises_code("QUERY_FAILED"):
        list(frame.stream(max_requests=-1))
    with raises_code("QUERY_FAILED"):
        session.table(path, hive_types=3)
    with pytest.raises(TypeError):
        list(frame.stream(10, max_rows=5))  # type: ignore[call-arg]
