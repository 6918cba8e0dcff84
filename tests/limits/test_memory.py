"""`memory=`: what needs more fails cleanly, what can stream does, and the process stays within bounds."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querymode import QueryMode, _abi, col
from querymode._abi import NodeTag, SourceKind
from querymode.engine import instance as _wasm
from querymode.engine import pool as _pool
from querymode.table.memory import HostColumn, Layout
from querymode.types import INT64, encode_type
from tests.limits.child import MIB, PEAK, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BUDGET = 64 * MIB
#: What the process may take beyond its budget.
EXCESS_MAX = 150_000_000

TABLE = """
import json
import numpy as np, pyarrow as pa
from querymode import QueryMode, col
from querymode.errors import QueryModeError

COUNT = 4_000_000
keys = np.arange(COUNT, dtype=np.int64) * 2_654_435_761 % (1 << 40)
table = pa.table({"key": keys, "value": np.arange(COUNT, dtype=np.float64)})
session = QueryMode.local(memory="64MiB", threads=2)
frame = session.register("t", table)
"""

CASE = """
peak = Peak()
code, seconds = None, time.monotonic()
try:
    result = QUERY.collect()
    rows = len(result)
except QueryModeError as failure:
    code, rows = failure.code, None
seconds = time.monotonic() - seconds
after = frame.agg(col("value").max().alias("m"), col("key").count().alias("n")).collect().rows
print(json.dumps({"code": code, "rows": rows, "after": after, "seconds": seconds,
                  "excess": peak.peak - peak.baseline - (64 << 20)}))
"""


def run_case(query: str) -> dict[str, Any]:
    found: dict[str, Any] = run(PEAK + TABLE + CASE.replace("QUERY", query))
    print(f"{query}: {found['code']}, excess {found['excess'] / 1e6:.0f} MB, {found['seconds']:.1f} s")
    assert found["after"] == [{"m": 3_999_999.0, "n": 4_000_000}]
    assert found["excess"] < EXCESS_MAX
    return found


@pytest.mark.parametrize(
    "query",
    [
        'frame.group_by("key").agg(col("value").sum().alias("s"))',
        'frame.sort("key")',
        "frame",
        'frame.select((col("key") + 1).alias("a"), (col("value") * 2).alias("b"), "key")',
        'frame.sort("value", "key", descending=True).limit(3_000_000)',
    ],
)
def test_more_than_the_budget(query: str) -> None:
    assert run_case(query)["code"] == "MEMORY_EXCEEDED"


def test_what_streams_fits() -> None:
    """Sixty-four megabytes of table, and no more than a morsel of it at a time."""
    script = """
peak = Peak()
rows = [len(query.collect()) for query in (
    frame.agg(col("key").sum(), col("value").avg(), col("key").min()),
    frame.filter(col("value") >= 1000).group_by(col("key") % 100).agg(col("value").max()),
    frame.sort("value", "desc").limit(10),
    frame.filter(col("value") < 5),
)]
print(json.dumps({"rows": rows, "excess": peak.peak - peak.baseline - (64 << 20)}))
"""
    found = run(PEAK + TABLE + script)
    assert found["rows"] == [1, 100, 10, 5]
    assert found["excess"] < EXCESS_MAX


def test_a_table_far_larger_than_the_budget() -> None:
    script = """
table = pa.table({"value": np.arange(40_000_000, dtype=np.int64)})
frame = QueryMode.local(memory="48MiB").register("t", table)
peak = Peak()
rows = frame.agg(col("value").sum().alias("s")).collect().rows
print(json.dumps({"rows": rows, "excess": peak.peak - peak.baseline - (48 << 20)}))
"""
    found = run(PEAK + TABLE + script)
    assert found["rows"] == [{"s": 40_000_000 * 39_999_999 // 2}]
    assert found["excess"] < EXCESS_MAX


def test_idle_instances_count_too() -> None:
    """Many small queries side by side leave instances behind; a large one then needs all of the budget."""
    script = """
session = QueryMode.local(memory="256MiB", threads=1)
small = [session.register(f"s{i}", pa.table({"x": np.arange(250_000) + i})) for i in range(24)]
large = session.register("large", table)
peak = Peak()
for _ in range(2):
    threads = [threading.Thread(target=lambda f=f: f.agg(col("x").sum()).collect()) for f in small]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
large.sort("key").limit(2_000_000).count()
code = None
try:
    large.group_by("key").agg(col("value").sum()).collect()
except QueryModeError as failure:
    code = failure.code
print(json.dumps({"code": code, "excess": peak.peak - peak.baseline - (256 << 20)}))
"""
    found = run(PEAK + TABLE + script)
    print(f"beyond the budget {found['excess'] / 1e6:.0f} MB")
    assert found["code"] in (None, "MEMORY_EXCEEDED")
    assert found["excess"] < EXCESS_MAX


def test_memory_of_one_query() -> None:
    """`collect(memory=…)` below the session's."""
    frame = QueryMode.from_arrow(pa.table({"x": np.arange(3_000_000)}))
    with pytest.raises(MemoryError):
        frame.sort("x", "desc").collect(memory="24MiB")
    assert frame.agg(col("x").max().alias("m")).collect(memory="24MiB").rows == [{"m": 2_999_999}]


# ---- crossings ----


def wide_table(columns: int, rows: int) -> pa.Table:
    return pa.table({f"c{place}": np.arange(rows) for place in range(columns)})


@pytest.mark.parametrize("columns", [1, 10, 40])
def test_crossings_do_not_grow_with_columns(columns: int) -> None:
    """One morsel: open, push, finish, close; at first also the block and the one call that registers all."""
    _pool.pool().close_idle()
    frame = QueryMode.local(threads=1).register("t", wide_table(columns, 1000))
    query = frame.agg(*[col(f"c{place}").sum().alias(f"s{place}") for place in range(columns)])
    cold, warm = query.collect(), query.collect()
    assert cold.rows == warm.rows
    print(f"{columns} columns: {cold.stats['crossings']} crossings cold, {warm.stats['crossings']} warm")
    assert warm.stats["crossings"] <= 4
    assert cold.stats["crossings"] <= 6


def test_crossings_of_a_morsel() -> None:
    """What one more morsel costs: a push; at first also a block and its registration; the rest is merging."""

    def crossings(rows: int, memory: str) -> tuple[int, int, int]:
        _pool.pool().close_idle()
        frame = QueryMode.local(threads=1, memory=memory).register("t", wide_table(10, rows))
        query = frame.filter(col("c0") > 5).agg(
            *[col(f"c{place}").sum().alias(f"s{place}") for place in range(10)]
        )
        cold, warm = query.collect(), query.collect()
        assert cold.rows == warm.rows
        assert cold.rows[0]["s3"] == rows * (rows - 1) // 2 - 15
        return cold.stats["lanes"], cold.stats["crossings"], warm.stats["crossings"]

    for memory, warm_max in (("2GiB", 4), ("100MiB", 5)):
        few, many = crossings(500_000, memory), crossings(1_500_000, memory)
        morsels = many[0] - few[0]
        cold, warm = (many[1] - few[1]) / morsels, (many[2] - few[2]) / morsels
        print(f"{memory}: {cold:.1f} crossings a morsel cold, {warm:.1f} warm")
        assert cold <= 5
        assert warm <= warm_max


def test_an_empty_batch_of_ten_columns_is_four_crossings() -> None:
    fields = b"".join(b"\2\0c" + bytes((48 + place,)) + encode_type(INT64) for place in range(10))
    plan = _abi.PLAN_MAGIC.to_bytes(4, "little") + _abi.VERSION.to_bytes(4, "little") + b"\0\0\x0a\0" + fields
    plan += b"\1\0" + bytes((NodeTag.GATHER,))
    descriptor = Layout([HostColumn(INT64, 0) for _ in range(10)], 0).descriptors(0)
    with _wasm.Instance(64 * MIB) as instance:
        query = instance.query_open(plan)
        instance.query_push(query, SourceKind.DESCRIPTOR, data=descriptor)
        assert instance.query_finish(query).row_count == 0
        instance.query_close(query)
        assert instance.crossings == 4
