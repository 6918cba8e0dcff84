"""Tests marked `alone` measure time: they run while no other process of the tests runs any.

Two locks of the file system do it; with one, others who come and go might never let a measuring test in:

    door    held while waiting for the room, so that whoever comes later waits behind
    room    shared by tests that do not mind each other, had by one that does
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Turns:
    """Of one process. Measuring tests that follow each other keep the room, others need not come between."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._door = (folder / "tests_door.lock").open("w")
        self._room = (folder / "tests_room.lock").open("w")
        self._is_kept = False
        # A lock is held as long as any process has its file open, and a forked child may outlive this one.
        os.register_at_fork(after_in_child=self._close)

    def _close(self) -> None:
        self._door.close()
        self._room.close()

    @contextmanager
    def turn(self, *, alone: bool, next_alone: bool) -> Iterator[None]:
        if not (alone and self._is_kept):
            fcntl.flock(self._door, fcntl.LOCK_EX)
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            self._is_kept = alone and next_alone
            if not self._is_kept:
                fcntl.flock(self._room, fcntl.LOCK_UN)
