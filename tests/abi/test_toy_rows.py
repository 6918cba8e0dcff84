"""The toy format at the engine's doors: needs from two files, a filter, deleted rows. Only the module that
tests build has it. tests/formats reads it as users would."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from querymode import _abi, col
from querymode._abi import FileFormat, NodeTag, OutputState
from querymode.engine.instance import Instance
from querymode.engine.plan_bytes import encode_plan
from querymode.engine.program import Program
from querymode.plan.bind import bind_predicate
from querymode.qmcb import columnar_batch_to_rows, decode_columnar_batch
from querymode.schema import Schema
from querymode.types import FLOAT64, INT32, INT64
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from querymode.engine.instance import Output
    from querymode.expr.nodes import Expr

ROWS = 40_000
#: Each file's rows.
LAYOUTS = (struct.Struct("<qi"), struct.Struct("<xxd"))
FILES = (
    b"".join(LAYOUTS[0].pack(row, -row) for row in range(ROWS)),
    b"".join(LAYOUTS[1].pack(row / 4) for row in range(ROWS)),
)
FIELDS = [("id", INT64), ("x", FLOAT64), ("n", INT32)]
#: Of each column its file, and where it lies in a row.
PLACES = [(0, 0), (1, 2), (0, 8)]


def described(rows: int = ROWS, places: list[tuple[int, int]] = PLACES) -> bytes:
    columns = [
        struct.pack("<BBH", file, data_type.tag, offset)
        for (_, data_type), (file, offset) in zip(FIELDS, places, strict=True)
    ]
    head = struct.pack("<II", rows, len(columns))
    return head + b"".join(columns) + struct.pack("<II", *(layout.size for layout in LAYOUTS))


@pytest.fixture
def instance(safe_wasm: Path) -> Iterator[Instance]:
    with Instance(256 << 20, program=Program.from_file(safe_wasm)) as opened:
        yield opened
        assert not opened.broken


class Reading:
    """A scan of all columns, as a host does it."""

    def __init__(self, instance: Instance, *filters: Expr, deleted: bytes = b"", flags: int = 0) -> None:
        self.instance = instance
        self.rows: list[dict[str, Any]] = []
        #: Bytes that were asked for, by file.
        self.sizes = [0, 0]
        schema = Schema(tuple(FIELDS))
        steps = [bytes((NodeTag.FILTER,)) + bind_predicate(each, schema).wire for each in filters]
        file = instance.file_open(described(), FileFormat.TOY)
        query = instance.query_open(encode_plan(FIELDS, steps))
        request = struct.pack(_abi.SCAN_REQUEST_FORMAT, file, 0, 0, flags, 1 << 20, 0, len(deleted))
        scan = instance.scan_open(query, request + struct.pack("<3I", 0, 1, 2) + deleted, FileFormat.TOY)
        output = instance.scan_step(scan)
        while output.state in (OutputState.NEED_BYTES, OutputState.AGAIN):
            brought = self.fetch(output) if output.state == OutputState.NEED_BYTES else self.take(output)
            output = instance.scan_step(scan, brought)
        instance.scan_close(scan)
        self.take(output)
        self.take(instance.query_finish(query))
        instance.query_close(query)
        instance.file_close(file)

    def take(self, output: Output) -> bytes:
        if output.address:
            batch = decode_columnar_batch(self.instance.read(output.address, output.size))
            self.rows += columnar_batch_to_rows(batch)
        return b""

    def fetch(self, output: Output) -> bytes:
        wire = self.instance.read(output.address, output.size)
        size = struct.calcsize(_abi.NEED_HEADER_FORMAT)
        count, *_ = struct.unpack_from(_abi.NEED_HEADER_FORMAT, wire)
        needs = wire[size : size + count * struct.calcsize(_abi.NEED_FORMAT)]
        return b"".join(self.segment(*need) for need in struct.iter_unpack(_abi.NEED_FORMAT, needs))

    def segment(self, offset: int, size: int, owner: int, file: int, _: int) -> bytes:
        address = self.instance.alloc(size)
        self.instance.write(address, FILES[file][offset : offset + size])
        self.sizes[file] += size
        return struct.pack(_abi.SEGMENT_FORMAT, offset, address, size, owner, file)


def record(row: int) -> dict[str, Any]:
    return {"id": row, "x": row / 4, "n": -row}


def test_rows_of_two_files(instance: Instance) -> None:
    found = Reading(instance)
    assert found.rows == [record(row) for row in range(ROWS)]
    assert found.sizes == [2 * len(FILES[0]), len(FILES[1])]  # two columns lie in the first


@pytest.mark.parametrize("flags", [0, _abi.SCAN_FILTER_FIRST])
def test_a_filter(flags: int, instance: Instance) -> None:
    found = Reading(instance, col("x") >= 9_990.0, col("n") % 2 == 0, flags=flags)
    assert found.rows == [record(row) for row in range(39_960, ROWS, 2)]
    if flags:
        assert found.sizes[0] < 2 * len(FILES[0]), "ids of a few rows were wanted"


@pytest.mark.parametrize("flags", [0, _abi.SCAN_FILTER_FIRST])
def test_deleted_rows(flags: int, instance: Instance) -> None:
    deleted = bytearray(ROWS // 8)
    for row in range(0, ROWS, 3):
        deleted[row >> 3] |= 1 << (row & 7)
    found = Reading(instance, col("id") < 100, deleted=bytes(deleted), flags=flags)
    assert found.rows == [record(row) for row in range(100) if row % 3]
    assert Reading(instance, deleted=b"\xff" * (ROWS // 8)).rows == []


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        described()[:-1],
        described() + b"\0",
        described(places=[(0, 0), (2, 2), (0, 8)]),
        described(places=[(0, 0), (1, 3), (0, 8)]),
        described().replace(bytes((INT32.tag,)) + b"\x08", bytes((_abi.TypeTag.UTF8,)) + b"\x08"),
    ],
)
def test_what_cannot_be(blob: bytes, instance: Instance) -> None:
    with raises_code("INVALID_FORMAT"):
        instance.file_open(blob, FileFormat.TOY)


def test_no_statistics_of_leaves(instance: Instance) -> None:
    with raises_code("INTERNAL"):
        instance.leaf_bounds(instance.file_open(described(), FileFormat.TOY), 0)


def test_users_do_not_have_it() -> None:
    with Instance(64 << 20) as released, raises_code("INTERNAL"):
        released.file_open(described(), FileFormat.TOY)
