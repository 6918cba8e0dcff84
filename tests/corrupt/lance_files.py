"""Lance files that are nearly valid: their bytes changed, or what their messages say, all sizes put right.

A byte changed in a protocol buffer mostly ends as a size that does not fit; the lies that hurt are inside of
messages that can be read. So a manifest and a data file are taken apart here, a message in them is changed,
and everything behind it is put where it belongs again.

    data file    pages, global buffers │ column metadata … │ u64 position, u64 size of each │ the same of
                 global buffers │ u64 × 3 positions, u32 buffers, u32 columns, u16, u16, "LANC"
"""

from __future__ import annotations

import struct
from random import Random

from fixtures.settled import Field, Manifest, fields_of, message_of
from tests.corrupt.mutate import mutate

_FOOTER = struct.Struct("<QQQIIHH4s")
_PAIR = struct.Struct("<QQ")
_NUMBERS = (
    0,
    1,
    2,
    7,
    63,
    64,
    255,
    1024,
    4096,
    65_535,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
)
_LARGE_NUMBERS = (1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_DEPTH_MAX = 8


class DataFile:
    """Of versions 2.x."""

    def __init__(self, data: bytes) -> None:
        first, columns, buffers, buffer_count, column_count, *self.version, magic = _FOOTER.unpack(
            data[-_FOOTER.size :]
        )
        assert magic == b"LANC"
        self.pages = data[:first]
        entries = [_PAIR.unpack_from(data, columns + 16 * index) for index in range(column_count)]
        self.columns = [data[start : start + size] for start, size in entries]
        self.buffers = [_PAIR.unpack_from(data, buffers + 16 * index) for index in range(buffer_count)]

    def data(self) -> bytes:
        out = bytearray(self.pages)
        entries = []
        for column in self.columns:
            entries.append((len(out), len(column)))
            out += column
        tables = len(out)
        for entry in (*entries, *self.buffers):
            out += _PAIR.pack(*entry)
        behind = tables + 16 * len(entries)
        count = len(self.buffers), len(entries)
        return bytes(out + _FOOTER.pack(len(self.pages), tables, behind, *count, *self.version, b"LANC"))


def is_legacy(data: bytes) -> bool:
    """A data file 0.1: it ends as a manifest does."""
    return data[-8:] == b"\x00\x00\x02\x00LANC"


# ---- changed ----


def mutate_file(name: str, data: bytes, others: list[bytes], random: Random) -> bytes:
    """`name`: says what kind of file it is."""
    chance = random.random()
    if not data or chance < 0.35:
        return mutate(data, others, random)
    if chance < 0.6:
        return mutate_in_place(data, random)
    if name.endswith(".manifest"):
        return _mutate_manifest(data, random)
    if name.endswith(".lance") and not is_legacy(data):
        return _mutate_columns(data, random)
    return mutate_in_place(data, random)


def mutate_in_place(data: bytes, random: Random) -> bytes:
    """The rest of the file stays where it was. Half of the changes are near its end, where its tables are."""
    size = min(len(data), random.choice((1, 2, 4, 8, 16)))
    last = len(data) - size
    start = random.randrange(last + 1)
    if random.random() < 0.5:
        start = max(0, last - random.randrange(400))
    part = mutate(data[start : start + size], [], random)
    return data[:start] + part.ljust(size, b"\0")[:size] + data[start + size :]


def _mutate_manifest(data: bytes, random: Random) -> bytes:
    manifest = Manifest(data)
    if manifest.sections and random.random() < 0.2:
        number = random.choice(list(manifest.sections))
        manifest.sections[number] = mutate_message(manifest.sections[number], random)
    else:
        manifest.message = mutate_message(manifest.message, random)
    return manifest.data()


def _mutate_columns(data: bytes, random: Random) -> bytes:
    file = DataFile(data)
    if not file.columns:
        return mutate_in_place(data, random)
    index = random.randrange(len(file.columns))
    chance = random.random()
    if chance < 0.05:
        file.columns[index] = random.choice(file.columns)
    elif chance < 0.1:
        del file.columns[index]
    else:
        file.columns[index] = mutate_message(file.columns[index], random)
    return file.data()


def mutate_message(message: bytes, random: Random, depth: int = 0) -> bytes:
    """One field of it, or of a message in it."""
    try:
        fields = fields_of(message)
    except (IndexError, KeyError):
        return mutate_in_place(message, random) if message else message
    if not fields:
        return message + bytes((8, random.randrange(128)))
    index = random.randrange(len(fields))
    field = fields[index]
    chance = random.random()
    if chance < 0.08:
        del fields[index]
    elif chance < 0.13:
        fields.insert(random.randrange(len(fields) + 1), field)
    elif chance < 0.17:
        fields[index] = field._replace(number=max(1, field.number + random.choice((-1, 1, 2))))
    elif isinstance(field.value, int):
        fields[index] = field._replace(value=_other_number(field.value, random))
    else:
        fields[index] = field._replace(value=_other_bytes(field.value, random, depth))
    return message_of(fields)


def _other_number(value: int, random: Random) -> int:
    if random.random() < 0.4:
        return max(0, value + random.choice((-8, -2, -1, 1, 2, 7, 64)))
    return random.choice(_NUMBERS if random.random() < 0.7 else _LARGE_NUMBERS)


def _other_bytes(value: bytes, random: Random, depth: int) -> bytes:
    """Of a message, a text, or packed numbers: who knows."""
    if value and depth < _DEPTH_MAX and random.random() < 0.85:
        return mutate_message(value, random, depth + 1)
    return mutate(value or b"\0", [], random)


# ---- lies, told on purpose ----


def with_field(message: bytes, number: int, value: int | bytes) -> bytes:
    """Instead of all fields of that number, if there are any."""
    kept = [field for field in fields_of(message) if field.number != number]
    return message_of([*kept, Field(number, value, 0 if isinstance(value, int) else 2)])
