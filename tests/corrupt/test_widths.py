"""Types of a fixed width that no value could have: both sides refuse them where a type is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from querymode import QueryModeError
from querymode._abi import VALUE_SIZE_MAX, NodeTag, SourceKind
from querymode.engine.one_task import on_instance
from querymode.engine.plan_bytes import encode_plan
from querymode.qmcb import ColumnarBatch, ColumnarColumn, decode_columnar_batch, encode_columnar_batch
from querymode.types import DataType, decode_type, encode_type, fixed_binary, parse_type, vector

if TYPE_CHECKING:
    from querymode.engine.instance import Instance

#: A type of a width, and the widest there is.
CASES = [
    pytest.param(fixed_binary(4711), VALUE_SIZE_MAX, id="fixed_binary"),
    pytest.param(vector(4711), VALUE_SIZE_MAX // 4, id="f32vec"),
    pytest.param(vector(4711, half=True), VALUE_SIZE_MAX // 2, id="f16vec"),
]
EACH = pytest.mark.parametrize(("data_type", "most"), CASES)


def widened(wire: bytes, width: int) -> bytes:
    """The same bytes with another width."""
    known = (4711).to_bytes(4, "little")
    assert wire.count(known) == 1
    return wire.replace(known, width.to_bytes(4, "little"))


@EACH
def test_types_say_no_more_than_the_engine_reads(data_type: DataType, most: int) -> None:
    widest = DataType(data_type.tag, width=most)
    assert decode_type(encode_type(widest), 0)[0] == widest
    for width in (most + 1, 0xFFFF_FFFF):
        with pytest.raises(QueryModeError, match=r"NOT_SUPPORTED.*at most 2,147,483,647 bytes"):
            DataType(data_type.tag, width=width)
        with pytest.raises(QueryModeError, match="NOT_SUPPORTED"):
            parse_type(str(data_type).replace("4711", str(width)))
        with pytest.raises(QueryModeError, match=r"INVALID_FORMAT.*too large"):
            decode_type(widened(encode_type(data_type), width), 0)


def opened(instance: Instance, plan: bytes) -> None:
    instance.query_close(instance.query_open(plan))


@EACH
def test_a_plan_of_such_a_column_is_refused(data_type: DataType, most: int) -> None:
    """The host never writes one: the engine blames it."""
    plan = encode_plan([("w", data_type)], [bytes((NodeTag.LIMIT,)) + bytes(16)])
    on_instance(lambda instance: opened(instance, widened(plan, most)))
    for width in (most + 1, 0xFFFF_FFFF):
        with pytest.raises(QueryModeError, match="INTERNAL"):
            on_instance(lambda instance, width=width: opened(instance, widened(plan, width)))  # type: ignore[misc]


@EACH
def test_a_batch_of_such_a_column_is_refused_alike(data_type: DataType, most: int) -> None:
    plan = encode_plan([("w", data_type)], [bytes((NodeTag.LIMIT,)) + bytes(16)])
    column = ColumnarColumn("w", data_type.tag, b"", 0, data_type=data_type)
    batch = widened(encode_columnar_batch(ColumnarBatch([column], 0)), most + 1)
    with pytest.raises(QueryModeError, match="INVALID_FORMAT"):
        decode_columnar_batch(batch)

    def pushed(instance: Instance) -> None:
        query = instance.query_open(plan)
        instance.query_push(query, SourceKind.QMCB, data=batch)

    with pytest.raises(QueryModeError, match="INVALID_FORMAT"):
        on_instance(pushed)
