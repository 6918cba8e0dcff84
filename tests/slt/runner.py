"""Reads and writes .slt files (see README.md), and compares answers with theirs."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent

_QUERY = re.compile(r"query(?P<ordered> ordered)?(?: differs: (?P<differs>.+))?")
_COLUMN = re.compile(r'(?P<name>"(?:[^"\\]|\\.)*"|[^|"]+?) (?P<type>[a-z]\w*(?:\([^)]*\))?)(?: \| |$)')


class Answer(NamedTuple):
    """A table in the files' spelling: a value is text, and its column says of which type."""

    names: list[str]
    types: list[str]
    rows: list[tuple[str, ...]]

    @classmethod
    def of(cls, names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[object]]) -> Answer:
        return cls(list(names), list(types), [tuple(map(spell, row)) for row in rows])

    def sorted(self) -> Answer:
        """By every column in turn. Floats are rounded first, so that equal rows stand at equal places."""
        is_number = [kind.startswith(("int", "uint", "float", "decimal")) for kind in self.types]

        def key(row: tuple[str, ...]) -> list[tuple[int, float, str]]:
            return [
                (0, float(f"{float(cell):.6g}"), "")
                if number and cell not in ("NULL", "nan")
                else (1, 0.0, cell)
                for cell, number in zip(row, is_number, strict=True)
            ]

        return self._replace(rows=sorted(sorted(self.rows), key=key))

    def lines(self) -> list[str]:
        header = [f"{_spell_name(name)} {kind}" for name, kind in zip(self.names, self.types, strict=True)]
        return [" | ".join(header), *(" | ".join(row) for row in self.rows)]


class Record(NamedTuple):
    """One question of a file."""

    place: str
    comments: list[str]
    sql: str
    #: The code of the error that we give; then there is no answer.
    error: str | None
    is_ordered: bool
    #: Why DuckDB does not give `answer`, which is ours then.
    differs: str | None
    #: Missing in a record that `write.py` has not seen yet.
    answer: Answer | None

    def lines(self) -> list[str]:
        if self.error is not None:
            return [*self.comments, f"error {self.error}", self.sql]
        words = ["query", "ordered" * self.is_ordered, f"differs: {self.differs}" * bool(self.differs)]
        answer = [] if self.answer is None else ["----", *self.answer.lines()]
        return [*self.comments, " ".join(filter(None, words)), self.sql, *answer]


def paths() -> list[Path]:
    return sorted(HERE.glob("*.slt"))


def records() -> list[Record]:
    return [record for path in paths() for record in read(path)]


def read(path: Path) -> Iterator[Record]:
    block: list[str] = []
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        if line:
            block.append(line)
        elif block:
            yield _record(f"{path.stem}:{number - len(block)}", block)
            block = []


def _record(place: str, block: list[str]) -> Record:
    start = next(index for index, line in enumerate(block) if not line.startswith("#"))
    comments, directive, body = block[:start], block[start], block[start + 1 :]
    if directive.startswith("error "):
        return Record(place, comments, "\n".join(body), directive.removeprefix("error "), False, None, None)
    found = _QUERY.fullmatch(directive)
    assert found, f"{place}: {directive!r} is neither `query` nor `error`"
    answer = None
    if "----" in body:
        bar = body.index("----")
        answer, body = _read_answer(place, body[bar + 1 :]), body[:bar]
    is_ordered = found["ordered"] is not None
    return Record(place, comments, "\n".join(body), None, is_ordered, found["differs"], answer)


def _read_answer(place: str, lines: list[str]) -> Answer:
    columns = list(_COLUMN.finditer(lines[0]))
    assert "".join(column[0] for column in columns) == lines[0], f"{place}: not columns: {lines[0]}"
    names = [
        json.loads(column["name"]) if column["name"].startswith('"') else column["name"] for column in columns
    ]
    return Answer(names, [column["type"] for column in columns], [_split(line) for line in lines[1:]])


def _split(line: str) -> tuple[str, ...]:
    """At bars that are not inside of a text."""
    parts = re.split(r"('(?:[^']|'')*')", line)
    return tuple(
        "".join(part if part[:1] == "'" else part.replace(" | ", "\0") for part in parts).split("\0")
    )


def write(path: Path, records: Sequence[Record]) -> None:
    path.write_text("\n\n".join("\n".join(record.lines()) for record in records) + "\n")


# ---- values ----


def spell(value: object) -> str:
    """So that no two values look alike within a column."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case str():
            return "'" + value.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "''") + "'"
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return f"x'{value.hex()}'"
        case list():
            return f"[{', '.join(map(spell, value))}]"
        case dict():
            return f"{{{', '.join(f'{spell(key)}: {spell(item)}' for key, item in value.items())}}}"
    raise TypeError(f"{type(value).__name__} has no spelling yet")


def _sort_key(cell: str, is_number: bool) -> tuple[int, float, str]:
    if is_number and cell not in ("NULL", "nan"):
        return 0, float(f"{float(cell):.6g}"), ""
    return 1, 0.0, cell


def _spell_name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) if re.search(r'[|"\n]|^$', name) else name


def as_in_file(answer: Answer, record: Record) -> Answer:
    """`answer` in the record's order, with the record's floats where ours are as good."""
    wanted = record.answer
    assert wanted is not None, f"{record.place} has no rows yet: python -m tests.slt.write"
    if not record.is_ordered:
        answer, wanted = answer.sorted(), wanted.sorted()
    if answer.types != wanted.types or len(answer.rows) != len(wanted.rows):
        return answer
    rows = []
    for row, want in zip(answer.rows, wanted.rows, strict=True):
        rows.append(tuple(map(_closer, answer.types, row, want)))
    return answer._replace(rows=rows)


def _closer(kind: str, ours: str, wanted: str) -> str:
    if not kind.startswith("float") or "NULL" in (ours, wanted):
        return ours
    is_close = math.isclose(float(ours), float(wanted), rel_tol=1e-9, abs_tol=1e-12)
    return wanted if is_close else ours
