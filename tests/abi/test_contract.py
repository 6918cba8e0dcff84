"""The built module and the generated `_abi.py` say the same, name by name and type by type."""

from __future__ import annotations

import io
import re
import struct
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import wasmtime

from querymode import _abi
from querymode.engine import instance as _wasm
from querymode.engine.one_task import flat_footer
from querymode.engine.program import Program, load_wasm, module_signatures
from querymode.errors import InternalError
from tests.abi.stub import stub_text, stub_wasm


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def engine_module() -> wasmtime.Module:
    return wasmtime.Module(wasmtime.Engine(), load_wasm())


def test_functions_are_those_of_the_contract(engine_module: wasmtime.Module) -> None:
    assert module_signatures(engine_module) == _abi.EXPORTS


def test_nothing_else_is_exported(engine_module: wasmtime.Module) -> None:
    assert {export.name for export in engine_module.exports} == {*_abi.EXPORTS, "memory"}


def test_nothing_is_imported(engine_module: wasmtime.Module) -> None:
    assert engine_module.imports == []


def test_every_door_has_a_method() -> None:
    for name in _abi.EXPORTS:
        assert callable(getattr(_wasm.Instance, name))


def test_every_status_has_a_code() -> None:
    answered_otherwise = {_abi.Status.OK, _abi.Status.CANCELLED}
    assert set(_wasm._CODE_BY_STATUS) == set(_abi.Status) - answered_otherwise


def test_scratch_has_room_for_the_structs() -> None:
    assert _wasm._SOURCE.size == _abi.SOURCE_SIZE == 16
    assert _wasm._OUTPUT.size == _abi.OUTPUT_SIZE == 20
    assert _abi.CONTROL_OFFSETS["detail"] + _abi.ERROR_DETAIL_SIZE <= _abi.CONTROL_SIZE


def test_a_flat_footer_is_what_the_contract_says() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2], "y": ["a", None]}), sink)
    raw = sink.getvalue()
    size = int.from_bytes(raw[-8:-4], "little")
    blob = flat_footer(raw[-8 - size : -8], len(raw))
    values = struct.unpack_from(_abi.FOOTER_HEADER_FORMAT, blob)
    header = dict(zip(_abi.FOOTER_HEADER_OFFSETS, values, strict=True))
    assert (header["magic"], header["version"]) == (_abi.FOOTER_MAGIC, _abi.FOOTER_VERSION)
    assert (header["size"], header["file_size"]) == (len(blob), len(raw))
    assert (header["column_count"], header["leaf_count"], header["row_group_count"]) == (2, 2, 1)
    assert blob.endswith(bytes(_abi.FOOTER_PADDING))
    numbers = [value for name, value in vars(_abi.FooterArray).items() if name.isupper()]
    assert numbers == list(range(_abi.FOOTER_ARRAY_COUNT))
    bits = [value for name, value in vars(_abi.FooterFlags).items() if name.isupper()]
    assert bits == [1 << place for place in range(len(bits))]


def test_engine_version_is_ours() -> None:
    with _wasm.Instance() as instance:
        assert instance.qm_abi_version() == _abi.VERSION


def test_another_version_is_refused_with_both_numbers() -> None:
    with pytest.raises(InternalError, match=rf"version 4711 .* version {_abi.VERSION};"):
        _wasm.Instance(program=Program(stub_wasm(4711)))


def test_another_version_is_refused_from_cached_code(monkeypatch: pytest.MonkeyPatch) -> None:
    _wasm.Instance(program=Program(stub_wasm())).close()
    monkeypatch.setattr(_abi, "VERSION", _abi.VERSION + 1)
    with pytest.raises(InternalError, match="speaks version"):
        _wasm.Instance(program=Program(stub_wasm()))


def test_a_changed_signature_is_refused() -> None:
    text = re.sub(
        r'\(func \(export "qm_free"\) \(param i32 i32\)',
        '(func (export "qm_free") (param i32 i64)',
        stub_text(),
    )
    program = Program(bytes(wasmtime.wat2wasm(text)))
    with pytest.raises(InternalError, match=r"qm_free is \('i32 i64', 'i32'\)"):
        _wasm.Instance(program=program)


def test_imports_are_refused() -> None:
    text = stub_text().replace("(module", '(module (import "env" "now" (func))', 1)
    with pytest.raises(InternalError, match="imports"):
        _wasm.Instance(program=Program(bytes(wasmtime.wat2wasm(text))))


def test_bytes_that_are_no_module_are_refused() -> None:
    with pytest.raises(InternalError, match="does not compile"):
        _wasm.Instance(program=Program(b"\0asm nonsense"))


def test_windows_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NotImplementedError, match="Windows") as caught:
        Program(stub_wasm())
    assert caught.value.code == "NOT_SUPPORTED"  # type: ignore[attr-defined]
