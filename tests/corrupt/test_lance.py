"""Lance tables that are cut, changed or lie: rows or an error that names the file, never more.

Mutations are read in child processes (lance_child.py), which start from fixtures/lance. A failing input is
kept under tmp_path and can be had again: `python -m tests.corrupt.lance_child --seed S --first I …`.
"""

from __future__ import annotations

import json
import operator
import os
import random
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fixtures.by_pylance import LANCE
from fixtures.settled import Manifest, fields_of, message_of
from querymode import QueryMode, QueryModeError
from querymode.engine import program
from tests.conftest import ROOT
from tests.corrupt.bombs import HONEST
from tests.corrupt.lance_child import MEMORY, WAYS, ending
from tests.corrupt.lance_files import DataFile, is_legacy
from tests.corrupt.lance_lies import FILES, FRAGMENTS, LIES, PATH, READER_FLAGS, newest, of_manifest
from tests.raises import raises_code

#: Codes of tables that are not what they say.
REFUSED = frozenset({"INVALID_FORMAT", "NOT_SUPPORTED", "SCHEMA_MISMATCH", "QUERY_FAILED", "TABLE_NOT_FOUND"})


def start(failures: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.corrupt.lance_child", "--failures", str(failures), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], failures: Path, count: int, timeout: float) -> None:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    died = f"died at input {(failures / 'next').read_text().strip()}: {err[-4000:]}"
    assert process.returncode == 0, died
    *failed, last = out.splitlines()
    summary = json.loads(last)
    print(f"{summary['count']:,} mutations: {summary['counts']}")
    assert summary["count"] == count
    assert not failed, f"{summary['failed']} of {count:,}, kept in {failures}, such as\n" + "\n".join(
        failed[:20]
    )
    # Some are read, or the mutations would be too crude; few need more memory than there is.
    counts = summary["counts"]
    assert counts["OK"] > 0.1 * count and counts["INVALID_FORMAT"] > 0.1 * count
    assert counts.get("MEMORY_EXCEEDED", 0) < 0.005 * count


# --- Mutations ----------------------------------------------------------------------------------


def test_ten_thousand_mutations(tmp_path: Path, safe_wasm: Path) -> None:
    """Half of them by the engine with every check on."""
    builds: list[list[str]] = [[], ["--wasm", str(safe_wasm)]]
    children = [
        start(tmp_path / str(seed), "--count", "5000", "--seed", str(seed), *build)
        for seed, build in enumerate(builds)
    ]
    for seed, child in enumerate(children):
        finish(child, tmp_path / str(seed), 5000, 300)


@pytest.mark.soak
def test_a_million_mutations(tmp_path: Path, safe_wasm: Path) -> None:
    """Two processes; new inputs each time, whose seeds are printed."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seeds {seed} and {seed + 1}")
    builds: list[list[str]] = [[], ["--wasm", str(safe_wasm)]]
    children = [
        start(tmp_path / str(part), "--count", "500000", "--seed", str(seed + part), *build)
        for part, build in enumerate(builds)
    ]
    for part, child in enumerate(children):
        finish(child, tmp_path / str(part), 500_000, 6 * 3600)


def test_mutations_can_be_had_again(tmp_path: Path) -> None:
    """Input 7 is the same alone as among others."""
    for folder, first, count in (("many", 0, 9), ("alone", 7, 1)):
        command = [sys.executable, "-m", "tests.corrupt.lance_child", "--emit", str(tmp_path / folder)]
        command += ["--first", str(first), "--count", str(count)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    assert (tmp_path / "many" / "7").read_bytes() == (tmp_path / "alone" / "7").read_bytes()


def test_files_are_put_together_as_they_were() -> None:
    """What lies is otherwise right: taken apart and put together, every file is itself again."""
    for path in LANCE.rglob("*.lance/data/*.lance"):
        data = path.read_bytes()
        if not is_legacy(data):
            assert DataFile(data).data() == data, path
    for path in LANCE.rglob("*.manifest"):
        data = path.read_bytes()
        assert Manifest(data).data() == data, path
        assert message_of(fields_of(Manifest(data).message)) == Manifest(data).message


# --- Parts of tables -----------------------------------------------------------------------------


@pytest.fixture(params=["fast", "safe"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, programs: dict[str, Any]) -> str:
    monkeypatch.setattr(program, "_default_program", programs[request.param])
    return str(request.param)


@pytest.fixture(scope="module")
def programs(safe_wasm: Path) -> dict[str, program.Program]:
    return {"fast": program.default_program(), "safe": program.Program.from_file(safe_wasm)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path / "cache"))


def session() -> QueryMode:
    return QueryMode(memory=MEMORY, threads=1, timeout=20)


def copied(name: str, folder: Path) -> Path:
    """Of a dataset of fixtures/lance."""
    path = folder / name
    (shutil.copytree if (LANCE / name).is_dir() else shutil.copyfile)(LANCE / name, path)
    return path


def replaced(path: Path, data: bytes) -> None:
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


@pytest.mark.parametrize("name", ["fragments_2.2.lance", "fragments_0.1.lance", "deletions_roaring.lance"])
def test_every_truncation(engine: str, tmp_path: Path, name: str) -> None:
    dataset = copied(name, tmp_path)
    tables = session()
    for path in sorted(dataset.rglob("*")):
        if not path.is_file() or path.suffix == ".json":
            continue
        data = path.read_bytes()
        step = 1 if len(data) < 1_000 else 37
        for size in [0, 1, *range(2, len(data), step), len(data) - 1]:
            replaced(path, data[:size])
            for way in ("everything", "how many"):
                assert ending(tables, dataset, way) in REFUSED | {"OK"}, (path.name, size)
        replaced(path, data)
    read = "NOT_SUPPORTED" if "_0.1" in name else "OK"  # as yet
    assert ending(tables, dataset, "everything") == read


@pytest.mark.parametrize("name", ["fragments_2.2.lance", "columns_2.2.lance", "deletions_arrow.lance"])
def test_files_that_are_gone(tmp_path: Path, name: str) -> None:
    """As after a vacuum in the middle: the error names the version and the file."""
    dataset = copied(name, tmp_path)
    for path in sorted(dataset.rglob("*")):
        if path.parent.name != "data":  # lists of deleted rows are kept once they were read
            continue
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(QueryModeError) as caught:
            for version in (None, *range(1, len(list((dataset / "_versions").glob("*.manifest"))) + 1)):
                session().table(dataset, version=version).to_arrow()
        assert caught.value.code != "INTERNAL"
        assert path.name in str(caught.value) and "version" in str(caught.value), caught.value
        path.write_bytes(data)


def test_a_manifest_that_is_gone(tmp_path: Path) -> None:
    dataset = copied("tags.lance", tmp_path)
    manifests = sorted((dataset / "_versions").glob("*.manifest"))
    manifests[0].unlink()  # of the newest version: the one before is the newest now
    assert session().table(dataset).count() == 2
    with pytest.raises(QueryModeError, match="3"):
        session().table(dataset, version=3).to_arrow()
    for path in manifests[1:]:
        path.unlink()
    with pytest.raises(QueryModeError):
        session().table(dataset).to_arrow()


# --- Lies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIES)
def test_lies(name: str, engine: str, tmp_path: Path) -> None:
    dataset, tell = LIES[name]
    path = copied(dataset, tmp_path)
    tell(path)
    for way in WAYS:
        began = time.monotonic()
        assert ending(session(), path, way) in HONEST | REFUSED, way
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", LIES)
def test_lies_are_told(name: str, tmp_path: Path) -> None:
    """Each changes what it is about, and tables stay folders with the same files."""
    dataset, tell = LIES[name]
    path = copied(dataset, tmp_path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    tell(path)
    assert {file for file in path.rglob("*") if file.is_file()} == set(before)
    assert any(file.read_bytes() != data for file, data in before.items())


def test_paths_that_lead_elsewhere(tmp_path: Path) -> None:
    """A manifest says where its data files are: in its own folder, or where the session may go."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    dataset = copied("tags.lance", inside)
    shutil.move(dataset / "data", outside)
    table = QueryMode.local(allowed_paths=[str(inside)], threads=1)
    for start in ("../../../outside/", f"{outside}/", f"file://{outside}/"):
        manifest = Manifest((LANCE / "tags.lance" / "_versions" / newest(dataset).name).read_bytes())
        manifest.change((FRAGMENTS, FILES, PATH), partial(operator.add, start.encode()))
        replaced(newest(dataset), manifest.data())
        with pytest.raises(QueryModeError) as caught:
            table.table(dataset).to_arrow()
        assert caught.value.code in ("ACCESS_DENIED", "INVALID_FORMAT", "QUERY_FAILED"), caught.value


def test_flags_of_a_time_to_come(tmp_path: Path) -> None:
    for flag in (64, 512, 1024, 2048, 4096, 1 << 40):
        (tmp_path / str(flag)).mkdir()
        dataset = copied("tags.lance", tmp_path / str(flag))
        of_manifest(READER_FLAGS, value=flag)(dataset)
        with raises_code("NOT_SUPPORTED", match=str(flag)):
            session().table(dataset).to_arrow()


def test_lies_take_little_memory(tmp_path: Path) -> None:
    """All of them, one after the other in one process: 256 MiB of engine and what Python takes anyway."""
    for number, (dataset, tell) in enumerate(LIES.values()):
        (tmp_path / str(number)).mkdir()
        tell(copied(dataset, tmp_path / str(number)))
    script = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from tests.corrupt.test_lance import ending, session\n"
        "paths = sorted(Path(sys.argv[1]).glob('[0-9]*/*.lance'))\n"
        "ending(session(), paths[0], 'everything')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in paths:\n    ending(session(), path, 'everything'); ending(session(), path, 'how many')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 300 << 10, "KiB more than for the first"
