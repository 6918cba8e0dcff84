"""One schema for all files of a table.

Columns are united by name, in the order in which files bring them up; partition keys come behind them. A
column that a file lacks is NULL there. Types must be the same.
"""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.catalog import hive
from querymode.errors import error
from querymode.schema import Schema
from querymode.table.places import MISSING
from querymode.table.places import column as place_of
from querymode.table.places import constant as constant_of
from querymode.types import NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from querymode.errors import QueryModeError
    from querymode.format.format import Fields, Member
    from querymode.types import DataType


class Union:
    """The columns of all files by name, and for every file where each of them comes from."""

    def __init__(
        self,
        members: list[Member],
        values: list[dict[str, str | None]],
        partitions: dict[str, DataType],
        *,
        has_hidden: bool = True,
    ) -> None:
        """`has_hidden`: fields of structures can be read on their own."""
        assert len(members) == len(values)
        self._members = members
        self._values = values
        self._partitions = partitions
        self._names: list[str] = []
        self._types: list[DataType] = []
        self._index: dict[str, int] = {}
        #: By column, the file that brought it up.
        self._origins: list[Member] = []
        #: Places by columns of a file; files that have the same share the object.
        self._places: dict[int, tuple[bytes, ...]] = {}
        self._constants: dict[tuple[str, str | None], bytes] = {}
        self._unite()
        #: Fields of structures by their paths: read on their own when somebody names them.
        self._hidden: dict[str, DataType] = {}
        if has_hidden:
            self._hidden.update(structure_fields(zip(self._names, self._types, strict=True)))

    def _unite(self) -> None:
        seen: set[int] = set()
        for member in self._members:
            if id(member.footer.fields) not in seen:
                seen.add(id(member.footer.fields))
                self._add(member)
        for key, data_type in self._partitions.items():
            if key in self._index:
                self._retype(key, data_type)
            else:
                self._append(key, data_type, self._members[0])

    def _add(self, member: Member) -> None:
        fields = member.footer.fields
        if len(self._members) == 1:  # then columns have numbers, and names may repeat
            for name, data_type in fields:
                self._append(name, data_type, member)
            return
        if len({name for name, _ in fields}) != len(fields):
            raise _named_twice(member)
        for name, data_type in fields:
            if name not in self._index:
                self._append(name, data_type, member)
            elif name not in self._partitions:
                self._agree(self._index[name], data_type, member)

    def _append(self, name: str, data_type: DataType, member: Member) -> None:
        self._index[name] = len(self._names)
        self._names.append(name)
        self._types.append(data_type)
        self._origins.append(member)

    def _agree(self, index: int, data_type: DataType, member: Member) -> None:
        """The null type holds nothing but NULLs, and so goes with every other."""
        known = self._types[index]
        if known == data_type or data_type == NULL:
            return
        if known != NULL:
            raise _mismatch(self._names[index], self._origins[index], known, member, data_type)
        self._types[index] = data_type
        self._origins[index] = member

    def _retype(self, key: str, data_type: DataType) -> None:
        for index, name in enumerate(self._names):
            if name == key:
                self._types[index] = data_type

    def schema(self) -> Schema:
        fields = zip(self._names, self._types, strict=True)
        return Schema(fields, allow_duplicates=len(self._members) == 1, hidden=self._hidden.items())

    # ---- places ----

    def places(self) -> list[tuple[bytes, ...]]:
        """For every file, where the table's columns come from."""
        keys = [(index, name) for index, name in enumerate(self._names) if name in self._partitions]
        found = []
        for member, values in zip(self._members, self._values, strict=True):
            places = self._shared_places(member.footer.fields)
            if keys:
                places = self._with_constants(places, keys, values, member)
            found.append(places)
        return found

    def _shared_places(self, fields: Fields) -> tuple[bytes, ...]:
        places = self._places.get(id(fields))
        if places is None:
            places = self._places[id(fields)] = self._places_of(fields)
        return places

    def _places_of(self, fields: Fields) -> tuple[bytes, ...]:
        places = [MISSING] * len(self._names)
        for column, (name, data_type) in enumerate(fields):
            index = column if len(self._members) == 1 else self._index[name]
            if data_type == self._types[index]:
                places[index] = place_of(column)
        return (*places, *self._hidden_places(fields))

    def _hidden_places(self, fields: Fields) -> list[bytes]:
        """Where a file has the fields of structures: the engine numbers them behind the columns."""
        if not self._hidden:
            return []
        numbers: dict[str, bytes] = {}
        for number, (name, data_type) in enumerate(structure_fields(fields), len(fields)):
            if self._hidden.get(name) == data_type:
                numbers.setdefault(name, place_of(number))
        return [numbers.get(name, MISSING) for name in self._hidden]

    def _with_constants(
        self,
        places: tuple[bytes, ...],
        keys: list[tuple[int, str]],
        values: dict[str, str | None],
        member: Member,
    ) -> tuple[bytes, ...]:
        with_constants = list(places)
        for index, key in keys:
            if key in values:
                with_constants[index] = self._constant(key, values[key], member)
            elif places[index] == MISSING:
                self._refuse_other_type(key, member)
        return tuple(with_constants)

    def _constant(self, key: str, text: str | None, member: Member) -> bytes:
        constant = self._constants.get((key, text))
        if constant is None:
            constant = constant_of(hive.encode_constant(text, self._partitions[key], key, member.name))
            self._constants[key, text] = constant
        return constant

    def _refuse_other_type(self, key: str, member: Member) -> None:
        """A file that lies in no folder for this key, and has a column of that name instead."""
        for name, data_type in member.footer.fields:
            if name == key and data_type != NULL:
                folder = next(
                    one for one, values in zip(self._members, self._values, strict=True) if key in values
                )
                raise _mismatch(key, folder, self._partitions[key], member, data_type)


def structure_fields(fields: Iterable[tuple[str, DataType]]) -> Iterator[tuple[str, DataType]]:
    """Fields of structures by their paths ("address.city"), each before its own, as the engine has them."""
    for name, data_type in fields:
        yield from _fields_below(name, data_type)


def _fields_below(path: str, data_type: DataType) -> Iterator[tuple[str, DataType]]:
    if data_type.tag != TypeTag.STRUCTURE:
        return
    for child, child_type in data_type.children:
        yield f"{path}.{child}", child_type
        yield from _fields_below(f"{path}.{child}", child_type)


def _mismatch(
    name: str, first: Member, first_type: DataType, second: Member, second_type: DataType
) -> QueryModeError:
    return error(
        "SCHEMA_MISMATCH",
        f"the column {name!r} is {first_type} in {first.name}, but {second_type} in {second.name}; read them "
        "as two tables, or write one of them again",
        column=name,
    )


def _named_twice(member: Member) -> QueryModeError:
    names = [name for name, _ in member.footer.fields]
    twice = next(name for index, name in enumerate(names) if name in names[:index])
    return error(
        "SCHEMA_MISMATCH",
        f"{member.name} has two columns of the name {twice!r}, so that its columns cannot be united with "
        "those of other files by name; read it alone",
        column=twice,
    )
