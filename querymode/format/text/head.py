"""Text files: CSV, and JSON with an object a line. How they are told apart, sniffed and described.

A head of the file says its dialect, its columns and their types; the engine finds all of that out
(wasm/src/format/text/sniff.zig). Types are those of the first rows: a value further down that does not fit is
an error, which names it and how to say the type.
"""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import FileFormat, JsonLayout, TextCompression, TypeTag
from querymode.engine.one_task import on_instance
from querymode.engine.text_options import OPTIONS, text_options
from querymode.errors import QueryModeError, error
from querymode.types import decode_type, encode_type, is_nested, parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.types import DataType

_FILE = struct.Struct(_abi.TEXT_FILE_FORMAT)
_SNIFFED = struct.Struct(_abi.TEXT_SNIFFED_FORMAT)
#: What no text is read as.
_UNREAD = frozenset(
    (TypeTag.BINARY, TypeTag.FIXED_BINARY, TypeTag.INTERVAL, TypeTag.F32VEC, TypeTag.F16VEC, TypeTag.MAP)
)
#: What is read of a file to find out what it looks like: at first, and at most.
HEAD_SIZE = 256 << 10
HEAD_SIZE_MAX = 2 * _abi.TEXT_ROW_SIZE_MAX


class Dialect:
    """What somebody said of a file: see `QueryMode.table`."""

    __slots__ = ("types", "wire")

    def __init__(self, format: FileFormat, options: Mapping[str, Any]) -> None:
        layout = JsonLayout.LINES if format == FileFormat.NDJSON else JsonLayout.UNKNOWN
        said = {name: value for name, value in options.items() if name != "types"}
        self.wire = text_options(json_layout=layout, **said)
        given = options.get("types") or {}
        if not isinstance(given, dict):
            raise error("QUERY_FAILED", 'types is a dict of columns and types, such as {"id": "int64"}')
        self.types = {str(name): parse_type(str(kind)) for name, kind in given.items()}
        for name, kind in self.types.items():
            if not _can_be(format, kind):
                raise error(
                    "NOT_SUPPORTED", f"{format.name} is not read as {kind}, types[{name!r}]", column=name
                )


def _can_be(format: FileFormat, data_type: DataType) -> bool:
    """Whether the engine reads text as that type."""
    if data_type.tag in _UNREAD or (is_nested(data_type) and format == FileFormat.CSV):
        return False
    return all(_can_be(format, child) for _, child in data_type.children)


class Head:
    """What a file was found to look like. `options`: what a scan of it takes, its columns among them."""

    __slots__ = ("columns", "compression", "file_size", "options", "row_count", "rows_start", "size")

    def __init__(self, answer: bytes, size: int, file_size: int) -> None:
        self.rows_start, self.row_count, compression = _SNIFFED.unpack_from(answer)
        self.compression = TextCompression(compression)
        self.options = answer[_SNIFFED.size :]
        self.columns = _columns_of(self.options)
        #: Bytes that were looked at, and all that the file has.
        self.size = size
        self.file_size = file_size

    @property
    def blob(self) -> bytes:
        """The file, as its reader in the engine takes it."""
        return _FILE.pack(self.file_size, self.compression, 0) + self.options

    def null_strings(self) -> list[str]:
        """Fields that stand for NULL; where there are none, the empty one does."""
        return [word.decode("utf-8", "replace") for word in _null_words(self.options)]

    def with_types(self, types: Mapping[str, DataType], name: str) -> None:
        """Columns get the types that somebody gave them."""
        if not types:
            return
        known = [column for column, _ in self.columns]
        for column in types:
            if column not in known:
                raise error(
                    "COLUMN_NOT_FOUND",
                    f"types names {column!r}, but the columns of {name} are: {', '.join(known)}",
                    column=column,
                )
        self.columns = tuple((column, types.get(column, kind)) for column, kind in self.columns)
        fields = b"".join(_encoded_name(column) + encode_type(kind) for column, kind in self.columns)
        self.options = self.options[: _columns_start(self.options)] + fields


def sniff(format: FileFormat, head: bytes, dialect: Dialect, file_size: int) -> Head | None:
    """None where more of the file is needed to tell."""
    is_whole = len(head) == file_size

    def task(instance: Instance) -> Head | None:
        address = instance.alloc(max(1, len(head)))
        instance.write(address, head)
        output = instance.text_sniff(format, address, len(head), dialect.wire, is_whole=is_whole)
        answer = instance.read(output.address, output.size)
        instance.free(address, max(1, len(head)))
        return Head(answer, len(head), file_size)

    try:
        return on_instance(task)
    except QueryModeError as failure:
        if failure.code == "QUERY_FAILED" and not is_whole:
            return None
        raise


def _null_words(options: bytes) -> list[bytes]:
    found, at = [], OPTIONS.size
    for _ in range(OPTIONS.unpack_from(options)[6]):
        end = at + 1 + options[at]
        found.append(options[at + 1 : end])
        at = end
    return found


def _columns_start(options: bytes) -> int:
    return OPTIONS.size + sum(1 + len(word) for word in _null_words(options))


def _columns_of(options: bytes) -> tuple[tuple[str, DataType], ...]:
    at = _columns_start(options)
    found = []
    for _ in range(OPTIONS.unpack_from(options)[8]):
        (size,) = struct.unpack_from("<H", options, at)
        name = options[at + 2 : at + 2 + size].decode("utf-8", "replace")
        data_type, at = decode_type(options, at + 2 + size)
        found.append((name, data_type))
    return tuple(found)


def _encoded_name(name: str) -> bytes:
    raw = name.encode()
    return len(raw).to_bytes(2, "little") + raw
