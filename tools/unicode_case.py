"""Writes the tables of lower and upper case letters that the engine embeds, to the path given.

Python knows Unicode's letters, so they are not in the repository, and the engine needs no library for them.

    python tools/unicode_case.py wasm/src/kernel/unicode_case.bin

Each table says by how much a code point moves, in two levels: code >> 6 gives a block, a block gives a number
for each of its 64 code points, and that number a distance. For lower and then for upper case the file has

    u16 blocks of code points, u16 different blocks, u16 distances, u16 zero
    u8 number of the block, for each 64 code points       u8 × 64 for each different block
    i32 distances, the first of which is 0

Mappings are the simple ones, one code point to one, as in DuckDB, which makes of ß the one letter ẞ.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

BLOCK = 64
SHARP_S, CAPITAL_SHARP_S = 0xDF, 0x1E9E


def simple_lower(code: int) -> int:
    """Only İ has a lower case of more than one character, whose first is the simple one."""
    return ord(chr(code).lower()[0])


def simple_upper(code: int) -> int:
    """Where upper case takes several characters, the title case may be one; else the letter has none."""
    if code == SHARP_S:
        return CAPITAL_SHARP_S
    character = chr(code)
    for other in (character.upper(), character.title()):
        if len(other) == 1:
            return ord(other)
    return code


def table(mapped: list[int]) -> bytes:
    distances = [0]
    blocks: dict[bytes, int] = {}
    numbers = []
    last = max(code for code, other in enumerate(mapped) if other != code)
    for start in range(0, last + 1, BLOCK):
        block = bytearray()
        for code in range(start, start + BLOCK):
            distance = mapped[code] - code
            if distance not in distances:
                distances.append(distance)
            block.append(distances.index(distance))
        numbers.append(blocks.setdefault(bytes(block), len(blocks)))
    head = struct.pack("<4H", len(numbers), len(blocks), len(distances), 0)
    return head + bytes(numbers) + b"".join(blocks) + struct.pack(f"<{len(distances)}i", *distances)


def main(path: Path) -> None:
    codes = range(0x110000)
    surrogates = range(0xD800, 0xE000)
    tables = b"".join(
        table([code if code in surrogates else simple(code) for code in codes])
        for simple in (simple_lower, simple_upper)
    )
    # Builds may run side by side: whoever comes last replaces the file by its equal, in one step.
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(tables)
    part.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
