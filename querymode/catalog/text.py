"""Text files of a table: each is looked at by its head, and all get the types that go for all of them."""

from __future__ import annotations

from querymode._call import check
from querymode.catalog.one_schema import Member
from querymode.errors import QueryModeError, error
from querymode.format.text.head import HEAD_SIZE, HEAD_SIZE_MAX, Dialect, Head, sniff
from querymode.types import FLOAT64, INT64, NULL, UTF8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from querymode._abi import FileFormat
    from querymode.catalog.files import _Opening
    from querymode.catalog.listing import Found
    from querymode.store.source import ByteSource
    from querymode.types import DataType

#: Files that are open at the same time.
_OPEN_COUNT_MAX = 256


class NamedOtherwise(Exception):
    """A Parquet file whose name says text: what it holds counts."""


class _Fields:
    """Stands for a footer."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[tuple[str, DataType], ...]) -> None:
        self.fields = fields


class OpenedText:
    """A file, and what it looks like."""

    __slots__ = ("head", "member", "size")

    def __init__(self, member: Member, head: Head, size: int) -> None:
        self.member = member
        self.head = head
        self.size = size


def open_texts(
    opening: _Opening, found: Sequence[Found], format: FileFormat, options: Mapping[str, Any]
) -> list[OpenedText]:
    dialect = Dialect(format, options)
    texts: list[OpenedText] = []
    for start in range(0, len(found), _OPEN_COUNT_MAX):
        batch = list(found[start : start + _OPEN_COUNT_MAX])
        sources: list[ByteSource] = []
        try:
            opening.open_batch(batch, sources)
            for file, source in zip(batch, sources, strict=True):
                check()
                head = _head_of(opening, source, format, dialect)
                opener = opening.opener(file, source, None)
                member = Member(source.name, file.folders, opener, _Fields(head.columns))
                texts.append(OpenedText(member, head, source.size))
        finally:
            for source in sources:
                source.close()
    _unite_types(texts, dialect)
    return texts


def _head_of(opening: _Opening, source: ByteSource, format: FileFormat, dialect: Dialect) -> Head:
    from querymode.format.parquet.footer import read_many

    size = min(source.size, HEAD_SIZE)
    while True:
        (data,) = read_many(opening.gate, [(source, 0, size)])
        if opening.format is None and data[:4] in (b"PAR1", b"PARE"):
            raise NamedOtherwise
        try:
            head = sniff(format, data, dialect, is_whole=size == source.size)
        except QueryModeError as failure:
            if failure.code not in ("INVALID_FORMAT", "QUERY_FAILED", "NOT_SUPPORTED"):
                raise
            raise error(
                failure.code, f"{source.name}: {failure.message}", table=source.name, offset=failure.offset
            ) from None
        if head is not None:
            return head
        if size >= min(source.size, HEAD_SIZE_MAX):
            raise error("INVALID_FORMAT", f"{source.name}: no row ends within the first {size:,} bytes")
        size = min(source.size, HEAD_SIZE_MAX, 4 * size)


def _unite_types(texts: Sequence[OpenedText], dialect: Dialect) -> None:
    """Columns of one name get one type: any text can be read as the wider one."""
    types: dict[str, DataType] = {}
    for text in texts:
        for name, data_type in text.head.columns:
            known = types.get(name)
            types[name] = data_type if known is None else _wider(known, data_type)
    for text in texts:
        own = {name for name, _ in text.head.columns}
        wanted = {name: kind for name, kind in types.items() if name in own}
        wanted |= {name: kind for name, kind in dialect.types.items() if name in own or len(texts) == 1}
        text.head.with_types(wanted, text.member.name)
        text.member.footer = _Fields(text.head.columns)


def _wider(one: DataType, other: DataType) -> DataType:
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    return FLOAT64 if {one, other} == {INT64, FLOAT64} else UTF8
