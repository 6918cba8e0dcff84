"""Found: a file that a listing came upon; and which of a folder's files are the table."""

from __future__ import annotations

from querymode._abi import FileFormat
from querymode._call import claim
from querymode.errors import error
from querymode.format.text.names import format_of_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.errors import QueryModeError
    from querymode.store.s3 import Listed
    from querymode.store.source import ByteSource

#: Ends of names that say: something else than Parquet. What ends otherwise is judged by its content.
_OTHER_SUFFIXES = frozenset(
    {
        *("arrow", "avro", "csv", "feather", "ipc", "json", "jsonl", "lance", "ndjson", "orc", "tsv", "xlsx"),
        *("bz2", "gz", "lz4", "sqlite", "xz", "zip", "zst"),
        *("cfg", "conf", "crc", "htm", "html", "ini", "jpg", "lock", "log", "md", "pdf", "png", "py", "sh"),
        *("sql", "toml", "txt", "xml", "yaml", "yml"),
    }
)
#: What people put behind `.parquet` to say how pages are compressed.
_CODECS = ("brotli", "br", "gz", "gzip", "lz4", "snappy", "zst", "zstd")
#: Stands for a folder of Iceberg's metadata, whose name alone says little.
ICEBERG = "metadata/*.metadata.json"
#: Folders of other table formats: their files alone are not the table.
_OTHER_TABLES = {
    "_delta_log": "a Delta Lake table",
    "_versions": "a Lance table",
    ".hoodie": "a Hudi table",
    ICEBERG: "an Iceberg table",
}


#: What one of them takes in this process, with its path.
_FOUND_SIZE = 512


class Found:
    """A file of a table. `path` is what is opened; `folders` are those between the root and the file."""

    __slots__ = ("folders", "is_named", "known", "name", "optional", "path", "source")

    def __init__(
        self,
        path: str,
        folders: Sequence[str],
        name: str,
        known: Listed | None = None,
        *,
        is_named: bool = False,
    ) -> None:
        claim(_FOUND_SIZE, "a list of so many files")
        self.path = path
        self.folders = folders
        self.name = name
        #: What a listing of objects said about it.
        self.known = known
        #: It is itself what was asked for, rather than found in a listing.
        self.is_named = is_named
        #: Left out if it turns out to be something else than data.
        self.optional = False
        #: Where finding out about it meant opening it.
        self.source: ByteSource | None = None

    def __repr__(self) -> str:
        return f"Found({self.path!r})"


def is_parquet_name(name: str) -> bool:
    """`part-0.snappy.parquet`, `x.parquet.gzip`, `x.pq`."""
    head, _, suffix = name.lower().rpartition(".")
    return suffix in ("parquet", "parq", "pq") or (head.endswith(".parquet") and suffix in _CODECS)


def is_other_name(name: str) -> bool:
    return name.rpartition(".")[2].lower() in _OTHER_SUFFIXES and "." in name


def choose(found: list[Found], where: str, format: FileFormat | None = None) -> list[Found]:
    """Which files of a folder are the table, in the order of their paths.

    Those whose names say the format that was asked for; if none was, Parquet, or else the one text format
    that they say. Where Parquet is meant, a file whose name says nothing must be that too if no name says so,
    and is left out if it is not otherwise. Names of other formats are no part of it.
    """
    named = {file.path for file in found if is_parquet_name(file.name)}
    texts = {format_of_name(file.name) for file in found} - {None}
    if format is None and not named and len(texts) == 1:
        (format,) = texts
    if format is not None and format != FileFormat.PARQUET:
        chosen = [file for file in found if format_of_name(file.name) == format]
        chosen = chosen or [file for file in found if not is_parquet_name(file.name)]
        if not chosen:
            raise nothing_found(where)
        return sorted(chosen, key=lambda file: file.path)
    chosen = [file for file in found if file.path in named or not is_other_name(file.name)]
    if found and not chosen:
        raise error(
            "NOT_SUPPORTED",
            f"{where} holds no files of one format that is read, but others such as {found[0].name}; give a "
            "pattern such as *.csv, or format=",
        )
    if not chosen:
        raise nothing_found(where)
    for file in chosen:
        file.optional = bool(named) and file.path not in named
    return sorted(chosen, key=lambda file: file.path)


def is_iceberg_metadata(names: Sequence[str]) -> bool:
    """`names`: of a path below a folder."""
    return len(names) == 2 and names[0] == "metadata" and names[1].endswith(".metadata.json")


def refuse_other_table(where: str, names: set[str]) -> None:
    """`names`: of the folders that lie directly in it. Their meaning is more than their files."""
    for name, what in _OTHER_TABLES.items():
        if name in names:
            raise error(
                "NOT_SUPPORTED",
                f"{where} is {what}, which is not read yet; its files alone may hold deleted rows. To read "
                f"them nevertheless, give a pattern such as {where.rstrip('/')}/**/*.parquet",
            )


def nothing_found(where: str) -> QueryModeError:
    return error(
        "TABLE_NOT_FOUND",
        f"there is no data in {where}: no file below it, not counting names that begin with _ or .",
    )


def nothing_matches(pattern: str) -> QueryModeError:
    return error("TABLE_NOT_FOUND", f"no file matches {pattern}; check the pattern and the session's root")
