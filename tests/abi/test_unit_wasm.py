"""The engine's own unit tests where they count: compiled to WebAssembly, with 32-bit sizes."""

from __future__ import annotations

import time
from pathlib import Path

import wasmtime

UNIT_TESTS = Path(__file__).resolve().parent.parent.parent / "zig-out" / "bin" / "unit_tests.wasm"


def test_unit_tests_pass_in_wasm(tmp_path: Path) -> None:
    config = wasmtime.Config()
    config.parallel_compilation = True
    engine = wasmtime.Engine(config)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    wasi = wasmtime.WasiConfig()
    wasi.argv = [str(UNIT_TESTS)]
    said = tmp_path / "said"
    wasi.stderr_file = str(said)
    wasi.stdout_file = str(tmp_path / "answered")
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    module = wasmtime.Module.from_file(engine, str(UNIT_TESTS))
    started = time.monotonic()
    code = 0
    try:
        entry = linker.instantiate(store, module).exports(store)["_start"]
        assert isinstance(entry, wasmtime.Func)
        entry(store)
    except wasmtime.ExitTrap as end:
        code = end.code
    except wasmtime.Trap as trap:
        raise AssertionError(f"{trap}\n{said.read_text(errors='replace')}") from None
    seconds = time.monotonic() - started
    text = said.read_text(errors="replace")
    print(f"unit tests in wasm: {seconds:.1f} s, {text.strip().splitlines()[-1:]}")
    assert code == 0, text
    assert seconds < 20
