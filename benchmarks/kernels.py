"""Reductions over 16 M values in memory, through the public API, on one thread and on two.

Peers read Arrow's or numpy's memory; our columns lie in the engine's memory after the first run. A count of
a column without NULLs is a look into the metadata, so it stays out of the mean; the count in the mean is one
where bits have to be counted.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pyarrow
import pyarrow.compute as compute

from benchmarks.harness import Table, faster, race
from querymode import DataFrame, QueryMode, col
from querymode.engine import instance as _wasm
from querymode.engine import pool as _pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Action = Callable[[], Any]

ROW_COUNT = 16_000_000
TYPE_NAMES = ("int64", "float64", "int32", "float32")
ROUNDS = 25
MEAN_RATIO_MAX = 1 / 0.9
TWO_THREADS_RATIO_MAX = 1 / 1.8


def run() -> None:
    table = Table(f"Kernels over {ROW_COUNT / 1e6:.0f} M values, one thread")
    core_count = pyarrow.cpu_count()
    pyarrow.set_cpu_count(1)
    pairs: list[tuple[float, float]] = []
    for type_name in TYPE_NAMES:
        values = _values(type_name)
        pairs += _reductions(table, values, type_name)
        pairs.append(_count_with_nulls(table, values, type_name))
    table.mean("geometric mean, through the API", [ratio for ratio, _ in pairs])
    table.mean("geometric mean, engine alone", [ratio for _, ratio in pairs], ratio_max=MEAN_RATIO_MAX)
    table = Table("Two threads beside one")
    _two_threads_computing(table)
    for type_name in TYPE_NAMES:
        _two_threads(table, type_name)
    pyarrow.set_cpu_count(core_count)


def _values(type_name: str) -> Any:
    random = numpy.random.default_rng(7)
    return random.integers(-1_000_000, 1_000_000, ROW_COUNT, dtype=numpy.int32).astype(type_name)


def _reductions(table: Table, values: Any, type_name: str) -> list[tuple[float, float]]:
    array = pyarrow.array(values)
    zero = pyarrow.scalar(0, array.type)
    frame = _frame(pyarrow.table({"v": array}), threads=1)
    cases: dict[str, tuple[Action, Action, Action]] = {
        "sum": (_scalar(frame.agg(col("v").sum())), values.sum, lambda: compute.sum(array)),
        "min": (_scalar(frame.agg(col("v").min())), values.min, lambda: compute.min(array)),
        "max": (_scalar(frame.agg(col("v").max())), values.max, lambda: compute.max(array)),
        "filter, count": (
            frame.filter("v", "gt", 0).count,
            lambda: numpy.count_nonzero(values > 0),
            lambda: compute.sum(compute.greater(array, zero)),
        ),
    }
    ratios = [_compare(table, f"{name} {type_name}", *actions) for name, actions in cases.items()]
    best = race(
        {"ours": _scalar(frame.agg(col("v").count())), "pyarrow": lambda: compute.count(array)}, rounds=9
    )
    table.compare(f"  (count {type_name}, no NULLs)", best["ours"], best["pyarrow"], "pyarrow")
    return ratios


def _count_with_nulls(table: Table, values: Any, type_name: str) -> tuple[float, float]:
    valid = numpy.random.default_rng(8).random(ROW_COUNT) < 0.9
    array = pyarrow.array(values, mask=~valid)
    frame = _frame(pyarrow.table({"v": array}), threads=1)

    def counted_afresh() -> object:
        # An array keeps its count once it was asked for: only a new one counts.
        return compute.count(pyarrow.Array.from_buffers(array.type, len(array), array.buffers()))

    ours = _scalar(frame.agg(col("v").count()))
    return _compare(
        table, f"count {type_name}, 10 % NULLs", ours, lambda: numpy.count_nonzero(valid), counted_afresh
    )


def _compare(
    table: Table, name: str, ours: Action, by_numpy: Action, by_pyarrow: Action
) -> tuple[float, float]:
    """Our time over the faster peer's: of the whole call, and of the time spent inside the engine."""
    _check(name, ours(), by_pyarrow().as_py())
    inside: list[float] = []
    contestants = {"ours": _clocked(ours, inside), "numpy": by_numpy, "pyarrow": by_pyarrow}
    best = race(contestants, rounds=ROUNDS)
    peer = faster(best, "numpy", "pyarrow")
    whole = table.compare(name, best["ours"], best[peer], peer)
    # A count that the table knows does not enter the engine: then the whole call is what there is.
    engine = min(inside) or best["ours"]
    return whole, engine / best[peer]


def _clocked(action: Action, inside: list[float]) -> Action:
    """The action, noting the seconds it spends in calls that push rows."""
    push = _wasm.Instance.qm_query_push

    def run_clocked() -> object:
        spent = 0.0

        def clocked_push(*arguments: Any) -> int:
            nonlocal spent
            started = time.perf_counter()
            try:
                return push(*arguments)
            finally:
                spent += time.perf_counter() - started

        _wasm.Instance.qm_query_push = clocked_push
        try:
            return action()
        finally:
            _wasm.Instance.qm_query_push = push
            inside.append(spent)

    return run_clocked


def _check(name: str, ours: float, expected: float) -> None:
    if not math.isclose(ours, expected, rel_tol=1e-9):
        raise SystemExit(f"{name}: we say {ours}, pyarrow says {expected}")


def _two_threads_computing(table: Table) -> None:
    """Work that the processor limits, not the memory."""
    random = numpy.random.default_rng(9)
    words = pyarrow.array([f"customer-{number:05d} special {number % 7}" for number in range(1000)])
    texts = words.take(random.integers(0, 1000, ROW_COUNT // 8))
    one = _frame(pyarrow.table({"s": texts}), threads=1)
    two = QueryMode.local(threads=2).register("values", one)
    cases: dict[str, Callable[[DataFrame], DataFrame]] = {
        "like, count": lambda frame: frame.filter("s", "like", "%special%3").agg(col("s").count()),
        "like twice, count": lambda frame: frame.filter(
            col("s").like("%9%special%") | col("s").like("%8%7%3")
        ).agg(col("s").count()),
    }
    for name, build in cases.items():
        best = race({"one": _scalar(build(one)), "two": _scalar(build(two))}, rounds=ROUNDS)
        table.compare(name, best["two"], best["one"], "1 thread", ratio_max=TWO_THREADS_RATIO_MAX)


def _two_threads(table: Table, type_name: str) -> None:
    """Work that the memory limits: numpy's figure says what it gives to anyone."""
    values = _values(type_name)
    one = _frame(pyarrow.table({"v": values}), threads=1)
    two = QueryMode.local(threads=2).register("values", one)
    halves = numpy.split(values, 2)
    with ThreadPoolExecutor(2) as pool:
        best = race(
            {
                "one": _scalar(one.agg(col("v").sum())),
                "two": _scalar(two.agg(col("v").sum())),
                "numpy one": lambda: values.max(),
                "numpy two": lambda: list(pool.map(lambda half: half.max(), halves)),
            },
            rounds=ROUNDS,
        )
    table.compare(f"sum {type_name}", best["two"], best["one"], "1 thread")
    table.compare(f"  numpy's max {type_name}", best["numpy two"], best["numpy one"], "1 thread")


def _frame(data: pyarrow.Table, threads: int) -> DataFrame:
    _pool.pool().close_idle()  # memory of the last table, or it counts against this one's budget
    return QueryMode.local(threads=threads).register("values", data)


def _scalar(frame: DataFrame) -> Action:
    (name,) = frame.columns
    return lambda: frame.collect().rows[0][name]
