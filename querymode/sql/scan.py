"""SQL text as runs of characters, in one pass: where blanks, comments and quotes begin and end.

sqlglot makes the tokens; this is for what has to be known before that, or when that fails.
"""

from __future__ import annotations

import re

from querymode._call import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BLANKS = re.compile(r"\s*+(?:--[^\n\r]*+\s*+)*+")
#: Comments inside of comments between two looks at the clock.
_STRIDE = 4096
_COMMENT_ENDS = re.compile(r"/\*|\*/")
DOLLARS = re.compile(r"\$(?:[^\W\d]\w*+)?+\$")
#: Everything but the word IN: quotes in one piece, comments up to the end of a line, words, and what lies
#: between them. It stops at comments of other kinds, at dollars, at quotes that are not closed, and now and
#: then: somebody may have to look at the clock.
_OTHERS = re.compile(
    r"""(?:[eE]'(?:[^'\\]++|''|\\.)*+'|(?!in\b|e')\w++|'(?:[^']++|'')*+'|"(?:[^"]++|"")*+"|[^\w'"/$-]++"""
    r"""|--[^\n\r]*+|-(?!-)|/(?!\*)){0,65536}+""",
    re.DOTALL | re.IGNORECASE,
)
_IN = re.compile(r"in\b", re.IGNORECASE)


def after_blanks(sql: str, position: int) -> int:
    """Where something other than blanks and comments begins, from `position` on."""
    while True:
        check()
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
    for count, found in enumerate(_COMMENT_ENDS.finditer(sql, start)):
        if count % _STRIDE == 0:
            check()
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return None


def end_of_in(sql: str, position: int, passed: Callable[[int, int], None]) -> int | None:
    """Behind the next word IN that is neither quoted nor in a comment; None if there is none.

    `passed` is told what was passed over, piece by piece.
    """
    position = _stop(sql, position, passed)
    return position + 2 if _IN.match(sql, position) else None


def unclosed(sql: str) -> int:
    """Where the quote or comment begins that does not end; else the text's last place."""
    position = _stop(sql, 0, _untold)
    while _IN.match(sql, position):
        position = _stop(sql, position + 2, _untold)
    return min(position, max(len(sql) - 1, 0))


def _untold(start: int, end: int) -> None:
    """Who asks where a text is broken does not care for the rest."""


def _stop(sql: str, position: int, passed: Callable[[int, int], None]) -> int:
    """Where the next IN begins, or something that does not end, or the text ends."""
    while True:
        check()
        found = _OTHERS.match(sql, position)
        assert found is not None  # the pattern matches nothing as well
        passed(position, found.end())
        moved, position = found.end() > position, found.end()
        end: int | None = position if moved and not _IN.match(sql, position) else None
        if sql.startswith("/*", position):
            end = _comment_end(sql, position)
        elif sql.startswith("$", position):
            end = _dollar_end(sql, position)
        if end is None:
            return position
        position = end


def _dollar_end(sql: str, start: int) -> int | None:
    """Behind `$tag$ … $tag$`, or behind the dollar of a parameter."""
    tag = DOLLARS.match(sql, start)
    if tag is None:
        return start + 1
    end = sql.find(tag[0], tag.end())
    return None if end < 0 else end + len(tag[0])
