"""Expressions over a table, in two spellings, compared with DuckDB column by column; and random columns."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from querymode import Expr, QueryMode, col

ORACLE = duckdb.connect()
ORACLE.execute("SET TimeZone = 'UTC'")
ORACLE.execute("SET threads = 1")

#: A DataFrame expression and the same in SQL.
Cases = list[tuple[Expr, str]]


def check(table: pa.Table, cases: Cases) -> None:
    """Each case alone gives what DuckDB gives, in value and type."""
    ORACLE.register("t", table)
    items = ", ".join(f"{sql} AS c{number}" for number, (_, sql) in enumerate(cases))
    theirs = ORACLE.sql(f"SELECT {items} FROM t").to_arrow_table()
    frame = QueryMode.from_arrow(table)
    ours = frame.select(*[expr.alias(f"c{number}") for number, (expr, _) in enumerate(cases)]).to_arrow()
    wrong = []
    for number, (expr, sql) in enumerate(cases):
        a, b = ours.column(number), theirs.column(number)
        if a.type != b.type:
            wrong.append(f"{expr}: {a.type}, not {b.type} as {sql}")
            continue
        if a.equals(b):
            continue
        pairs = enumerate(zip(_plain(a), _plain(b), strict=True))
        for row, (x, y) in [(row, pair) for row, pair in pairs if _differ(*pair)][:3]:
            wrong.append(f"{expr}: {x!r}, not {y!r} as {sql}, for {table.slice(row, 1).to_pylist()[0]}")
    assert not wrong, "\n".join(wrong)


def _plain(column: Any) -> list[Any]:
    """Values that Python can hold: its dates end in 9999."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _differ(a: Any, b: Any) -> bool:
    return a != b and not (a != a and b != b)


#: Our name of a type, and DuckDB's.
TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "decimal(4,2)": "DECIMAL(4,2)",
    "decimal(18,9)": "DECIMAL(18,9)",
    "decimal(38,10)": "DECIMAL(38,10)",
    "decimal(3,3)": "DECIMAL(3,3)",
    "date": "DATE",
    "time(us)": "TIME",
    "timestamp(s)": "TIMESTAMP_S",
    "timestamp(ms)": "TIMESTAMP_MS",
    "timestamp(us)": "TIMESTAMP",
    "timestamp(ns)": "TIMESTAMP_NS",
    "timestamp(us, UTC)": "TIMESTAMPTZ",
    "interval": "INTERVAL",
    "binary": "BLOB",
}


def values_of(name: str, rows: int, seed: int) -> Any:
    """Random values of a type, its extremes and NULLs."""
    source = random.Random(f"{name} {seed}")
    arrow = (
        QueryMode.from_arrow(pa.table({"s": pa.array([], pa.string())}))
        .select(col("s").cast(name))
        .to_arrow()
    )
    kind = arrow.schema.field(0).type
    if pa.types.is_decimal(kind):
        texts = [_random_decimal(source, kind.precision, kind.scale) for _ in range(rows)]
        table = pa.table({"s": pa.array([*texts, None], pa.string())})
        ORACLE.register("t", table)
        return ORACLE.sql(f"SELECT s::{TYPES[name]} FROM t").to_arrow_table().column(0).combine_chunks()
    if pa.types.is_boolean(kind):
        return pa.array([source.choice([True, False, None]) for _ in range(rows)])
    if pa.types.is_binary(kind):
        return pa.array([source.randbytes(source.randrange(20)) for _ in range(rows)] + [None])
    if kind == pa.month_day_nano_interval():
        return _random_intervals(source, rows)
    return _random_fixed(source, rows, kind)


def _random_decimal(source: random.Random, precision: int, scale: int) -> str:
    unscaled = source.randrange(10 ** source.randrange(1, precision + 1))
    digits = str(unscaled).rjust(scale + 1, "0")
    point = len(digits) - scale
    return source.choice(["", "-"]) + digits[:point] + ("." + digits[point:] if scale else "")


def _random_intervals(source: random.Random, rows: int) -> Any:
    def part(bits: int) -> int:
        return source.choice(
            [0, 0, 1, -1, source.randrange(-50, 50), source.randrange(-(1 << bits), 1 << bits)]
        )

    values = [(part(31), part(31), part(53) * 1000) for _ in range(rows)]
    return pa.array([*values, None], pa.month_day_nano_interval())


def _random_fixed(source: random.Random, rows: int, kind: Any) -> Any:
    bits = kind.bit_width
    if pa.types.is_time(kind):
        values = [source.choice([0, 86_399_999_999, source.randrange(86_400_000_000)]) for _ in range(rows)]
    elif pa.types.is_floating(kind):
        raw = np.array([source.getrandbits(bits) for _ in range(rows)], f"u{bits // 8}").view(f"f{bits // 8}")
        floats = [value for value in raw.tolist() if value == value]  # DuckDB tells NaNs apart by their sign
        plain = [0.0, -0.0, 0.1, 1e15, 1e16, 1e17, 123.456, 1e-4, 1e-5, float("inf"), float("nan"), 1 / 3]
        scaled = [source.randrange(-(10**6), 10**6) / source.choice([1, 2, 10, 1000]) for _ in range(rows)]
        return pa.array([*floats, *plain, *scaled, None], kind)
    else:
        signed = not pa.types.is_unsigned_integer(kind)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if pa.types.is_timestamp(kind):  # as far as microseconds reach
            far = 9_223_372_022_400_000_000 // {"s": 10**6, "ms": 1000, "us": 1, "ns": 1}[kind.unit]
            low, high = -far, far
        elif not pa.types.is_integer(kind):
            low, high = -2_147_483_646, 2_147_483_647
        near = 10 ** source.randrange(1, 12)
        values = [
            source.choice(
                [low, high, 0, source.randint(low, high), source.randint(max(low, -near), min(high, near))]
            )
            for _ in range(rows)
        ]
    stored = kind if pa.types.is_integer(kind) else pa.int32() if bits == 32 else pa.int64()
    return pa.array([*values, None], stored).cast(kind)
