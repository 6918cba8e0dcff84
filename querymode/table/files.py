"""Tables over files: a schema, the files behind it, and how their row groups are cut into lanes.

A row group is a unit of work and a lane a run of consecutive row groups. Both are cut from the files alone,
never from threads or budgets. What a file lacks of the table's columns is NULL there; what a partition folder
says (`region=us/`) is the same in all its rows.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from querymode import _abi
from querymode.table.memory import cut_lanes
from querymode.table.table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from querymode.execute.top_bound import Zone
    from querymode.format.parquet.flat_footer import FlatFooter
    from querymode.schema import Schema
    from querymode.store.source import ByteSource

#: Many small files share lanes: more of them balance no better.
LANE_COUNT_MAX = 256

#: Where a column of the table comes from in a file, as the engine reads it (wasm/src/scan_request.zig).
CONSTANT = _abi.PLACE_CONSTANT.to_bytes(4, "little")
MISSING = _abi.PLACE_MISSING.to_bytes(4, "little")
UNKNOWN = _abi.PLACE_UNKNOWN.to_bytes(4, "little")


class TableFile:
    """A file of a table. `places`: for every column of the table, where it comes from."""

    __slots__ = ("footer", "name", "open", "places", "row_counts")

    def __init__(
        self, name: str, open_: Callable[[], ByteSource], footer: FlatFooter, places: Sequence[bytes]
    ) -> None:
        self.name = name
        #: Opens it for one query. Fails when it is no longer the file whose footer this is.
        self.open = open_
        self.footer = footer
        #: Four bytes of its column's number, or one of the marks above (CONSTANT with its value).
        self.places = tuple(places)
        self.row_counts = footer.row_counts()


class FileTable(Table):
    """Files with one schema, whose footers say what is in them."""

    kind = "row groups"
    is_stored = True

    def __init__(self, schema: Schema, files: Sequence[TableFile], name: str | None = None) -> None:
        self.schema = schema
        self.name = name
        self.files = tuple(files)
        #: Requests and bytes that opening it has cost, until a query has been charged with them.
        self.opening = (0, 0)
        #: Whether readers compare the checksums of pages.
        self.verify_crc = False
        #: (file, row group) in order; empty row groups are left out.
        self.groups = [
            (number, group)
            for number, file in enumerate(self.files)
            for group, rows in enumerate(file.row_counts)
            if rows
        ]
        self._row_count = sum(sum(file.row_counts) for file in self.files)
        #: By column and row group, what footers say of the values (execute/top_bound.py).
        self.zones: dict[int, dict[tuple[int, int], Zone]] = {}
        #: By (file, row group), runs of rows as the engine reads them: the only ones that the table has.
        self.picked: dict[tuple[int, int], bytes] = {}
        #: Each a range of `groups`.
        self.lanes = cut_lanes(len(self.groups), LANE_COUNT_MAX)

    def __getstate__(self) -> dict[str, Any]:
        # What footers say is asked again where it is wanted.
        return {**self.__dict__, "zones": {}, "opening": (0, 0)}

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def evidence(self) -> FileTable:
        return self

    def describe(self) -> str:
        files = f"{len(self.files):,} files" if len(self.files) != 1 else self.files[0].name
        return f"scan {files}: {self._row_count:,} rows in {len(self.groups):,} row groups"

    def take_opening(self) -> tuple[int, int]:
        opening, self.opening = self.opening, (0, 0)
        return opening

    def with_rows(self, places: Sequence[int]) -> FileTable:
        """What footers say of values, they say of all rows."""
        picked = FileTable(self.schema, self.files, self.name)
        picked.verify_crc = self.verify_crc
        picked.opening = self.take_opening()
        picked.groups = []
        first = taken = 0
        for number, group in self.groups:
            end = first + self.files[number].row_counts[group]
            begun = taken
            taken = bisect_left(places, end, begun)
            if taken > begun:
                picked.groups.append((number, group))
                picked.picked[number, group] = _runs([place - first for place in places[begun:taken]])
            first = end
        picked._row_count = len(places)
        picked.lanes = cut_lanes(len(picked.groups), LANE_COUNT_MAX)
        return picked

    @property
    def lane_count(self) -> int:
        return len(self.lanes)

    def lane_rows(self, lane: int) -> int:
        groups = [self.groups[index] for index in self.lanes[lane]]
        return sum(self.files[number].row_counts[group] for number, group in groups)

    def null_count(self, index: int) -> int | None:
        """NULLs of a column, if the footers say."""
        total = 0
        for file in self.files:
            place = file.places[index]
            if place == MISSING:
                total += sum(file.row_counts)
            elif place[:4] == CONSTANT:
                total += sum(file.row_counts) if place[-1:] == b"\x01" and _is_null_constant(place) else 0
            else:
                column = int.from_bytes(place, "little")
                if column >= file.footer.column_count:
                    return None  # a field of a structure: writers disagree on what its NULLs are
                leaves = file.footer.leaf_ranges[column]
                if len(leaves) != 1:
                    return None
                for group in range(file.footer.row_group_count):
                    nulls = file.footer.chunk(group, leaves.start).null_count
                    if nulls is None:
                        return None
                    total += nulls
        return total


def _runs(rows: list[int]) -> bytes:
    """Rising row numbers as runs: the first, and behind the last."""
    found: list[int] = []
    for row in rows:
        if found and found[-1] == row:
            found[-1] += 1
        else:
            found += (row, row + 1)
    return struct.pack(f"<{len(found)}I", *found)


def _is_null_constant(place: bytes) -> bool:
    from querymode.types import decode_type

    _, position = decode_type(place, 4)
    return place[position] == 1
