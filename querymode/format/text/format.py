"""CSV, and JSON with an object a line, as members of the formats.

Files are looked at by their heads, and all get the types that go for all of them.
"""

from __future__ import annotations

from querymode._abi import FileFormat
from querymode._call import check
from querymode.errors import QueryModeError, error
from querymode.format.format import Format, Member, ending
from querymode.types import FLOAT64, INT64, NULL, UTF8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from querymode.format.format import Found, Opening
    from querymode.format.text.head import Dialect, Head
    from querymode.format.text.report import TextTableReport
    from querymode.store.source import ByteSource
    from querymode.table.table import Table
    from querymode.table.text import TextTable
    from querymode.types import DataType

#: What a table keeps of heads that other machines have sent.
HEADS_SIZE_MAX = 16 << 20
_PACKED = ("gz", "gzip", "zst", "zstd")


class _Text(Format):
    tail_size = 0
    #: Endings of names, without those of compression.
    suffixes: tuple[str, ...]
    options = frozenset(("delimiter", "header", "quote", "escape", "null_strings", "types", "infer_types"))

    def claims_name(self, name: str) -> bool:
        """`x.csv`, `x.ndjson.gz`."""
        suffix = ending(name)
        return (ending(name.rpartition(".")[0]) if suffix in _PACKED else suffix) in self.suffixes

    def resolve(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> TextTable:
        from querymode.format.text.head import Dialect
        from querymode.table.text import TextFile, TextTable

        dialect = Dialect(self.number, options)
        texts: list[_Opened] = []
        left = HEADS_SIZE_MAX
        for batch in opening.batches(found):
            for file, source in batch:
                check()
                head, data = _head_of(opening, source, self.number, dialect)
                # A local file is read again sooner than its head is worth the memory; so is one that is here.
                if source.local or source.held_size or len(data) > left:
                    data = b""
                left -= len(data)
                member = Member(opening.fragment_file(file, source), file.folders, _Fields(head.columns))
                texts.append(_Opened(member, head, source.size, data))
        _unite_types(texts, dialect)
        united = opening.unite([text.member for text in texts], has_hidden=False)
        files = [
            TextFile(text.member.file, text.size, text.head, places, text.data)
            for text, places in zip(texts, united.places(), strict=True)
        ]
        return TextTable(united.schema(), self.number, files, name)

    def report(self, table: Table) -> TextTableReport:
        from querymode.format.text.report import TextTableReport

        return TextTableReport(table)  # type: ignore[arg-type]


class Csv(_Text):
    name = "csv"
    title = "CSV"
    number = FileFormat.CSV
    suffixes = ("csv", "tsv", "tab", "psv")


class Ndjson(_Text):
    name = "ndjson"
    aliases = ("jsonl",)
    title = "NDJSON"
    number = FileFormat.NDJSON
    suffixes = ("ndjson", "jsonl")


class _Fields:
    """Stands for a footer."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[tuple[str, DataType], ...]) -> None:
        self.fields = fields


class _Opened:
    """A file, and what it looks like. `data`: what is kept of its beginning."""

    __slots__ = ("data", "head", "member", "size")

    def __init__(self, member: Member, head: Head, size: int, data: bytes) -> None:
        self.member = member
        self.head = head
        self.size = size
        self.data = data


def _head_of(
    opening: Opening, source: ByteSource, format: FileFormat, dialect: Dialect
) -> tuple[Head, bytes]:
    from querymode.format.text.head import HEAD_SIZE, HEAD_SIZE_MAX, sniff
    from querymode.store.fetch import read_many

    size = min(source.size, HEAD_SIZE)
    while True:
        (data,) = read_many(opening.gate, [(source, 0, size)])
        if opening.saw is not None:
            opening.saw(data, b"")
        try:
            head = sniff(format, data, dialect, source.size)
        except QueryModeError as failure:
            if failure.code not in ("INVALID_FORMAT", "QUERY_FAILED", "NOT_SUPPORTED"):
                raise
            raise error(
                failure.code, f"{source.name}: {failure.message}", table=source.name, offset=failure.offset
            ) from None
        if head is not None:
            return head, data
        if size >= min(source.size, HEAD_SIZE_MAX):
            raise error("INVALID_FORMAT", f"{source.name}: no row ends within the first {size:,} bytes")
        size = min(source.size, HEAD_SIZE_MAX, 4 * size)


def _unite_types(texts: Sequence[_Opened], dialect: Dialect) -> None:
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
