"""SQL text as runs of characters, in one pass: where blanks, comments and quotes begin and end.

sqlglot makes the tokens; this is for what has to be known before that, or when that fails.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS = re.compile(r"\s*+(?:--[^\n\r]*+\s*+)*+")
_COMMENT_ENDS = re.compile(r"/\*|\*/")
_DOLLARS = re.compile(r"\$(?:[^\W\d]\w*+)?+\$")
#: Quotes and comments in one piece, words, and what lies between them.
_RUN = re.compile(
    r"""[eE]'(?:[^'\\]++|''|\\.)*+'|'(?:[^']++|'')*+'|"(?:[^"]++|"")*+"|--[^\n\r]*+|\w++|[^\w'"/$-]++""",
    re.DOTALL,
)
#: A quote that the pattern above did not take is not closed.
_OPENS = ("'", '"', "e'", "E'")


def after_blanks(sql: str, position: int) -> int:
    """Where something other than blanks and comments begins, from `position` on."""
    while True:
        found = _BLANKS.match(sql, position)
        assert found is not None  # the pattern matches nothing as well
        position = found.end()
        if not sql.startswith("/*", position):
            return position
        end = _comment_end(sql, position)
        if end is None:
            return position
        position = end


def _comment_end(sql: str, start: int) -> int | None:
    """Behind a comment, which may hold others; None if it does not end."""
    depth = 0
    for found in _COMMENT_ENDS.finditer(sql, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return None


def runs(sql: str) -> Iterator[tuple[int, int]]:
    """Where each run begins and ends. The last one ends at -1 if it is a quote or comment that does not end.

    A run is a comment, a quoted text or name, a word or number, or what stands between those. Who asks may
    send the place to go on from.
    """
    position = 0
    while position < len(sql):
        end = _run_end(sql, position)
        if end is None:
            yield position, -1
            return
        moved = yield position, end
        position = end if moved is None else moved


def _run_end(sql: str, start: int) -> int | None:
    found = _RUN.match(sql, start)
    if found is not None:
        # `e` of an unclosed `e'…` is a word of its own for the pattern.
        opens = found.end() == start + 1 and sql.startswith(_OPENS, start)
        return None if opens else found.end()
    if sql.startswith("/*", start):
        return _comment_end(sql, start)
    if sql[start] == "$":
        tag = _DOLLARS.match(sql, start)
        if tag is None:
            return start + 1
        end = sql.find(tag[0], tag.end())
        return None if end < 0 else end + len(tag[0])
    return None if sql[start] in "'\"" else start + 1


def unclosed(sql: str) -> int:
    """Where the quote or comment begins that does not end; else the text's last place."""
    return next((start for start, end in runs(sql) if end < 0), max(len(sql) - 1, 0))
