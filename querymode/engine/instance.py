"""An instance of the engine: a Store with its linear memory, views, prepared calls, errors, cancellation.

What holds here:
- One thread is inside an instance at a time; any thread may `cancel` it at any moment.
- Linear memory does not move (unless `Instance.movable`), so a view stays right while the engine
  grows its memory. A view keeps its memory mapped, even past `close`.
- No call is checked by wasmtime: arguments go through the signatures of the generated `_abi`.
It refuses to interpret what crosses: plans, descriptors and QMCB are bytes here.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref

from querymode import _abi, errors
from querymode._abi import FileFormat, SourceKind, Status
from querymode.engine import process
from querymode.engine.address_space import (
    FULL_RESERVATION,
    HUGE_PAGES_FROM,
    KIB,
    MEMORY_MAX,
    MIB,
    MOVABLE,
    ask_for_huge_pages,
    reservations,
)
from querymode.engine.foreign import foreign
from querymode.engine.program import check_version, default_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    import wasmtime

    from querymode.engine.program import Program
    from querymode.engine.views import Buffer


# How long a cancelled call may take to see its cancel byte before the epoch stops it.
EPOCH_GRACE_SECONDS = 0.05
_WATCH_COUNT_MAX = 200

# Below this size a plain slice assignment beats the detour that drops the GIL.
_MEMMOVE_SIZE_MIN = 256 * KIB

# The scratch block: where small inputs are laid and where the engine writes small answers.
_SCRATCH_SIZE = 64 * KIB
_SOURCE_OFFSET, _OUTPUT_OFFSET, _HANDLE_OFFSET, _INPUT_OFFSET = 0, 16, 48, 64

_CODE_BY_STATUS: dict[int, str] = {
    Status.INVALID_PLAN: "INTERNAL",
    Status.INVALID_FILTER: "INVALID_FILTER",
    Status.INVALID_AGGREGATE: "INVALID_AGGREGATE",
    Status.OUT_OF_RANGE: "QUERY_FAILED",
    Status.INVALID_FORMAT: "INVALID_FORMAT",
    Status.SCHEMA_MISMATCH: "SCHEMA_MISMATCH",
    Status.NOT_SUPPORTED: "NOT_SUPPORTED",
    Status.MEMORY_EXCEEDED: "MEMORY_EXCEEDED",
    Status.TOO_LARGE: "QUERY_FAILED",
    Status.INVALID_HANDLE: "INTERNAL",
    Status.INTERNAL: "INTERNAL",
}

_TRAP_WORDS = {
    "STACK_OVERFLOW": "its stack overflowed",
    "MEMORY_OUT_OF_BOUNDS": "it reached outside its memory",
    "INTEGER_DIVISION_BY_ZERO": "it divided by zero",
    "UNREACHABLE": "it reached code that should be unreachable",
}

_SOURCE = struct.Struct(_abi.SOURCE_FORMAT)
_OUTPUT = struct.Struct(_abi.OUTPUT_FORMAT)
_EXTENT = struct.Struct(_abi.SCAN_EXTENT_FORMAT)
_PART = struct.Struct(_abi.PART_FORMAT)
_SEGMENT_SIZE = struct.calcsize(_abi.SEGMENT_FORMAT)
_HANDLE = struct.Struct("<I")
_DETAIL = struct.Struct(_abi.ERROR_DETAIL_FORMAT)


class Cancelled(Exception):
    """The running call saw `Instance.cancel`. The caller knows whether that was time or Ctrl-C."""


class Output:
    """What a call left in linear memory, to be read before the next call on the instance."""

    __slots__ = ("address", "partition", "row_count", "size", "state")

    def __init__(self, address: int, size: int, row_count: int, state: int, partition: int) -> None:
        self.address = address
        self.size = size
        self.row_count = row_count
        self.state = state
        #: Of plans that end in `partition`.
        self.partition = partition

    def __repr__(self) -> str:
        state = _abi.OutputState(self.state).name
        return f"Output(address={self.address}, size={self.size}, row_count={self.row_count}, state={state})"


def _door(index: int, name: str) -> Callable[..., int]:
    """A method that calls one export with prepared arguments; generated for each of `_abi.EXPORTS`."""
    parameters, results = _abi.EXPORTS[name]
    count = len(parameters.split())
    # A raw value is 16 bytes wide and an i32 lies in its first four.
    assert set(parameters.split()) <= {"i32"} and results == "i32", name
    pack_into = struct.Struct("<" + "I12x" * count).pack_into
    value_count = max(1, count)

    def door(self: Instance, *arguments: int) -> int:
        if not self._gate.acquire(False):
            raise errors.error("INTERNAL", f"{name}: another thread is inside this instance")
        try:
            # Held until the call is over: close() from another thread unmaps only after that.
            linear = self._linear
            if linear is None:
                raise _closed_error()
            self.crossings += 1
            call = self._unchecked_call
            if call is None:
                return self._checked_call(index, arguments)
            raw = self._raw
            pack_into(raw, 0, *arguments)
            error = call(
                self._context,
                self._function_addresses[index],
                self._raw_address,
                value_count,
                self._trap_address,
            )
            if error or self._trap.value:
                raise self._native_failure(error)
            if self.movable:
                self._rebase()
            result: int = raw[0]
            return result
        finally:
            self._gate.release()
            linear = None  # an exception's traceback must not keep the memory mapped

    door.__name__ = name
    return door


def _closed_error() -> errors.QueryModeError:
    return errors.error("INTERNAL", "this engine instance is closed")


class Instance:
    """A Store with its linear memory. Made by the pool; tests make their own."""

    if TYPE_CHECKING:
        qm_abi_version: Callable[[], int]
        qm_control: Callable[[], int]
        qm_alloc: Callable[[int], int]
        qm_free: Callable[[int, int], int]
        qm_batch_open: Callable[[int, int, int], int]
        qm_batch_close: Callable[[int], int]
        qm_query_open: Callable[[int, int, int], int]
        qm_query_push: Callable[[int, int, int], int]
        qm_query_finish: Callable[[int, int], int]
        qm_query_next: Callable[[int, int], int]
        qm_query_close: Callable[[int], int]
        qm_query_lend: Callable[[int], int]
        qm_query_profile: Callable[[int, int], int]
        qm_text_open: Callable[[int, int, int, int, int, int], int]
        qm_deletions: Callable[[int, int, int, int, int, int, int], int]
        qm_footer: Callable[[int, int, int, int, int, int], int]
        qm_manifest: Callable[[int, int, int, int, int], int]
        qm_file_open: Callable[[int, int, int, int], int]
        qm_file_close: Callable[[int], int]
        qm_prune: Callable[[int, int, int, int, int], int]
        qm_bounds: Callable[[int, int, int, int, int], int]
        qm_scan_open: Callable[[int, int, int, int, int], int]
        qm_scan_extent: Callable[[int, int], int]
        qm_text_sniff: Callable[[int, int, int, int, int, int, int], int]
        qm_scan_step: Callable[[int, int, int, int], int]
        qm_scan_close: Callable[[int], int]
        qm_leaf_bounds: Callable[[int, int, int], int]
        qm_pages: Callable[[int, int, int, int], int]

    def __init__(
        self, limit: int = MEMORY_MAX, *, hardened: bool = False, program: Program | None = None
    ) -> None:
        self.program = program if program is not None else default_program()
        self.hardened = hardened or hardened_by_default()
        # The caller's own notes about what this instance holds: batches, footers.
        self.resident: dict[Any, Any] = {}
        # Of that, how many bytes belong to whom: the pool closes copies by it.
        self.kept_sizes: dict[int, int] = {}
        self.files: dict[int, tuple[int, Any]] = {}
        self.crossings = 0
        self.closed = False
        self.cancelled = False
        # A call trapped: state may be half-written.
        self.broken = False
        # It met bytes that are not what they claim to be.
        self.tainted = False
        # A call did not see its cancel byte in time: a loop without a check. Tests assert it stays False.
        self.epoch_trapped = False
        # Column index of the last error, where the engine knew it.
        self.error_column: int | None = None
        #: … and the row of a piece of text, from 0.
        self.error_row: int | None = None
        self.idle_since = 0.0
        self._pid = os.getpid()
        self._gate = threading.Lock()
        self._cancel_lock = threading.RLock()
        self._linear: Any = None
        self._control = 0
        self._instantiate_somewhere(limit)
        self._prepare_calls()
        self._open_scratch()
        self.crossings = 0
        self.set_limit(limit)

    def _instantiate_somewhere(self, limit: int) -> None:
        import wasmtime

        reason = "too little is left"
        # One at a time: what one thread found free, another must not take before it is used.
        with process.native:
            for reservation in reservations(limit):
                try:
                    self._instantiate(reservation)
                    return
                except wasmtime.WasmtimeError as cause:
                    reason = str(cause).strip().splitlines()[-1]
        raise errors.error(
            "MEMORY_EXCEEDED",
            f"there is no address space for the engine's memory ({reason}); "
            "raise `ulimit -v`, or use fewer threads",
        )

    def _instantiate(self, reservation: int) -> None:
        import wasmtime

        self.reservation = reservation
        self.movable = reservation == MOVABLE
        # In memory that moves, nobody may write the cancel byte during a call.
        self._epochs = self.hardened or self.movable
        self._engine, module = self.program.compiled(reservation, self._epochs)
        with process.native:
            store = wasmtime.Store(self._engine)
            if self._epochs:
                store.set_epoch_deadline(1)
            exports = wasmtime.Instance(store, module, []).exports(store)
            self._functions: list[Any] = [exports[name] for name in _abi.EXPORTS]
            memory = exports["memory"]
            assert isinstance(memory, wasmtime.Memory)
            self._store, self._memory = store, memory
            self._map(foreign().pointer_value(memory.data_ptr(store)))
            if reservation > HUGE_PAGES_FROM:
                ask_for_huge_pages(self.base + HUGE_PAGES_FROM, reservation - HUGE_PAGES_FROM)
            process.live.add(self)

    def _map(self, base: int) -> None:
        """Covers the memory at `base` with a view. The Store lives as long as the view or a slice of it."""
        self.base = base
        self._size = self._memory.data_len(self._store)
        self._linear = foreign().linear_memory.from_address(base)
        self._view = memoryview(self._linear).cast("B")
        self._finalizer = weakref.finalize(self._linear, process.close_store, self._store, self._pid)
        self._finalizer.atexit = False

    def _rebase(self) -> None:
        """After a call in memory that may move."""
        with self._cancel_lock:
            base = foreign().pointer_value(self._memory.data_ptr(self._store))
            if base != self.base and not self.closed:
                self._finalizer.detach()
                self._map(base)

    def _prepare_calls(self) -> None:
        outside = foreign()
        self._unchecked_call = outside.unchecked_call
        self._context = outside.pointer_value(self._store._context())
        self._function_addresses = [outside.address_of(function._func) for function in self._functions]
        self._raw = outside.raw_values()
        self._raw_address = outside.address_of(self._raw)
        self._trap = outside.pointer()
        self._trap_address = outside.address_of(self._trap)

    def _open_scratch(self) -> None:
        check_version(self.qm_abi_version())
        self._control = self.qm_control()
        self.view(self._control, _abi.CONTROL_SIZE)  # the bounds check
        cancel_address = self.base + self._control + _abi.CONTROL_OFFSETS["cancel"]
        self._cancel_byte = None if self.movable else foreign().byte.from_address(cancel_address)
        self.limit = MEMORY_MAX
        self._scratch_size = _SCRATCH_SIZE
        self._scratch = self.alloc(_SCRATCH_SIZE)
        self._output = self._scratch + _OUTPUT_OFFSET
        self.view(self._scratch, _SCRATCH_SIZE)

    # Calls

    def _checked_call(self, index: int, arguments: tuple[int, ...]) -> int:
        """The slow way, through wasmtime's own conversions."""
        import wasmtime

        function: Any = self._functions[index]
        failure: Exception
        try:
            result: int = function(self._store, *arguments) & 0xFFFF_FFFF
            if self.movable:
                self._rebase()
            return result
        except wasmtime.Trap as trap:
            failure = self._trap_failure(trap)
        except wasmtime.WasmtimeError as error:
            failure = self._error_failure(error)
        raise failure

    def _native_failure(self, error: int | None) -> Exception:
        """Takes over, and so frees, what the C entry handed out."""
        trap, self._trap.value = self._trap.value, None
        if error:
            return self._error_failure(foreign().take_error(error))
        assert trap is not None
        return self._trap_failure(foreign().take_trap(trap))

    def _error_failure(self, error: wasmtime.WasmtimeError) -> Exception:
        self.broken = True
        return errors.error("INTERNAL", f"the engine could not be called: {str(error).splitlines()[0]}")

    def _trap_failure(self, trap: wasmtime.Trap) -> Exception:
        self.broken = True
        code = trap.trap_code
        name = code.name if code is not None else ""
        if name == "INTERRUPT":
            self.epoch_trapped = True
            return Cancelled("stopped by its epoch")
        if self.movable:
            self._rebase()
        words = self._panic_message() or _TRAP_WORDS.get(name, name.lower().replace("_", " "))
        return errors.error(
            "INTERNAL",
            f"the engine stopped: {words}. This is a fault of ours; the next query is not affected",
        )

    def _panic_message(self) -> str:
        offsets = _abi.CONTROL_OFFSETS
        if not self._control or self.closed:
            return ""  # it did not get as far as telling where, or we no longer look
        (size,) = _HANDLE.unpack_from(self._view, self._control + offsets["panic_size"])
        start = self._control + offsets["panic_message"]
        size = min(size, offsets["detail"] - offsets["panic_message"])
        return bytes(self._view[start : start + size]).decode("utf-8", "replace")

    def _check(self, status: int) -> None:
        if status or self.closed:
            raise self._status_failure(status)

    def _status_failure(self, status: int) -> Exception:
        if status == Status.CANCELLED:
            return Cancelled("stopped by its cancel byte")
        if self.closed:
            return _closed_error()  # by another thread, during the call
        code = _CODE_BY_STATUS.get(status, "INTERNAL")
        start = self._control + _abi.CONTROL_OFFSETS["detail"]
        offset, row, column, size, text = _DETAIL.unpack_from(self._view, start)
        self.error_column = None if column == _abi.COLUMN_UNKNOWN else column
        self.error_row = None if row == _abi.ROW_UNKNOWN else row
        self.tainted = self.tainted or code in ("INVALID_FORMAT", "INTERNAL")
        if code == "MEMORY_EXCEEDED":
            return self._memory_failure()
        words = text[:size].decode("utf-8", "replace") or _status_words(status)
        if status == Status.INVALID_PLAN:
            words = f"the engine refused its plan: {words}. This is a fault of ours"
        return errors.error(code, words, offset=None if offset == _abi.OFFSET_UNKNOWN else offset)

    def _memory_failure(self) -> errors.QueryModeError:
        narrow = f" (address space allows {self.reservation} bytes)" if self._is_narrow() else ""
        return errors.error(
            "MEMORY_EXCEEDED",
            f"this needs more than the {self.limit / MIB:.0f} MiB that one engine instance may use{narrow}; "
            "raise memory=, use fewer threads, or select less",
        )

    def _is_narrow(self) -> bool:
        return self.reservation not in (FULL_RESERVATION, MOVABLE) and self.limit == self.reservation

    # Memory

    @property
    def memory_size(self) -> int:
        """Bytes of linear memory now. It never shrinks."""
        if not self.closed:
            self._size = self._memory.data_len(self._store)
        return self._size

    def set_limit(self, limit: int) -> None:
        """How far memory may grow from here on. Call it between calls."""
        if self._linear is None:
            raise _closed_error()
        self.limit = min(limit, MEMORY_MAX, self.reservation or MEMORY_MAX)
        self._store.set_limits(memory_size=self.limit)
        if self.memory_size > limit:
            raise errors.error(
                "MEMORY_EXCEEDED",
                f"an engine instance needs {self._size / MIB:.1f} MiB to begin with and may use "
                f"{limit / MIB:.1f} MiB; raise memory=, or use fewer threads",
            )

    def _require(self, address: int, size: int) -> None:
        """The range lies in mapped memory. An engine that points elsewhere is not to be trusted further."""
        if self._linear is None:
            raise _closed_error()
        end = address + size
        if address < 0 or size < 0 or (end > self._size and end > self.memory_size):
            self.broken = True
            raise errors.error("INTERNAL", f"{size} bytes at {address} lie outside the engine's memory")

    def view(self, address: int, size: int) -> memoryview:
        """Writable, no copy. The memory stays mapped as long as the view lives."""
        self._require(address, size)
        return self._view[address : address + size]

    def address_of(self, address: int) -> int:
        """The address in this process. Unlike a view it keeps nothing mapped."""
        self._require(address, 0)
        return self.base + address

    def read(self, address: int, size: int) -> bytes:
        """Copies out. Much is copied without the GIL: another worker's call would wait for its end."""
        view = self.view(address, size)  # the memory stays mapped meanwhile, whoever closes the instance
        return bytes(view) if size < _MEMMOVE_SIZE_MIN else foreign().copied(self.base + address, size)

    def write(self, address: int, data: Buffer) -> None:
        """Copies a contiguous buffer in. A large one is copied without the GIL."""
        source = memoryview(data)
        size = source.nbytes
        target = self.view(address, size)
        if size >= _MEMMOVE_SIZE_MIN and source.c_contiguous:
            foreign().copy(self.base + address, data, size)
        else:
            target[:] = source if source.format == "B" and source.ndim == 1 else source.cast("B")

    def alloc(self, size: int) -> int:
        address = self.qm_alloc(size)
        if address == 0:
            raise self._memory_failure()
        return address

    def free(self, address: int, size: int) -> None:
        self._check(self.qm_free(address, size))

    def stage(self, data: Buffer) -> int:
        """Lays a small input into the scratch block, where it stays until the next one comes."""
        size = memoryview(data).nbytes
        if size > self._scratch_size - _INPUT_OFFSET:
            self._grow_scratch(size)
        address = self._scratch + _INPUT_OFFSET
        self.write(address, data)
        return address

    def _grow_scratch(self, size: int) -> None:
        wanted = max(2 * self._scratch_size, size + _INPUT_OFFSET)
        scratch = self.alloc(wanted)
        self.free(self._scratch, self._scratch_size)
        self._scratch, self._scratch_size = scratch, wanted
        self._output = scratch + _OUTPUT_OFFSET
        self.view(scratch, wanted)

    # The doors, typed

    def batch_open(self, descriptor: Buffer) -> int:
        """`descriptor`: a BatchHeader and its ColumnDescriptors. Gives a handle for many pushes."""
        address, size = self.stage(descriptor), memoryview(descriptor).nbytes
        self._check(self.qm_batch_open(address, size, self._scratch + _HANDLE_OFFSET))
        return self._handle()

    def batch_close(self, handle: int) -> None:
        self._check(self.qm_batch_close(handle))

    def query_open(self, plan: Buffer) -> int:
        address, size = self.stage(plan), memoryview(plan).nbytes
        self._check(self.qm_query_open(address, size, self._scratch + _HANDLE_OFFSET))
        return self._handle()

    def query_lend(self, query: int) -> None:
        """Answers of the query are descriptors from here on: see querymode/engine/lent.py."""
        self._check(self.qm_query_lend(query))

    def query_push(
        self,
        query: int,
        kind: SourceKind,
        handle: int = 0,
        address: int = 0,
        size: int = 0,
        *,
        data: Buffer | None = None,
    ) -> Output:
        """Pushes what lies at `address`, or a small `data` by way of the scratch block."""
        if data is not None:
            address, size = self.stage(data), memoryview(data).nbytes
        if self.closed:
            raise _closed_error()
        source = self._scratch + _SOURCE_OFFSET
        _SOURCE.pack_into(self._view, source, kind, handle, address, size)
        self._check(self.qm_query_push(query, source, self._output))
        return self._read_output()

    def query_finish(self, query: int) -> Output:
        self._check(self.qm_query_finish(query, self._output))
        return self._read_output()

    def query_next(self, query: int) -> Output:
        self._check(self.qm_query_next(query, self._output))
        return self._read_output()

    def listed_parts(self, output: Output) -> list[tuple[int, int, int, int]]:
        """Address, size, rows and partition of the batches that an output of `LISTED` is."""
        return list(_PART.iter_unpack(self.view(output.address, output.size)))

    def query_close(self, query: int) -> None:
        self._check(self.qm_query_close(query))

    def query_profile(self, query: int) -> tuple[int, ...]:
        """Rows that came to every step so far, and behind them those that left the last one."""
        self._check(self.qm_query_profile(query, self._output))
        output = self._read_output()
        return struct.unpack(f"<{output.size // 8}Q", self.read(output.address, output.size))

    def text_open(self, format: int, address: int, size: int, options: Buffer = b"") -> int:
        options_address, options_size = self.stage(options), memoryview(options).nbytes
        handle = self._scratch + _HANDLE_OFFSET
        self._check(self.qm_text_open(format, address, size, options_address, options_size, handle))
        return self._handle()

    def text_sniff(
        self, format: int, address: int, size: int, options: Buffer = b"", *, is_whole: bool
    ) -> Output:
        """What a text file looks like by its head: `TEXT_SNIFFED_FORMAT` and settled options behind it."""
        place, options_size = self.stage(options), memoryview(options).nbytes
        self._check(self.qm_text_sniff(format, address, size, place, options_size, is_whole, self._output))
        return self._read_output()

    def footer(self, format: int, address: int, size: int, file_size: int) -> Output:
        """A file's footer to its flat form."""
        low, high = file_size & 0xFFFF_FFFF, file_size >> 32
        self._check(self.qm_footer(format, address, size, low, high, self._output))
        return self._read_output()

    def manifest(self, format: int, part: int, address: int, size: int) -> Output:
        """A part of a table's manifest (`ManifestPart`) to its flat form."""
        self._check(self.qm_manifest(format, part, address, size, self._output))
        return self._read_output()

    def deletions(self, format: int, kind: int, address: int, size: int, row_count: int) -> Output:
        """A list of rows (`RowList`) to bits; the output's row count is how many are set."""
        low, high = row_count & 0xFFFF_FFFF, row_count >> 32
        self._check(self.qm_deletions(format, kind, address, size, low, high, self._output))
        return self._read_output()

    def file_open(self, flat_footer: Buffer, format: int = FileFormat.PARQUET) -> int:
        address, size = self.stage(flat_footer), memoryview(flat_footer).nbytes
        self._check(self.qm_file_open(format, address, size, self._scratch + _HANDLE_OFFSET))
        return self._handle()

    def file_close(self, file: int) -> None:
        self._check(self.qm_file_close(file))

    def prune(self, query: int, request: Buffer, format: int = FileFormat.PARQUET) -> Output:
        address, size = self.stage(request), memoryview(request).nbytes
        self._check(self.qm_prune(query, format, address, size, self._output))
        return self._read_output()

    def bounds(self, query: int, request: Buffer, format: int = FileFormat.PARQUET) -> Output:
        address, size = self.stage(request), memoryview(request).nbytes
        self._check(self.qm_bounds(query, format, address, size, self._output))
        return self._read_output()

    def leaf_bounds(self, file: int, leaf: int) -> Output:
        self._check(self.qm_leaf_bounds(file, leaf, self._output))
        return self._read_output()

    def pages(self, format: int, data: Buffer) -> Output:
        """Rows about the pages whose headers lie in `data`, which begins with one."""
        address, size = self.stage(data), memoryview(data).nbytes
        self._check(self.qm_pages(format, address, size, self._output))
        return self._read_output()

    def scan_open(self, query: int, request: Buffer, format: int = FileFormat.PARQUET) -> int:
        """`request`: `SCAN_REQUEST_FORMAT`, or of text `STREAM_REQUEST_FORMAT`, and what follows."""
        address, size = self.stage(request), memoryview(request).nbytes
        self._check(self.qm_scan_open(query, format, address, size, self._scratch + _HANDLE_OFFSET))
        return self._handle()

    def scan_extent(self, scan: int) -> tuple[int | None, int | None, int]:
        """Of a scan of text, also of one that has failed: where its first row begins and where the next
        piece's does, as far as that is known, and how many rows it has read."""
        self._check(self.qm_scan_extent(scan, self._output))
        start, end, rows = _EXTENT.unpack_from(self._view, self._output)
        unknown = _abi.OFFSET_UNKNOWN
        return None if start == unknown else start, None if end == unknown else end, rows

    def scan_step(self, scan: int, segments: Buffer = b"") -> Output:
        """`segments`: what the last step asked for, as `_abi.SEGMENT_FORMAT` one after the other."""
        address, size = self.stage(segments), memoryview(segments).nbytes
        self._check(self.qm_scan_step(scan, address, size // _SEGMENT_SIZE, self._output))
        return self._read_output()

    def scan_close(self, scan: int) -> None:
        self._check(self.qm_scan_close(scan))

    def _handle(self) -> int:
        handle: int = _HANDLE.unpack_from(self._view, self._scratch + _HANDLE_OFFSET)[0]
        return handle

    def _read_output(self) -> Output:
        return Output(*_OUTPUT.unpack_from(self._view, self._output))

    def set_output_size(self, size: int) -> None:
        """How large batches of answers may get, in bytes, until it is set anew."""
        _HANDLE.pack_into(self._view, self._control + _abi.CONTROL_OFFSETS["output_size"], size)

    def take_pages_skipped(self) -> int:
        """Pages that scans have left out since it was asked last."""
        place = self._control + _abi.CONTROL_OFFSETS["pages_skipped"]
        count: int = _HANDLE.unpack_from(self._view, place)[0]
        _HANDLE.pack_into(self._view, place, 0)
        return count

    # Cancellation

    def cancel(self) -> None:
        """Stops the running call, or the next one. From any thread, at any time, also after close."""
        with self._cancel_lock:
            if self.closed:
                return
            first, self.cancelled = not self.cancelled, True
            if self._cancel_byte is None:
                self._engine.increment_epoch()
                return
            self._cancel_byte.value = 1
            if self._epochs and first:
                threading.Thread(target=self._watch_cancel, name="querymode-epoch", daemon=True).start()

    def _watch_cancel(self) -> None:
        """Ends a call that does not look at its cancel byte."""
        seen = -1
        # Whoever cancelled closes soon; if not, the epoch stops the next call and we need not wait.
        for _ in range(_WATCH_COUNT_MAX):
            time.sleep(EPOCH_GRACE_SECONDS)
            with self._cancel_lock:
                if self.closed or not self.cancelled:
                    return
                if self._gate.locked() and self.crossings == seen:
                    break
                seen = self.crossings
        with self._cancel_lock:
            if self.cancelled and not self.closed:
                self._engine.increment_epoch()

    def clear_cancel(self) -> None:
        """Makes the instance callable again. Between calls only."""
        with self._cancel_lock:
            if self.closed:
                return
            self.cancelled = False
            if self._cancel_byte is not None:
                self._cancel_byte.value = 0
            if self._epochs:
                self._store.set_epoch_deadline(1)

    # The end

    @property
    def reusable(self) -> bool:
        return not (self.broken or self.tainted or self.cancelled or self.epoch_trapped or self.closed)

    def close(self) -> None:
        """Gives the memory back, at once or when the last view of it and the running call are gone."""
        with self._cancel_lock:
            if self.closed:
                return
            self.closed = True
            linear, self._linear = self._linear, None
            view, self._view = self._view, memoryview(b"")
        self.resident.clear()
        self.kept_sizes.clear()
        view.release()
        process.live.discard(self)
        del linear  # the last reference unmaps, see _map

    def disown(self) -> None:
        """In a forked child: this Store is the parent's."""
        self._finalizer.detach()
        self._store._consume()
        self._cancel_lock = threading.RLock()
        self._gate = threading.Lock()
        self.closed = True
        self._linear = None
        self._view = memoryview(b"")

    def __enter__(self) -> Instance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


for _index, _name in enumerate(_abi.EXPORTS):
    setattr(Instance, _name, _door(_index, _name))


def _status_words(status: int) -> str:
    try:
        return Status(status).name.lower().replace("_", " ")
    except ValueError:
        return f"the engine returned the unknown status {status}"


def hardened_by_default() -> bool:
    return os.environ.get("QUERYMODE_HARDENED") == "1"
