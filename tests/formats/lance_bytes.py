"""Manifests of Lance tables, byte by byte: what tests need without pylance, and what it does not write."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MASK = (1 << 64) - 1


def varint(number: int) -> bytes:
    number &= MASK
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def numbers(field: int, values: Iterable[int]) -> bytes:
    return message(field, b"".join(map(varint, values)))


def field(name: str, id: int, logical_type: str, parent: int = -1) -> bytes:
    return message(
        1,
        message(2, name) + integer(3, id) + integer(4, parent) + message(5, logical_type) + integer(6, 1),
    )


def data_file(path: str = "a.lance", fields: Iterable[int] = (0,), size: int = 0) -> bytes:
    ids = list(fields)
    parts = message(1, path) + numbers(2, ids) + numbers(3, range(len(ids)))
    return message(2, parts + integer(4, 2) + integer(5, 2) + integer(6, size))


def fragment(id: int, rows: int = 10, files: bytes | None = None, more: bytes = b"") -> bytes:
    return message(2, integer(1, id) + (data_file() if files is None else files) + more + integer(4, rows))


def manifest(*parts: bytes, number: int = 1, transaction: bytes = b"") -> bytes:
    """The file of a version: its transaction first, if there is one."""
    head = struct.pack("<I", len(transaction)) + transaction if transaction else b""
    body = b"".join(parts) + integer(3, number) + message(15, message(1, "lance") + message(2, "2.2"))
    if transaction:
        body += integer(23, 0)
    return head + struct.pack("<I", len(body)) + body + struct.pack("<QHH4s", len(head), 0, 2, b"LANC")


def write_version(table: Path, number: int, data: bytes, *, name: str | None = None) -> Path:
    folder = table / "_versions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"{MASK - number:020}.manifest")
    path.write_bytes(data)
    return path
