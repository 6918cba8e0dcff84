"""Lance, as a member of the formats: tables in folders, with versions, and data files alone."""

from __future__ import annotations

from querymode._abi import FileFormat
from querymode.errors import error
from querymode.format.format import Format, Member, ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from querymode.format.footer_cache import FooterCache
    from querymode.format.format import Found, HasBlob, Opening
    from querymode.format.lance.report import LanceReport
    from querymode.format.lance.snapshot import Snapshot
    from querymode.store.fetch import IoGate
    from querymode.store.source import ByteSource
    from querymode.table.stored import StoredTable
    from querymode.table.table import Table
    from querymode.types import DataType

_MAGIC = b"LANC"


class Lance(Format):
    name = "lance"
    title = "Lance"
    number = FileFormat.LANCE
    options = frozenset(("version", "ref"))
    folder_sign: str = "_versions"

    def claims_name(self, name: str) -> bool:
        return ending(name) == "lance"

    def claims(self, head: bytes, tail: bytes) -> bool:
        return tail[-4:] == _MAGIC

    def claims_folder(self, names: set[str]) -> bool:
        return self.folder_sign in names

    def mark(self, opening: Opening, folder: Found, options: Mapping[str, Any]) -> object:
        """The manifest that counts: nothing of a version changes once it is there."""
        from querymode.format.lance import versions

        found = versions.find(opening, folder, versions.wanted(opening, folder, options))
        return found.number, opening.identity(found.file)

    def resolve(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> StoredTable:
        from querymode.format.lance.fragments import DeletedRows, Fragments, cuts_of
        from querymode.table.files import FileTable, FragmentFile

        if not all(file.is_folder for file in found):
            return self._resolve_files(opening, found, options, name)
        snapshots = [self._snapshot(opening, file, options) for file in found]
        members = [
            Member(FragmentFile(snapshot.title, _no_file), file.folders, _Fields(snapshot.manifest.fields))
            for file, snapshot in zip(found, snapshots, strict=True)
        ]
        united = opening.unite(members)
        fragments = Fragments(snapshots, united.places(), opening.options, opening.cache)
        deleted = DeletedRows(fragments) if any(each.manifest.has_deletions for each in snapshots) else None
        cuts = cuts_of(snapshots)
        return FileTable(united.schema(), fragments, cuts, name, format=self.number, deleted=deleted)

    def _snapshot(self, opening: Opening, file: Found, options: Mapping[str, Any]) -> Snapshot:
        from querymode.format.lance import snapshot, versions

        wanted = versions.wanted(opening, file, options)
        version = versions.find(opening, file, wanted)
        found, _ = snapshot.load(opening, file.path.rstrip("/") + "/", version)
        opening.note(file, (version.number, opening.identity(version.file)))
        if found.manifest.rows_unknown:
            raise error(
                "NOT_SUPPORTED",
                f"{found.title} does not say how many rows its fragments have, which is not read yet",
            )
        return found

    def _resolve_files(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> StoredTable:
        """Files that are tables alone."""
        from querymode.format.lance.single_files import load
        from querymode.table.files import Cuts, FileTable, TableFile

        for option in options:
            raise error("NOT_SUPPORTED", f"{option}= is for Lance tables, which are folders with versions")
        if any(file.is_folder for file in found):
            raise error("NOT_SUPPORTED", "Lance tables and single files cannot be read as one table")
        _refuse_parts(opening, found)
        members, footers, cuts = load(opening, found)
        united = opening.unite(members)
        files = [
            TableFile([member.file], footer, places)
            for member, footer, places in zip(members, footers, united.places(), strict=True)
        ]
        return FileTable(united.schema(), files, Cuts.of(cuts), name, format=self.number)

    def report(self, table: Table) -> LanceReport:
        from querymode.format.lance.report import LanceReport

        return LanceReport(table)  # type: ignore[arg-type]

    def has_footer(self, source: ByteSource, footer: HasBlob | None, cache: FooterCache) -> bool:
        from querymode.format.lance.single_files import is_described_by

        return footer is not None and is_described_by(source, footer, cache)

    def versions(self, opening: Opening, folder: Found) -> list[dict[str, Any]]:
        from querymode.format.lance import snapshot, versions

        return [snapshot.described(opening, version) for version in versions.find_all(opening, folder)]


def _refuse_parts(opening: Opening, found: Sequence[Found]) -> None:
    """Files of tables with versions: some of their rows may be deleted, or were never part of a version."""
    for folder in {file.path.rpartition("/")[0] for file in found if "/data/" in file.path}:
        above, _, name = folder.rpartition("/")
        if name == "data" and opening.has_inside(above, "_versions"):
            raise error(
                "NOT_SUPPORTED",
                f"{folder} holds the files of a Lance table, some of whose rows may be deleted; read {above}",
            )


class _Fields:
    """Stands for a footer."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[tuple[str, DataType], ...]) -> None:
        self.fields = fields


def _no_file(gate: IoGate | None = None, /) -> Any:
    raise AssertionError("a table is no file")
