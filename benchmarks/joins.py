"""Joins over tables in memory, through the engine's doors, against DuckDB: a large probe side, builds of two
sizes.

Every instance builds its own table and probes its share of the other side's morsels, as queries do. Columns
lie in the engine's memory beforehand, as DuckDB's lie in its own; building and probing are both timed.
Answers are compared before anything is timed.

    python -m benchmarks joins              all cases
    python benchmarks/joins.py 'text'       cases whose name has this in it
"""

from __future__ import annotations

import pyarrow

from querymode._abi import AggregateOp, AggregatePhase, JoinKind, JoinSide, NodeTag, SourceKind
from querymode._wasm import Instance
from querymode.arrow import from_arrow, to_arrow
from querymode.qmcb import decode_columnar_batch
from querymode.schema import Schema
from querymode.steps import column_at, encode_build, encode_in_build, encode_join, encode_plan, with_builds

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

PROBE_ROWS = 10_000_000
ROUNDS = 5
RATIO_MAX = 1.0


class Loaded:
    """A table's morsels inside an instance."""

    def __init__(self, instance: Instance, data: pyarrow.Table, share: slice = slice(None)) -> None:
        table = from_arrow(data)
        self.schema = table.schema
        indices = range(len(table.schema))
        self.batches = []
        for morsel in table.morsels[share]:
            layout = morsel.layout(indices)
            address = instance.alloc(layout.size)
            for place, buffer in layout.buffers:
                instance.write(address + place, buffer)
            self.batches.append(instance.batch_open(layout.descriptors(address)))


class Engine:
    """An instance with both sides of a join in it."""

    def __init__(self, case: Case, share: slice) -> None:
        self.instance = Instance()
        self.case = case
        self.probe = Loaded(self.instance, case.probe, share)
        self.build = Loaded(self.instance, case.build)

    def run(self) -> tuple[int, int]:
        build = self._drive(self.case.build_plan, self.build)
        plan = with_builds(self.case.probe_plan, [build])
        query = self._drive(plan, self.probe)
        self.instance.query_close(query)
        self.instance.query_close(build)
        return self.answer

    def _drive(self, plan: bytes, source: Loaded) -> int:
        instance = self.instance
        query = instance.query_open(plan)
        for batch in source.batches:
            instance.query_push(query, SourceKind.BATCH, batch)
        output = instance.query_finish(query)
        if output.size:
            row = decode_columnar_batch(instance.read(output.address, output.size))
            schema = Schema((column.name, column.type) for column in row.columns)
            count, total = to_arrow([row], schema).to_pylist()[0].values()
            self.answer = (count, int(total or 0))
        return query


class Case:
    def __init__(
        self,
        name: str,
        probe: pyarrow.Table,
        build: pyarrow.Table,
        kind: str = "inner",
        residual: bool = False,
    ) -> None:
        self.name = name
        self.probe = probe
        self.build = build
        keys = [column for column in build.column_names if column.startswith("k")]
        probe_schema, build_schema = from_arrow(probe).schema, from_arrow(build).schema
        build_keys = [column_at(build_schema.index(key)) for key in keys]
        probe_keys = [column_at(probe_schema.index(key)) for key in keys]
        self.build_plan = encode_plan(list(build_schema), [encode_build(build_keys)])
        on = " AND ".join(f"probe.{key} = build.{key}" for key in keys)
        if kind == "inner":
            outputs = [("p", JoinSide.BUILD, build_schema.index("p"))]
            join = encode_join(0, JoinKind.INNER, probe_keys, outputs)
            sql = f"SELECT count(*), sum(p) FROM probe JOIN build ON {on}"
        elif kind == "both":
            outputs = [
                ("p", JoinSide.BUILD, build_schema.index("p")),
                ("v", JoinSide.INPUT, probe_schema.index("v")),
            ]
            join = encode_join(0, JoinKind.INNER, probe_keys, outputs)
            sql = f"SELECT count(*), sum(p) + sum(v) FROM probe JOIN build ON {on}"
        elif kind == "left":
            outputs = [("p", JoinSide.BUILD, build_schema.index("p"))]
            join = encode_join(0, JoinKind.LEFT, probe_keys, outputs)
            sql = f"SELECT count(*), sum(p) FROM probe LEFT JOIN build ON {on}"
        elif kind == "filter":
            join = bytes((NodeTag.FILTER,)) + encode_in_build(0, probe_keys)
            value = column_at(probe_schema.index("v"))
            sql = f"SELECT count(*), sum(v) FROM probe SEMI JOIN build ON {on}"
        else:
            outputs = [("v", JoinSide.INPUT, probe_schema.index("v"))]
            join = encode_join(0, JoinKind.SEMI, probe_keys, outputs)
            sql = f"SELECT count(*), sum(v) FROM probe SEMI JOIN build ON {on}"
        argument = value if kind == "filter" else column_at(0)
        calls = [
            bytes((AggregateOp.COUNT_ROWS,)) + b"\1\0c\0",
            bytes((AggregateOp.SUM,)) + b"\1\0s\1" + argument,
        ]
        if kind == "both":
            calls.append(bytes((AggregateOp.SUM,)) + b"\1\0t\1" + column_at(1))
        aggregate = bytes((NodeTag.AGGREGATE, AggregatePhase.COMPLETE, 0, 0, len(calls), 0)) + b"".join(calls)
        if kind == "both":
            both = None
        self.probe_plan = encode_plan(list(probe_schema), [join, aggregate])
        self.sql = sql
