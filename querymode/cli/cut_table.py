"""Lists that may be long: `querymode inspect` shows as much as one reads, and says how to see the rest."""

from __future__ import annotations

from querymode.output.text_table import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Lines of a list of files, nodes, row groups, chunks or pieces, unless somebody picked them.
LINES_MAX = 40


def print_cut(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    count: int | None = None,
    *,
    whole: bool = False,
) -> None:
    """A table of at most so many lines. `count`: how many there would be."""
    count = len(rows) if count is None else count
    shown = rows if whole or count <= LINES_MAX else rows[:LINES_MAX]
    print_table(titles, shown, right)
    if len(shown) < count:
        print(f"… {count - len(shown):,} more; --json has all")
