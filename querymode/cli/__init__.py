"""The command line: formats what the API returns, computes nothing."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """\
usage: querymode COMMAND

  querymode demo        five queries over built-in data, with times
  querymode --version   version of the package, and of the engine inside it
  querymode --help      this text
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when it worked, 1 when a query failed, 2 when the command line is wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    from querymode.errors import QueryModeError

    try:
        return _run(words)
    except QueryModeError as failure:
        print(f"querymode: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain at exit.
        sys.stderr.close()
        return 0


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from querymode import __version__
        from querymode._wasm import engine_sha256

        print(f"querymode {__version__} (engine {engine_sha256()})")
        return 0
    if words in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if words == ["demo"]:
        from querymode.cli.demo import run_demo

        run_demo()
        return 0
    if words:
        print(f"querymode: there is no command {words[0]!r}", file=sys.stderr)
    print(USAGE, end="", file=sys.stderr)
    return 2
