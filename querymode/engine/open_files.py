"""Fragments that an instance knows: their footers stay open in it between queries."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from querymode._abi import FileFormat
    from querymode.engine.instance import Instance

    class Described(Protocol):
        """What a fragment says of itself, as its format's reader takes it."""

        @property
        def blob(self) -> bytes: ...


#: Footers that an instance keeps open.
OPEN_FILES_MAX = 64


def open_file(instance: Instance, format: FileFormat, footer: Described) -> int:
    """The engine's handle of a fragment. An instance keeps those of the last ones it saw."""
    files = instance.files
    found = files.pop(id(footer), None)
    if found is None:
        while len(files) >= OPEN_FILES_MAX:
            oldest = next(iter(files))
            instance.file_close(files.pop(oldest)[0])
        found = (instance.file_open(footer.blob, format), footer)
    files[id(footer)] = found
    return found[0]
