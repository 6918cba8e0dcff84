"""The engine's rooms: who may import whom, no operator's name where they are run, files of readable size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "wasm" / "src"
FILES = sorted(SOURCES.rglob("*.zig"))

#: Files at the root that doors lead to.
DOORS_OPEN = {
    "batch_import.zig",
    "pipeline.zig",
    "qmcb.zig",
    "text_memory.zig",
}
#: What each room may import beside itself, `std` and abi.zig, which says numbers that all share. Files at the
#: root stand above all rooms; who imports one names it.
MAY_IMPORT = {
    "core": set(),
    "codec": {"core"},
    "encoding": {"core"},
    "kernel": {"core"},
    "format": {"core", "codec", "encoding", "kernel"},
    "lookup": {"core", "kernel"},
    "plan": {"core", "kernel", "lookup"},
    "operator": {"core", "kernel", "lookup", "plan"},
    "scan": {"core", "format", "plan", "pipeline.zig"},
    "boundary": {"core", "format", "lookup", "plan", "scan", *DOORS_OPEN},
}
LINES_MAX = 800
#: Longer files, and why they are not two.
LONGER = {
    "abi.zig": "the contract is in one place",
    "format/lance/manifest.zig": "one parser of one message; a third of it are its tests",
    "format/parquet/column_chunk.zig": "one reader's state",
    "format/parquet/flatten.zig": "one parser of one structure; a third of it are its tests",
    "format/parquet/schema_tree.zig": "one parser of one tree; half of it are its tests",
    "format/parquet/statistics.zig": "one rule after the other; a third of it are its tests",
    "kernel/cast.zig": "one conversion after the other; a third of it are its tests",
    "lookup/group_table.zig": "one table; a quarter of it are its tests",
    "operator/join.zig": "one operator's state; a third of it are its tests",
    "plan/function_time.zig": "the rules and calls of one family of functions",
}
COLUMNS_MAX = 120


def room_of(path: Path) -> str:
    """The folder, or nothing for files at the root, which stand above all rooms."""
    parts = path.relative_to(SOURCES).parts
    return parts[0] if len(parts) > 1 else ""


def imports(path: Path) -> list[Path]:
    names = re.findall(r'@import\("([^"]+\.zig)"\)', path.read_text())
    return [(path.parent / name).resolve() for name in names]


def test_every_folder_is_a_room() -> None:
    assert {room_of(path) for path in FILES} - {""} == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_what_is_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room, "abi.zig"}
    for path in FILES:
        if room_of(path) != room:
            continue
        for target in imports(path):
            assert target.exists(), (path, target)
            found = room_of(target) or target.name
            assert found in allowed, f"{room}/{path.name} imports {found}, which stands above it"


def node_of(path: Path) -> str:
    """The room; a file at the root is one of its own, but for the fuzzer of Parquet, which is three files."""
    return room_of(path) or ("fuzzer" if path.name.startswith("parquet_") else path.name)


def test_rooms_have_no_circle() -> None:
    """Whoever edits the table above cannot make one either, nor by way of files at the root."""
    below: dict[str, set[str]] = {}
    for path in FILES:
        room = node_of(path)
        below.setdefault(room, set()).update(map(node_of, imports(path)))
        below[room].discard(room)
    for _ in below:
        for rooms in below.values():
            rooms |= set().union(*(below[room] for room in rooms))
    assert all(room not in rooms for room, rooms in below.items())


def operator_names() -> list[str]:
    text = (SOURCES / "abi.zig").read_text()
    body = text.split("pub const NodeTag = enum(u8) {")[1].split("};")[0]
    return re.findall(r"^    (\w+) = \d+,", body, re.MULTILINE)


def test_every_operator_has_one_line() -> None:
    registry = (SOURCES / "operator" / "registry.zig").read_text()
    for name in operator_names():
        assert len(re.findall(rf"^    {name}: @import\(", registry, re.MULTILINE)) == 1, name


@pytest.mark.parametrize("name", ["pipeline.zig", "boundary/queries.zig", "plan/plan.zig", "plan/demand.zig"])
def test_no_operator_is_named(name: str) -> None:
    """Those who run and ask steps go by the registry: no prong of a switch and no comparison names one."""
    text = re.sub(r"//.*", "", (SOURCES / name).read_text())
    for operator in operator_names():
        named = rf"(?:[=!]= \.{operator}\b)|(?:^\s*(?:\.\w+, )*\.{operator}(?:, \.\w+)* =>)"
        found = [line for line in text.splitlines() if re.search(named, line)]
        assert not found, found
    assert not re.search(r'@import\("(?:\.\./)?operator/(?!protocol|registry)', text)


@pytest.mark.parametrize("room", ["boundary", "scan"])
def test_formats_without_a_footer_are_not_named(room: str) -> None:
    """Which driver reads a format follows from what its reader can do."""
    for path in sorted((SOURCES / room).glob("*.zig")):
        text = re.sub(r"//.*", "", path.read_text())
        assert not re.search(r"\.(csv|ndjson)\b", text), path.name


def test_files_are_of_a_readable_size() -> None:
    long = {
        path.relative_to(SOURCES).as_posix()
        for path in FILES
        if len(path.read_text().splitlines()) > LINES_MAX
    }
    assert long <= set(LONGER), "cut them where there is a seam, or say here why there is none"
    assert set(LONGER) <= long, "these are short by now: take them off the list"


def wide_lines(path: Path) -> list[int]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS_MAX]


def test_lines_fit() -> None:
    """zig fmt keeps a line as long as it is; where a list ends in a comma, it puts each item on a line."""
    wide = {path.relative_to(SOURCES).as_posix(): wide_lines(path) for path in FILES}
    wide["build.zig"] = wide_lines(SOURCES.parents[1] / "build.zig")
    assert not {name: found for name, found in wide.items() if found}
