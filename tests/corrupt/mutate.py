"""Valid bytes → bytes that are nearly valid. Deterministic: the same Random gives the same mutation."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

#: What lengths, counts and tags are most often wrong by.
_EDGE_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_EDGE_WORDS = (0, 1, 2, 0x7FFF, 0x8000, 0xFFFF)
_EDGE_LONGS = (0, 1, 0xFFFF, 0x1_0000, 0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF)
_EDGE_QUADS = (0, 1, 0xFFFF_FFFF, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_STEPS = (-2, -1, 1, 2, 7, 8, 64, -64)

Mutation = Callable[[bytearray, Random], None]


def flip_bit(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def set_byte(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice(_EDGE_BYTES)


def random_byte(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.randrange(256)


def small_step(data: bytearray, random: Random) -> None:
    """Tags and operators: their neighbours are other tags and operators."""
    at = random.randrange(len(data))
    data[at] = (data[at] + random.choice((-3, -2, -1, 1, 2, 3))) & 0xFF


def truncate(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def cut_out(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    del data[start : start + 1 + random.randrange(16)]


def duplicate(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    part = data[start : start + 1 + random.randrange(32)]
    data[start:start] = part * (1 + random.randrange(3))


def insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(1 + random.randrange(8))


def swap_parts(data: bytearray, random: Random) -> None:
    size = 1 + random.randrange(min(16, len(data)))
    a, b = random.randrange(len(data) - size + 1), random.randrange(len(data) - size + 1)
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def _tweak(layout: struct.Struct, edges: Sequence[int]) -> Mutation:
    mask = (1 << (8 * layout.size)) - 1

    def tweak(data: bytearray, random: Random) -> None:
        if len(data) < layout.size:
            return
        at = random.randrange(len(data) - layout.size + 1)
        (value,) = layout.unpack_from(data, at)
        value = random.choice(edges) if random.random() < 0.5 else value + random.choice(_STEPS)
        layout.pack_into(data, at, value & mask)

    return tweak


tweak_u16 = _tweak(struct.Struct("<H"), _EDGE_WORDS)
tweak_u32 = _tweak(struct.Struct("<I"), _EDGE_LONGS)
tweak_u64 = _tweak(struct.Struct("<Q"), _EDGE_QUADS)

MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    set_byte,
    random_byte,
    small_step,
    small_step,
    truncate,
    cut_out,
    duplicate,
    insert,
    swap_parts,
    tweak_u16,
    tweak_u32,
    tweak_u32,
    tweak_u64,
)


def splice(a: bytes, b: bytes, random: Random) -> bytes:
    """The beginning of one, the end of the other."""
    return a[: random.randrange(len(a) + 1)] + b[random.randrange(len(b) + 1) :]


def mutate(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """One to four mutations, mostly one: several at once rarely get past the first check."""
    if others and random.random() < 0.08:
        data = splice(data, random.choice(others), random)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        if not changed:
            changed += random.randbytes(4)
        random.choice(MUTATIONS)(changed, random)
    return bytes(changed)
