"""A new format: a folder and a line in each language, and it is read as all others are.

The engine's half is in the module that tests have; this is users' half: paths, filters, counts, deleted rows.
"""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import querymode
from querymode import QueryMode, col
from querymode.cli import main
from querymode.engine import program
from querymode.engine.pool import pool
from querymode.format import registry
from querymode.format.report import Report, Sheet
from querymode.plan.nodes import Scan
from querymode.table.files import FileTable
from tests.formats import toy_format
from tests.formats.toy_format import Fragments, Toy, record, write_fragment, write_manifest
from tests.raises import raises_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from querymode import DataFrame

ROOT = Path(querymode.__file__).parents[1]
#: Of each fragment its ids, and those that were deleted.
FRAGMENTS = [
    (range(20_000), {*range(0, 20_000, 3)}),
    (range(20_000, 20_007), set[int]()),
    (range(30_000, 50_001), {30_000, 49_999, 50_000}),
    (range(60_000, 60_100), {*range(60_000, 60_100)}),
]
LEFT = [id for ids, deleted in FRAGMENTS for id in ids if id not in deleted]


@pytest.fixture(scope="module", autouse=True)
def registered(safe_wasm: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        pool().trim(0)
        patch.setattr(program, "_default_program", program.Program.from_file(safe_wasm))
        patch.setattr(registry, "FORMATS", (*registry.FORMATS, Toy()))
        yield
        pool().trim(0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for number, (ids, deleted) in enumerate(FRAGMENTS):
        write_fragment(tmp_path, number, ids, deleted)
    write_manifest(
        tmp_path / "t.toy",
        [ids.start for ids, _ in FRAGMENTS],
        [len(ids) for ids, _ in FRAGMENTS],
        [len(deleted) for _, deleted in FRAGMENTS],
    )
    return tmp_path / "t.toy"


@pytest.fixture
def frame(path: Path) -> DataFrame:
    return QueryMode.local(threads=2).table(path)


def test_rows(frame: DataFrame) -> None:
    assert frame.rows == [record(id) for id in LEFT]
    assert frame.select("x").to_arrow()["x"].to_pylist() == [id / 4 for id in LEFT]


def test_answers_that_need_no_run(frame: DataFrame) -> None:
    assert frame.count() == len(LEFT)
    (row,) = frame.agg(col("id").max().alias("most"), col("n").count().alias("n")).rows
    assert row == {"most": 49_998, "n": len(LEFT)}


def test_a_filter_opens_the_fragments_that_it_needs(frame: DataFrame) -> None:
    Fragments.made.clear()
    wanted = frame.filter((col("id") > 20_003) & (col("id") < 30_004))
    assert [row["id"] for row in wanted.rows] == [20_004, 20_005, 20_006, 30_001, 30_002, 30_003]
    assert set(Fragments.made) == {1, 2}
    assert wanted.filter(col("x") == 7_500.25).rows == [record(30_001)]
    assert frame.sort("id", descending=True).limit(2).select("id").rows == [{"id": 49_998}, {"id": 49_997}]


def test_a_fragment_without_rows_is_not_read(frame: DataFrame, path: Path) -> None:
    for ending in "ab":
        (path.parent / f"3.{ending}").unlink()
    assert frame.agg(col("x").max().alias("x")).rows == [{"x": 49_998 / 4}]


def test_sql(path: Path) -> None:
    session = QueryMode.local(threads=2)
    sql = f"SELECT id % 2 AS odd, count(*) AS n, sum(x) AS s FROM '{path}' GROUP BY id % 2 ORDER BY odd"
    expected = [[id for id in LEFT if id % 2 == odd] for odd in range(2)]
    assert session.sql(sql).rows == [
        {"odd": odd, "n": len(ids), "s": sum(ids) / 4} for odd, ids in enumerate(expected)
    ]


def test_new_rows_are_seen(frame: DataFrame, path: Path) -> None:
    assert frame.count() == len(LEFT)
    write_fragment(path.parent, 4, range(70_000, 70_010))
    ranges = [ids for ids, _ in FRAGMENTS] + [range(70_000, 70_010)]
    gone = [len(deleted) for _, deleted in FRAGMENTS] + [0]
    write_manifest(path, [ids.start for ids in ranges], [len(ids) for ids in ranges], gone)
    assert frame.count() == len(LEFT) + 10
    assert frame.filter(col("id") > 70_008).rows == [record(70_009)]


def test_it_travels(frame: DataFrame) -> None:
    again = pickle.loads(pickle.dumps(frame.filter(col("id") < 5)))
    assert again.rows == [record(id) for id in (1, 2, 4)]


def test_parts_of_a_manifest(frame: DataFrame) -> None:
    """What is sent elsewhere: fragments, their deleted rows and what is known of them are counted anew."""
    assert isinstance(frame._node, Scan)
    table = frame._node.source
    assert isinstance(table, FileTable)
    found = []
    for lane in range(table.lane_count):
        part = pickle.loads(pickle.dumps(table.slice(range(lane, lane + 1))))
        assert (part.lane_count, len(part.files)) == (table.lane_count, 1)
        rows = frame._with(Scan(part, frame._node.names)).filter(col("id") >= 0)
        found.append(rows.select("id").to_arrow()["id"].to_pylist())
    assert found == [[id for id in ids if id not in deleted] for ids, deleted in FRAGMENTS]
    later = frame._with(Scan(table.slice(range(1, 3)), frame._node.names)).filter(col("id") > 40_000)
    assert "1 row groups left" in later.explain()
    assert later.select("id").to_arrow()["id"].to_pylist() == [*range(40_001, 49_999)]
    assert len(table.slice(range(0)).files) == 0


def test_inspect(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A format says what there is to see, and the command line shows it."""

    class ToyReport(Report):
        no_groups = "toys have no row groups"

        def __init__(self, table: FileTable) -> None:
            self.schema = table.schema
            self.row_count = table.row_count

        def facts(self) -> Iterator[tuple[str, str]]:
            yield "", "a toy"
            yield "rows", f"{self.row_count:,}"

        def sheets(self, columns: Sequence[str]) -> Iterator[Sheet]:
            rows = [(name, str(kind)) for name, kind in self.schema if not columns or name in columns]
            yield Sheet("schema", ("column", "type"), (False, False), rows, len(rows))

        def summary_json(self, columns: Sequence[str]) -> dict[str, Any]:
            return {"rows": self.row_count}

        def files_json(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
            yield {"name": "toy"}

    assert main(["inspect", str(path)]) == 1
    assert "Toy files cannot be inspected yet" in capsys.readouterr().err
    monkeypatch.setattr(Toy, "report", lambda self, table: ToyReport(table))
    assert main(["inspect", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["a", "toy"], ["rows", f"{len(LEFT):,}"]]
    assert lines[3:5] == [["schema"], ["column", "type"]] and ["x", "float64"] in lines
    assert main(["inspect", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": len(LEFT), "files": [{"name": "toy"}]}
    assert main(["inspect", "--pages", str(path)]) == 1


def test_other_formats_options_are_refused(path: Path) -> None:
    with raises_code("NOT_SUPPORTED"):
        QueryMode.local().table(path, delimiter=";")
    with raises_code("NOT_SUPPORTED"):
        QueryMode.local().table(path, format="toys")
    assert QueryMode.local().table(path, format="toy").count() == len(LEFT)


# ---- what a format costs ----

#: Files that know a format's name, besides its own; `zig build abi` writes querymode/_abi.py.
FORMAT_FILES = {
    "wasm/src/abi.zig": "pub const FileFormat = enum",
    "wasm/src/format/reader.zig": "pub const Reader = union(enum)",
    "wasm/src/tests.zig": "_ = @import(",
    "querymode/format/registry.py": "FORMATS: tuple[Format, ...] = (",
}
LINES_MAX = 150


def code_lines() -> int:
    """Of both halves, without imports, comments and what writes files for tests."""
    zig = (ROOT / "wasm/src/format/toy_rows.zig").read_text().splitlines()
    found = sum(not re.match(r"\s*(//|$|const \w+ = @import)", line) for line in zig)
    source = Path(toy_format.__file__).read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
            found += sum(bool(line.strip()) and '"""' not in line for line in lines)
    return found


def test_a_format_is_short() -> None:
    assert code_lines() < LINES_MAX


def test_a_format_is_named_in_these_files_alone() -> None:
    """The toy in the engine; in Python another one that is in the registry, since the toy is not."""
    for name, seam in FORMAT_FILES.items():
        assert seam in (ROOT / name).read_text(encoding="utf-8"), name
    sought = re.compile(r"toy_rows\.zig\"|\n    toy\b|\bToyRows\b.*@import")
    zig = {path for path in (ROOT / "wasm/src").rglob("*.zig") if sought.search(path.read_text())}
    assert {path.relative_to(ROOT).as_posix() for path in zig} == {
        name for name in FORMAT_FILES if name.endswith(".zig")
    }
