"""Small Parquet files to start mutations from: every encoding, uncompressed for the most part.

A changed byte of a compressed page seldom gets past the codec; here it reaches the decoder behind it.
"""

from __future__ import annotations

import decimal
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 200
CODECS = ("snappy", "gzip", "brotli", "zstd", "lz4")
ENCODINGS: dict[str, tuple[str, ...]] = {
    "int": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "long": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "double": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "text": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "fixed": ("PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"),
    "bool": ("PLAIN", "RLE"),
}


def _flat(draw: random.Random) -> pa.Table:
    def column(make: Any, kind: pa.DataType) -> Any:
        return pa.array([None if draw.random() < 0.2 else make(i) for i in range(ROWS)], kind)

    return pa.table(
        {
            "int": column(lambda i: i // 3, pa.int32()),
            "long": column(lambda i: draw.getrandbits(40) - (1 << 39), pa.int64()),
            "double": column(lambda i: draw.random(), pa.float64()),
            "text": column(lambda i: f"key {i // 7:04} {'é' * (i % 5)}", pa.string()),
            "fixed": column(lambda i: i.to_bytes(5, "big"), pa.binary(5)),
            "bool": column(lambda i: i % 11 < 3, pa.bool_()),
        }
    )


def _odd(draw: random.Random) -> pa.Table:
    numbers = [decimal.Decimal(draw.getrandbits(20)).scaleb(-2) for _ in range(ROWS)]
    return pa.table(
        {
            "narrow": pa.array([i % 100 for i in range(ROWS)], pa.int8()),
            "decimal9": pa.array(numbers, pa.decimal128(9, 2)),
            "decimal30": pa.array(numbers, pa.decimal128(30, 2)),
            "half": pa.array([float(i % 7) for i in range(ROWS)], pa.float16()),
            "instant": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
            "time": pa.array(range(ROWS), pa.time32("ms")),
            "nothing": pa.nulls(ROWS),
        }
    )


def _nested(draw: random.Random) -> pa.Table:
    def items(depth: int) -> Any:
        if draw.random() < 0.15:
            return None
        return [
            draw.randrange(9) if depth == 0 else items(depth - 1) for _ in range(draw.choice((0, 1, 2, 5)))
        ]

    return pa.table(
        {
            "list": pa.array([items(0) for _ in range(ROWS)], pa.list_(pa.int32())),
            "lists": pa.array([items(1) for _ in range(ROWS)], pa.list_(pa.list_(pa.int16()))),
            "record": pa.array(
                [None if i % 9 == 0 else {"a": i, "b": items(0)} for i in range(ROWS)],
                pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float32()))]),
            ),
            "map": pa.array(
                [[(f"k{j}", j) for j in range(i % 4)] for i in range(ROWS)], pa.map_(pa.string(), pa.int32())
            ),
        }
    )


def build(directory: Path) -> list[Path]:
    draw = random.Random(1)
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def write(name: str, table: pa.Table, **options: Any) -> None:
        path = directory / f"{name}.parquet"
        base = {"compression": "none", "data_page_size": 400, "row_group_size": 120, "store_schema": False}
        pq.write_table(table, path, **{**base, **options})
        written.append(path)

    flat, odd, nested = _flat(draw), _odd(draw), _nested(draw)
    for version in ("1.0", "2.0"):
        for name, table in (("flat", flat), ("odd", odd), ("nested", nested)):
            write(f"{name}_{version}", table, data_page_version=version, write_page_index=True)
            write(f"{name}_plain_{version}", table, data_page_version=version, use_dictionary=False)
        for column, encodings in ENCODINGS.items():
            for encoding in encodings:
                write(
                    f"{column}_{encoding}_{version}",
                    flat.select([column]),
                    data_page_version=version,
                    use_dictionary=False,
                    column_encoding={column: encoding},
                    write_page_index=encoding != "PLAIN",
                )
    for codec in CODECS:
        write(f"codec_{codec}", flat.select(["int", "text"]), compression=codec, data_page_version="2.0")
        write(f"codec_{codec}_1", nested.select(["list"]), compression=codec, write_page_checksum=True)
    write(
        "int96",
        pa.table({"t": pa.array(range(ROWS), pa.timestamp("ns"))}),
        use_deprecated_int96_timestamps=True,
    )
    # A dictionary that is given up midway.
    write("fallback", flat.select(["text"]), dictionary_pagesize_limit=300, write_batch_size=16)
    return written
