"""What is shipped: the sources, and a small pure wheel with the engine inside, the same from every build."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
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


def build_sdist(target: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (sdist,) = target.glob("*.tar.gz")
    return sdist


#: What builds, tests and benchmarks leave in folders of sources.
#: What benchmarks write.
BENCHMARK_DATA = ROOT / "benchmarks" / "data"
LEFT = {"__pycache__", "brotli_dictionary.bin", "querymode.wasm", "unicode_case.bin"}


def test_sdist_has_all_sources(tmp_path: Path) -> None:
    """Documents, tests and what they read too: whoever unpacks it can build, test and change all of it."""
    folders = (".ci", "benchmarks", "docs", "fixtures", "querymode", "tests", "tools", "wasm")
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not LEFT & {*path.parts} and BENCHMARK_DATA not in path.parents
    }
    wanted |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"}
    wanted |= {"build.zig", "hatch_build.py", "pyproject.toml"}
    with tarfile.open(build_sdist(tmp_path)) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert wanted - found == set()
    assert found - wanted == {"PKG-INFO", ".gitignore"}


def test_metadata(tmp_path: Path) -> None:
    """What indexes show of the package, and no address that there is not."""
    with tarfile.open(build_sdist(tmp_path)) as archive:
        (name,) = (name for name in archive.getnames() if name.endswith("/PKG-INFO"))
        file = archive.extractfile(name)
        assert file is not None
        said = message_from_bytes(file.read())
    for field in ("Summary", "Author", "Maintainer", "Keywords", "License-Expression"):
        assert said[field], field
    assert said.get_all("Project-URL") is None and said["Home-page"] is None
    assert str(said.get_payload()).startswith("# QueryMode")
    classifiers = said.get_all("Classifier") or []
    assert "Development Status :: 4 - Beta" in classifiers
    versions = [
        one.rpartition(" ")[2]
        for one in classifiers
        if one.startswith("Programming Language :: Python :: 3.")
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert said["Requires-Python"] == f">={versions[0]}"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["mypy"]["python_version"] == versions[0]


@pytest.mark.soak
def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path)) as archive:
        archive.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    wheel = build_wheel(sources, tmp_path / "wheel", ZIG_LOCAL_CACHE_DIR=str(tmp_path / "cache"))
    with zipfile.ZipFile(wheel) as archive_:
        assert archive_.read("querymode/querymode.wasm") == load_wasm()


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
