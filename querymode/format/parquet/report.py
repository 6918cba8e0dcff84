"""What Parquet files are made of, as plain values: schema, row groups, column chunks, pages.

Everything comes from footers, except pages, whose headers are read. Bounds are decoded, and distrusted, by
the engine, as they are for pruning. Nothing here formats or decodes a column.
"""

from __future__ import annotations

from functools import partial

from querymode._abi import FileFormat, FooterArray, FooterFlags, TypeTag
from querymode._call import deadline
from querymode.engine.one_task import on_instance
from querymode.engine.open_files import open_file
from querymode.errors import QueryModeError, error
from querymode.qmcb import column_values, columnar_batch_to_rows, decode_columnar_batch
from querymode.store.fetch import IoGate
from querymode.store.source import Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.format.parquet.flat_footer import Chunk, FlatFooter, Span
    from querymode.store.source import ByteSource
    from querymode.table.files import FileTable, TableFile
    from querymode.types import DataType

# Numbers of parquet.thrift.
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
ENCODINGS = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}
PAGE_TYPES = ("DATA_PAGE", "INDEX_PAGE", "DICTIONARY_PAGE", "DATA_PAGE_V2")
PHYSICAL_TYPES = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY"),
    "FIXED_LEN_BYTE_ARRAY",
)
_FIXED = PHYSICAL_TYPES.index("FIXED_LEN_BYTE_ARRAY")

#: What is read of a chunk to find headers. Longer pages are skipped; for shorter ones it grows.
WINDOW = 16 << 10
WINDOW_MAX = 4 << 20


class SchemaNode:
    """A column, or one inside another. `leaf`: its number among the file's columns, if it is one of those."""

    __slots__ = ("children", "leaf", "name", "nullable", "path", "physical", "repeats", "type", "width")

    def __init__(self, name: str, data_type: DataType, parent: SchemaNode | None) -> None:
        self.name = name
        self.path: str = name if parent is None else f"{parent.path}.{name}"
        self.type = data_type
        self.nullable = True
        self.physical: str | None = None
        #: FIXED_LEN_BYTE_ARRAY: bytes of a value.
        self.width: int | None = None
        self.leaf: int | None = None
        #: Whether a row may have several values or none.
        self.repeats: bool = parent is not None and (
            parent.repeats or parent.type.tag in (TypeTag.LIST, TypeTag.MAP)
        )
        self.children: list[SchemaNode] = []

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "type": str(self.type), "nullable": self.nullable}
        if self.physical is not None:
            found["physical_type"] = self.physical
        if self.width is not None:
            found["width"] = self.width
        if self.children:
            found["children"] = [child.to_dict() for child in self.children]
        return found


class _Records:
    """The records of a flat footer, one per node in preorder (wasm/src/format/parquet/footer.zig)."""

    def __init__(self, footer: FlatFooter) -> None:
        self.blob = footer.blob
        self.position = footer.records_start
        self.leaves: list[SchemaNode] = []

    def read(self, name: str, data_type: DataType, parent: SchemaNode | None = None) -> SchemaNode:
        node = SchemaNode(name, data_type, parent)
        record = self.blob[self.position]
        self.position += 1
        node.nullable = bool(record & 1)
        if data_type.tag in (TypeTag.LIST, TypeTag.MAP, TypeTag.STRUCTURE):
            node.children = [self.read(*field, node) for field in data_type.children]
            return node
        physical = record >> 2 & 7
        node.physical = PHYSICAL_TYPES[physical]
        if physical == _FIXED:
            node.width = int.from_bytes(self.blob[self.position : self.position + 4], "little")
            self.position += 4
        node.leaf = len(self.leaves)
        self.leaves.append(node)
        return node


class TableReport:
    """All files of a table."""

    #: Its row groups can be picked (format/report.py).
    no_groups = None

    def __init__(self, table: FileTable) -> None:
        self.schema = table.schema
        self.row_count = table.row_count
        self.file_count = len(table.files)
        self._files = table.files

    def files(self) -> Iterator[FileReport]:
        """One at a time: what is known of thousands of files need not be in memory at once."""
        return map(FileReport, self._files)

    def row_group_count(self) -> int:
        """Of the file that has most."""
        counts: list[int] = [file.footer.row_group_count for file in self._files]
        return max(counts)

    def paths(self) -> list[str]:
        """Of all columns of all files, with those that lie inside of others."""
        return list(dict.fromkeys(path for file in self.files() for path in _paths(file.schema)))


def _paths(nodes: Iterable[SchemaNode]) -> Iterator[str]:
    for node in nodes:
        yield node.path
        yield from _paths(node.children)


class FileReport:
    """One file of a table."""

    def __init__(self, file: TableFile) -> None:
        self.name = file.name
        self.footer: FlatFooter = file.footer
        self._file = file
        self._bounds: dict[int, list[dict[str, Any]]] = {}
        records = _Records(file.footer)
        self.schema = [records.read(*field) for field in file.footer.fields]
        #: The columns of the file; a nested one of the table is several.
        self.leaves = records.leaves

    def summary(self) -> dict[str, Any]:
        footer = self.footer
        return {
            "name": self.name,
            "size": footer.file_size,
            "created_by": footer.created_by,
            "has_key_values": footer.has_key_values,
            "row_count": footer.row_count,
            "row_group_count": footer.row_group_count,
            "column_count": footer.column_count,
            "leaf_count": footer.leaf_count,
        }

    def row_group(self, number: int) -> dict[str, Any]:
        footer = self.footer
        first_chunk, count = number * footer.leaf_count, footer.leaf_count
        return {
            "number": number,
            "row_count": footer.first_row(number + 1) - footer.first_row(number),
            "first_row": footer.first_row(number),
            "offset": footer.values(FooterArray.GROUP_START, number, 1)[0],
            "compressed_size": sum(footer.values(FooterArray.COMPRESSED_SIZE, first_chunk, count)),
            "uncompressed_size": sum(footer.values(FooterArray.UNCOMPRESSED_SIZE, first_chunk, count)),
        }

    # ---- column chunks ----

    def chunk(self, row_group: int, leaf: int) -> dict[str, Any]:
        node, chunk = self.leaves[leaf], self.footer.chunk(row_group, leaf)
        has_dictionary = chunk.has_dictionary
        return {
            "column": node.path,
            "type": str(node.type),
            "physical_type": node.physical,
            "codec": CODECS[chunk.codec],
            "encodings": _encodings(chunk.encodings),
            "offset": chunk.start,
            "data_page_offset": chunk.data_page_offset,
            "compressed_size": chunk.compressed_size,
            "uncompressed_size": chunk.uncompressed_size,
            "value_count": chunk.value_count,
            "null_count": chunk.null_count,
            "nan_count": chunk.nan_count,
            **self._statistics(row_group, leaf, chunk.flags),
            "dictionary_size": chunk.data_page_offset - chunk.start if has_dictionary else None,
            "is_all_dictionary": bool(chunk.flags & FooterFlags.ALL_DICTIONARY),
            "column_index": _span(chunk.column_index),
            "offset_index": _span(chunk.offset_index),
            "bloom_filter": _span(chunk.bloom),
        }

    def _statistics(self, row_group: int, leaf: int, flags: int) -> dict[str, Any]:
        """`bounds`: "none", "used", or "not trusted", where the engine does not believe what there is."""
        if leaf not in self._bounds:
            self.load_bounds([leaf])
        known = self._bounds[leaf][row_group]
        stated = bool(flags & (FooterFlags.MIN | FooterFlags.MAX))
        used = known["min"] is not None or known["max"] is not None
        return {
            "bounds": "none" if not stated else "used" if used else "not trusted",
            "min": known["min"],
            "max": known["max"],
            "is_min_exact": known["min_exact"],
            "is_max_exact": known["max_exact"],
        }

    def load_bounds(self, leaves: list[int]) -> None:
        """Asks the engine for the bounds of these, all in one visit."""
        missing = [leaf for leaf in leaves if leaf not in self._bounds]
        if missing:
            self._bounds.update(on_instance(partial(self._ask_bounds, missing)))

    def _ask_bounds(self, leaves: list[int], instance: Instance) -> dict[int, list[dict[str, Any]]]:
        file = open_file(instance, FileFormat.PARQUET, self.footer)
        found = {}
        for leaf in leaves:
            output = instance.leaf_bounds(file, leaf)
            batch = decode_columnar_batch(instance.read(output.address, output.size))
            columns = {column.name: column_values(column) for column in batch.columns}
            if self.leaves[leaf].type.tag == TypeTag.UTF8:
                columns["min"], columns["max"] = map(_texts, (columns["min"], columns["max"]))
            found[leaf] = [
                dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
            ]
        return found

    # ---- pages ----

    def pages(self, row_group: int, leaf: int, limit: int | None = None) -> list[dict[str, Any]]:
        """The pages of a column chunk, the first `limit` of them."""
        try:
            return self._walk(row_group, leaf, limit)
        except Touched:  # by somebody who may have changed nothing in it
            return self._walk(row_group, leaf, limit)

    def _walk(self, row_group: int, leaf: int, limit: int | None) -> list[dict[str, Any]]:
        gate = IoGate(deadline=deadline())
        source = self._file.files[0].open()
        try:
            walk = _PageWalk(self, source, gate, row_group, leaf)
            pages = on_instance(partial(walk.run, limit=limit), gate=gate)
            source.verify_unchanged()
            return pages
        except BaseException:
            gate.cancel()
            raise
        finally:
            source.close()


def _encodings(bits: int) -> list[str]:
    names = [name for number, name in ENCODINGS.items() if bits >> number & 1]
    return [*names, "UNKNOWN"] if bits >> 15 else names


def _span(span: Span | None) -> dict[str, int | None] | None:
    return None if span is None else {"offset": span.offset, "size": span.size or None}


def _texts(values: list[bytes | None]) -> list[str | None]:
    """A bound may be cut inside a character."""
    return [None if value is None else value.decode(errors="backslashreplace") for value in values]


class _PageWalk:
    """From header to header through a column chunk; what lies between is not read if it is long."""

    def __init__(
        self, report: FileReport, source: ByteSource, gate: IoGate, row_group: int, leaf: int
    ) -> None:
        self.node = report.leaves[leaf]
        self.chunk: Chunk = report.footer.chunk(row_group, leaf)
        self.source = source
        self.gate = gate
        self.pages: list[dict[str, Any]] = []
        self.offset = self.chunk.start
        self.end = self.chunk.start + self.chunk.compressed_size
        self.values_left = self.chunk.value_count

    def run(self, instance: Instance, limit: int | None) -> list[dict[str, Any]]:
        window = WINDOW
        # Old writers forgot a header in the chunk's size: the last page may begin behind its end.
        while self._is_inside() and (limit is None or len(self.pages) < limit):
            found = self._headers(instance, window)
            self._take(found)
            window = min(2 * window, WINDOW_MAX) if len(found) > 1 else WINDOW
        return self.pages[:limit]

    def _is_inside(self) -> bool:
        return self.offset < self.end or self.values_left > 0

    def _headers(self, instance: Instance, window: int) -> list[dict[str, Any]]:
        """The headers in the bytes from here on: at least one."""
        left = self.source.size - self.offset
        size = min(window, left, max(self.end - self.offset, 0) or left)
        while size > 0:
            data = self.gate.read(self.source, self.offset, size)
            try:
                output = instance.pages(FileFormat.PARQUET, data)
            except QueryModeError as failure:
                raise self._damaged(failure.message, failure.offset or 0, failure.code) from None
            if output.row_count:
                batch = decode_columnar_batch(instance.read(output.address, output.size))
                return columnar_batch_to_rows(batch)
            if size == left:
                break
            size = min(4 * size, left)
        raise self._damaged("a page reaches past the end of the file", 0)

    def _take(self, found: list[dict[str, Any]]) -> None:
        start = self.offset
        for header in found:
            if not self._is_inside():
                return
            page_start = start + header["offset"]
            self.offset = page_start + header["header_size"] + header["compressed_size"]
            if self.offset > self.source.size:
                raise self._damaged("a page reaches past the end of the file", header["offset"])
            page = self._page(header, page_start)
            self.pages.append(page)
            if page["type"] in ("DATA_PAGE", "DATA_PAGE_V2"):
                self.values_left -= page["value_count"]

    def _page(self, header: dict[str, Any], offset: int) -> dict[str, Any]:
        kind = PAGE_TYPES[header["type"]]
        encoding, rows = header["encoding"], header["rows"]
        if kind == "DATA_PAGE" and not self.node.repeats:
            rows = header["values"]
        return {
            "number": len(self.pages),
            "type": kind,
            "encoding": None if encoding is None else ENCODINGS[encoding],
            "offset": offset,
            "header_size": header["header_size"],
            "compressed_size": header["compressed_size"],
            "uncompressed_size": header["uncompressed_size"],
            "value_count": header["values"],
            "row_count": rows,
            "null_count": header["nulls"],
            "crc": header["crc"],
        }

    def _damaged(self, why: str, place: int, code: str = "INVALID_FORMAT") -> QueryModeError:
        offset = self.offset + place
        return error(
            code,
            f"{self.source.name}, column {self.node.path!r}: {why} (near byte {offset})",
            table=self.source.name,
            column=self.node.path,
            offset=offset,
        )
