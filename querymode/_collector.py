"""Python's garbage collector, out of the way of what makes very many objects, none of them garbage."""

from __future__ import annotations

import gc


class CollectorPaused:
    """A block in which it does not run.

    Opening thousands of files or planning a long text makes hundreds of thousands of objects. To look through
    them again and again, and through all the others of the program, would take as long as all the rest.
    """

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
