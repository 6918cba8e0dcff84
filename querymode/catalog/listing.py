"""Found: a file that a listing came upon; and which of a folder's files are the table."""

from __future__ import annotations

from querymode._call import claim
from querymode.errors import error
from querymode.format import registry
from querymode.format.format import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.errors import QueryModeError
    from querymode.format.format import Format
    from querymode.store.s3 import Listed
    from querymode.store.source import ByteSource

#: Ends of names that say: none of our formats. What ends otherwise is judged by its content.
_OTHER_SUFFIXES = frozenset(
    {
        *("arrow", "avro", "feather", "ipc", "json", "orc", "xlsx"),
        *("bz2", "gz", "lz4", "sqlite", "xz", "zip", "zst"),
        *("cfg", "conf", "crc", "htm", "html", "ini", "jpg", "lock", "log", "md", "pdf", "png", "py", "sh"),
        *("sql", "toml", "txt", "xml", "yaml", "yml"),
    }
)
#: Stands for a folder of Iceberg's metadata, whose name alone says little.
ICEBERG = "metadata/*.metadata.json"
#: Folders of other table formats: their files alone are not the table.
_OTHER_TABLES = {
    "_delta_log": "a Delta Lake table",
    ".hoodie": "a Hudi table",
    ICEBERG: "an Iceberg table",
}


#: What one of them takes in this process, with its path.
_FOUND_SIZE = 512


class Found:
    """A file of a table, or a folder that a format claims as a whole. `path` is what is opened; `folders` are
    those between the root and the file."""

    __slots__ = (
        "folders",
        "format",
        "inside",
        "is_folder",
        "is_named",
        "known",
        "name",
        "optional",
        "path",
        "source",
    )

    def __init__(
        self,
        path: str,
        folders: Sequence[str],
        name: str,
        known: Listed | None = None,
        *,
        is_named: bool = False,
        format: Format | None = None,
    ) -> None:
        """`format`: the one that claims this folder."""
        claim(_FOUND_SIZE, "a list of so many files")
        self.path = path
        self.folders = folders
        self.name = name
        #: What a listing of objects said about it.
        self.known = known
        #: It is itself what was asked for, rather than found in a listing.
        self.is_named = is_named
        self.format = format
        self.is_folder = format is not None
        #: Of such a folder, the beginning of the listing that told, and whether it is all of it.
        self.inside: tuple[list[Listed], bool] | None = None
        #: Left out if it turns out to be something else than data.
        self.optional = False
        #: Where finding out about it meant opening it.
        self.source: ByteSource | None = None

    def __repr__(self) -> str:
        return f"Found({self.path!r})"


def is_other_name(name: str) -> bool:
    """Whether it says something else than the default format."""
    found = registry.by_name(name)
    return found is not registry.default() if found else ending(name) in _OTHER_SUFFIXES


def claimed_folder(path: str, names: set[str], said: Format | None) -> list[Found] | None:
    """A folder that is one table by what lies directly in it. `names`: of these folders."""
    format = registry.of_folder(names)
    if format is None:
        refuse_other_table(path, names)
        return None
    if said is not None and said is not format:
        raise error(
            "NOT_SUPPORTED",
            f"{path} is a {format.title} table, whose files alone may hold deleted rows; leave out format=",
        )
    return [table_folder(path, (), format)]


def table_folder(path: str, folders: Sequence[str], format: Format) -> Found:
    return Found(path, folders, path.rstrip("/").rpartition("/")[2], format=format)


def choose(found: list[Found], where: str, said: Format | None = None) -> list[Found]:
    """Which files of a folder are the table, in the order of their paths.

    Those whose names say the format that was asked for; if none was, the default one, or else the one that
    they say. Where the default is meant, a file whose name says nothing must be that too if no name says so,
    and is left out if it is not otherwise. Names of other formats are no part of it.
    """
    formats = {file.path: file.format or registry.by_name(file.name) for file in found}
    names_say = {*formats.values()} - {None}
    default = registry.default()
    if said is None and default not in names_say and len(names_say) == 1:
        (said,) = names_say
    if said is not None and said is not default:
        chosen = [file for file in found if formats[file.path] is said]
        chosen = chosen or [file for file in found if formats[file.path] is not default]
        if not chosen:
            raise nothing_found(where)
        return sorted(chosen, key=lambda file: file.path)
    named = {path for path, format in formats.items() if format is default}
    chosen = [
        file for file in found if file.path in named or not (file.is_folder or is_other_name(file.name))
    ]
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
