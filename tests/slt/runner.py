"""Reads .slt files (see README.md) and compares answers."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent


class Record:
    """One question of a file."""

    def __init__(self, place: str, sql: str, directives: Sequence[str]) -> None:
        self.place = place
        self.sql = sql
        self.ordered = "ordered" in directives
        self.error = next((word.split()[1] for word in directives if word.startswith("error ")), None)
        self.differs = any(word.startswith("differs:") for word in directives)


def records() -> list[Record]:
    return [record for path in sorted(HERE.glob("*.slt")) for record in _read(path)]


def _read(path: Path) -> Iterator[Record]:
    lines: list[str] = []
    directives: list[str] = []
    start = 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            directives.append(line[1:].strip())
        elif line.strip():
            start = start if lines else number
            lines.append(line)
        elif lines:
            yield Record(f"{path.stem}:{start}", "\n".join(lines), directives)
            lines, directives = [], []
        else:
            directives = []


def same_rows(ours: Sequence[tuple[object, ...]], theirs: Sequence[tuple[object, ...]], ordered: bool) -> bool:
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True) if ordered else zip(sorted(ours, key=_key), sorted(theirs, key=_key), strict=True)
    return all(_same_row(*pair) for pair in pairs)


def _same_row(ours: tuple[object, ...], theirs: tuple[object, ...]) -> bool:
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(ours, Decimal) and isinstance(theirs, Decimal):
        return ours == theirs
    return type(ours) is type(theirs) and ours == theirs


def _key(row: tuple[object, ...]) -> tuple[tuple[str, str], ...]:
    """Any order will do, if equal rows stand at equal places; so floats are rounded first."""
    return tuple((type(value).__name__, f"{value:.6g}" if isinstance(value, float) else str(value)) for value in row)
