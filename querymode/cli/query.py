"""`querymode "SELECT …"`: runs SQL and writes the answer."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.frame.frame import DataFrame
    from querymode.output.writers import Format

FORMATS = ("table", "csv", "tsv", "json", "ndjson", "markdown", "parquet", "arrow")
_BINARY = ("parquet", "arrow")
_ENDINGS = {
    ".txt": "table",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".md": "markdown",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


class WrongUsage(Exception):
    """The command line does not mean anything."""


class Request:
    """What a command line asks for. `text`: the SQL, or None if it is to be read from `path` or stdin."""

    __slots__ = ("format", "memory", "output", "path", "text", "threads", "timeout")

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.path: str | None = None
        self.format: str | None = None
        self.output: str | None = None
        self.threads: int | None = None
        self.memory = "2GiB"
        self.timeout: float | None = None


def is_sql(word: str) -> bool:
    """Names of commands are words; a statement has blanks or parentheses."""
    return any(letter.isspace() or letter in "();" for letter in word)


def run_query(request: Request) -> None:
    from querymode.session import QueryMode

    chosen = _format_of(request)
    if chosen in _BINARY and request.output is None and _is_terminal():
        raise WrongUsage(f"{chosen} is not for terminals; write it to a file with -o, or into a pipe")
    text = _text_of(request)
    session = QueryMode(memory=request.memory, threads=request.threads, timeout=request.timeout)
    _write(session.sql(text), chosen, request.output)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _format_of(request: Request) -> str:
    if request.format is not None:
        return request.format
    if request.output is None:
        return "table"
    ending = os.path.splitext(request.output)[1].lower()
    if ending not in _ENDINGS:
        raise WrongUsage(
            f"{request.output}: its ending does not say what to write; give it one of {' '.join(_ENDINGS)}, "
            f"or a --format ({', '.join(FORMATS)})"
        )
    return _ENDINGS[ending]


def _text_of(request: Request) -> str:
    if request.text is not None:
        return request.text
    if request.path is None or request.path == "-":
        return sys.stdin.read() if sys.stdin is not None else ""
    from querymode.errors import error

    try:
        with open(request.path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise error("SQL_SYNTAX", f"{request.path} is not UTF-8 text") from None


def _write(frame: DataFrame, chosen: str, output: str | None) -> None:
    if chosen == "table" and output is None:
        from querymode.output.answer_table import print_answer

        print_answer(frame)
        return
    format = _writer(chosen)
    if output is not None:
        from querymode.output.writers import write_file

        write_file(frame, output, format, overwrite=True)
        return
    format.check(frame)
    sys.stdout.flush()
    format.write(frame, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _writer(chosen: str) -> Format:
    from querymode.output import answer_table as query_table
    from querymode.output import writers as export

    if chosen in ("csv", "tsv"):
        return export.CsvFormat("\t" if chosen == "tsv" else ",")
    if chosen in ("json", "ndjson"):
        return export.JsonFormat(lines=chosen == "ndjson")
    if chosen == "parquet":
        return export.ParquetFormat()
    if chosen == "arrow":
        return export.ArrowFormat()
    return query_table.MarkdownFormat() if chosen == "markdown" else query_table.TableFormat()


# ---- arguments ----


def parsed(words: list[str]) -> Request:
    """The request of a command line that is not one statement alone."""
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="querymode",
        usage='querymode [OPTIONS] "SELECT …" | -f FILE | -',
        description="Runs a SQL statement and writes its answer.",
        allow_abbrev=False,
    )
    parser.add_argument("sql", nargs="?", metavar="SQL", help="the statement; - reads it from stdin")
    parser.add_argument("-f", "--file", metavar="FILE", help="read the statement from a file")
    parser.add_argument(
        "--format", choices=FORMATS, help="of the answer (default: by the ending of -o, or table)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the answer to a file, replacing it: " + " ".join(_ENDINGS),
    )
    parser.add_argument("--threads", type=int, metavar="N", help="workers (default: the machine's cores)")
    parser.add_argument("--memory", default="2GiB", metavar="SIZE", help="of all workers (default: 2GiB)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end the query after this long")
    options = parser.parse_args(words)
    if options.sql is not None and options.file is not None:
        parser.error("give a statement or -f FILE, not both")
    if options.sql not in (None, "-") and not is_sql(options.sql):
        parser.error(f"{options.sql!r} is neither a command nor a statement")
    request = Request(None if options.sql == "-" else options.sql)
    request.path = options.file
    request.format, request.output = options.format, options.output
    request.threads, request.memory, request.timeout = options.threads, options.memory, options.timeout
    return request
