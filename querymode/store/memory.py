"""Bytes that are already in memory, read like any other object."""

from __future__ import annotations

from querymode.store.source import ByteSource, Patience

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class BytesSource(ByteSource):
    """The bytes belong to the source: whoever made it no longer changes them."""

    local = True

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "(memory)") -> None:
        self._data = memoryview(data).cast("B").toreadonly()
        self._digest: str | None = None
        self.name = name
        self.size = len(self._data)

    @property
    def identity(self) -> Hashable:  # type: ignore[override]
        """A digest of all bytes, made when first asked for."""
        if self._digest is None:
            from hashlib import sha256

            self._digest = sha256(self._data).hexdigest()
        return ("memory", self._digest, self.size)

    def read(self, offset: int, size: int, *, patience: Patience | None = None) -> bytes:
        self.check_range(offset, size)
        return bytes(self._data[offset : offset + size])

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        patience = patience or Patience()
        for offset, target in self.checked(ranges):
            with patience.writing():
                target[:] = self._data[offset : offset + len(target)]

    def close(self) -> None:
        self._data = memoryview(b"")
