"""The foreign side: ctypes, wasmtime's unchecked C entry, and copies that let other threads run meanwhile.

Calls through the entry are not checked: arguments go through the signatures of the generated `_abi`, which a
freshly compiled module has been compared with.
"""

from __future__ import annotations

import os

from querymode import _abi
from querymode.engine import process
from querymode.engine.address_space import FULL_RESERVATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import wasmtime

    from querymode.engine.views import Buffer


def ffi() -> Any:
    from wasmtime import _ffi

    return _ffi


class Foreign:
    """ctypes things made once per process, on first use: importing ctypes early costs every start."""

    def __init__(self) -> None:
        import ctypes

        class LinearMemory(ctypes.c_ubyte * FULL_RESERVATION):  # type: ignore[misc]
            """The whole 32-bit space of an instance; unlike a plain array it can be referred to weakly.

            It is mapped only up to the memory's size: slices are taken after a bounds check.
            """

        class BufferInfo(ctypes.Structure):
            """Py_buffer, part of Python's stable ABI since 3.11."""

            _fields_ = (
                ("buf", ctypes.c_void_p),
                ("obj", ctypes.py_object),
                ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p),
                ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p),
            )

        self.linear_memory = LinearMemory
        self.byte = ctypes.c_ubyte
        self.address_of = ctypes.addressof
        self.pointer = ctypes.c_void_p
        self.raw_values = ctypes.c_uint32 * (4 * max(1, *(len(p.split()) for p, _ in _abi.EXPORTS.values())))
        self._ctypes = ctypes
        self._buffer_info = BufferInfo
        # Indexing gives function objects of our own; attributes are shared with other users of ctypes.
        self._new_bytes: Any = ctypes.pythonapi["PyBytes_FromStringAndSize"]
        self._new_bytes.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
        self._new_bytes.restype = ctypes.py_object
        self._bytes_address: Any = ctypes.pythonapi["PyBytes_AsString"]
        self._bytes_address.argtypes = (ctypes.py_object,)
        self._bytes_address.restype = ctypes.c_void_p
        self.unchecked_call = self._find_unchecked_call()

    def _find_unchecked_call(self) -> Callable[..., int | None] | None:
        """The C entry without conversions: 1 µs a call instead of 40."""
        if os.environ.get("QUERYMODE_CHECKED_CALLS") == "1":
            return None
        pointer, size = self._ctypes.c_void_p, self._ctypes.c_size_t
        try:
            # As above: the attribute is shared with wasmtime.
            entry: Any = ffi().dll["wasmtime_func_call_unchecked"]
        except AttributeError:
            return None
        entry.argtypes = (pointer, pointer, pointer, size, pointer)
        entry.restype = pointer
        found: Callable[..., int | None] = entry
        return found

    def pointer_value(self, pointer: Any) -> int:
        address = self._ctypes.cast(pointer, self._ctypes.c_void_p).value
        assert address is not None
        return address

    def copy(self, target: int, source: Buffer, size: int) -> None:
        """memmove from any contiguous buffer, read-only ones too, without holding the GIL."""
        ctypes = self._ctypes
        info = self._buffer_info()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(source), ctypes.byref(info), 0)
        try:
            assert info.len == size
            ctypes.memmove(target, info.buf, size)
        finally:
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(info))

    def copied(self, address: int, size: int) -> bytes:
        """A copy of some memory of this process, made without holding the GIL."""
        data: bytes = self._new_bytes(None, size)  # what it holds is not set yet; nobody else has it
        self._ctypes.memmove(self._bytes_address(data), address, size)
        return data

    def take_trap(self, pointer: int) -> wasmtime.Trap:
        import wasmtime

        ctypes = self._ctypes
        return wasmtime.Trap._from_ptr(ctypes.cast(pointer, ctypes.POINTER(ffi().wasm_trap_t)))

    def take_error(self, pointer: int) -> wasmtime.WasmtimeError:
        import wasmtime

        ctypes = self._ctypes
        return wasmtime.WasmtimeError._from_ptr(ctypes.cast(pointer, ctypes.POINTER(ffi().wasmtime_error_t)))


_made: Foreign | None = None


def foreign() -> Foreign:
    global _made
    if _made is None:
        with process.native:
            if _made is None:
                _made = Foreign()
    return _made
