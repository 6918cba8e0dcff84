"""Names and types of a table's columns, in order."""

from __future__ import annotations

from querymode._abi import COLUMN_COUNT_MAX
from querymode.errors import column_not_found, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from querymode.errors import QueryModeError
    from querymode.types import DataType


class Schema:
    """Frozen. Every name stands once; only what a file brings along may repeat names.

    Such columns are read with all the others, but nobody can name one of them. `hidden` columns are the other
    way round: they are there when they are named ("address.city"), and not otherwise. They have the numbers
    behind the others.
    """

    __slots__ = ("_index", "_twice", "hidden", "names", "types")

    def __init__(
        self,
        fields: Iterable[tuple[str, DataType]],
        *,
        allow_duplicates: bool = False,
        hidden: Iterable[tuple[str, DataType]] = (),
    ) -> None:
        pairs = tuple(fields)
        if len(pairs) > COLUMN_COUNT_MAX:
            raise error(
                "NOT_SUPPORTED",
                f"{len(pairs):,} columns; there may be {COLUMN_COUNT_MAX:,} of them, so select fewer before",
            )
        self.names = tuple(name for name, _ in pairs)
        self.types = tuple(data_type for _, data_type in pairs)
        self._index = {name: index for index, name in enumerate(self.names)}
        self._twice: frozenset[str] = frozenset()
        if len(self._index) != len(pairs):
            twice = [name for index, name in enumerate(self.names) if self._index[name] != index]
            if not allow_duplicates:
                raise _ambiguous(twice[0])
            self._twice = frozenset(twice)
        self.hidden = tuple(hidden)
        for index, (name, _) in enumerate(self.hidden, len(pairs)):
            self._index.setdefault(name, index)

    def __iter__(self) -> Iterator[tuple[str, DataType]]:
        return iter(zip(self.names, self.types, strict=True))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.names == other.names and self.types == other.types

    def __hash__(self) -> int:
        return hash((self.names, self.types))

    def __repr__(self) -> str:
        return "Schema(" + ", ".join(f"{name}: {data_type}" for name, data_type in self) + ")"

    def index(self, name: str) -> int:
        found = self._index.get(name)
        if found is None:
            raise column_not_found(name, self.names)
        if name in self._twice:
            raise _ambiguous(name)
        return found

    def type_of(self, name: str) -> DataType:
        return self.field(self.index(name))[1]

    def field(self, index: int) -> tuple[str, DataType]:
        """A column's name and type, by its number."""
        if index < len(self.names):
            return self.names[index], self.types[index]
        return self.hidden[index - len(self.names)]

    def indices(self, names: Iterable[str] | None) -> tuple[int, ...]:
        """The numbers of some columns, in the schema's order; of all but the hidden ones for None."""
        if names is None:
            return tuple(range(len(self.names)))
        wanted = set(names)
        visible = [index for index, name in enumerate(self.names) if name in wanted]
        hidden = {self._index[name] for name in wanted if self._index.get(name, 0) >= len(self.names)}
        return (*visible, *sorted(hidden))

    def only(self, names: Iterable[str]) -> Schema:
        return Schema((name, self.type_of(name)) for name in names)

    def part(self, indices: Iterable[int]) -> Schema:
        """Columns by their numbers."""
        return Schema(map(self.field, indices), allow_duplicates=bool(self._twice))


def _ambiguous(name: str) -> QueryModeError:
    return error(
        "SCHEMA_MISMATCH",
        f"two columns have the name {name!r}; give one of them another name",
        column=name,
    )
