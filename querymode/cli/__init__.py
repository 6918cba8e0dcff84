"""The command line: formats what the API returns, computes nothing."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Sequence

    from querymode.errors import QueryModeError

USAGE = """\
usage: querymode "SELECT …" [OPTIONS] | COMMAND

  querymode "SELECT …"     runs SQL; tables are files in quotes: FROM 'data/*.parquet'
  querymode -f FILE        the same, from a file; - reads stdin
    --format FORMAT        table, csv, tsv, json, ndjson, markdown, parquet or arrow
    -o FILE                writes the answer there; its ending says what: .csv .tsv .json .parquet …
    --threads N, --memory SIZE, --timeout SECONDS
  querymode head FILE      the first rows
  querymode count FILE     how many rows there are
  querymode inspect FILE   schema, row groups, column chunks and pages of Parquet files;
                           dialect, columns and pieces of text files
  querymode demo           five queries over built-in data, with times
  querymode --version      version of the package, and of the engine inside it
  querymode --help         this text; querymode COMMAND --help tells more

FILE of a command is a Parquet, CSV or NDJSON file, a folder, a pattern, or an http(s):// or s3:// URL; there
may be several.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when it worked, 1 when a query failed, 2 when the command line is wrong, 130 after Ctrl-C."""
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        status = _guarded(words)
        if sys.stdout is not None:
            sys.stdout.flush()  # what fails now would fail, with a traceback, at exit
        return status
    except KeyboardInterrupt:
        _discard_output()  # whoever reads it may have stopped
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _discard_output()
        return 0
    except OSError as failure:
        _discard_output()
        return _fail(f"QUERY_FAILED: {failure}")


def _guarded(words: list[str]) -> int:
    from querymode.errors import QueryModeError

    try:
        return _run(words)
    except QueryModeError as failure:
        return _fail_query(failure)
    except (OSError, KeyboardInterrupt):
        raise
    except SystemExit as end:  # the parser of arguments has said why
        return end.code if isinstance(end.code, int) else 2
    except Exception as failure:
        return _fail(f"INTERNAL: {type(failure).__name__}: {failure}. This is a fault of ours")


def _fail(message: str) -> int:
    print(" ".join(message.splitlines()), file=sys.stderr)
    return 1


def _fail_query(failure: QueryModeError) -> int:
    """One line; of SQL, as many as show the place."""
    if failure.offset is None or "\n" not in failure.message:
        return _fail(str(failure))
    for line in str(failure).split("\n"):
        # Tabs stay, so that carets stand where the text does.
        print("".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in line), file=sys.stderr)
    return 1


def _discard_output() -> None:
    """Python writes what is left in its buffers at exit; now that goes nowhere."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError, AttributeError):
        pass


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from querymode import __version__
        from querymode.engine.program import engine_sha256

        print(f"querymode {__version__} (engine {engine_sha256()})")
        return 0
    if words in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if words == ["demo"]:
        from querymode.cli.demo import run_demo

        run_demo()
        return 0
    if words and words[0] in _COMMANDS:
        _prepare_output()
        _COMMANDS[words[0]](words[1:])
        return 0
    return _query(words)


def _query(words: list[str]) -> int:
    from querymode.cli.query import Request, WrongUsage, is_sql, parsed, run_query

    is_bare = len(words) == 1 and (is_sql(words[0]) or not words[0].startswith("-"))
    if is_bare and not is_sql(words[0]):
        return _wrong(f"there is no command {words[0]!r}")
    request = Request(words[0]) if is_bare else Request() if not words else parsed(words)
    if not words:
        request.text = _piped()
        if not request.text.strip():
            return _wrong()
    _prepare_output()
    try:
        run_query(request)
    except WrongUsage as failure:
        print(f"querymode: {failure}", file=sys.stderr)
        return 2
    return 0


def _piped() -> str:
    """A statement on stdin, where nobody sits at it."""
    try:
        return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    except OSError:
        return ""


def _wrong(message: str = "") -> int:
    if message:
        print(f"querymode: {message}", file=sys.stderr)
    print(USAGE, end="", file=sys.stderr)
    return 2


def _prepare_output() -> None:
    """Names of files and values may have characters that the output cannot show."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    import warnings

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {message}", file=sys.stderr)

    warnings.showwarning = show


# ---- commands ----


def _parser(command: str, description: str) -> ArgumentParser:
    from argparse import ArgumentParser

    parser = ArgumentParser(prog=f"querymode {command}", description=description, allow_abbrev=False)
    parser.add_argument("file", nargs="+", metavar="FILE", help="a path, a folder, a pattern or a URL")
    parser.add_argument("--json", action="store_true", help="print JSON: nothing is cut or rounded")
    return parser


def _natural(text: str) -> int:
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)


def _head(words: list[str]) -> None:
    parser = _parser("head", "The first rows. Only what they need is read.")
    parser.add_argument("-n", type=_natural, default=10, metavar="ROWS", help="how many (default: 10)")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME", help="this column, these columns"
    )
    options = parser.parse_args(words)
    from querymode.cli.rows import run_head

    run_head(options.file, count=options.n, columns=options.column, as_json=options.json)


def _count(words: list[str]) -> None:
    options = _parser("count", "How many rows there are; of Parquet, footers say it.").parse_args(words)
    from querymode.cli.rows import run_count

    run_count(options.file, as_json=options.json)


def _inspect(words: list[str]) -> None:
    parser = _parser("inspect", "What files are made of: Parquet by its footers, text by its first rows.")
    parser.add_argument(
        "--row-group", type=_natural, action="append", default=[], metavar="N", help="this row group, from 0"
    )
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME", help="this column, or a.b for one inside"
    )
    parser.add_argument("--pages", action="store_true", help="list pages too: their headers are read")
    options = parser.parse_args(words)
    from querymode.cli.inspect import Picked, run_inspect

    picked = Picked(options.row_group, options.column, pages=options.pages)
    run_inspect(options.file, picked, as_json=options.json)


_COMMANDS: dict[str, Callable[[list[str]], None]] = {"head": _head, "count": _count, "inspect": _inspect}
