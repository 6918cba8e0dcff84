"""Drives scans of text files through the engine's doors, as a host does: head, pieces, windows, the chain."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from querymode import _abi
from querymode._abi import FileFormat, OutputState
from querymode.engine.plan_bytes import encode_plan
from querymode.qmcb import columnar_batch_to_rows, decode_columnar_batch
from querymode.types import decode_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from querymode.engine.instance import Instance, Output
    from querymode.types import DataType

HEAD_SIZE = 256 << 10
_SNIFFED = struct.Struct(_abi.TEXT_SNIFFED_FORMAT)
_OPTIONS = struct.Struct(_abi.TEXT_OPTIONS_FORMAT)
_FILE = struct.Struct(_abi.TEXT_FILE_FORMAT)
_REQUEST = struct.Struct(_abi.STREAM_REQUEST_FORMAT)
_NEED_HEADER = struct.Struct(_abi.NEED_HEADER_FORMAT)
_NEED = struct.Struct(_abi.NEED_FORMAT)
_SEGMENT = struct.Struct(_abi.SEGMENT_FORMAT)


@dataclass
class TextFile:
    """A file's bytes, and what its head was found to look like."""

    format: FileFormat
    size: int
    read_into: Callable[[int, memoryview], None]
    rows_start: int
    row_count: int
    compression: int
    options: bytes
    columns: list[tuple[str, DataType]]
    #: (offset, size) of everything that scans asked for.
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def header(self) -> int:
        return self.options[3]


def options(
    delimiter: bytes = b"\0",
    quote: bytes = b'"',
    escape: bytes = b"\0",
    *,
    header: int = _abi.TextHeader.UNKNOWN,
    infer: bool = True,
    nulls: Sequence[bytes] = (),
) -> bytes:
    wire = _OPTIONS.pack(delimiter[0], quote[0], escape[0], header, infer, 0, len(nulls), 0, 0)
    return wire + b"".join(bytes((len(word),)) + word for word in nulls)


def open_text(
    instance: Instance,
    data: bytes | str,
    format: FileFormat = FileFormat.CSV,
    given: bytes = b"",
    *,
    head_size: int = HEAD_SIZE,
) -> TextFile:
    """Bytes, or the path of a file, by the head of it."""
    if isinstance(data, str):
        file = open(data, "rb", buffering=0)  # noqa: SIM115
        size = file.seek(0, 2)

        def read_into(offset: int, view: memoryview) -> None:
            file.seek(offset)
            assert file.readinto(view) == len(view)
    else:
        size = len(data)

        def read_into(offset: int, view: memoryview) -> None:
            view[:] = data[offset : offset + len(view)]

    head = min(size, head_size)
    address = instance.alloc(head)
    if head:
        read_into(0, instance.view(address, head))
    output = instance.text_sniff(format, address, head, given, is_whole=head == size)
    answer = instance.read(output.address, output.size)
    instance.free(address, head)
    start, rows, compression = _SNIFFED.unpack_from(answer)
    settled = answer[_SNIFFED.size :]
    return TextFile(format, size, read_into, start, rows, compression, settled, _columns(settled))


def _columns(settled: bytes) -> list[tuple[str, DataType]]:
    head = _OPTIONS.unpack_from(settled)
    at = _OPTIONS.size
    for _ in range(head[6]):
        at += 1 + settled[at]
    found = []
    for _ in range(head[8]):
        (size,) = struct.unpack_from("<H", settled, at)
        name = settled[at + 2 : at + 2 + size].decode()
        data_type, at = decode_type(settled, at + 2 + size)
        found.append((name, data_type))
    assert at == len(settled)
    return found


@dataclass
class PieceResult:
    start: int | None
    end: int | None
    row_count: int
    rows: list[dict[str, Any]]


def run_piece(
    instance: Instance,
    file: TextFile,
    query: int,
    places: bytes,
    start: int,
    end: int,
    *,
    exact: bool,
    window: int = 1 << 20,
    take: Callable[[Output], None] | None = None,
    first_rows: int = 0,
) -> tuple[int | None, int | None, int]:
    """One piece into a query that is open already; the extent of it."""
    flags = _abi.STREAM_EXACT_START if exact else 0
    handle = instance.file_open(_FILE.pack(file.size, file.compression, 0) + file.options, file.format)
    request = _REQUEST.pack(start, end, handle, window, flags, first_rows)
    scan = instance.scan_open(query, request + places, file.format)
    block = (0, 0)
    segments = b""
    try:
        while True:
            output = instance.scan_step(scan, segments)
            segments = b""
            if output.state == OutputState.NEED_BYTES:
                wire = instance.read(output.address, output.size)
                assert _NEED_HEADER.unpack_from(wire)[:3] == (1, 0, 0)
                offset, size, owner, file_number, _ = _NEED.unpack_from(wire, _NEED_HEADER.size)
                if block[1]:
                    instance.free(*block)
                block = (instance.alloc(size), size)
                file.read_into(offset, instance.view(*block))
                file.reads.append((offset, size))
                segments = _SEGMENT.pack(offset, block[0], size, owner, file_number)
                continue
            while True:
                if take is not None:
                    take(output)
                if output.state != OutputState.MORE_OUTPUT:
                    break
                output = instance.query_next(query)
            if output.state != OutputState.AGAIN:
                return instance.scan_extent(scan)
    finally:
        extent = instance.scan_extent(scan)
        file.last_extent = extent  # type: ignore[attr-defined]
        instance.scan_close(scan)
        instance.file_close(handle)
        if block[1]:
            instance.free(*block)


def places_of(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def read_rows(
    instance: Instance,
    file: TextFile,
    cuts: Sequence[int] = (),
    *,
    names: Sequence[str] | None = None,
    window: int = 1 << 20,
    end: int | None = None,
) -> list[dict[str, Any]]:
    """All rows, from pieces between these cuts, read again where the chain says so."""
    wanted = [name for name, _ in file.columns] if names is None else list(names)
    numbers = [[name for name, _ in file.columns].index(name) for name in wanted]
    plan = encode_plan([file.columns[number] for number in numbers], [], 0)
    last = file.size if end is None else end
    bounds = [file.rows_start, *sorted(cut for cut in cuts if file.rows_start < cut < last), last]
    rows: list[dict[str, Any]] = []
    expected = file.rows_start
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if expected >= stop and number:
            continue
        found, extent = _rows_of(instance, file, plan, numbers, start, stop, exact=number == 0, window=window)
        if extent is None or extent[0] != expected:
            found, extent = _rows_of(instance, file, plan, numbers, expected, stop, exact=True, window=window)
            assert extent is not None
            assert extent[0] == expected
        assert extent[1] is not None
        assert extent[2] == len(found) or not wanted
        rows += found
        expected = extent[1]
    return rows


def _rows_of(
    instance: Instance,
    file: TextFile,
    plan: bytes,
    numbers: Sequence[int],
    start: int,
    stop: int,
    *,
    exact: bool,
    window: int,
) -> tuple[list[dict[str, Any]], tuple[int | None, int | None, int] | None]:
    from querymode.errors import QueryModeError

    query = instance.query_open(plan)
    rows: list[dict[str, Any]] = []

    def take(output: Output) -> None:
        if output.address:
            batch = decode_columnar_batch(instance.read(output.address, output.size))
            rows.extend(columnar_batch_to_rows(batch))

    try:
        places = places_of(numbers)
        extent = run_piece(instance, file, query, places, start, stop, exact=exact, window=window, take=take)
        output = instance.query_finish(query)
        while True:
            take(output)
            if output.state != OutputState.MORE_OUTPUT:
                return rows, extent
            output = instance.query_next(query)
    except QueryModeError:
        # An error behind an assumed start is nobody's until the start is confirmed.
        if exact:
            raise
        return [], None
    finally:
        instance.query_close(query)
