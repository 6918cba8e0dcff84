"""Our types as Spark's, and our columns in them.

Spark takes fewer Arrow types than we answer with, and takes them only exactly:

    uint8, uint16, uint32    the next wider signed        timestamp             µs; UTC, or timestamp_ntz
    uint64                   decimal(20, 0)               time                  ns of its own time type
    sum of integers          decimal(38, 0)               vector                array<float>
    float16                  float                        fixed binary, uuid    binary

Nanoseconds of timestamps are cut to microseconds. Intervals have no twin and are refused.
"""

from __future__ import annotations

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from querymode.schema import Schema


def spark_schema(schema: Schema) -> StructType:
    """The columns' types as Spark's; every field may be NULL."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    from querymode.arrow.to_arrow import arrow_type

    fields = []
    for name, data_type in schema:
        near = _near_type(arrow_type(data_type))
        if near is None:
            raise error(
                "NOT_SUPPORTED",
                f"Spark has no type for column {name!r} of {data_type}; leave it out",
                column=name,
            )
        fields.append(StructField(name, from_arrow_type(near)))
    return StructType(fields)


def arrow_fields(schema: StructType) -> pa.StructType:
    """The Arrow type that Spark wants for rows of this schema."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    target = to_arrow_type(schema, timezone="UTC")
    assert isinstance(target, pa.StructType)
    return target


def _near_type(given: Any) -> Any:
    """The nearest Arrow type that Spark takes, or None."""
    import pyarrow as pa
    from pyarrow import types as kinds

    widened = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
    }
    if given in widened:
        return widened[given]
    if kinds.is_timestamp(given):
        return pa.timestamp("us", "UTC" if given.tz else None)
    if kinds.is_time(given):
        return pa.time64("ns")
    if kinds.is_fixed_size_binary(given):
        return pa.binary()
    if kinds.is_interval(given):
        return None
    return _near_nested_type(given) if kinds.is_nested(given) else given


def _near_nested_type(given: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types as kinds

    fields = [given.field(index) for index in range(given.num_fields)]
    if kinds.is_map(given):
        fields = [given.key_field, given.item_field]
    near = [_near_type(field.type) for field in fields]
    if None in near:
        return None
    if kinds.is_map(given):
        return pa.map_(near[0], near[1])
    if kinds.is_struct(given):
        return pa.struct([(field.name, child) for field, child in zip(fields, near, strict=True)])
    return pa.list_(near[0])


def cast_table(table: pa.Table, target: pa.StructType) -> list[Any]:
    """The table's columns, by name and in the target's order, each as the target says."""
    return [_cast_column(table.column(field.name), field.name, field.type) for field in target]


def _cast_column(column: Any, name: str, target: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    if column.type == target:
        return column
    try:
        # Arrow would read numbers and dates out of texts, which nobody asked for.
        if _is_text(column.type) and not _is_text(target):
            raise pa.ArrowInvalid("texts stay texts")
        # Only nanoseconds may go: whatever else does not fit is an error.
        return column.cast(options=compute.CastOptions(target, allow_time_truncate=True))
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as cause:
        raise error(
            "SCHEMA_MISMATCH",
            f"column {name!r} is {column.type} and does not fit {target}: {cause}",
            column=name,
        ) from cause


def _is_text(given: Any) -> bool:
    from pyarrow import types as kinds

    return bool(kinds.is_string(given) or kinds.is_large_string(given))
