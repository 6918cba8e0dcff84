"""A source that counts: "reads less" is a promise, and this is how it is tested and shown."""

from __future__ import annotations

import threading

from querymode.store.source import ByteSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from querymode.store.source import Patience


class CountingSource(ByteSource):
    """Wraps a source. A range is a request, whoever merges it below; the tail it came with is not."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.name = source.name
        self.size = source.size
        self.identity = source.identity
        self.local = source.local
        self.opening_requests = source.opening_requests
        self.opening_bytes = source.opening_bytes
        self.tail = source.tail
        #: (offset, size) in the order in which they were asked for.
        self.log: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    @property
    def request_count(self) -> int:
        return len(self.log)

    @property
    def byte_count(self) -> int:
        with self._lock:
            return sum(size for _, size in self.log)

    def reset(self) -> None:
        with self._lock:
            self.log.clear()

    def read(self, offset: int, size: int, *, patience: Patience | None = None) -> bytes:
        self._count([(offset, size)])
        return self.source.read(offset, size, patience=patience)

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        self._count([(offset, view.nbytes) for offset, view in ranges])
        self.source.read_into(ranges, patience=patience)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.source.prefetch(ranges)

    def verify_unchanged(self) -> None:
        self.source.verify_unchanged()

    def close(self) -> None:
        self.source.close()

    def _count(self, ranges: list[tuple[int, int]]) -> None:
        with self._lock:
            self.log += ranges
