"""Tables: what a Scan reads.

Every kind of table is a class that answers the questions here. Nobody asks which class it is: planning asks
what is known of the rows, and execution has a feed for every `kind` (execute/query_run.py), so that a new
kind needs no change anywhere else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any, Protocol

    from querymode._abi import FileFormat
    from querymode.schema import Schema
    from querymode.table.evidence import Evidence

    class Reference(Protocol):
        """What a table was opened by."""

        @property
        def key(self) -> Hashable:
            """Equal for references that stand for the same rows at every moment."""

        def current(self) -> Table:
            """What it stands for now: the newest snapshot, if that is still it."""


class Origin:
    """What a table was opened by: a path or several, and the options that were not left out."""

    __slots__ = ("options", "where")

    def __init__(self, where: str | tuple[str, ...], options: dict[str, Any]) -> None:
        self.where = where
        self.options = options

    @property
    def is_secret(self) -> bool:
        """Whether an address holds what nobody else may see: a password, or a query that may be signed."""
        from querymode._secrets import has_secrets

        return any(map(has_secrets, (self.where,) if isinstance(self.where, str) else self.where))

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = (
            {"path": self.where} if isinstance(self.where, str) else {"paths": [*self.where]}
        )
        return found | {"options": self.options} if self.options else found


class Table:
    """Rows of one schema, cut into lanes."""

    #: Which feed brings its lanes into an engine.
    kind = ""
    #: Read from files: workers wait for bytes, so that more of them than cores may help.
    is_stored = False

    schema: Schema
    name: str | None = None
    #: Whose reader reads its files; None if it has none.
    format: FileFormat | None = None
    #: What it is a snapshot of; None if its rows cannot change, or nobody is to look at them again.
    reference: Reference | None = None
    #: Requests and bytes that opening it has cost, until a query has been charged with them.
    opening = (0, 0)
    #: How it was opened, and can be again.
    origin: Origin | None = None
    #: By column, the values of a table that stands in the text of a query.
    constants: tuple[tuple[object, ...], ...] | None = None

    @property
    def row_count(self) -> int | None:
        """How many rows there are, if that is known exactly."""
        raise NotImplementedError

    @property
    def rows_expected(self) -> int:
        """… and about, if not."""
        return self.row_count or 0

    @property
    def lane_count(self) -> int:
        raise NotImplementedError

    def count_lanes(self, *, runs: bool) -> int:
        """`runs`: of lanes that are to become sorted runs."""
        return self.lane_count

    def lane_rows(self, lane: int) -> int | None:
        """Rows of a lane, if they are known before it is read."""
        return None

    def guesses_start(self, lane: int) -> bool:
        """Whether only the lane before it can say where the lane's first row begins."""
        return False

    @property
    def evidence(self) -> Evidence | None:
        """What is known of its pieces, and rules them out before they are read. None if nothing is."""
        return None

    @property
    def answers(self) -> Evidence | None:
        """The same where it is exact and speaks of the table's rows alone: then bounds that say so, and
        counts, are those of the rows."""
        return None

    def null_count(self, index: int) -> int | None:
        """NULLs of a column, if they are known exactly."""
        return None

    def memory_size(self, indices: Sequence[int]) -> int:
        """Bytes of these columns that are in memory already."""
        return 0

    def slice(self, lanes: range) -> Table:
        """The same for who runs these lanes alone, elsewhere: of what the others read it holds as little as
        may be. Lanes keep their numbers."""
        return self

    def with_rows(self, places: Sequence[int]) -> Table | None:
        """A table of these rows alone, by rising number; None where reading all of them costs less."""
        return None

    def take_opening(self) -> tuple[int, int]:
        """What opening it has cost: the first query over it counts that as its own."""
        opening, self.opening = self.opening, (0, 0)
        return opening

    def pinned(self) -> Table:
        """The same snapshot, which nobody looks at again."""
        return self

    def bound_to(self, schema: Schema) -> Table:
        """The same rows for who knows the table by an earlier schema, where it has a reference."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line for explain."""
        raise NotImplementedError

    def column_indices(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.schema.index(name) for name in names)
