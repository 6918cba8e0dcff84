"""What is shipped: one pure wheel with the engine inside, small, the same from every build."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from querymode.engine.program import load_wasm
from tests.conftest import ROOT


def build_wheel(source: Path, target: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--wheel-dir", str(target), str(source)],
        check=True,
        capture_output=True,
        env={**os.environ, **environment},
    )
    (wheel,) = target.glob("*.whl")
    return wheel


def test_wheel(tmp_path: Path) -> None:
    wheel = build_wheel(ROOT, tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size <= 3_000_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.read("querymode/querymode.wasm") == load_wasm()
    assert "querymode/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "wasm/", "benchmarks/"))]


@pytest.mark.soak
def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    """In folders of different depth, with caches of their own."""
    digests = set()
    for number, folder in enumerate(("a", "a/much/deeper/place")):
        copy = tmp_path / folder / f"copy{number}"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".zig-cache", "zig-out", "querymode.wasm", "__pycache__"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        wheel = build_wheel(
            copy, tmp_path / f"wheel{number}", ZIG_LOCAL_CACHE_DIR=str(tmp_path / f"cache{number}")
        )
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
        assert (copy / "querymode" / "querymode.wasm").read_bytes() == load_wasm()
    assert len(digests) == 1
