"""Views over buffers of any kind: their bytes, and runs of bits in them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Buffer(Protocol):
        def __buffer__(self, flags: int, /) -> memoryview: ...


def view_bytes(buffer: Buffer) -> memoryview:
    return memoryview(buffer).cast("B")


def cut_bits(bits: Buffer, first_bit: int, count: int) -> tuple[memoryview, int]:
    """The bytes with these bits, and the bit in the first byte where they begin."""
    if count == 0:
        return memoryview(b""), 0
    return view_bytes(bits)[first_bit >> 3 : (first_bit + count + 7) >> 3], first_bit & 7
