"""What `querymode inspect` shows of files whose format has no words of its own for it: facts and sheets."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from querymode.schema import Schema


class Sheet(NamedTuple):
    """A table of a report. `row_count`: of all; whoever shows it may ask for the first ones only."""

    title: str
    columns: Sequence[str]
    is_number: Sequence[bool]
    rows: Iterable[Sequence[str]]
    row_count: int


class Report:
    """Of all files of a table. `columns`: those that somebody wants to see; none: all of them."""

    #: What cannot be picked, where the files have no row groups and no pages.
    no_groups: str | None = None
    schema: Schema

    def facts(self) -> Iterator[tuple[str, str]]:
        """A line each: what it is, and how it is here. The first one says what it is all about."""
        raise NotImplementedError

    def sheets(self, columns: Sequence[str]) -> Iterator[Sheet]:
        raise NotImplementedError

    def remark(self) -> str | None:
        """What to ask for more."""
        return None

    def summary_json(self, columns: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def files_json(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        raise NotImplementedError
