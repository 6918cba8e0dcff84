"""A module with the engine's doors that misbehaves on request: what the host must survive.

The first byte of a plan says what a push does; `Behaviour` names it. Written as WebAssembly text,
so that tests need no compiler.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

import wasmtime

from querymode import _abi
from querymode.engine.program import Program


class Behaviour(IntEnum):
    ECHO = 1
    """The output is the source, one row."""
    PANIC = 2
    SPIN = 3
    """Until the cancel byte is set."""
    SPIN_BLIND = 4
    """For ever, without a look at the cancel byte."""
    GROW = 5
    """By `handle` pages, one at a time, a store into each; memory_exceeded when refused."""
    STATUS = 6
    """Returns `handle` as Status, with a detail."""
    RECURSE = 7
    OUT_OF_BOUNDS = 8
    FILL = 9
    """Grows by `handle` pages as GROW does, then sums `size` bytes at `address` into row_count."""


CONTROL = 4096
PANIC_TEXT = b"index 9 is past the end"
DETAIL_TEXT = "page 3: größer"

_TEXT = """
(module
  (memory (export "memory") 2)
  (data (i32.const 1024) "%(panic)s")
  (data (i32.const 2048) "%(detail)s")
  (global $top (mut i32) (i32.const 65536))
  (func (export "qm_abi_version") (result i32) (i32.const %(version)d))
  (func (export "qm_control") (result i32) (i32.const %(control)d))
  (func $reserve (param $end i32) (result i32)
    (block $enough
      (loop $again
        (br_if $enough (i64.le_u (i64.extend_i32_u (local.get $end))
          (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16))))
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1))
          (then (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (return (i32.const 0))))))
        (br $again)))
    (i32.const 1))
  (func (export "qm_alloc") (param $size i32) (result i32) (local $start i32)
    (local.set $start (global.get $top))
    (if (i32.eqz (call $reserve (i32.add (local.get $start) (i32.add (local.get $size) (i32.const 64)))))
      (then (return (i32.const 0))))
    (global.set $top
      (i32.and (i32.add (local.get $start) (i32.add (local.get $size) (i32.const 63))) (i32.const -64)))
    (local.get $start))
  (func (export "qm_free") (param i32 i32) (result i32) (i32.const 0))
  (func $open (export "qm_query_open") (param $address i32) (param $size i32) (param $out i32) (result i32)
    (i32.store (local.get $out) (i32.load8_u (local.get $address)))
    (i32.const 0))
  (func (export "qm_batch_open") (param $address i32) (param $size i32) (param $out i32) (result i32)
    (i32.store (local.get $out) (local.get $size))
    (i32.const 0))
  (func (export "qm_batch_close") (param i32) (result i32) (i32.const 0))
  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (local.get 0)))
  (func $grow (param $pages i32) (result i32)
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $pages)))
        (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (return (i32.const 300))))
        (i32.store8 (i32.shl (i32.sub (memory.size) (i32.const 1)) (i32.const 16)) (i32.const 7))
        (local.set $pages (i32.sub (local.get $pages) (i32.const 1)))
        (br $again)))
    (i32.const 0))
  (func $sum (param $address i32) (param $size i32) (result i32) (local $total i32)
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $size)))
        (local.set $total (i32.add (local.get $total) (i32.load8_u (local.get $address))))
        (local.set $address (i32.add (local.get $address) (i32.const 1)))
        (local.set $size (i32.sub (local.get $size) (i32.const 1)))
        (br $again)))
    (local.get $total))
  (func $fail (param $status i32) (result i32)
    (i64.store (i32.const %(detail_at)d) (i64.const 77))
    (i64.store offset=%(detail_row)d (i32.const %(detail_at)d) (i64.const 5))
    (i32.store offset=%(detail_column)d (i32.const %(detail_at)d) (i32.const 3))
    (i32.store offset=%(detail_length)d (i32.const %(detail_at)d) (i32.const %(detail_size)d))
    (memory.copy (i32.const %(detail_message)d) (i32.const 2048) (i32.const %(detail_size)d))
    (local.get $status))
  (func (export "qm_query_push") (param $query i32) (param $source i32) (param $out i32) (result i32)
    (local $handle i32) (local $address i32) (local $size i32) (local $status i32)
    (local.set $handle (i32.load offset=4 (local.get $source)))
    (local.set $address (i32.load offset=8 (local.get $source)))
    (local.set $size (i32.load offset=12 (local.get $source)))
    (i32.store (local.get $out) (local.get $address))
    (i32.store offset=4 (local.get $out) (local.get $size))
    (i32.store offset=8 (local.get $out) (i32.const 1))
    (i32.store offset=12 (local.get $out) (i32.const 0))
    (if (i32.eq (local.get $query) (i32.const 2)) (then
      (i32.store (i32.const %(panic_at)d) (i32.const %(panic_size)d))
      (memory.copy (i32.const %(panic_message)d) (i32.const 1024) (i32.const %(panic_size)d))
      (unreachable)))
    (if (i32.eq (local.get $query) (i32.const 3)) (then
      (loop $again (br_if $again (i32.eqz (i32.load8_u (i32.const %(control)d)))))
      (return (i32.const 301))))
    (if (i32.eq (local.get $query) (i32.const 4)) (then (loop $for_ever (br $for_ever))))
    (if (i32.eq (local.get $query) (i32.const 5)) (then (return (call $grow (local.get $handle)))))
    (if (i32.eq (local.get $query) (i32.const 6)) (then (return (call $fail (local.get $handle)))))
    (if (i32.eq (local.get $query) (i32.const 7)) (then (return (call $recurse (i32.const 1)))))
    (if (i32.eq (local.get $query) (i32.const 8)) (then (return (i32.load (i32.const -8)))))
    (if (i32.eq (local.get $query) (i32.const 9)) (then
      (local.set $status (call $grow (local.get $handle)))
      (i32.store offset=8 (local.get $out) (call $sum (local.get $address) (local.get $size)))
      (return (local.get $status))))
    (i32.const 0))
  (func $finish (param $query i32) (param $out i32) (result i32)
    (i64.store (local.get $out) (i64.const 0))
    (i32.store offset=8 (local.get $out) (i32.const 0))
    (i32.store offset=12 (local.get $out) (i32.const 2))
    (i32.const 0))
  (export "qm_query_finish" (func $finish))
  (export "qm_query_next" (func $finish))
  (func (export "qm_query_close") (param i32) (result i32) (i32.const 0))
  (func (export "qm_text_open") (param $format i32) (param i32 i32 i32 i32) (param $out i32) (result i32)
    (i32.store (local.get $out) (local.get $format))
    (i32.const 0))
%(others)s
)
"""


def _other_doors() -> str:
    """Doors that the tests do not go through: they are there, and do nothing."""
    doors = []
    for name, (parameters, _) in _abi.EXPORTS.items():
        if f'"{name}"' not in _TEXT:
            doors.append(f'  (func (export "{name}") (param {parameters}) (result i32) (i32.const 0))')
    return "\n".join(doors)


def stub_text(version: int = _abi.VERSION) -> str:
    offsets = _abi.CONTROL_OFFSETS
    detail = CONTROL + offsets["detail"]
    detail_text = DETAIL_TEXT.encode()
    return _TEXT % {
        "version": version,
        "others": _other_doors(),
        "control": CONTROL,
        "panic": PANIC_TEXT.decode(),
        "panic_at": CONTROL + offsets["panic_size"],
        "panic_size": len(PANIC_TEXT),
        "panic_message": CONTROL + offsets["panic_message"],
        "detail": "".join(f"\\{byte:02x}" for byte in detail_text),
        "detail_at": detail,
        "detail_size": len(detail_text),
        "detail_row": _abi.ERROR_DETAIL_OFFSETS["row"],
        "detail_column": _abi.ERROR_DETAIL_OFFSETS["column"],
        "detail_length": _abi.ERROR_DETAIL_OFFSETS["message_size"],
        "detail_message": detail + _abi.ERROR_DETAIL_OFFSETS["message"],
    }


@cache
def stub_wasm(version: int = _abi.VERSION) -> bytes:
    return bytes(wasmtime.wat2wasm(stub_text(version)))


@cache
def stub_program() -> Program:
    return Program(stub_wasm())
