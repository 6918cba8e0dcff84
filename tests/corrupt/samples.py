"""Valid inputs for every door, from which the fuzzer starts.

Made by the package itself: plans are lowered from frames of many shapes, QMCB is what the engine hands
out, descriptors are what a memory table lays into the engine. A sample that the engine refuses is a
fault here, and `build` says so.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from querymode import _abi, call, col, interval, lit
from querymode._abi import NodeTag, SourceKind
from querymode.engine.instance import Instance, Output
from querymode.errors import QueryModeError
from querymode.expr.nodes import Expr
from querymode.frame.frame import DataFrame
from querymode.plan.nodes import Scan
from querymode.schema import Schema
from querymode.session import QueryMode
from querymode.stage.lower import lower
from querymode.table.from_arrow import from_arrow
from querymode.table.memory import MemoryTable
from querymode.types import DataType, encode_type, parse_type


class PlanSample:
    """A plan, and a batch that it takes."""

    def __init__(self, plan: bytes, batch: bytes) -> None:
        self.plan = plan
        self.batch = batch


class BatchSample:
    """A table in host memory: its buffers, its descriptors for a block at 0, its plan and its QMCB."""

    def __init__(self, table: MemoryTable, plan: bytes, batch: bytes) -> None:
        self.table = table
        self.layout = table.morsels[0].layout(range(len(table.schema)))
        self.plan = plan
        self.batch = batch


class TextSample:
    def __init__(self, format: int, text: bytes, options: bytes) -> None:
        self.format = format
        self.text = text
        self.options = options


class Samples:
    def __init__(self, plans: list[PlanSample], batches: list[BatchSample], texts: list[TextSample]) -> None:
        self.plans = plans
        self.batches = batches
        self.texts = texts
        self.plan_bytes = [sample.plan for sample in plans]
        self.qmcb_bytes = [sample.batch for sample in batches] + [sample.batch for sample in plans]
        self.text_bytes = [sample.text for sample in texts]
        self.option_bytes = [sample.options for sample in texts]


def build() -> Samples:
    with Instance(256 << 20) as instance:
        batches = list(_batch_samples(instance))
        plans = list(_plan_samples(instance))
    return Samples(plans, batches, list(_text_samples()))


# ---- tables ----


def scalars(count: int) -> pa.Table:
    """Every type without children, NULLs among the values."""
    rows = range(count)

    def array(kind: pa.DataType, values: list[object], nulls: int = 5) -> pa.Array[Any]:
        return pa.array(
            [None if row % nulls == nulls - 1 else values[row % len(values)] for row in rows], kind
        )

    day = dt.date(2024, 2, 29)
    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
    return pa.table(
        {
            "bool": array(pa.bool_(), [True, False, True]),
            "i8": array(pa.int8(), [-128, 0, 127, 5]),
            "i16": array(pa.int16(), [-32768, 0, 32767, 5]),
            "i32": array(pa.int32(), [-(2**31), 0, 2**31 - 1, 5]),
            "i64": array(pa.int64(), [-(2**63), 0, 2**63 - 1, 5]),
            "u8": array(pa.uint8(), [0, 255, 7]),
            "u16": array(pa.uint16(), [0, 65535, 7]),
            "u32": array(pa.uint32(), [0, 2**32 - 1, 7]),
            "u64": array(pa.uint64(), [0, 2**64 - 1, 7]),
            "f16": array(pa.float16(), [np.float16(1.5), np.float16(-0.0), np.float16("nan")]),
            "f32": array(pa.float32(), [1.5, -0.0, float("nan"), float("inf")]),
            "f64": array(pa.float64(), [1.5, -0.0, float("nan"), -1e308, 3.0]),
            "d9": array(pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-9999999.99")]),
            "d18": array(pa.decimal128(18, 3), [Decimal("1.125"), Decimal("999999999999999.999")]),
            "d38": array(pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-" + "9" * 28 + "." + "9" * 10)]),
            "text": array(
                pa.string(), ["", "a", "größe", "us-east", "a longer text that has many letters", "%_"]
            ),
            "bytes": array(pa.binary(), [b"", b"\x00\xff", b"abc"]),
            "fixed": array(pa.binary(5), [b"abcde", b"\x00" * 5, b"zzzzz"]),
            "date": array(pa.date32(), [day, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
            "time_s": array(pa.time32("s"), [dt.time(1, 2, 3), dt.time(0)]),
            "time_ms": array(pa.time32("ms"), [dt.time(1, 2, 3), dt.time(0)]),
            "time_us": array(pa.time64("us"), [dt.time(23, 59, 59), dt.time(0)]),
            "time_ns": array(pa.time64("ns"), [dt.time(23, 59, 59), dt.time(0)]),
            "stamp_s": array(pa.timestamp("s"), [moment.replace(microsecond=0), dt.datetime(1970, 1, 1)]),
            "stamp_ms": array(pa.timestamp("ms"), [moment.replace(microsecond=0), dt.datetime(1970, 1, 1)]),
            "stamp": array(pa.timestamp("us"), [moment, dt.datetime(1970, 1, 1)]),
            "stamp_ns": array(pa.timestamp("ns"), [moment, dt.datetime(1970, 1, 1)]),
            "zoned": array(pa.timestamp("us", "Europe/Berlin"), [moment, dt.datetime(1970, 1, 1)]),
            "interval": array(pa.month_day_nano_interval(), [(1, 2, 3), (-1, 0, 10**15)]),
            "nothing": pa.nulls(count),
        }
    )


def nested(count: int) -> pa.Table:
    rows = range(count)

    def array(kind: pa.DataType, values: list[object]) -> pa.Array[Any]:
        return pa.array([values[row % len(values)] for row in rows], kind)

    pair = pa.struct([("x", pa.int32()), ("name", pa.string())])
    return pa.table(
        {
            "vector": array(pa.list_(pa.float32(), 3), [[1, 2, 3], None, [0.5, -1, 0]]),
            "half": array(pa.list_(pa.float16(), 2), [[np.float16(1), np.float16(2)], None]),
            "list": array(pa.list_(pa.int32()), [[1, 2, None], [], None, [7]]),
            "texts": array(pa.list_(pa.string()), [["a", "größe"], None, [], [None]]),
            "flags": array(pa.list_(pa.bool_()), [[True, None, False], [], None]),
            "pair": array(pair, [{"x": 1, "name": "one"}, None, {"x": None, "name": None}]),
            "map": array(pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], None, []]),
            "deep": array(
                pa.list_(pa.struct([("p", pair), ("l", pa.list_(pa.list_(pa.int8())))])),
                [[{"p": {"x": 1, "name": "n"}, "l": [[1], None, []]}], None, [None]],
            ),
            "empty": array(pa.struct([]), [{}, None]),
        }
    )


def others(count: int) -> pa.Table:
    """Forms of Arrow that are brought into ours: eight-byte offsets, dictionaries, slices with a bit."""
    rows = list(range(count + 3))
    table = pa.table(
        {
            "large": pa.array([None if row % 4 == 3 else f"text {row}" for row in rows], pa.large_string()),
            "dictionary": pa.array([("us", "eu", None)[row % 3] for row in rows]).dictionary_encode(),
            "bits": pa.array([(True, False, None)[row % 3] for row in rows]),
            "d32": pa.array([Decimal(row) for row in rows], pa.decimal128(7, 0)),
            "large_list": pa.array([[row, None] for row in rows], pa.large_list(pa.int64())),
        }
    )
    return table.slice(3)


def _tables() -> Iterator[pa.Table]:
    for count in (1, 9, 130):
        yield scalars(count)
        yield nested(count)
        yield others(count)
    every = pa.table({**_columns(scalars(20)), **_columns(nested(20))})
    for name in every.column_names:
        yield every.select([name])
    yield scalars(0)
    yield pa.table({"n": pa.nulls(40_000), "i": pa.array(range(40_000), pa.int32())})


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray[Any]]:
    return dict(zip(table.column_names, table.columns, strict=True))


# ---- batches ----


def plan_bytes(fields: list[tuple[str, DataType]], steps: list[bytes]) -> bytes:
    plan = struct.pack("<IIHH", _abi.PLAN_MAGIC, _abi.VERSION, 0, len(fields))
    for name, data_type in fields:
        raw = name.encode()
        plan += len(raw).to_bytes(2, "little") + raw + encode_type(data_type)
    return plan + len(steps).to_bytes(2, "little") + b"".join(steps)


def pass_through(schema: Schema) -> bytes:
    return plan_bytes(list(schema), [bytes((NodeTag.GATHER,))])


def one_batch(instance: Instance, table: MemoryTable, names: tuple[str, ...]) -> bytes:
    """The first morsel's columns as QMCB."""
    indices = table.column_indices(names)
    plan = pass_through(table.schema.only(names))
    if not table.morsels:
        return run_plan(instance, plan, None)
    layout = table.morsels[0].layout(indices)
    address = instance.alloc(layout.size)
    for place, buffer in layout.buffers:
        instance.write(address + place, buffer)
    query = instance.query_open(plan)
    output = instance.query_push(query, SourceKind.DESCRIPTOR, data=layout.descriptors(address))
    answer = _to_the_end(instance, query, output)
    instance.free(address, layout.size)
    return answer


def run_plan(instance: Instance, plan: bytes, batch: bytes | None) -> bytes:
    """The first batch of the answer."""
    query = instance.query_open(plan)
    output = instance.query_push(query, SourceKind.QMCB, data=batch) if batch is not None else None
    return _to_the_end(instance, query, output)


def _to_the_end(instance: Instance, query: int, output: Output | None) -> bytes:
    answer = b"" if output is None else instance.read(output.address, output.size)
    output = instance.query_finish(query)
    answer = answer or instance.read(output.address, output.size)
    instance.query_close(query)
    return answer


def _batch_samples(instance: Instance) -> Iterator[BatchSample]:
    for given in _tables():
        if given.num_rows == 0:
            continue
        table = from_arrow(given)
        batch = one_batch(instance, table, table.schema.names)
        yield BatchSample(table, pass_through(table.schema), batch)


# ---- plans ----


Build = Callable[[], DataFrame]


def _frames(frame: DataFrame) -> Iterator[Build]:
    """Not all of them are supported; the planner or the engine says which."""
    yield from _filters(frame)
    yield from _projections(frame)
    yield from _sorts(frame)
    yield from _groups(frame)
    yield from _calls(frame)
    yield lambda: frame.limit(3)
    yield lambda: frame.offset(2)
    yield lambda: frame.filter(col("i32") > 0).limit(5).offset(1)
    yield lambda: frame.select("i8", "text").filter(col("text").is_not_null()).sort("text").limit(2)


def _literals() -> dict[str, list[object]]:
    moment = dt.datetime(2024, 2, 29, 12, 30, 15)
    clock = dt.time(1, 2, 3)
    return {
        **{name: [-5, 0, 100] for name in ("i8", "i16", "i32", "i64")},
        **{name: [0, 7, 200] for name in ("u8", "u16", "u32", "u64")},
        **{name: [-1.5, 0.0, 1.5] for name in ("f16", "f32", "f64")},
        **{name: [Decimal("-1.5"), Decimal("0"), Decimal("1.25")] for name in ("d9", "d18", "d38")},
        "text": ["a", "größe", "zz" * 20],
        "bytes": [b"", b"\x00\xff", b"abc"],
        "fixed": [b"abcde", b"bbbbb", b"zzzzz"],
        "date": [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
        **{name: [dt.time(0), clock, dt.time(23)] for name in ("time_s", "time_ms", "time_us", "time_ns")},
        **{
            name: [dt.datetime(1970, 1, 1), moment, dt.datetime(2100, 1, 1)]
            for name in ("stamp_s", "stamp_ms", "stamp", "stamp_ns")
        },
    }


def _filters(frame: DataFrame) -> Iterator[Build]:
    for name, (low, middle, high) in _literals().items():
        value = col(name)
        for predicate in (
            value == middle,
            (value > low) & ~(value >= high),
            value.is_null() | (value != low),
            value == value,
            value.between(low, high),
            value.not_in([low, middle, high]),
            value.is_in([low, None, *([middle] * 20)]),
        ):
            yield partial(frame.filter, predicate)
    yield lambda: frame.filter(col("bool") == lit(True))
    yield lambda: frame.filter(col("bool"))
    yield lambda: frame.filter(~col("bool") | col("nothing").is_null())
    for pattern in ("a%", "%e", "%r%", "_", "%a_l%t%", "größe", "", "%"):
        yield partial(frame.filter, col("text").like(pattern))
    yield lambda: frame.filter(col("text").not_like("10!%", "!"))
    yield lambda: frame.where_or([("i8", "gt", 1), ("text", "eq", "a")], [("f64", "lt", 2.5)])


def _projections(frame: DataFrame) -> Iterator[Build]:
    for value in (
        col("i8"),
        col("i16").cast("int64"),
        col("u8"),
        col("f32"),
        col("f64"),
        col("d9"),
        col("d38"),
    ):
        for other in (value, lit(2)):
            for item in (
                value + other,
                value - other,
                value * other,
                value / other,
                value // other,
                value % other,
            ):
                yield partial(frame.select, item.alias("x"))
        yield partial(frame.select, (-value).alias("x"))
    yield lambda: frame.select("i32", "text")
    yield lambda: frame.select(lit(1).alias("one"), lit("text").alias("t"), lit(2.5).alias("f"))
    yield lambda: frame.select("i8", lit(None).alias("none"))
    targets = (
        "utf8",
        "int64",
        "float64",
        "int8",
        "int128",
        "uint64",
        "decimal(20,2)",
        "bool",
        "date",
        "timestamp(us)",
    )
    for name in frame.columns:
        for target in targets:
            for strict in (False, True):
                yield partial(frame.select, col(name).cast(target, strict=strict).alias("x"))


def _calls(frame: DataFrame) -> Iterator[Build]:
    """Functions of dates and numbers, over columns of every type that they may take."""
    moments = [col(name) for name in ("date", "stamp", "stamp_s", "stamp_ns", "time_us", "interval")]
    numbers = [col(name) for name in ("i8", "i64", "u32", "f32", "f64", "d9", "d38")]
    items: list[Expr] = []
    for value in moments:
        items += [
            call("date_part", part, value) for part in ("year", "week", "hour", "epoch", "nanosecond", "us")
        ]
        items += [
            call("epoch_ms", value),
            call("date_trunc", "month", value),
            call("date_trunc", "hour", value),
        ]
        items += [call("date_diff", unit, value, value) for unit in ("month", "hour", "week")]
        items += [call("date_sub", unit, value, value) for unit in ("month", "hour")]
        items += [value + col("interval"), value - interval(months=1, days=2, hours=3), value - value]
        items += [call("age", value, value), call("last_day", value), call("dayname", value)]
        items += [call("strftime", value, "%Y-%m-%d %H:%M:%S.%f %j %a %U"), call("isfinite", value)]
    items += [col("date") + col("i32"), col("date") - 3, col("date") + col("time_us"), -col("interval")]
    items += [col("interval") * col("i8"), col("interval") * 1.5, col("interval") / col("f64")]
    items += [call("strptime", col("text"), "%Y-%m-%d"), call("try_strptime", col("text"), "%d %b %y %I %p")]
    items += [call("make_date", col("i16"), 2, col("i8")), call("make_time", col("i8"), 1, col("f64"))]
    items += [call("make_timestamp", col("i16"), 1, 2, 3, 4, col("f64")), call("make_timestamp", col("i64"))]
    items += [call("to_days", col("i8")), call("to_seconds", col("f64")), call("to_timestamp", col("f64"))]
    for value in numbers:
        items += [
            call(name, value) for name in ("abs", "sign", "round", "floor", "ceil", "trunc", "sqrt", "exp")
        ]
        items += [
            call("round", value, 1),
            call("round", value, -1),
            call("trunc", value, -2),
            call("pow", value, 2),
        ]
        items += [
            call("gcd", value, 6),
            call("bit_and", value, value),
            call("<<", value, 1),
            call("isnan", value),
        ]
    items += [call("factorial", col("i8")), call("bit_count", col("i64")), call("lcm", col("i8"), col("i16"))]
    for item in items:
        yield partial(frame.select, item.alias("x"))


def _sorts(frame: DataFrame) -> Iterator[Build]:
    for name in frame.columns:
        yield partial(frame.sort, name, descending=True)
        yield partial(lambda key: frame.sort(key, nulls_first=True).limit(4), name)
    yield lambda: frame.sort("text", "i8", "f64", descending=[True, False, True]).limit(7)
    yield lambda: frame.select("i8", "text", "d38").sort(col("i8") % 3, "text")


def _groups(frame: DataFrame) -> Iterator[Build]:
    calls: list[Expr] = [col("i8").count(), col("bool").min()]
    for name in ("i8", "i64", "u64", "f16", "f32", "f64", "d9", "d38"):
        calls += [col(name).sum(), col(name).min(), col(name).max(), col(name).avg()]
    yield lambda: frame.agg(*calls)
    for name in frame.columns:
        for item in (col(name).count(), col(name).min(), col(name).max(), col(name).sum(), col(name).avg()):
            yield partial(frame.agg, item)
        key = frame.group_by(name)
        yield partial(key.agg, col("i8").sum(), col("text").max(), col("f64").avg(), col("u8").count())
    yield lambda: frame.group_by("bool").count()
    yield (
        lambda: (
            frame.filter(col("i8") > 0).group_by("text").agg(col("d9").sum().alias("s")).sort("s").limit(3)
        )
    )
    yield lambda: frame.group_by("text", "i8").agg(col("d9").sum().alias("s"))


def _plan_samples(instance: Instance) -> Iterator[PlanSample]:
    alone = from_arrow(scalars(40))
    # Twice the same morsel: two lanes, and so partial and final plans.
    paired = MemoryTable(alone.schema, [*alone.morsels, *alone.morsels])
    for table in (alone, paired):
        frame = DataFrame(QueryMode(), Scan(table))
        for build in _frames(frame):
            try:
                work = lower(build()._node).last
            except QueryModeError:
                continue
            if table is paired and work.final is None:
                continue  # the same plan as before
            names = tuple(table.schema.names[index] for index in work.branches[0].columns)
            batch = one_batch(instance, table, names)
            yield PlanSample(work.branches[0].plan, batch)
            if work.final is not None:
                with suppress(QueryModeError):  # sums of the largest values leave their range
                    yield PlanSample(work.final.plan, run_plan(instance, work.branches[0].plan, batch))
    yield from _long_literals(instance)


def _long_literals(instance: Instance) -> Iterator[PlanSample]:
    """A value is repeated over a chunk of rows."""
    table = from_arrow(pa.table({"i": pa.nulls(16_384, pa.int8())}))
    batch = one_batch(instance, table, ("i",))
    frame = DataFrame(QueryMode(), Scan(table))
    for size in (300, 1000):
        yield PlanSample(
            lower(frame.select("i", lit("x" * size).alias("x"))._node).last.branches[0].plan, batch
        )


# ---- text ----


def _csv_options(
    delimiter: bytes = b"\0",
    quote: bytes = b'"',
    escape: bytes = b"\0",
    header: int = 2,
    infer: int = 1,
    nulls: tuple[bytes, ...] = (),
    columns: tuple[tuple[str, str], ...] = (),
) -> bytes:
    options = delimiter + quote + escape + bytes((header, infer, 0, len(nulls), 0))
    options += len(columns).to_bytes(4, "little")
    for word in nulls:
        options += bytes((len(word),)) + word
    return options + _typed(columns)


def _json_options(infer: int, layout: int, columns: tuple[tuple[str, str], ...] = ()) -> bytes:
    return b'\0"\0' + bytes((2, infer, layout, 0, 0)) + len(columns).to_bytes(4, "little") + _typed(columns)


def _typed(columns: tuple[tuple[str, str], ...]) -> bytes:
    options = b""
    for name, kind in columns:
        options += len(name).to_bytes(2, "little") + name.encode() + encode_type(parse_type(kind))
    return options


_TYPED_COLUMNS = (("a", "int64"), ("b", "float64"), ("c", "utf8"), ("d", "date"))
_CSV = (
    b'a,b,c,d\n1,2.5,text,2024-02-29\n-3,1e300,"quoted, ""twice""\nline",1970-01-01\n,,,\n',
    b"id;name;flag\r\n1;\xc3\xb6;true\r\n2;;false\r\n",
    b"x\n9223372036854775807\n-9223372036854775808\n18446744073709551616\n",
    b"t\n2024-02-29 12:30:15.123456\n2024-02-29T12:30:15Z\n1970-01-01\n",
    b"clock,when\n12:30:15.5,2024-02-29\n00:00:00,0001-01-01\n",
    b"\xef\xbb\xbfa|b\n1|2\n\n3|4|\n",
    b"a,b\n'x''y',\"z\\\"\"\n" * 8,
    b"",
    b"\n\n",
    b"one",
    (b"a,b,c,d\n" + b"1,2,three,2020-01-01\n" * 300),
)
_JSON = (
    b'[{"a":1,"b":2.5,"c":"text","d":"2024-02-29"},{"a":-3,"c":null}]',
    b'{"a":1}\n{"a":2,"b":[1,2,null]}\n',
    b'[{"l":[{"x":1,"y":[["deep"]]},null],"s":{"t":"2024-02-29T12:30:15Z","n":null}}]',
    b'{"u":"\\u00e9\\ud83d\\ude00\\n","m":1e400,"i":18446744073709551616}',
    b'[{"mixed":1},{"mixed":"one"},{"mixed":[1]},{"mixed":{"k":true}}]',
    b"[]",
    b"",
    b"[{}]",
    b'[{"a":' + b"[" * 40 + b"1" + b"]" * 40 + b"}]",
    b'{"k":true,"f":0.1}\n' * 300,
)


def _text_samples() -> Iterator[TextSample]:
    csv_options = (
        b"",
        _csv_options(),
        _csv_options(b",", header=1),
        _csv_options(b";", b"'", header=0, infer=0),
        _csv_options(b",", b'"', b"\\", header=1, nulls=(b"NULL", b"", b"n/a")),
        _csv_options(b",", header=1, columns=_TYPED_COLUMNS),
        _csv_options(b",", b"\0", header=0, columns=_TYPED_COLUMNS),
    )
    json_options = (
        b"",
        _json_options(1, 0),
        _json_options(0, 1),
        _json_options(1, 2),
        _json_options(1, 0, _TYPED_COLUMNS),
    )
    for text in _CSV:
        for options in csv_options:
            yield TextSample(_abi.TextFormat.CSV, text, options)
    for text in _JSON:
        for options in json_options:
            yield TextSample(_abi.TextFormat.JSON, text, options)
