"""Sources for tests: slow ones, ones that fail, ones that wait to be let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from querymode.store.source import ByteSource, Patience


class FaultySource(ByteSource):
    """A remote source over bytes. A range waits for `gate`, takes `delay`, and fails when `fault` says so."""

    local = False

    def __init__(
        self,
        data: bytes,
        *,
        delay: float = 0.0,
        gate: threading.Event | None = None,
        fault: Callable[[int], Exception | None] | None = None,
    ) -> None:
        self.data = data
        self.size = len(data)
        self.name = "faulty"
        self.identity = ("faulty", id(self))
        self.delay = delay
        self.gate = gate
        self.fault = fault
        self.running = 0
        self.running_max = 0
        self.started = 0
        self._lock = threading.Lock()

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        patience = patience or Patience()
        for offset, target in self.checked(ranges):
            with self._lock:
                self.running += 1
                self.started += 1
                self.running_max = max(self.running_max, self.running)
            try:
                if self.gate is not None:
                    self.gate.wait(10)  # like a socket: deaf to `stop`
                time.sleep(self.delay)
                failure = self.fault(offset) if self.fault is not None else None
                if failure is not None:
                    raise failure
                patience.deliver(target, self.data[offset : offset + len(target)])
            finally:
                with self._lock:
                    self.running -= 1
