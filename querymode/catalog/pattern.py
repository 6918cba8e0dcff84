"""Patterns of paths: `*`, `?` and `[…]` within a name, `**` for any number of folders.

As in shells, a wildcard does not stand for a leading dot. A leading underscore marks what is not data
(`_SUCCESS`, `_temporary`), so that wildcards match it only where a name's end is spelt out: `*.parquet`.
"""

from __future__ import annotations

import re
from fnmatch import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WILDCARDS = "*?["
#: Any number of folders.
ANY_DEPTH = None


class NamePattern:
    """One part of a path. `literal` where it holds no wildcard."""

    __slots__ = ("_expression", "_hidden", "_underscored", "literal", "text")

    def __init__(self, text: str, *, is_last: bool) -> None:
        self.text = text
        self.literal = not has_wildcards(text)
        self._expression = re.compile(translate(text))
        self._hidden = text.startswith(".")
        self._underscored = text.startswith("_") or (is_last and text[-1:] not in ("*", "?", "]"))

    def matches(self, name: str) -> bool:
        if self.literal:
            return name == self.text
        if name.startswith(".") and not self._hidden:
            return False
        if name.startswith("_") and not self._underscored and not is_partition(name):
            return False
        return self._expression.match(name) is not None


Parts = list[NamePattern | None]


def has_wildcards(text: str) -> bool:
    return any(wildcard in text for wildcard in WILDCARDS)


def wildcard_index(path: str) -> int:
    """Where the first wildcard of a pattern stands."""
    return min(path.index(wildcard) for wildcard in WILDCARDS if wildcard in path)


def split_pattern(path: str) -> tuple[str, Parts]:
    """The folder before the first wildcard, with its slash if it has one, and the parts behind it."""
    base = path[: path.rfind("/", 0, wildcard_index(path)) + 1]
    names = [name for name in path[len(base) :].split("/") if name not in ("", ".")]
    parts: Parts = []
    for number, name in enumerate(names):
        if name != "**":
            parts.append(NamePattern(name, is_last=number == len(names) - 1))
        elif not parts or parts[-1] is not ANY_DEPTH:
            parts.append(ANY_DEPTH)
    if parts[-1] is ANY_DEPTH:
        parts.append(NamePattern("*", is_last=True))
    return base, parts


def matches(parts: Sequence[NamePattern | None], names: Sequence[str]) -> bool:
    """Whether a path below the pattern's base, cut into names, is one that it stands for.

    All ways to read the pattern are followed at once: one after the other there would be too many of them.
    """
    reached = {0}  # how many names the parts so far may stand for
    for part in parts:
        if part is ANY_DEPTH:
            reached = _deeper(reached, names)
        else:
            reached = {at + 1 for at in reached if at < len(names) and part.matches(names[at])}
    return len(names) in reached


def _deeper(reached: set[int], names: Sequence[str]) -> set[int]:
    """With any number of folders more, as long as none of them is hidden."""
    deeper = set(reached)
    for at, name in enumerate(names):
        if at in deeper and not is_hidden(name):
            deeper.add(at + 1)
    return deeper


def is_hidden(name: str) -> bool:
    """Names that tools give to what is not data."""
    return name.startswith(".") or (name.startswith("_") and not is_partition(name))


def is_partition(name: str) -> bool:
    """`key=value`."""
    return name.find("=") > 0
