"""Feeds pieces of text files into queries.

A lane that does not begin where its file does has to guess where its first row begins: behind the next line
end. Inside of quotes that is wrong. So what a lane leaves is provisional until the lane before it has said
where the next row begins: where that is another place, it is thrown away, and the lane is run again from
there. Errors are provisional likewise. Only a lane that is settled counts as finished. A stream's lanes run
ahead too, and their rows wait: they may go as soon as the lane before is settled, though not all are here.
Where lanes are run in several processes, whoever gathers them settles them (execute/lanes.py).

    lane 0      lane 1          lane 2                settled when    the lane before is, and
    ├───────────┼───────────────┼──────────┤                          its end is where this one began
     exact       guessed         guessed
"""

from __future__ import annotations

import struct
import threading

from querymode import _abi
from querymode._abi import OutputState
from querymode.engine.instance import Cancelled
from querymode.engine.open_files import open_file
from querymode.errors import QueryModeError, error
from querymode.execute.batch import LaneExtent, LaneFailure
from querymode.execute.feeds import Feed, Refuted
from querymode.execute.files import FileReads, PieceReader
from querymode.execute.misfit import located

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.engine.instance import Instance
    from querymode.execute.feeds import Sink
    from querymode.execute.profile import Profile
    from querymode.store.fetch import IoGate
    from querymode.table.text import Piece, TextTable

_REQUEST = struct.Struct(_abi.STREAM_REQUEST_FORMAT)
#: What is asked for at once.
WINDOW_SIZE = 1 << 20
#: … by queries that want only a few rows.
WINDOW_FEW_ROWS = 64 << 10
#: Chunks are no larger anyway.
FIRST_ROWS_MAX = 16_384
_POLL_SECONDS = 0.05


class TextReads(FileReads):
    """What one query reads of a table of text."""

    def __init__(
        self, table: TextTable, columns: Sequence[int], gate: IoGate, *, rows_needed: int | None, memory: int
    ) -> None:
        super().__init__(table.files, gate)
        self.table = table
        self.columns = tuple(columns)
        few = rows_needed is not None and rows_needed <= 10_000
        self.window = min(WINDOW_FEW_ROWS if few else WINDOW_SIZE, max(WINDOW_FEW_ROWS, memory // 16))
        #: Rows of a piece's first chunk, if fewer may do than a chunk has.
        self.first_rows = min(rows_needed or 0, FIRST_ROWS_MAX)


class TextReader(PieceReader):
    """One piece on its way into a query. `exact`: where its first row begins, if that is known."""

    #: The row of the piece that an error is about.
    failed_row: int | None = None

    def __init__(
        self, feed: TextFeed, instance: Instance, query: int, sink: Sink, piece: Piece, exact: int | None
    ) -> None:
        reads = feed.reads
        super().__init__(instance, lambda _: reads.source(piece.file), reads, lambda: sink.allow(instance))
        self._file = reads.table.files[piece.file]
        self._schema = reads.table.schema
        self._columns = reads.columns
        start = piece.start if exact is None else exact
        is_exact = piece.is_first or exact is not None
        self._tail = (0, self._file.beginning)
        self._allow()
        self._handle = self._guarded(
            lambda: self._open(
                query, start, max(start, piece.end), _abi.STREAM_EXACT_START if is_exact else 0
            )
        )

    def _open(self, query: int, start: int, end: int, flags: int) -> int:
        reads = self._reads
        assert isinstance(reads, TextReads)
        file = open_file(self._instance, reads.table.format, self._file.head)
        request = _REQUEST.pack(start, end, file, reads.window, flags, reads.first_rows)
        places = b"".join(self._file.places[index] for index in self._columns)
        return self._instance.scan_open(query, request + places, reads.table.format)

    def extent(self) -> tuple[int | None, int | None]:
        """Where its first row begins, and where the next piece's does, as far as that is known."""
        start, end, _ = self._instance.scan_extent(self._handle)
        return start, end

    def row_count(self) -> int:
        """Rows read so far."""
        return self._instance.scan_extent(self._handle)[2]

    def _named(self, failure: QueryModeError) -> QueryModeError:
        if failure.code not in ("INVALID_FORMAT", "NOT_SUPPORTED", "SCHEMA_MISMATCH", "QUERY_FAILED"):
            return failure
        index = self._instance.error_column
        column = None
        if index is not None and index < len(self._columns):
            column = self._schema.field(self._columns[index])[0]
        self.failed_row = self._instance.error_row
        return error(
            failure.code, failure.message, table=self._file.name, column=column, offset=failure.offset
        )


class TextFeed(Feed):
    """Pieces of text files."""

    def __init__(self, first: int, reads: TextReads) -> None:
        super().__init__(first, max(1, len(reads.table.lanes)))
        self.reads = reads
        self._settled = threading.Condition()
        self._outcomes: dict[int, LaneExtent] = {}
        #: Lanes whose rows are known to be right.
        self._sure: set[int] = set()
        #: Of a stream's lanes that are being read: where they began.
        self._begun: dict[int, int] = {}
        #: Where lanes begin, as somebody else found out.
        self._given: dict[int, int] = {}
        #: The lanes between ours are run by others, and so is the check.
        self._is_part = False

    def restrict(self, lanes: range, start: int | None) -> None:
        super().restrict(lanes, start)
        self._is_part = True
        if start is not None:
            self._given[lanes.start] = start

    def extents(self) -> list[LaneExtent]:
        return [self._outcomes[lane] for lane in sorted(self._outcomes)]

    def _pieces(self, lane: int) -> tuple[Piece, ...]:
        lanes = self.reads.table.lanes
        return lanes[lane - self.first] if lanes else ()

    def _guesses(self, lane: int) -> bool:
        return self.reads.table.guesses_start(lane - self.first)

    def run(self, instance: Instance, query: int, sink: Sink) -> int:
        while (lane := sink.next_lane(instance, self)) is not None:
            query = self._run_lane(instance, query, sink, lane, self._known_start(lane))
        return query

    def _known_start(self, lane: int) -> int | None:
        with self._settled:
            before = self._outcomes[lane - 1] if self._guesses(lane) and lane - 1 in self._sure else None
        return self._given.get(lane) if before is None else before.end

    def _run_lane(self, instance: Instance, query: int, sink: Sink, lane: int, exact: int | None) -> int:
        """Until it is settled, or provisional and well. A failure is awaited here: it may be nobody's."""
        is_sure = exact is not None or not self._guesses(lane)
        if sink.streams and not is_sure:
            sink.lane_provisional(lane)
        try:
            outcome = self._read(instance, query, sink, lane, exact)
        except Refuted:
            return self._run_again(instance, query, sink, lane, self._await_start(lane, sink))
        if outcome.failure is not None:
            if self._is_part:
                self._outcomes[lane] = outcome
                sink.forget_lane(lane)
                return sink.reopen(instance, query, self)
            if not is_sure:
                start = self._await_start(lane, sink)
                if start != outcome.start:
                    return self._run_again(instance, query, sink, lane, start)
            raise located(self.reads.table, outcome.failure, self._rows_before(lane))
        again = self._settle(lane, outcome, sure=is_sure, sink=sink)
        for other, start in again:
            query = self._run_lane(instance, query, sink, other, start)
        return query

    def _rows_before(self, lane: int) -> int:
        """Of the file that a lane begins in, once the lanes before it are settled."""
        count = 0
        with self._settled:
            while self._guesses(lane):
                lane -= 1
                count += self._outcomes[lane].row_count
        return count

    def _run_again(self, instance: Instance, query: int, sink: Sink, lane: int, start: int) -> int:
        """By a query that is in the middle of it."""
        with self._settled:
            self._begun.pop(lane, None)
            sink.forget_lane(lane)
        query = sink.reopen(instance, query, self)
        return self._run_lane(instance, query, sink, lane, start)

    def _read(self, instance: Instance, query: int, sink: Sink, lane: int, exact: int | None) -> LaneExtent:
        first: int | None = None
        end: int | None = None
        row_count = 0
        is_ahead = sink.streams and exact is None and self._guesses(lane)
        for piece in self._pieces(lane):
            reader: TextReader | None = None
            try:
                reader = TextReader(self, instance, query, sink, piece, exact)
                state = OutputState.NEED_INPUT
                for output in reader.outputs():
                    state = OutputState(output.state)
                    if is_ahead and (start := reader.extent()[0]) is not None:
                        self._begin(lane, start, sink)
                        is_ahead = False
                    sink.take_output(instance, query, output, lane)
                start, end = reader.extent()
                first = start if first is None else first
                row_count = reader.row_count()
            except QueryModeError as failure:
                if reader is None or failure.code in ("MEMORY_EXCEEDED", "QUERY_TIMEOUT", "BUDGET_EXCEEDED"):
                    raise
                start, _ = reader.extent()
                misfit = LaneFailure(failure, piece.file, reader.failed_row)
                return LaneExtent(lane, start if first is None else first, None, failure=misfit)
            finally:
                if reader is not None:
                    reader.close()
            if state == OutputState.DONE:
                break
            exact = None
        sink.take_output(instance, query, instance.query_finish(query), lane)
        return LaneExtent(lane, first, end, row_count)

    # ---- the chain ----

    def _await_start(self, lane: int, sink: Sink) -> int:
        """Where the lane's first row begins, once the lane before it is settled."""
        with self._settled:
            while lane - 1 not in self._sure:
                if sink.stopped:
                    raise Cancelled("stopped")
                self._settled.wait(_POLL_SECONDS)
            end = self._outcomes[lane - 1].end
        if end is None:  # nobody wants rows behind those
            raise Cancelled("stopped")
        return end

    def _begin(self, lane: int, start: int, sink: Sink) -> None:
        """A stream's lane has guessed its start."""
        with self._settled:
            self._begun[lane] = start
            self._judge(lane, sink)

    def _judge(self, lane: int, sink: Sink) -> None:
        """A lane that is being read, once the one before it is settled."""
        if lane not in self._begun or lane - 1 not in self._sure:
            return
        if self._begun[lane] == self._outcomes[lane - 1].end:
            sink.lane_settled(lane)
        else:
            sink.lane_refuted(lane)

    def _settle(self, lane: int, outcome: LaneExtent, *, sure: bool, sink: Sink) -> list[tuple[int, int]]:
        """Notes what came of a lane. Those that have to be run again, from where."""
        settled: list[int] = []
        again: list[tuple[int, int]] = []
        with self._settled:
            self._outcomes[lane] = outcome
            self._begun.pop(lane, None)
            current = lane
            while sure or self._is_known(current):
                if not sure:
                    end = self._outcomes[current - 1].end
                    if end is None:
                        break
                    if self._outcomes[current].start != end:
                        del self._outcomes[current]
                        sink.forget_lane(current)
                        again.append((current, end))
                        break
                self._sure.add(current)
                settled.append(current)
                current, sure = current + 1, False
            for one in settled:
                sink.lane_finished(one)
            self._judge(current, sink)
            self._settled.notify_all()
        return again

    def _is_known(self, lane: int) -> bool:
        """Whether a lane that guessed is done, and so is the one before it, for sure."""
        is_open = lane in self._outcomes and lane not in self._sure and not self._is_part
        return is_open and self._guesses(lane) and lane - 1 in self._sure

    # ---- what it cost ----

    def note_reads(self, profile: Profile, scan: int) -> None:
        profile.add_reads(scan, requests=self.reads.request_count, bytes=self.reads.byte_count)

    def close(self, *, clean: bool) -> None:
        self.reads.close(verify=clean)
