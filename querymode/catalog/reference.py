"""Reference: what somebody named, and what that stands for now.

    where, options → files → marks ── the same as before → the snapshot of before
                                  └─ others ─────────────→ format.resolve → a new snapshot

A mark is what changes when a file does: its inode and times, or what its server says of it. Looking again
lists and asks, and reads nothing of files that are what they were.
"""

from __future__ import annotations

import os
import time

from querymode._collector import CollectorPaused
from querymode.catalog.files import find_files, resolve
from querymode.catalog.opening import Opening
from querymode.errors import QueryModeError, error
from querymode.format.footer_cache import default_cache
from querymode.store.fetch import IoGate, opening_gate
from querymode.store.local import identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Any

    from querymode.catalog.opening import Hive, Mark
    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Format
    from querymode.store.access import Access
    from querymode.store.options import StoreOptions
    from querymode.table.stored import StoredTable
    from querymode.table.table import Origin

#: Other machines are not asked again for the first query that follows the opening within this time: it is
#: what the opening was for, and a request may take as long as the query.
FRESH_SECONDS = 1.0


#: So many files that were named one by one are looked at without the detour over a listing.
_NAMED_MAX = 64


class _Held:
    """A snapshot. `fresh_until`: see FRESH_SECONDS; 0 once a query has had it. `is_named`: its files are
    those that somebody named, on this machine, so that there is nothing to list."""

    __slots__ = ("fresh_until", "is_named", "marks", "table")

    def __init__(self, table: StoredTable, marks: list[Mark]) -> None:
        self.table = table
        self.marks = marks
        self.fresh_until = 0.0
        self.is_named = False

    def is_unchanged(self, access: Access) -> bool:
        """Whether files that were named are what they were. What became of others is found out elsewhere."""
        try:
            return all(identity_of(path, access) == mark for path, _, mark in self.marks)
        except QueryModeError:
            return False


class Reference:
    """A path, folder, pattern, URL or a list of those, with the options of who reads it."""

    def __init__(
        self,
        where: Any,
        options: StoreOptions,
        *,
        said: Format | None,
        hive: Hive,
        reader: Mapping[str, Any],
        name: str | None = None,
        origin: Origin | None = None,
        cache: FooterCache | None = None,
    ) -> None:
        self._where = where
        self._options = options
        self._said = said
        self._hive = hive
        self._reader = reader
        self._name = name
        self._origin = origin
        self._cache = cache or default_cache()
        # Replaced as a whole: threads that look at the same time may both be right.
        self._held: _Held | None = None
        self._key: Hashable = None

    @property
    def key(self) -> Hashable:
        """Never shown: it may hold credentials."""
        if self._key is None:
            where = self._where
            paths = (
                os.fspath(where) if isinstance(where, (str, os.PathLike)) else tuple(map(os.fspath, where))
            )
            settings = (self._reader, self._hive.wanted, self._hive.types, self._options.storage_options)
            self._key = (paths, self._options.root, id(self._said), repr(settings))
        return self._key

    def open(self, gate: IoGate | None = None) -> StoredTable:
        """The first snapshot."""
        gate = gate or IoGate()
        before = (gate.request_count, gate.byte_count)
        with CollectorPaused():
            opening = self._opening(gate)
            table = self._resolved(opening, find_files(self._where, opening))
        table.opening = (gate.request_count - before[0], gate.byte_count - before[1])
        return table

    def current(self) -> StoredTable:
        held = self._held
        if held is None:
            return self.open(opening_gate())
        if time.monotonic() < held.fresh_until:
            held.fresh_until = 0.0
            return held.table
        if held.is_named and held.is_unchanged(self._options.access):
            return held.table
        gate = opening_gate() or IoGate()
        before = (gate.request_count, gate.byte_count)
        with CollectorPaused():
            opening = self._opening(gate)
            opening.looks_again = True
            found = find_files(self._where, opening)
            if opening.marks_of(found, held.marks) == held.marks:
                table = held.table
            else:
                table = self._resolved(opening, found)
        requests, size = table.opening
        table.opening = (requests + gate.request_count - before[0], size + gate.byte_count - before[1])
        return table

    def versions(self) -> list[dict[str, Any]]:
        """What is known of all versions of a table that has some."""
        opening = self._opening(opening_gate() or IoGate())
        found = find_files(self._where, opening)
        if len(found) != 1 or found[0].format is None:
            raise error("NOT_SUPPORTED", "these are files, or several tables; one table has versions")
        return found[0].format.versions(opening, found[0])

    def _opening(self, gate: IoGate) -> Opening:
        opening = Opening(self._options, gate, self._cache, self._said, self._hive)
        opening.reader = self._reader
        return opening

    def _resolved(self, opening: Opening, found: list[Any]) -> StoredTable:
        is_known = self._held is not None
        table = resolve(opening, found, self._reader, self._name)
        table.origin, table.reference = self._origin, self
        held = self._held = _Held(table, opening.marks)
        if opening.has_remote:
            held.fresh_until = 0.0 if is_known else time.monotonic() + FRESH_SECONDS
        else:
            held.is_named = len(found) <= _NAMED_MAX and all(file.is_named for file in found)
        return table
