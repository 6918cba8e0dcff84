"""The formats that are read: a line each."""

from __future__ import annotations

from querymode.errors import error
from querymode.format.lance.format import Lance
from querymode.format.parquet.format import Parquet
from querymode.format.text.format import Csv, Ndjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode._abi import FileFormat
    from querymode.format.format import Format

#: The first is what files are taken for whose names say nothing.
FORMATS: tuple[Format, ...] = (Parquet(), Csv(), Ndjson(), Lance())


def default() -> Format:
    return FORMATS[0]


def by_option(said: object) -> Format:
    """What `format=` says."""
    wanted = str(said).lower()
    for format in FORMATS:
        if wanted == format.name or wanted in format.aliases:
            return format
    known = ", ".join(name for format in FORMATS for name in (format.name, *format.aliases))
    raise error("NOT_SUPPORTED", f"format={said!r} is not read yet; so far, it is: {known}")


def by_name(name: str) -> Format | None:
    return next((format for format in FORMATS if format.claims_name(name)), None)


def by_content(head: bytes, tail: bytes) -> Format | None:
    return next((format for format in FORMATS if format.claims(head, tail)), None)


def of_folder(names: set[str]) -> Format | None:
    """`names`: of the folders that lie directly in it."""
    return next((format for format in FORMATS if format.claims_folder(names)), None)


def by_number(number: FileFormat) -> Format:
    return next(format for format in FORMATS if format.number == number)


def all_options() -> frozenset[str]:
    return frozenset().union(*(format.options for format in FORMATS))
