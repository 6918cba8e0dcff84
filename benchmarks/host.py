"""The boundary: what a call costs, what a batch costs, and how much there is to carry."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pyarrow

import querymode
from benchmarks.harness import Table, race, seconds
from querymode import QueryMode
from querymode._abi import SourceKind
from querymode.engine import instance as _wasm
from querymode.engine import pool as _pool
from querymode.stage.lower import lower
from querymode.table.memory import HostColumn, MemoryTable, Morsel

CALL_SECONDS_MAX = 3e-6
BATCH_SECONDS_MAX = 60e-6
BATCH_CROSSINGS_MAX = 4
ENGINE_SIZE_MAX = 2_000_000
WHEEL_SIZE_MAX = 3_000_000

CALLS_PER_TURN = 1000


def run() -> None:
    table = Table("Boundary")
    instance = _pool.pool().acquire(256 << 20)
    _calls(table, instance)
    _empty_batch(table, instance)
    _pool.pool().release(instance)
    _sizes(table)


def _calls(table: Table, instance: _wasm.Instance) -> None:
    function, store = instance._functions[0], instance._store

    def prepared() -> None:
        for _ in range(CALLS_PER_TURN):
            instance.qm_abi_version()

    def converted() -> None:
        for _ in range(CALLS_PER_TURN // 20):
            function(store)

    best = race({"ours": prepared, "Func": converted}, rounds=40)
    call, other = best["ours"] / CALLS_PER_TURN, best["Func"] / (CALLS_PER_TURN // 20)
    table.measure("prepared call", seconds(call), bar="≤ 3 µs", met=call <= CALL_SECONDS_MAX)
    table.compare("  beside wasmtime's own call", call, other, "Func()")


def _empty_batch(table: Table, instance: _wasm.Instance) -> None:
    names = [f"column_{index}" for index in range(10)]
    data = pyarrow.table({name: pyarrow.array([1], pyarrow.int64()) for name in names})
    branch = lower(QueryMode.from_arrow(data).select(*names)._node).last.branches[0]
    # An empty table has no morsel, so the empty one is made here.
    assert isinstance(branch.source, MemoryTable)
    empty = Morsel([HostColumn(column.type, 0) for column in branch.source.morsels[0].columns], 0)
    indices = tuple(range(len(names)))

    def batch() -> None:
        query = instance.query_open(branch.plan)
        instance.query_push(query, SourceKind.DESCRIPTOR, data=empty.layout(indices).descriptors(0))
        instance.query_finish(query)
        instance.query_close(query)

    before = instance.crossings
    batch()
    crossings = instance.crossings - before
    best = race({"ours": batch}, rounds=200)["ours"]
    name = "empty batch of 10 columns"
    table.measure(name, seconds(best), bar="≤ 60 µs", met=best <= BATCH_SECONDS_MAX)
    met = crossings <= BATCH_CROSSINGS_MAX
    table.measure("  its crossings", str(crossings), bar="≤ 4", met=met)


def _sizes(table: Table) -> None:
    folder = Path(querymode.__file__).parent
    engine = (folder / "querymode.wasm").stat().st_size
    met = engine <= ENGINE_SIZE_MAX
    table.measure("engine", f"{engine / 1e6:.2f} MB", bar="≤ 2 MB", met=met)
    wheel = _zipped_size(folder)
    table.measure(
        "package, zipped as in a wheel", f"{wheel / 1e6:.2f} MB", bar="≤ 3 MB", met=wheel <= WHEEL_SIZE_MAX
    )


def _zipped_size(folder: Path) -> int:
    """What a wheel adds to this, its metadata, is a few kB."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(folder.parent))
    return len(target.getvalue())
