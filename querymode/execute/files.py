"""Feeds pieces of files into queries: the host's half of a scan. The engine says which bytes it lacks
(wasm/src/scan/driver.zig), this room reads them straight into the engine's memory.

While one piece is decoded, the next one's first bytes are on their way. Evidence rules out pieces before
anything is opened; pages are the engine's own business.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from itertools import chain

from querymode import _abi
from querymode._abi import OutputState
from querymode.engine.open_files import open_file
from querymode.errors import QueryModeError, error
from querymode.store.fetch import GAP_MIN, coalesce
from querymode.store.source import Touched
from querymode.table.files import LateFooter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol, TypeVar

    from querymode.engine.instance import Instance, Output
    from querymode.execute.top_bound import TopBound
    from querymode.plan.prune import Pruning
    from querymode.store.fetch import IoGate, MergedRange, Ticket
    from querymode.store.source import ByteSource
    from querymode.table.files import FileTable, FragmentFile

    T = TypeVar("T")

    #: Offset, size, owner, file, and nothing.
    _Need = tuple[int, int, int, int, int]

    class StoredFile(Protocol):
        """A file of a table."""

        @property
        def name(self) -> str: ...
        @property
        def files(self) -> Sequence[FragmentFile]:
            """By the numbers that the engine has for them."""

    class StoredFiles(Protocol):
        def __getitem__(self, number: int, /) -> StoredFile: ...


_REQUEST = struct.Struct(_abi.SCAN_REQUEST_FORMAT)
_SEGMENT = struct.Struct(_abi.SEGMENT_FORMAT)
_NEED_HEADER = struct.Struct(_abi.NEED_HEADER_FORMAT)
_NEED = struct.Struct(_abi.NEED_FORMAT)

#: Of a column chunk, what is asked for at once: large enough that a request's latency does not show, …
WINDOW_MAX = 16 << 20
#: … and small enough that all columns together stay within a fraction of the memory.
WINDOW_MIN = 64 << 10
#: The same for queries that want only a few rows.
WINDOW_FEW_ROWS = 256 << 10
#: … and where single rows are named: without an index everything before them is read, and nothing behind.
WINDOW_PICKED = 1 << 20
#: Blocks from this size on ask how far the instance may grow; smaller ones go with their row group.
ALLOW_SIZE = 1 << 20
#: Row groups whose bytes are fetched before their turn.
AHEAD_LOCAL = 1
AHEAD_REMOTE = 3


class FileReads:
    """The bytes of a table's files, for one query: files are opened when first needed, and looked at again at
    the end."""

    def __init__(self, files: StoredFiles, gate: IoGate) -> None:
        self.files = files
        self.gate = gate
        #: What was asked for so far.
        self.request_count = 0
        self.byte_count = 0
        #: Set at the end: a file is not, or may not be, what it was when the scan opened it.
        self.disturbance: QueryModeError | None = None
        #: Some file that was opened lies on another machine.
        self.is_remote = False
        self._lock = threading.Lock()
        self._sources: dict[tuple[int, int], ByteSource] = {}
        #: While a file is opened: who else wants it waits.
        self._turns: dict[tuple[int, int], threading.Lock] = {}

    def submit(self, source: ByteSource, reads: list[tuple[int, memoryview]]) -> Ticket:
        ticket = self.gate.submit(source, reads)
        with self._lock:
            self.request_count += len(reads)
            self.byte_count += sum(view.nbytes for _, view in reads)
        return ticket

    def source(self, number: int, part: int = 0) -> ByteSource:
        """A file's bytes, opened when first needed and kept for the query. `part`: of a fragment's files."""
        key = (number, part)
        with self._lock:
            found = self._sources.get(key)
            if found is not None:
                return found
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # others need not wait for another machine's answer
            found = self._sources.get(key)
            if found is None:
                found = self.files[number].files[part].open(self.gate)
                with self._lock:
                    self._sources[key] = found
                    self.is_remote = self.is_remote or not found.local
            return found

    def close(self, *, verify: bool) -> None:
        """Ends all reading. With `verify`: fails if a file was changed while it was read."""
        if not verify:
            self.gate.cancel()
        with self._lock:
            sources, self._sources = list(self._sources.values()), {}
        try:
            self.disturbance = _disturbance(sources)
        finally:
            for source in sources:
                source.close()
        if verify and self.disturbance is not None:
            raise self.disturbance


class FileScan(FileReads):
    """What one query reads of a table of pieces."""

    def __init__(
        self,
        table: FileTable,
        columns: Sequence[int],
        pruning: Pruning | None,
        gate: IoGate,
        *,
        has_filter: bool,
        rows_needed: int | None,
        memory: int,
        verify_crc: bool = False,
    ) -> None:
        super().__init__(table.files, gate)
        self.table = table
        self.columns = tuple(columns)
        self.pruning = pruning
        self.has_filter = has_filter
        self.rows_needed = rows_needed
        self.verify_crc = verify_crc
        #: At least one: a table without rows has a schema all the same.
        self.lanes: list[Sequence[int]] = [table.pieces[lane.start : lane.stop] for lane in table.lanes] or [
            []
        ]
        self.groups_pruned = 0
        #: Set by `Worker.foresee`: the engine keeps some columns for later, some come in several pieces
        #: that begin where pages do, or some pages may turn out to need a dictionary.
        self.foreseen_in_part = False
        self.foreseen_in_pieces = False
        self.foreseen_unsure = False
        self._pruned = pruning is None
        window = max(WINDOW_MIN, min(WINDOW_MAX, memory // 8 // max(1, len(self.columns))))
        self.window = window if rows_needed is None or rows_needed > 100_000 else min(window, WINDOW_FEW_ROWS)
        if table.picked:
            self.window = min(self.window, WINDOW_PICKED)

    @property
    def reads_filter_first(self) -> bool:
        """Whether some file's filter columns are read before the others."""
        return self.has_filter and (self.is_remote or self.foreseen_in_part)

    # ---- what can be left out ----

    def use_pruning(self, pruning: Pruning | None) -> None:
        """Before anything is read: another filter over statistics, which knows more."""
        self.pruning = pruning
        self._pruned = pruning is None

    def drop_all(self) -> None:
        """No row can match."""
        self.groups_pruned = len(self.table.pieces)
        self.lanes = [[] for _ in self.lanes]
        self.pruning, self._pruned = None, True

    def prune(self, instance: Instance) -> bool:
        """Takes out row groups that cannot match. True the first time, if there was something to ask."""
        with self._lock:
            if self._pruned:
                return False
            evidence = self.table.evidence
            assert self.pruning is not None and evidence is not None
            kept = evidence.survivors(instance, self.pruning)
            self.lanes = [[piece for piece in lane if piece in kept] for lane in self.lanes]
            self.groups_pruned = len(self.table.pieces) - sum(map(len, self.lanes))
            self._pruned = True
            return True


def _disturbance(sources: list[ByteSource]) -> QueryModeError | None:
    """The surest sign that a file is not what it was."""
    found: QueryModeError | None = None
    for source in sources:
        try:
            source.verify_unchanged()
        except Touched as doubt:
            found = found or doubt
        except QueryModeError as failure:
            return failure
    return found


class _Block:
    """Memory of the engine that one read fills."""

    __slots__ = ("address", "parts", "size")

    def __init__(self, address: int, size: int, parts: list[int]) -> None:
        self.address = address
        self.size = size
        #: Addresses of the segments in it.
        self.parts = parts


class _Needs:
    """What a step asked for: which of it is here already, and by which reads, by file, the rest comes."""

    __slots__ = ("_tail", "brought", "live", "merged", "missing", "owners", "plan")

    def __init__(self, wire: bytes, tail: tuple[int, bytes]) -> None:
        count, live_count, self.plan, is_index = _NEED_HEADER.unpack_from(wire)
        end = _NEED_HEADER.size + count * _NEED.size
        self.live: tuple[int, ...] = struct.unpack_from(f"<{live_count}I", wire, end)
        self._tail = tail
        self.brought: list[_Need] = []
        #: By file.
        self.missing: dict[int, list[_Need]] = {}
        for need in _NEED.iter_unpack(wire[_NEED_HEADER.size : end]):
            (self.brought if self._is_brought(need) else self.missing.setdefault(need[3], [])).append(need)
        #: The columns that it is for.
        self.owners = {need[2] for need in (*self.brought, *chain(*self.missing.values()))}
        # Indexes of the same columns lie side by side; what lies between two such runs is of no use.
        gap = GAP_MIN if is_index else None
        self.merged = {
            file: coalesce([need[:2] for need in needs], gap) for file, needs in self.missing.items()
        }

    @property
    def requests(self) -> list[MergedRange]:
        """Of all files."""
        return list(chain(*self.merged.values()))

    def _is_brought(self, need: _Need) -> bool:
        start, data = self._tail
        offset, size, _, file, _ = need
        return file == 0 and offset >= start and offset + size <= start + len(data)

    def tail(self, offset: int, size: int) -> memoryview:
        start, data = self._tail
        return memoryview(data)[offset - start : offset - start + size]


class PieceReader:
    """A piece on its way into a query: the engine says which bytes of its files it lacks, here they come."""

    #: Of the first file, what is here already: where it begins, and it.
    _tail: tuple[int, bytes] = (0, b"")

    def __init__(
        self,
        instance: Instance,
        source: Callable[[int], ByteSource],
        reads: FileReads,
        allow: Callable[[], None],
    ) -> None:
        self._instance = instance
        #: By the number that the engine gives each of the piece's files.
        self._source = source
        self._reads = reads
        self._allow = allow
        self._blocks: list[_Block] = []
        self._tickets: list[Ticket] = []
        self._segments: list[bytes] = []
        self._buffers: list[tuple[int, bytearray]] = []
        #: What the last step said, while nobody has looked at it.
        self._output: Output | None = None
        self._handle = 0

    def _named(self, failure: QueryModeError) -> QueryModeError:
        """An error of the engine, with the file's name."""
        raise NotImplementedError

    def _guarded(self, call: Callable[[], T]) -> T:
        """Errors of the engine get the file's name, and the column's."""
        try:
            return call()
        except QueryModeError as failure:
            raise self._named(failure) from None

    def _step(self) -> Output:
        """One step of the engine; what it needs is on its way when this returns."""
        segments, self._segments = b"".join(self._segments), []
        output = self._instance.scan_step(self._handle, segments)
        if output.state == OutputState.NEED_BYTES:
            self._fetch(self._instance.read(output.address, output.size))
        return output

    def _fetch(self, wire: bytes) -> None:
        needs = _Needs(wire, self._tail)
        self._free_dead(needs.live)
        for need in needs.brought:
            offset, size, *_ = need
            block = self._new_block(size)
            self._instance.write(block.address, needs.tail(offset, size))
            self._add_segment(block, 0, need)
        for file, merged_ranges in needs.merged.items():
            reads: list[tuple[int, memoryview]] = []
            for merged in merged_ranges:
                block = self._new_block(merged.size)
                for index, place in merged.parts:
                    self._add_segment(block, place, needs.missing[file][index])
                reads.append((merged.offset, self._target(block.address, merged.size)))
            self._tickets.append(self._reads.submit(self._source(file), reads))

    def _new_block(self, size: int) -> _Block:
        if size >= ALLOW_SIZE:
            self._allow()
        block = _Block(self._instance.alloc(size), size, [])
        self._blocks.append(block)
        return block

    def _add_segment(self, block: _Block, place: int, need: _Need) -> None:
        offset, size, owner, file, _ = need
        address = block.address + place
        block.parts.append(address)
        self._segments.append(_SEGMENT.pack(offset, address, size, owner, file))

    def _target(self, address: int, size: int) -> memoryview:
        """Where a read may write. Memory that moves is written between calls only."""
        if not self._instance.movable:
            return self._instance.view(address, size)
        buffer = bytearray(size)
        self._buffers.append((address, buffer))
        return memoryview(buffer)

    def _free_dead(self, live: Sequence[int]) -> None:
        alive = set(live)
        kept = []
        for block in self._blocks:
            if alive.isdisjoint(block.parts):
                self._instance.free(block.address, block.size)
            else:
                kept.append(block)
        self._blocks = kept

    def outputs(self) -> Iterator[Output]:
        """Every answer of the engine that may carry rows. The last one says how the query stands."""
        while True:
            output, self._output = self._output, None
            if output is None:
                output = self._guarded(self._step)
            if output.state == OutputState.NEED_BYTES:
                self._arrive()
                continue
            yield output
            if output.state != OutputState.AGAIN:
                return

    def _arrive(self) -> None:
        while self._tickets:
            self._tickets.pop().wait()
        buffers, self._buffers = self._buffers, []
        for address, buffer in buffers:
            self._instance.write(address, buffer)

    def close(self) -> None:
        for ticket in self._tickets:
            ticket.cancel()
        self._instance.scan_close(self._handle)
        for block in self._blocks:
            self._instance.free(block.address, block.size)
        self._blocks = []


class GroupReader(PieceReader):
    """A piece of known rows on its way into a query."""

    def __init__(self, worker: Worker, piece: int, *, foreseen: bool = False) -> None:
        table = worker.scan.table
        number, group = table.cuts.place(piece)
        super().__init__(
            worker.instance, lambda part: worker.scan.source(number, part), worker.scan, worker.allow
        )
        source = worker.scan.source(number)
        self._worker = worker
        self._piece = piece
        self._file = table.files[number]
        footer = self._file.footer
        if isinstance(footer, LateFooter):
            self._guarded(lambda: footer.bring(worker.instance, worker.scan.gate, self._source))
        # Of a file with the same footer that was written again, what was read then is not part of this one.
        self._tail = footer.tail if footer.tail_identity == source.identity else (0, b"")
        worker.allow()
        self._handle = self._guarded(lambda: self._open(group))
        self.foreseen_requests = 0
        self.foreseen_bytes = 0
        if foreseen:
            self._guarded(self._foresee)
            return
        # Needs that are on their way, or already the end.
        self._output = self._guarded(self._step)

    def _foresee(self) -> None:
        """Indexes are brought, and then the engine says what it would ask for next."""
        scan = self._worker.scan
        indexed: set[int] = set()
        planned: set[int] = set()
        while True:
            segments, self._segments = b"".join(self._segments), []
            output = self._instance.scan_step(self._handle, segments)
            if output.state != OutputState.NEED_BYTES:
                return
            wire = self._instance.read(output.address, output.size)
            needs = _Needs(wire, self._tail)
            self.foreseen_requests += len(needs.requests)
            self.foreseen_bytes += sum(part.size for part in needs.requests)
            if not needs.plan:
                indexed |= needs.owners
                self._fetch(wire)
                self._arrive()
                continue
            planned |= needs.owners
            scan.foreseen_unsure |= bool(needs.plan & _abi.PLAN_UNSURE)
            scan.foreseen_in_pieces |= bool(needs.plan & _abi.PLAN_ROUND)
            if needs.plan & _abi.PLAN_LAST:
                scan.foreseen_in_part |= not indexed <= planned
                return

    def _open(self, group: int) -> int:
        worker = self._worker
        scan = worker.scan
        flags = worker.flags | (_abi.SCAN_VERIFY_CRC if scan.verify_crc else 0)
        if scan.has_filter and not self._source(0).local:
            flags |= _abi.SCAN_FILTER_FIRST
        file = open_file(self._instance, scan.table.format, self._file.footer)
        picked = scan.table.picked.get(self._piece, b"")
        deleted = scan.table.deleted_rows(self._piece, scan.gate)
        prune_query = 0 if picked else worker.prune_query
        head = _REQUEST.pack(file, group, prune_query, flags, scan.window, len(picked) // 8, len(deleted))
        places = [self._file.places[index] for index in scan.columns]
        if prune_query and scan.pruning is not None:
            places += [self._file.places[index] for index in worker.prune_columns]
            places.append(scan.pruning.probes)
        places += (picked, deleted)
        return self._instance.scan_open(worker.query, head + b"".join(places), scan.table.format)

    def _named(self, failure: QueryModeError) -> QueryModeError:
        if failure.code not in ("INVALID_FORMAT", "NOT_SUPPORTED", "SCHEMA_MISMATCH", "QUERY_FAILED"):
            return failure
        index = self._instance.error_column
        scan = self._worker.scan
        column = None
        if index is not None and index < len(scan.columns):
            column = scan.table.schema.field(scan.columns[index])[0]
        where = self._file.name + (f", column {column!r}" if column is not None else "")
        place = f" (near byte {failure.offset})" if failure.offset is not None else ""
        return error(
            failure.code,
            f"{where}: {failure.message}{place}",
            table=self._file.name,
            column=column,
            offset=failure.offset,
        )


class Worker:
    """A worker's part of a scan: its instance, the query in it, and pieces ahead of their turn."""

    def __init__(
        self, scan: FileScan, instance: Instance, query: int, allow: Callable[[], None], first_lane: int = 0
    ) -> None:
        self.scan = scan
        #: The number of the scan's first lane among all lanes of its stage.
        self.first_lane = first_lane
        self.instance = instance
        self.query = query
        self.allow = allow
        self.flags = 0
        #: A top-k's bound, and whether a piece lies behind it.
        self.bound: TopBound | None = None
        self.is_behind: Callable[[int], bool] = lambda piece: False
        self.prune_query = 0
        self.prune_columns: tuple[int, ...] = ()
        if scan.pruning is not None:
            self.prune_query = instance.query_open(scan.pruning.plan)
            self.prune_columns = scan.table.column_indices(scan.pruning.columns)

    def run(
        self,
        lanes: Callable[[], int | None],
        take: Callable[[int, Output], None],
        finish: Callable[[int], None],
    ) -> None:
        """Lane after lane, as `lanes` hands them out: rows go to `take`, a lane's end to `finish`."""
        ahead: deque[tuple[int, GroupReader | None]] = deque()
        tasks = self._tasks(lanes)
        ended: int | None = None  # a lane that wants no more rows
        try:
            while True:
                self._open_ahead(ahead, tasks)
                if not ahead:
                    return
                lane, reader = ahead.popleft()
                if reader is None:
                    finish(lane)
                    continue
                try:
                    if lane != ended and self._pass_through(lane, reader, take):
                        ended = lane
                finally:
                    reader.close()
        finally:
            for _, reader in ahead:
                if reader is not None:
                    reader.close()

    def _pass_through(self, lane: int, reader: GroupReader, take: Callable[[int, Output], None]) -> bool:
        output = None
        for output in reader.outputs():
            take(lane, output)
        return output is not None and output.state == OutputState.DONE

    def _tasks(self, lanes: Callable[[], int | None]) -> Iterator[tuple[int, int | None]]:
        while (lane := lanes()) is not None:
            for piece in self.scan.lanes[lane - self.first_lane]:
                if not self.is_behind(piece) and not self._is_gone(piece):
                    yield lane, piece
            yield lane, None

    def _is_gone(self, piece: int) -> bool:
        return self.scan.table.is_gone(piece, self.scan.gate)

    def _open_ahead(
        self,
        ahead: deque[tuple[int, GroupReader | None]],
        tasks: Iterator[tuple[int, int | None]],
    ) -> None:
        """Opens pieces until enough are on their way. A few rows are not worth reading ahead for, and a
        top-k's first rows may make all others needless."""
        while sum(reader is not None for _, reader in ahead) <= self._ahead_count():
            if ahead and (self.scan.rows_needed is not None or self._waits_for_bound()):
                return
            task = next(tasks, None)
            if task is None:
                return
            lane, piece = task
            ahead.append((lane, None if piece is None else GroupReader(self, piece)))

    def _waits_for_bound(self) -> bool:
        return self.bound is not None and not self.bound.has_seen

    def _ahead_count(self) -> int:
        return AHEAD_REMOTE if self.scan.is_remote else AHEAD_LOCAL

    def foresee(self) -> tuple[int, int]:
        """Requests and bytes that all pieces would take. Indexes are read for it, pages are not."""
        self.flags = _abi.SCAN_PLAN_ONLY
        requests = size = 0
        for lane in self.scan.lanes:
            for piece in lane:
                if self._is_gone(piece):
                    continue
                reader = GroupReader(self, piece, foreseen=True)
                requests += reader.foreseen_requests
                size += reader.foreseen_bytes
                reader.close()
        return requests, size

    def close(self) -> None:
        if self.prune_query:
            self.instance.query_close(self.prune_query)
