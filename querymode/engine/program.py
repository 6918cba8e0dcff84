"""The engine's module: its bytes, compiled once per memory configuration, machine code cached on disk.

A freshly compiled module is compared with the generated `_abi` before its code is used or cached.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from querymode import _abi, errors
from querymode.engine import process
from querymode.engine.address_space import FULL_RESERVATION, KIB, MIB, MOVABLE
from querymode.engine.foreign import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    import wasmtime

_default_program: Program | None = None


def load_wasm() -> bytes:
    """The engine module that this package carries, from a directory or from a zip."""
    # The package's own loader: importlib.resources would cost more than reading and hashing.
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "querymode.wasm")
    spec = __spec__
    assert spec is not None and spec.loader is not None
    try:
        data: bytes = spec.loader.get_data(path)  # type: ignore[attr-defined]
    except OSError:
        raise errors.error(
            "INTERNAL",
            f"the engine module {path} is missing; reinstall querymode, or build it with `zig build wasm`",
        ) from None
    return data


def engine_sha256() -> str:
    """Names the engine: two builds of the same sources give the same."""
    return default_program().sha256


def default_program() -> Program:
    global _default_program
    process.notice_fork()
    program = _default_program
    if program is None:
        with process.native:
            program = _default_program
            if program is None:
                program = _default_program = Program(load_wasm())
    return program


def release_programs() -> None:
    """Lets go of compiled code; instances that still run keep what they need."""
    if _default_program is not None:
        _default_program._shared.clear()


def _refuse_platform() -> None:
    if sys.platform == "win32":
        raise errors.error(
            "NOT_SUPPORTED", "QueryMode runs on Linux and macOS; on Windows, run it inside WSL"
        )


@cache
def _wasmtime_version() -> str:
    """The exact version. wasmtime itself only compares majors before it loads machine code."""
    import wasmtime

    package = os.path.dirname(wasmtime.__file__)
    try:
        names = os.listdir(os.path.dirname(package))
    except OSError:
        names = []
    found = [name for name in names if name.startswith("wasmtime-") and name.endswith(".dist-info")]
    library = os.stat(ffi().dll._name)
    return f"{sorted(found)} {library.st_size} {library.st_mtime_ns}"


def _require_library() -> None:
    try:
        import wasmtime  # noqa: F401
    except (ImportError, OSError) as cause:
        raise errors.error("INTERNAL", f"the wasmtime library could not be loaded: {cause}") from cause


def _new_engine(reservation: int, epochs: bool) -> wasmtime.Engine:
    import wasmtime

    config = wasmtime.Config()
    config.strategy = "cranelift"
    config.cranelift_opt_level = "speed"
    # Compiling on wasmtime's threads hangs for ever in a forked child.
    config.parallel_compilation = False
    config.epoch_interruption = epochs
    config.memory_may_move = reservation == MOVABLE
    config.memory_reservation = reservation
    if reservation != FULL_RESERVATION:
        config.memory_guard_size = 64 * KIB
        config.memory_reservation_for_growth = 16 * MIB if reservation == MOVABLE else 0
    return wasmtime.Engine(config)


class Program:
    """A module's bytes and their compiled forms. Shared by all threads; the engine is one of these."""

    def __init__(self, wasm: bytes) -> None:
        import hashlib

        _refuse_platform()
        self.wasm = wasm
        self.sha256 = hashlib.sha256(wasm).hexdigest()
        self._shared: dict[int, tuple[wasmtime.Engine, wasmtime.Module]] = {}
        self._epoch_code: dict[int, bytes] = {}

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Program:
        with open(path, "rb") as file:
            return cls(file.read())

    def compiled(self, reservation: int, epochs: bool) -> tuple[wasmtime.Engine, wasmtime.Module]:
        """Engine and module for a configuration; with epochs, an engine of the caller's own.

        An epoch belongs to an engine: shared, one instance's time-out would stop all of them.
        """
        _require_library()
        with process.native:
            if not epochs and reservation in self._shared:
                return self._shared[reservation]
            engine = _new_engine(reservation, epochs)
            module = self._load_module(engine, reservation, epochs)
            if not epochs:
                self._shared[reservation] = (engine, module)
            return engine, module

    def _load_module(self, engine: wasmtime.Engine, reservation: int, epochs: bool) -> wasmtime.Module:
        from querymode.engine import code_cache as _code_cache
        from querymode.store.private_cache import entry_key

        module = _deserialize(engine, self._epoch_code.get(reservation) if epochs else None)
        if module is not None:
            return module
        configuration = f"speed serial reservation={reservation} epochs={epochs}"
        key = entry_key(self.sha256, _wasmtime_version(), configuration, _code_cache.cpu_identity())
        code = _code_cache.load(key)
        module = _deserialize(engine, code)
        if module is None:
            module = self._compile(engine)
            code = bytes(module.serialize())
            _code_cache.store(key, code)
        if epochs and code is not None:
            self._epoch_code[reservation] = code
        return module

    def _compile(self, engine: wasmtime.Engine) -> wasmtime.Module:
        import wasmtime

        try:
            module = wasmtime.Module(engine, self.wasm)
        except wasmtime.WasmtimeError as cause:
            # Compiled before for another configuration: then it only lacks memory this time.
            if self._shared:
                raise
            raise errors.error("INTERNAL", f"the engine module does not compile: {cause}") from None
        _check_contract(engine, module)
        return module


def _deserialize(engine: wasmtime.Engine, code: bytes | None) -> wasmtime.Module | None:
    """A module from machine code that was verified, or None where wasmtime refuses it."""
    import ctypes

    import wasmtime

    if code is None:
        return None
    # Module.deserialize would copy the bytes once more, and first touch of fresh memory is slow.
    library = ffi()
    pointer = ctypes.POINTER(library.wasmtime_module_t)()
    start = ctypes.cast(ctypes.c_char_p(code), ctypes.POINTER(ctypes.c_uint8))
    error = library.wasmtime_module_deserialize(engine.ptr(), start, len(code), ctypes.byref(pointer))
    if error:
        wasmtime.WasmtimeError._from_ptr(error)  # takes it over, and so frees it
        return None
    return wasmtime.Module._from_ptr(pointer)


def module_signatures(module: wasmtime.Module) -> dict[str, tuple[str, str]]:
    """The exported functions in the form of `_abi.EXPORTS`."""
    import wasmtime

    signatures = {}
    for export in module.exports:
        kind = export.type
        if isinstance(kind, wasmtime.FuncType):
            signatures[export.name] = (" ".join(map(str, kind.params)), " ".join(map(str, kind.results)))
    return signatures


def _check_contract(engine: wasmtime.Engine, module: wasmtime.Module) -> None:
    """Refuses a module that is not the one `_abi.py` was generated for: later calls are unchecked."""
    import wasmtime

    if module.imports:
        raise errors.error("INTERNAL", "the engine module asks for imports; it must have none")
    signatures = module_signatures(module)
    if signatures.get("qm_abi_version") == ("", "i32"):
        store = wasmtime.Store(engine)
        store.set_epoch_deadline(1)
        version = wasmtime.Instance(store, module, []).exports(store)["qm_abi_version"]
        assert isinstance(version, wasmtime.Func)
        check_version(version(store) & 0xFFFF_FFFF)
    for name, expected in _abi.EXPORTS.items():
        if signatures.get(name) != expected:
            raise errors.error(
                "INTERNAL",
                f"the engine module's {name} is {signatures.get(name)}, this package expects {expected}; "
                "rebuild with `zig build abi wasm`",
            )


def check_version(version: int) -> None:
    if version != _abi.VERSION:
        raise errors.error(
            "INTERNAL",
            f"the engine module speaks version {version} of the boundary, this package version "
            f"{_abi.VERSION}; reinstall querymode, or rebuild with `zig build abi wasm`",
        )
