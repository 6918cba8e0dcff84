"""Writes Brotli's static dictionary (RFC 7932, appendix A) to the path given.

The engine's decoder embeds these 122,784 bytes. They are not ours, so they are not in the repository, and a
build should not need the network. Every Brotli decoder carries them: this script writes a Brotli stream that
does nothing but name each word of the dictionary once, and any decoder at hand spells them out.

    python tools/brotli_dictionary.py wasm/src/codec/brotli_dictionary.bin

`zig build` runs it when its cache lacks the result, and copies that to the place above. An interpreter
without a Brotli decoder will do as long as the file is there.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "wasm" / "src" / "codec" / "brotli_dictionary.bin"
SIZE = 122_784
CRC_32 = 0x5136CB04  # RFC 7932, appendix A
# How many words there are of each length, as a power of two (RFC 7932, section 8).
WORD_BITS = {
    4: 10, 5: 10, 6: 11, 7: 11, 8: 10, 9: 10, 10: 10, 11: 10, 12: 10, 13: 9, 14: 9,
    15: 8, 16: 7, 17: 7, 18: 8, 19: 7, 20: 7, 21: 6, 22: 6, 23: 5, 24: 5,
}  # fmt: skip
# First length and number of extra bits of the copy length codes 2 … 12 (section 5).
COPY_CODES = {
    2: (4, 0), 3: (5, 0), 4: (6, 0), 5: (7, 0), 6: (8, 0), 7: (9, 0),
    8: (10, 1), 9: (12, 1), 10: (14, 2), 11: (18, 2), 12: (22, 3),
}  # fmt: skip
WINDOW = (1 << 10) - 16  # the smallest window: further back means the dictionary


class BitWriter:
    """Collects numbers least significant bit first."""

    def __init__(self) -> None:
        self.value = 0
        self.count = 0
        self.bytes = bytearray()

    def write(self, value: int, count: int) -> None:
        self.value |= value << self.count
        self.count += count
        whole = self.count // 8
        self.bytes += (self.value & ((1 << 8 * whole) - 1)).to_bytes(whole, "little")
        self.value >>= 8 * whole
        self.count -= 8 * whole

    def finish(self) -> bytes:
        self.write(0, -self.count % 8)
        return bytes(self.bytes)


def write_header(bits: BitWriter, size: int, command: int) -> None:
    """A meta-block of `size` bytes whose commands are all the same and whose distances have 6-bit codes."""
    bits.write(0, 1)  # not the last
    bits.write(0, 2)  # its size in four nibbles
    bits.write(size - 1, 16)
    bits.write(0, 1)  # compressed
    bits.write(0, 3)  # one block type for literals, commands, distances
    bits.write(0, 2 + 4)  # neither postfix bits nor direct distance codes
    bits.write(0, 2)  # a context mode for literals, of which there are none
    bits.write(0, 2)  # one prefix code for literals, one for distances
    for symbol, width in ((0, 8), (command, 10)):
        bits.write(1, 2)  # a simple prefix code
        bits.write(0, 2)  # of one symbol, which then takes no bits
        bits.write(symbol, width)
    bits.write(0, 2)  # a complex prefix code: each of its 64 symbols is 6 bits long
    for length in (1, 2, 3, 4, 0, 5, 17, 6, 16, 7, 8, 9, 10, 11, 12, 13, 14, 15):
        bits.write(2 if length == 6 else 0, 2)  # code lengths 3 and 0: the only one takes no bits


def write_distance(bits: BitWriter, distance: int) -> None:
    """Section 4: the symbol gives the two leading bits, the others follow as they are."""
    extra_bits = (distance + 3).bit_length() - 2
    symbol = 16 + 2 * (extra_bits - 1) + ((distance + 3) >> extra_bits & 1)
    bits.write(int(f"{symbol:06b}"[::-1], 2), 6)  # prefix codes come most significant bit first
    bits.write((distance + 3) & ((1 << extra_bits) - 1), extra_bits)


def write_stream() -> bytes:
    """One meta-block for the words of each length; a word is a copy from beyond the window."""
    bits = BitWriter()
    bits.write(0b0100001, 7)  # a window of 10 bits
    written = 0
    for length, word_bits in WORD_BITS.items():
        code = max(code for code, (first, _) in COPY_CODES.items() if first <= length)
        first, extra_bits = COPY_CODES[code]
        # Insert nothing; copy codes 0 … 7 start at 128, 8 … 15 at 192 (section 5).
        write_header(bits, length << word_bits, 128 + code if code < 8 else 192 + code - 8)
        for word in range(1 << word_bits):
            bits.write(length - first, extra_bits)
            write_distance(bits, min(WINDOW, written) + 1 + word)
            written += length
    bits.write(0b11, 2)  # the last meta-block, empty
    return bits.finish()


def decompress(stream: bytes) -> bytes:
    try:
        import brotli
    except ImportError:
        try:
            import pyarrow
        except ImportError:
            raise SystemExit(
                f"{sys.executable} has neither brotli nor pyarrow, one of which gives the Brotli dictionary: "
                "pip install brotli, or name another interpreter with zig build -Dpython=…"
            ) from None
        return bytes(pyarrow.Codec("brotli").decompress(stream, SIZE))
    return bytes(brotli.decompress(stream))


def is_dictionary(words: bytes) -> bool:
    return len(words) == SIZE and zlib.crc32(words) == CRC_32


def main(path: Path) -> None:
    words = KEPT.read_bytes() if KEPT.exists() else b""
    if not is_dictionary(words):
        words = decompress(write_stream())
    if not is_dictionary(words):
        raise SystemExit("the Brotli decoder at hand gave another dictionary than RFC 7932 has")
    # Builds may run side by side: whoever comes last replaces the file by its equal, in one step.
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(words)
    part.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
