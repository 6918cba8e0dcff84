"""Names and types of a table's columns, in order."""

from __future__ import annotations

from querymode.errors import column_not_found, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from querymode.types import DataType


class Schema:
    """Frozen. Every name stands once."""

    __slots__ = ("_index", "names", "types")

    def __init__(self, fields: Iterable[tuple[str, DataType]]) -> None:
        pairs = tuple(fields)
        self.names = tuple(name for name, _ in pairs)
        self.types = tuple(data_type for _, data_type in pairs)
        self._index = {name: index for index, name in enumerate(self.names)}
        if len(self._index) != len(pairs):
            twice = next(name for index, name in enumerate(self.names) if self._index[name] != index)
            raise error(
                "SCHEMA_MISMATCH",
                f"two columns have the name {twice!r}; give one of them another name",
                column=twice,
            )

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
        return found

    def type_of(self, name: str) -> DataType:
        return self.types[self.index(name)]

    def only(self, names: Iterable[str]) -> Schema:
        return Schema((name, self.type_of(name)) for name in names)
