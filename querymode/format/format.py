"""The seam of formats: what one says of its files, and what it is given to open them with.

A format is a class here, a line in registry.py, a reader in the engine (wasm/src/format/reader.zig), and
nothing else. Whoever lists files, plans, executes or explains asks through these.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, BinaryIO, Protocol

    from querymode._abi import FileFormat
    from querymode.format.footer_cache import FooterCache
    from querymode.schema import Schema
    from querymode.store.fetch import IoGate
    from querymode.store.options import StoreOptions
    from querymode.store.s3 import Listed
    from querymode.store.source import ByteSource
    from querymode.table.files import FragmentFile
    from querymode.table.stored import StoredTable
    from querymode.table.table import Table
    from querymode.types import DataType

    Fields = tuple[tuple[str, DataType], ...]

    class HasFields(Protocol):
        """A footer, or what is known of a file without one."""

        @property
        def fields(self) -> Fields: ...

    class Found(Protocol):
        """A file that was named, or that a listing came upon; or a folder that is a table (`is_folder`)."""

        path: str
        folders: Sequence[str]
        name: str
        is_folder: bool
        optional: bool
        known: Listed | None

    class United(Protocol):
        """The columns of all files by name, and for every file where each of them comes from."""

        def schema(self) -> Schema: ...
        def places(self) -> list[tuple[bytes, ...]]: ...

    class Opening(Protocol):
        """How the files of one table are opened (catalog/opening.py)."""

        gate: IoGate
        cache: FooterCache
        options: StoreOptions

        @property
        def saw(self) -> Callable[[bytes, bytes], None] | None:
            """Is told how a file begins and ends that is something else: it may be of another format. None
            where somebody said which format it is."""

        def batches(self, found: Sequence[Any]) -> Iterator[list[tuple[Any, ByteSource]]]:
            """All of them opened, some at a time; they are closed before the next ones come."""

        def fragment_file(self, file: Any, source: ByteSource, footer: HasBlob | None = None) -> FragmentFile:
            """The file for queries: opening it fails if it is another by then."""

        def open(self, file: Any) -> ByteSource:
            """One that was found, or a path."""

        def inside(self, folder: Any, name: str) -> Iterator[Any]:
            """The files that lie directly in the folder of that name inside of a table's; none if there is no
            such folder. Objects (`known`) come in the order of their names, a page at a time: whoever has
            seen enough may stop, and no more is asked for."""

        def has_inside(self, folder: str, name: str) -> bool:
            """Whether a folder has files in the folder of that name."""

        def identity(self, file: Any) -> object:
            """What a file is by now; equal to nothing where it may change without a trace."""

        def note(self, folder: Any, mark: object) -> None:
            """What the table that a folder is was read as (`Format.mark`)."""

        def unite(self, members: list[Member], *, has_hidden: bool = True) -> United:
            """`has_hidden`: fields of structures can be read on their own."""

    class Writer(Protocol):
        """As those of output/writers.py are."""

        def check(self, frame: Any) -> None:
            """Refuses what the format cannot hold, before anything is read."""

        def write(self, frame: Any, file: BinaryIO) -> int:
            """Runs the query; returns how many rows were written."""

    class HasBlob(Protocol):
        @property
        def blob(self) -> bytes: ...


class Member:
    """A file of a table, and what is known of its columns."""

    __slots__ = ("file", "folders", "footer")

    def __init__(self, file: FragmentFile, folders: Sequence[str], footer: HasFields) -> None:
        self.file = file
        self.folders = folders
        self.footer = footer

    @property
    def name(self) -> str:
        return self.file.location


class Format:
    """What a format says of itself."""

    #: What `format=` calls it, and may call it too.
    name: str
    aliases: tuple[str, ...] = ()
    #: What people call its files.
    title: str
    #: As the engine knows it.
    number: FileFormat
    #: What is read of a file's end when it is opened: the whole footer of nearly every file.
    tail_size = 64 << 10
    #: Options of `table(…)` that it takes, besides those that say where the files are.
    options: frozenset[str] = frozenset()
    #: Of a format whose tables are folders: a folder that lies in every one of them.
    folder_sign: str | None = None

    def claims_name(self, name: str) -> bool:
        """Whether files of that name are of this format."""
        return False

    def claims(self, head: bytes, tail: bytes) -> bool:
        """Whether a file is of it that begins and ends like this; what was not read is empty."""
        return False

    def claims_folder(self, names: set[str]) -> bool:
        """Whether a folder with these folders in it is one table, whose meaning is more than its files."""
        return False

    def mark(self, opening: Opening, folder: Found, options: Mapping[str, Any]) -> object:
        """Of a folder that is a table: what differs once it is another one."""
        raise NotImplementedError

    def versions(self, opening: Opening, folder: Found) -> list[dict[str, Any]]:
        """The versions of a folder that is a table, the oldest first, as plain values."""
        raise NotImplementedError

    def resolve(
        self, opening: Opening, found: Sequence[Found], options: Mapping[str, Any], name: str | None
    ) -> StoredTable:
        """The table that these files are at this moment."""
        raise NotImplementedError

    def has_footer(self, source: ByteSource, footer: HasBlob | None, cache: FooterCache) -> bool:
        """Whether a file, though it was touched, has the footer that it had. What has none is looked at when
        its scan ends."""
        return footer is None

    def writer(self, options: Mapping[str, Any]) -> Writer:
        """What writes answers as files of this format."""
        from querymode.errors import error

        raise error("NOT_SUPPORTED", f"{self.title} files cannot be written yet")

    def report(self, table: Table) -> Any:
        """What the files are made of, for `querymode inspect`: a Report, unless cli/inspect.py has a page for
        the format."""
        from querymode.errors import error

        raise error("NOT_SUPPORTED", f"{self.title} files cannot be inspected yet")


def ending(name: str) -> str:
    """`part-0.CSV` → "csv"."""
    return name.rpartition(".")[2].lower() if "." in name else ""
