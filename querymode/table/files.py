"""Tables of files whose rows are known before they are read: fragments, and the pieces they are cut into.

A fragment is a file, or several that hold columns of the same rows. A piece is what is read at once (of
Parquet: a row group), and a lane a run of consecutive pieces. All are cut from the snapshot alone, never from
threads or budgets. What a fragment lacks of the table's columns is NULL there; what a partition folder says
(`region=us/`) is the same in all its rows.

Pieces are known by their numbers, and what is known of all of them lies in arrays: a manifest may name a
hundred thousand fragments, of which a query reads two. Only those are made into objects.

Rows of a fragment may have been deleted. Its files still have them, so all that files and manifests say of
pieces (their rows, bounds, NULLs) is said of these rows too: it rules pieces out, and answers nothing.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, overload

from querymode._abi import FileFormat
from querymode.errors import error
from querymode.table.memory import cut_lanes
from querymode.table.stored import StoredTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, Self

    from querymode.engine.instance import Instance
    from querymode.schema import Schema
    from querymode.store.fetch import IoGate
    from querymode.store.source import ByteSource
    from querymode.table.evidence import Evidence
    from querymode.table.zone import Zone

    class Footer(Protocol):
        """What a fragment says of itself, as the engine takes it (`qm_file_open`)."""

        @property
        def blob(self) -> bytes: ...
        @property
        def tail(self) -> tuple[int, bytes]:
            """Of the first file, what came with the footer: where it begins, and it."""

        @property
        def tail_identity(self) -> object:
            """What the file must still be for that to be part of it."""

    class Opener(Protocol):
        """Opens a file for one query. Fails when it is no longer the file that the snapshot has."""

        def __call__(self, gate: IoGate | None = None, /) -> ByteSource:
            """`gate`: the query's, which what it costs is counted by."""

    class Fragments(Protocol):
        """By number. They may be made when they are asked for."""

        def __len__(self) -> int: ...
        @overload
        def __getitem__(self, number: int, /) -> TableFile: ...
        @overload
        def __getitem__(self, numbers: slice, /) -> Fragments: ...
        def __iter__(self) -> Iterator[TableFile]: ...


#: Many small files share lanes: more of them balance no better.
LANE_COUNT_MAX = 256


class LateFooter:
    """What a fragment says of itself, once somebody has asked its files."""

    tail: tuple[int, bytes] = (0, b"")
    tail_identity: object = None

    @property
    def blob(self) -> bytes:
        raise NotImplementedError

    def bring(self, instance: Instance, gate: IoGate, source: Callable[[int], ByteSource]) -> None:
        """Before the fragment is opened in an engine, by whoever reads it: several threads may. `source`: of
        the fragment's files by number."""
        raise NotImplementedError


class FileRole(Enum):
    """What a fragment has a file for."""

    DATA = "data"
    DELETES = "deletes"
    INDEX = "index"


class FragmentFile(NamedTuple):
    """A file of a fragment, as it was when the snapshot was made; what was not looked at is None."""

    #: As people may see it: without credentials.
    location: str
    open: Opener
    identity: Hashable = None
    size: int | None = None
    role: FileRole = FileRole.DATA


class TableFile:
    """A fragment. `files`: those with data first, by the numbers that its reader in the engine has for them.
    `places`: for every column of the table, where it comes from (places.py)."""

    __slots__ = ("files", "footer", "places")

    def __init__(self, files: Sequence[FragmentFile], footer: Any, places: Sequence[bytes]) -> None:
        self.files = tuple(files)
        self.footer = footer
        self.places = tuple(places)

    @property
    def name(self) -> str:
        return self.files[0].location


class Cuts:
    """How many rows the pieces have, deleted ones among them, and which fragment each belongs to.

    `firsts`: by fragment, the number of its first piece, and behind the last one the number of all.
    """

    __slots__ = ("firsts", "row_counts")

    def __init__(self, row_counts: array[int], firsts: array[int] | None = None) -> None:
        """Without `firsts`, every fragment is one piece."""
        self.row_counts = row_counts
        self.firsts = firsts

    @classmethod
    def of(cls, fragments: Sequence[Sequence[int]]) -> Cuts:
        """Of the rows of every fragment's pieces."""
        counts = array("q", [rows for pieces in fragments for rows in pieces])
        return cls(counts, array("q", accumulate(map(len, fragments), initial=0)))

    def __len__(self) -> int:
        return len(self.row_counts)

    def place(self, piece: int) -> tuple[int, int]:
        """The fragment that a piece is of, and its number there."""
        if self.firsts is None:
            return piece, 0
        fragment = bisect_right(self.firsts, piece) - 1
        return fragment, piece - self.firsts[fragment]

    def pieces_in(self, fragments: range) -> range:
        """Of fragments side by side."""
        if self.firsts is None:
            return fragments
        return range(self.firsts[fragments.start], self.firsts[fragments.stop])

    def part(self, fragments: range) -> Cuts:
        """Of these alone, counted from 0."""
        pieces = self.pieces_in(fragments)
        counts = self.row_counts[pieces.start : pieces.stop]
        if self.firsts is None:
            return Cuts(counts)
        firsts = self.firsts[fragments.start : fragments.stop + 1]
        return Cuts(counts, array("q", [first - pieces.start for first in firsts]))


class Deleted:
    """Rows that were deleted, by fragment. It goes wherever pieces are read, other processes too."""

    #: Of all fragments, asked before any of them is opened. None where lists of them may overlap.
    row_count: int | None

    def bitmap(self, fragment: int, gate: IoGate, /) -> bytes:
        """A bit for every row that the fragment's files have, and zeros behind them; nothing where all are
        left. It may be read when it is asked for, which several threads may do: through `gate`."""
        raise NotImplementedError

    def part(self, fragments: range) -> Deleted:
        """Of these alone, counted from 0."""
        return _DeletedFrom(self, fragments.start)


class _DeletedFrom(Deleted):
    row_count = None

    def __init__(self, whole: Deleted, first: int) -> None:
        self._whole = whole
        self._first = first

    def bitmap(self, fragment: int, gate: IoGate, /) -> bytes:
        return self._whole.bitmap(self._first + fragment, gate)


class DeletedRows(Deleted):
    """Of fragments that are known when the table is made: by number, their bitmaps."""

    def __init__(self, bitmaps: Mapping[int, bytes]) -> None:
        self._bitmaps = bitmaps
        self.row_count = sum(int.from_bytes(bits, "little").bit_count() for bits in bitmaps.values())

    def bitmap(self, fragment: int, gate: IoGate, /) -> bytes:
        return self._bitmaps.get(fragment, b"")

    def part(self, fragments: range) -> DeletedRows:
        first = fragments.start
        return DeletedRows({n - first: bits for n, bits in self._bitmaps.items() if n in fragments})


class FileTable(StoredTable):
    """Fragments with one schema."""

    kind = "pieces"

    def __init__(
        self,
        schema: Schema,
        files: Fragments,
        cuts: Cuts,
        name: str | None = None,
        *,
        format: FileFormat = FileFormat.PARQUET,
        deleted: Deleted | None = None,
    ) -> None:
        self.schema = schema
        self.name = name
        self.format = format
        self.files = files
        self.cuts = cuts
        #: Whether readers compare the checksums of pages.
        self.verify_crc = False
        #: Pieces that have rows, in order.
        self.pieces: Sequence[int] = _with_rows(cuts.row_counts)
        self._stored_count = sum(cuts.row_counts)
        self._evidence: Evidence | None = None
        #: By column and piece, what is known of the values (execute/top_bound.py).
        self.zones: dict[int, dict[int, Zone]] = {}
        #: By piece, runs of rows as the engine reads them: the only ones that the table has.
        self.picked: dict[int, bytes] = {}
        #: None: every row is left.
        self.deleted = deleted if deleted is not None and deleted.row_count != 0 else None
        #: Each a range of `pieces`.
        self.lanes = cut_lanes(len(self.pieces), LANE_COUNT_MAX)

    def __getstate__(self) -> dict[str, Any]:
        # What footers say is asked again where it is wanted.
        return {**super().__getstate__(), "zones": {}}

    @property
    def row_count(self) -> int | None:
        if self.deleted is None:
            return self._stored_count
        gone = self.deleted.row_count
        return None if gone is None else self._stored_count - gone

    @property
    def rows_expected(self) -> int:
        count = self.row_count
        return self._stored_count if count is None else count

    @property
    def evidence(self) -> Evidence | None:
        return self._evidence

    @property
    def answers(self) -> Evidence | None:
        # It speaks of all rows that the pieces have.
        if self._evidence is None or not self._evidence.is_exact or self.deleted is not None or self.picked:
            return None
        return self._evidence

    def use_evidence(self, evidence: Evidence) -> None:
        """Before anybody asks: what rules pieces out."""
        self._evidence = evidence

    def describe(self) -> str:
        files = f"{len(self.files):,} files" if len(self.files) != 1 else self.files[0].name
        return f"scan {files}: {self.rows_expected:,} rows in {len(self.pieces):,} row groups"

    def _like(self, schema: Schema, files: Fragments) -> Self:
        """The same pieces of other files."""
        table = type(self)(schema, files, self.cuts, self.name, format=self.format, deleted=self.deleted)
        table.verify_crc = self.verify_crc
        if self._evidence is not None:
            table.use_evidence(self._evidence.of(table))
        return table

    def with_columns(self, schema: Schema, places: Sequence[int]) -> Self:
        return self._like(schema, _Replaced(self.files, tuple(places)))

    def with_rows(self, places: Sequence[int]) -> FileTable | None:
        """What evidence says of values, it says of all rows."""
        if self.deleted is not None:
            return None  # row numbers of a piece count those that were deleted
        picked = self._like(self.schema, self.files)
        picked.opening = self.take_opening()
        pieces = []
        first = taken = 0
        for piece in self.pieces:
            end = first + self.cuts.row_counts[piece]
            begun = taken
            taken = bisect_left(places, end, begun)
            if taken > begun:
                pieces.append(piece)
                picked.picked[piece] = _runs([place - first for place in places[begun:taken]])
            first = end
        picked.pieces = pieces
        picked._stored_count = len(places)
        picked.lanes = cut_lanes(len(pieces), LANE_COUNT_MAX)
        return picked

    def slice(self, lanes: range) -> FileTable:
        """Fragments that these lanes read, and no others; pieces have other numbers."""
        own = [self.lanes[lane] for lane in lanes if lane < len(self.lanes)]
        first, end = (own[0].start, own[-1].stop) if own else (0, 0)
        numbers = self.pieces[first:end]
        fragments = range(0)
        if end:
            fragments = range(self.cuts.place(numbers[0])[0], self.cuts.place(numbers[-1])[0] + 1)
        pieces = self.cuts.pieces_in(fragments)
        files = self.files[fragments.start : fragments.stop]
        deleted = None if self.deleted is None else self.deleted.part(fragments)
        cuts = self.cuts.part(fragments)
        table = FileTable(self.schema, files, cuts, self.name, format=self.format, deleted=deleted)
        table.verify_crc = self.verify_crc
        table.pieces = array("q", [piece - pieces.start for piece in numbers])
        table.picked = {n - pieces.start: runs for n, runs in self.picked.items() if n in pieces}
        nothing = range(0)
        table.lanes = [
            range(lane.start - first, lane.stop - first) if number in lanes else nothing
            for number, lane in enumerate(self.lanes)
        ]
        if self._evidence is not None:
            table.use_evidence(self._evidence.part(table, pieces))
        return table

    @property
    def lane_count(self) -> int:
        return len(self.lanes)

    def lane_rows(self, lane: int) -> int | None:
        if self.deleted is not None:
            return None  # bitmaps are not looked at for its sake
        return sum(self.cuts.row_counts[self.pieces[index]] for index in self.lanes[lane])

    def null_count(self, index: int) -> int | None:
        return None if self.answers is None else self.answers.null_count(index)

    def deleted_rows(self, piece: int, gate: IoGate) -> bytes:
        """Of a piece, a bit for every row that was deleted; nothing where none was."""
        if self.deleted is None:
            return b""
        fragment, _ = self.cuts.place(piece)
        bits = self.deleted.bitmap(fragment, gate)
        pieces = self.cuts.pieces_in(range(fragment, fragment + 1))
        return self._bits_of(piece, pieces, bits) if bits else b""

    def is_gone(self, piece: int, gate: IoGate) -> bool:
        """Whether all of its rows were deleted: then it is not read."""
        if self.deleted is None:
            return False
        bits = self.deleted_rows(piece, gate)
        return int.from_bytes(bits, "little").bit_count() == self.cuts.row_counts[piece]

    def _bits_of(self, piece: int, pieces: range, bits: bytes) -> bytes:
        """A piece's part of its fragment's bitmap. Cuts need not lie where bytes begin."""
        counts = self.cuts.row_counts
        stored = sum(counts[pieces.start : pieces.stop])
        if len(bits) != (stored + 7) // 8 or bits[-1] >> (stored - 1) % 8 > 1:
            raise error("INTERNAL", f"a bitmap of {len(bits):,} bytes does not fit {stored:,} rows")
        found = bits_of_rows(bits, sum(counts[pieces.start : piece]), counts[piece])
        return found if any(found) else b""


class SomeFragments:
    """Of fragments that are made when they are asked for some, side by side, counted from 0."""

    __slots__ = ("_all", "_numbers")

    def __init__(self, all: Fragments, numbers: range) -> None:
        self._all = all
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[TableFile]:
        return map(self._all.__getitem__, self._numbers)

    @overload
    def __getitem__(self, number: int, /) -> TableFile: ...
    @overload
    def __getitem__(self, numbers: slice, /) -> Fragments: ...
    def __getitem__(self, number: int | slice, /) -> TableFile | Fragments:
        if isinstance(number, slice):
            return SomeFragments(self._all, self._numbers[number])
        return self._all[self._numbers[number]]


class _Replaced:
    """Fragments with other columns: `places` are their numbers in the fragments below."""

    __slots__ = ("_files", "_places")

    def __init__(self, files: Fragments, places: tuple[int, ...]) -> None:
        self._files = files
        self._places = places

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[TableFile]:
        return map(self.__getitem__, range(len(self._files)))

    @overload
    def __getitem__(self, number: int, /) -> TableFile: ...
    @overload
    def __getitem__(self, numbers: slice, /) -> Fragments: ...
    def __getitem__(self, number: int | slice, /) -> TableFile | Fragments:
        if isinstance(number, slice):
            return _Replaced(self._files[number], self._places)
        file = self._files[number]
        return TableFile(file.files, file.footer, [file.places[index] for index in self._places])


def _with_rows(row_counts: array[int]) -> Sequence[int]:
    """Pieces that are not empty."""
    if 0 not in row_counts:
        return range(len(row_counts))
    return array("q", [piece for piece, rows in enumerate(row_counts) if rows])


def bits_of_rows(bits: bytes, first: int, count: int) -> bytes:
    """Some of many bits, which need not lie where bytes begin."""
    found = int.from_bytes(bits[first // 8 : (first + count + 7) // 8], "little") >> first % 8
    return (found & (1 << count) - 1).to_bytes((count + 7) // 8, "little")


def _runs(rows: list[int]) -> bytes:
    """Rising row numbers as runs: the first, and behind the last."""
    found: list[int] = []
    for row in rows:
        if found and found[-1] == row:
            found[-1] += 1
        else:
            found += (row, row + 1)
    return struct.pack(f"<{len(found)}I", *found)
