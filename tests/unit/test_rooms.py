"""The house: which room of the package may import which, and how large a file may grow.

Imports inside functions count as well: they break circles for Python, not for people. Imports for type
checkers alone have a table of their own: to be given a thing is less than to make one.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import querymode

PACKAGE = Path(querymode.__file__).parent
ROOT = PACKAGE.parent

#: Modules of the package's root by the room that they belong to; their place is for their public names.
ROOT_MODULES = {
    **dict.fromkeys(
        (
            "_abi",
            "_call",
            "_checks",
            "_collector",
            "_secrets",
            "_shutdown",
            "_version",
            "errors",
            "schema",
            "types",
        ),
        "base",
    ),
    "qmcb": "engine",
    "session": "session",
    "": "session",
    "__main__": "cli",
}

#: A room and those it may import, besides `base`, which all may. Rooms come after what they stand on.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "base": (),
    "store": (),
    "expr": (),
    "engine": ("expr", "store"),
    "arrow": ("engine",),
    "table": ("arrow", "engine", "expr"),
    "plan": ("engine", "expr", "table"),
    "format": ("engine", "store", "table"),
    "catalog": ("expr", "format", "store", "table"),
    "optimize": ("engine", "expr", "plan", "table"),
    "stage": ("engine", "expr", "optimize", "plan"),
    "execute": ("arrow", "engine", "expr", "plan", "stage", "store", "table"),
    "output": ("arrow", "engine", "execute", "optimize", "plan", "stage", "store"),
    "frame": ("arrow", "engine", "expr", "format", "optimize", "output", "plan", "table"),
    "sql": ("expr", "output", "plan", "store", "table"),
    "session": (
        "arrow",
        "catalog",
        "engine",
        "execute",
        "format",
        "frame",
        "optimize",
        "output",
        "plan",
        "sql",
        "stage",
        "store",
        "table",
    ),
    "cli": ("engine", "frame", "output", "session", "table"),
    "spark": ("arrow", "expr", "frame", "session", "store"),
}

#: Rooms above, or beside, whose types a room names without importing them: things that it is given.
MAY_NAME: dict[str, tuple[str, ...]] = {
    "base": ("store",),
    "table": ("format", "frame", "store"),
    "plan": ("session",),
    "stage": ("table",),
    "output": ("frame", "session"),
    "frame": ("session",),
    "sql": ("session",),
    "session": ("expr",),
    "cli": ("format",),
}
#: Who knows formats one by one: the registry, and what shows people their insides.
KNOW_FORMATS = {
    "format.registry",
    "cli.inspect",
    "table.text",
}

LINES_MAX = 800
#: Longer files, and why they are.
LONG_FILES: dict[str, str] = {
    "querymode/arrow/plain.py": "one rule for each of Arrow's types",
    "querymode/expr/nodes.py": "the classes of expressions, which know each other",
    "querymode/plan/bind.py": "one rule for each class of expressions",
    "tests/formats/lance_sweep.py": "a list of cases",
    "tests/unit/test_arrow.py": "types in and out, case by case",
}


def modules() -> dict[str, Path]:
    """Dotted names below the package, without its own."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def room_of(module: str) -> str:
    return ROOT_MODULES[module] if module in ROOT_MODULES else module.partition(".")[0]


def imports_of(path: Path, *, for_types: bool = False) -> list[tuple[str, str]]:
    """Modules of ours that a file imports when it runs, or for type checkers alone, and the name taken
    from each."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if (id(node) in unseen) != for_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "querymode":
            home = (node.module or "").removeprefix("querymode").removeprefix(".")
            for alias in node.names:
                inner = f"{home}.{alias.name}".removeprefix(".")
                found.append((inner, "") if inner in MODULES else (home, alias.name))
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "querymode"]
            found += [(name.removeprefix("querymode").removeprefix("."), "") for name in names]
    return found


def test_every_module_has_a_room() -> None:
    assert {room_of(module) for module in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_stands_on(room: str) -> None:
    allowed = {room, "base", *MAY_IMPORT[room]}
    wrong = [
        f"{module} imports {other or 'querymode'}"
        for module, path in MODULES.items()
        if room_of(module) == room
        for other, _ in imports_of(path)
        if room_of(other) not in allowed
    ]
    assert not wrong


def test_a_room_names_no_types_of_rooms_that_it_does_not_know() -> None:
    named: defaultdict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        room = room_of(module)
        others = {room_of(other) for other, _ in imports_of(path, for_types=True)}
        named[room] |= others - {room, "base", *MAY_IMPORT[room]}
    assert {room: set(others) for room, others in MAY_NAME.items()} == {
        room: others for room, others in named.items() if others
    }


def test_formats_are_known_by_the_registry() -> None:
    """Whoever opens, plans, executes or explains asks through the seam (format/format.py)."""
    folders = {path.name for path in (PACKAGE / "format").iterdir() if (path / "format.py").is_file()}
    assert {"parquet", "text"} <= folders
    knowing = {
        module
        for module, path in MODULES.items()
        for other, _ in (*imports_of(path), *imports_of(path, for_types=True))
        if (own := re.match(r"format\.(\w+)\.", f"{other}.")) and own[1] in folders
        if not module.startswith(f"format.{own[1]}")
    }
    assert knowing == KNOW_FORMATS


def test_what_may_be_imported_is_imported() -> None:
    """Rooms that stand apart stay apart: what nobody uses is taken out of the table above."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        used[room_of(module)] |= {room_of(other) for other, _ in imports_of(path)}
    unused = {room: set(rooms) - used[room] for room, rooms in MAY_IMPORT.items() if set(rooms) - used[room]}
    assert not unused


def test_there_is_no_circle() -> None:
    """The table's own order proves it."""
    before: set[str] = set()
    for room, others in MAY_IMPORT.items():
        assert set(others) <= before, room
        before.add(room)


def test_the_engine_alone_knows_wasmtime() -> None:
    """Imports for type checkers count as well."""
    asked = re.compile(r"^ *(import|from) wasmtime\b", re.MULTILINE)
    found = {module for module, path in MODULES.items() if asked.search(path.read_text())}
    assert found == {"engine.foreign", "engine.instance", "engine.process", "engine.program"}


def test_private_names_stay_in_their_room() -> None:
    wrong = [
        f"{module} imports {name} of {other}"
        for module, path in MODULES.items()
        for other, name in imports_of(path)
        if name.startswith("_") and not name.startswith("__") and room_of(other) != room_of(module)
    ]
    assert not wrong


def test_nobody_asks_which_class_a_table_is() -> None:
    """Tables answer questions (table/table.py): another class has other answers, and no other callers."""
    classes = {
        node.name
        for module, path in MODULES.items()
        if room_of(module) == "table"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and (node.name == "Table" or node.name.endswith("Table"))
    }
    assert {"Table", "StoredTable", "FileTable", "MemoryTable"} <= classes
    asked = re.compile(rf"isinstance\(\w[\w.]*, \(?[^)]*\b({'|'.join(classes)})\b")
    allowed = {"arrow.Table", "pyarrow.Table", "pa.Table", "exp.Table"}
    wrong = [
        f"{module}: {found.group()}"
        for module, path in MODULES.items()
        for found in asked.finditer(path.read_text())
        if not any(other in found.group() for other in allowed)
    ]
    assert not wrong


def long_files() -> dict[str, int]:
    folders = [PACKAGE, *(ROOT / name for name in ("tests", "fixtures", "benchmarks", "tools"))]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    sizes = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in sources}
    return {name: size for name, size in sizes.items() if size > LINES_MAX}


def test_files_are_short_or_say_why() -> None:
    assert set(long_files()) - set(LONG_FILES) == set()


def test_no_file_is_excused_for_nothing() -> None:
    assert set(LONG_FILES) - set(long_files()) == set()
