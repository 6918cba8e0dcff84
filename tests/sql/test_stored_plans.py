"""Plans of texts on disk: found by another process, and only while they still mean the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from querymode.sql import stored

HEAD = """
import os, sys
from querymode import QueryMode
def says(frame):
    print(*[tuple(row.values()) for row in frame.rows], "sqlglot" in sys.modules)
"""


class Place:
    """A folder with files, and a cache of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache = path / "cache"
        (path / "data").mkdir()

    def write(self, name: str, **columns: Any) -> None:
        pq.write_table(pa.table(columns), self.path / "data" / name)

    def ask(self, script: str, root: str = "data") -> str:
        environment = {**os.environ, "QUERYMODE_CACHE_DIR": str(self.cache), "PYTHONPATH": os.getcwd()}
        text = f"{HEAD}\nqm = QueryMode.local(root={str(self.path / root)!r})\n{textwrap.dedent(script)}"
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, env=environment, cwd=self.path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def entries(self) -> int:
        folder = self.cache / "plans"
        return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the compiled engine and no plan: compiling it takes longer than any of these tests."""
    found = Place(tmp_path_factory.mktemp("machine_code"))
    found.ask("qm.from_json([{'a': 1}]).filter('a', 'eq', 1).rows")
    assert found.entries() == 0
    return found.cache


@pytest.fixture
def place(tmp_path: Path, machine_code: Path) -> Place:
    found = Place(tmp_path)
    shutil.copytree(machine_code, found.cache)
    found.write("a.parquet", k=[1, 2, 3], v=["x", "y", "z"])
    return found


def test_a_second_process_does_not_parse(place: Place) -> None:
    script = """says(qm.sql("SELECT k, (SELECT max(k) FROM 'a.parquet') FROM 'a.parquet' WHERE v <> 'y'"))"""
    assert place.ask(script) == "(1, 3) (3, 3) True"
    assert place.entries() == 1
    assert place.ask(script) == "(1, 3) (3, 3) False"


def test_the_command_line_does_not_parse_twice(place: Place) -> None:
    environment = {**os.environ, "QUERYMODE_CACHE_DIR": str(place.cache)}
    script = (
        "import sys; from querymode.cli import main; main(['select 1 as a']); "
        "print(*{'sqlglot', 'wasmtime', 'pyarrow', 'numpy', 'rich'}.intersection(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, env=environment) for _ in range(2)
    )
    assert first.stdout.splitlines() == ["a", "-", "1", "sqlglot"]
    assert second.stdout.splitlines() == ["a", "-", "1", ""]


def test_new_rows_are_seen(place: Place) -> None:
    script = """says(qm.sql("SELECT count(*), max(v) FROM 'a.parquet'"))"""
    place.ask(script)
    place.write("a.parquet", k=[1, 2, 3, 4], v=["x", "y", "z", "zz"])
    assert place.ask(script) == "(4, 'zz') False"


def test_new_columns_are_parsed_anew(place: Place) -> None:
    script = """says(qm.sql("SELECT * FROM 'a.parquet' ORDER BY k LIMIT 1"))"""
    assert place.ask(script) == "(1, 'x') True"
    place.write("a.parquet", k=[1, 2], v=["x", "y"], new=[True, False])
    assert place.ask(script) == "(1, 'x', True) True"
    assert place.ask(script) == "(1, 'x', True) False"
    place.write("a.parquet", k=["1", "2"], v=["x", "y"], new=[True, False])
    assert place.ask(script) == "('1', 'x', True) True"


def test_folders_and_patterns(place: Place) -> None:
    script = """says(qm.sql("SELECT sum(k) FROM '*.parquet'"))"""
    assert place.ask(script) == "(6,) True"
    place.write("b.parquet", k=[10], v=["b"])
    assert place.ask(script) == "(16,) False"


def test_the_root_is_part_of_the_key(place: Place) -> None:
    script = """says(qm.sql("SELECT max(k) FROM 'a.parquet'"))"""
    place.ask(script)
    (place.path / "other").mkdir()
    pq.write_table(pa.table({"k": [7]}), place.path / "other" / "a.parquet")
    assert place.ask(script, root="other") == "(7,) True"


def test_registered_tables_are_part_of_the_key(place: Place) -> None:
    name_it = """qm.register("t", {0})\nsays(qm.sql("SELECT count(*) FROM t"))"""
    assert place.ask(name_it.format('"a.parquet"')) == "(3,) True"
    assert place.ask(name_it.format('"a.parquet"')) == "(3,) False"
    view = """qm.table("a.parquet").filter("k", "gt", 1)"""
    assert place.ask(name_it.format(view)) == "(2,) True"
    assert place.ask(name_it.format(view)) == "(2,) False"
    other = """qm.table("a.parquet").filter("k", "gt", 2)"""
    assert place.ask(name_it.format(other)) == "(1,) True"
    memory = """qm.from_json([{"k": 1}])"""
    assert place.ask(name_it.format(memory)) == "(1,) True"
    longer = """qm.from_json([{"k": 1}, {"k": 2}])"""
    assert place.ask(name_it.format(longer)) == "(2,) False"
    unlike = """qm.from_json([{"k": "text"}])"""
    assert place.ask(name_it.format(unlike)) == "(1,) True"


def test_what_depends_on_the_moment_is_not_kept(place: Place) -> None:
    for text in (
        "SELECT now() IS NULL",
        "SELECT current_date IS NULL",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "DESCRIBE SELECT 1",
    ):
        place.ask(f"qm.sql({text!r}).rows")
    place.ask("qm.sql('SELECT ? + 1', [1]).rows")
    place.ask(
        "qm.register('t', qm.from_json([{'a': 1}]).map_batches(lambda b: b)); qm.sql('SELECT * FROM t').rows"
    )
    assert place.entries() == 0


def test_a_missing_file_is_an_error_with_its_place(place: Place) -> None:
    script = """
        try:
            says(qm.sql("SELECT k FROM 'a.parquet'"))
        except Exception as failure:
            print(failure.code, failure.offset is not None)
    """
    place.ask(script)
    (place.path / "data" / "a.parquet").unlink()
    assert place.ask(script).startswith("TABLE_NOT_FOUND")


def test_damaged_entries_are_ignored(place: Place) -> None:
    script = """says(qm.sql("SELECT k FROM 'a.parquet' LIMIT 1"))"""
    place.ask(script)
    (entry,) = (place.cache / "plans").iterdir()
    for data in (b"", b"garbage", entry.read_bytes()[:-20], entry.read_bytes() + b"x"):
        entry.write_bytes(data)
        assert place.ask(script) == "(1,) True"


def test_changed_code_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    session = QueryMode.local()
    before = stored._key(session, "select 1")
    assert before is not None and stored._key(session, "select 1") == before
    monkeypatch.setattr(stored, "_state", "other code")
    assert stored._key(session, "select 1") != before


def test_a_program_of_many_texts_does_not_fill_the_disk(place: Place) -> None:
    place.ask("for number in range(100): qm.sql(f'SELECT {number}').rows")
    assert place.entries() == stored._STORED_MAX


def test_allowed_paths_hold_for_stored_plans(place: Place) -> None:
    script = """says(qm.sql("SELECT k FROM 'a.parquet' LIMIT 1"))"""
    place.ask(script)
    bound = """
        qm = QueryMode.local(root=qm.root, allowed_paths=["elsewhere"])
        try:
            says(qm.sql("SELECT k FROM 'a.parquet' LIMIT 1"))
        except Exception as failure:
            print(failure.code)
    """
    assert place.ask(bound) == "ACCESS_DENIED"
