"""Parquet, as a member of the formats."""

from __future__ import annotations

from querymode._abi import FileFormat
from querymode.format.format import Format, Member, ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Found, HasBlob, Opening
    from querymode.format.parquet.report import TableReport
    from querymode.store.source import ByteSource
    from querymode.table.files import FileTable
    from querymode.table.table import Table

#: What people put behind `.parquet` to say how pages are compressed.
_CODECS = ("brotli", "br", "gz", "gzip", "lz4", "snappy", "zst", "zstd")
#: What plain and encrypted files begin and end with.
_MAGICS = (b"PAR1", b"PARE")


class Parquet(Format):
    name = "parquet"
    title = "Parquet"
    number = FileFormat.PARQUET
    options = frozenset(("verify_crc",))

    def claims_name(self, name: str) -> bool:
        """`part-0.snappy.parquet`, `x.parquet.gzip`, `x.pq`."""
        head, _, suffix = name.lower().rpartition(".")
        return ending(name) in ("parquet", "parq", "pq") or (head.endswith(".parquet") and suffix in _CODECS)

    def claims(self, head: bytes, tail: bytes) -> bool:
        return (tail[-4:] if tail else head[:4]) in _MAGICS

    def resolve(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> FileTable:
        from querymode.format.parquet.statistics import FooterEvidence
        from querymode.table.files import Cuts, FileTable, TableFile

        members: list[Member] = []
        cuts: list[list[int]] = []
        for batch in opening.batches(found):
            self._load(opening, batch, members, cuts)
        united = opening.unite(members)
        files = [
            TableFile([member.file], member.footer, places)
            for member, places in zip(members, united.places(), strict=True)
        ]
        table = FileTable(united.schema(), files, Cuts.of(cuts), name)
        table.use_evidence(FooterEvidence(table))
        table.verify_crc = bool(options.get("verify_crc"))
        return table

    def _load(
        self,
        opening: Opening,
        batch: list[tuple[Found, ByteSource]],
        members: list[Member],
        cuts: list[list[int]],
    ) -> None:
        from querymode.format.parquet.footer import load

        kept = self._without_others(opening, batch)
        footers = load(
            [source for _, source in kept], gate=opening.gate, cache=opening.cache, saw=opening.saw
        )
        for (file, source), footer in zip(kept, footers, strict=True):
            members.append(Member(opening.fragment_file(file, source, footer), file.folders, footer))
            cuts.append(footer.row_counts())

    def _without_others(
        self, opening: Opening, batch: list[tuple[Found, ByteSource]]
    ) -> list[tuple[Found, ByteSource]]:
        """Files in a folder of Parquet files whose names do not say what they are."""
        from querymode.store.fetch import read_many

        doubtful = [source for file, source in batch if file.optional]
        sizes = [min(4, source.size) for source in doubtful]
        ends = read_many(
            opening.gate,
            [(source, source.size - size, size) for source, size in zip(doubtful, sizes, strict=True)],
        )
        others = {id(source) for source, end in zip(doubtful, ends, strict=True) if end not in _MAGICS}
        return [pair for pair in batch if id(pair[1]) not in others]

    def has_footer(self, source: ByteSource, footer: HasBlob | None, cache: FooterCache) -> bool:
        from querymode.format.parquet.footer import load

        return footer is not None and load([source], cache=cache)[0].blob == footer.blob

    def report(self, table: Table) -> TableReport:
        from querymode.format.parquet.report import TableReport

        return TableReport(table)  # type: ignore[arg-type]
