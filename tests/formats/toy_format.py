"""The toy format as Python has it: rows of fixed width, two files a fragment (wasm/src/format/toy_rows.zig).

A table is a manifest, `x.toy`: a line of JSON (fields with their file and offset, widths of rows, how many
fragments), then little-endian numbers by fragment: rows, least and greatest value of the first column,
deleted rows. Fragment `n` lies beside it in `n.a` and `n.b`, with a bitmap of deleted rows in `n.deleted`.
"""

from __future__ import annotations

import json
import os
import struct
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from querymode._abi import FileFormat
from querymode.format.format import Format
from querymode.schema import Schema
from querymode.store.fetch import read_many
from querymode.store.open import open_source
from querymode.table.evidence import KnownValues, ManifestEvidence
from querymode.table.files import Cuts, Deleted, FileRole, FileTable, FragmentFile, SomeFragments, TableFile
from querymode.table.places import column
from querymode.types import FLOAT64, INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from querymode.format.format import Found, Opening
    from querymode.store.fetch import IoGate
    from querymode.store.options import StoreOptions
    from querymode.store.source import ByteSource

TYPES = {str(data_type): data_type for data_type in (INT64, INT32, FLOAT64)}


def opened(path: str, options: StoreOptions, gate: IoGate | None = None, /) -> ByteSource:
    return open_source(path, options)


class Footer:
    tail, tail_identity = (0, b""), None

    def __init__(self, blob: bytes) -> None:
        self.blob = blob


class Fragments(Deleted):
    """Fragments, made when they are asked for (`made` has their numbers), and their deleted rows."""

    made: ClassVar[list[int]] = []

    def __init__(
        self, path: str, options: StoreOptions, head: dict[str, Any], arrays: list[array[int]]
    ) -> None:
        self.path, self.options = path, options
        self.rows, _, _, self.gone = arrays
        self.row_count = sum(self.gone)
        columns = [struct.pack("<BBH", file, TYPES[kind].tag, at) for _, kind, file, at in head["fields"]]
        widths = struct.pack("<II", *head["widths"])
        self.described = struct.pack("<I", len(columns)) + b"".join(columns) + widths
        self.places = [column(number) for number in range(len(columns))]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TableFile]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: Any, /) -> Any:
        if isinstance(number, slice):
            return SomeFragments(self, range(*number.indices(len(self))))
        self.made.append(number)
        files = [self._file(number, "a"), self._file(number, "b")]
        if self.gone[number]:
            files.append(self._file(number, "deleted", FileRole.DELETES))
        return TableFile(files, Footer(struct.pack("<I", self.rows[number]) + self.described), self.places)

    def _file(self, number: int, ending: str, role: FileRole = FileRole.DATA) -> FragmentFile:
        path = f"{os.path.dirname(self.path)}/{number}.{ending}"
        return FragmentFile(path, partial(opened, path, self.options), role=role)

    def bitmap(self, fragment: int, gate: IoGate, /) -> bytes:
        if not self.gone[fragment]:
            return b""
        with self[fragment].files[2].open(gate) as source:
            return gate.read(source, 0, source.size)


class Toy(Format):
    name, title, number = "toy", "Toy", FileFormat.TOY

    def claims_name(self, name: str) -> bool:
        return name.endswith(".toy")

    def resolve(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> FileTable:
        for ((_, source),) in opening.batches(found[:1]):
            (data,) = read_many(opening.gate, [(source, 0, source.size)])
        line, _, numbers = data.partition(b"\n")
        head = json.loads(line)
        size = 8 * head["fragments"]
        parts = [numbers[at : at + size] for at in range(0, 4 * size, size)]
        fragments = Fragments(found[0].path, opening.options, head, [array("q", part) for part in parts])
        schema = Schema([(field, TYPES[kind]) for field, kind, *_ in head["fields"]])
        cuts = Cuts(fragments.rows)
        table = FileTable(schema, fragments, cuts, name, format=self.number, deleted=fragments)
        known = {head["fields"][0][0]: KnownValues(parts[1], parts[2])}
        table.use_evidence(ManifestEvidence(table, known.get))
        return table


FIELDS = [("id", "int64", 0, 0), ("x", "float64", 1, 2), ("n", "int32", 0, 8)]
LAYOUTS = (struct.Struct("<qi"), struct.Struct("<xxd"))


def record(id: int) -> dict[str, Any]:
    return {"id": id, "x": id / 4, "n": -id}


def write_manifest(path: Path, firsts: Sequence[int], counts: Sequence[int], gone: Sequence[int]) -> None:
    """`firsts`: of every fragment the first id; the others follow it."""
    widths = [layout.size for layout in LAYOUTS]
    head = {"fields": FIELDS, "widths": widths, "fragments": len(counts)}
    lasts = [first + count - 1 for first, count in zip(firsts, counts, strict=True)]
    arrays = [array("q", numbers).tobytes() for numbers in (counts, firsts, lasts, gone)]
    path.write_bytes(json.dumps(head).encode() + b"\n" + b"".join(arrays))


def write_fragment(folder: Path, number: int, ids: range, deleted: Collection[int] = ()) -> None:
    (folder / f"{number}.a").write_bytes(b"".join(LAYOUTS[0].pack(id, -id) for id in ids))
    (folder / f"{number}.b").write_bytes(b"".join(LAYOUTS[1].pack(id / 4) for id in ids))
    if deleted:
        bits = sum(1 << place for place, id in enumerate(ids) if id in deleted)
        (folder / f"{number}.deleted").write_bytes(bits.to_bytes((len(ids) + 7) // 8, "little"))
