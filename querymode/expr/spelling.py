"""Expressions as text, within bounds. Pure.

What is spelled may be nested deep, hold a text of megabytes, or use one part in many places, which would
double the text with every use: parts are spelled one behind the other, and no more of them than fit.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol, TypeVar

    Piece = TypeVar("Piece")

    class Spelled(Protocol):
        def _pieces(self) -> Sequence[str | Spelled]:
            """Texts, and what has a text of its own, one behind the other."""


#: Characters of a text; what is longer ends in an ellipsis.
TEXT_SIZE_MAX = 1 << 16
#: Bytes of a derived name: there is room for an ellipsis, and for a number behind names that come again.
_NAME_SIZE_KEPT = 65_000


def spell(what: Spelled) -> str:
    """The text of something, up to TEXT_SIZE_MAX."""
    pieces: list[str] = []
    left = TEXT_SIZE_MAX
    waiting: list[str | Spelled] = [what]
    while waiting:
        piece = waiting.pop()
        if not isinstance(piece, str):
            waiting += reversed(piece._pieces())
            continue
        if len(piece) > left:
            return "".join((*pieces, piece[:left], "…"))
        pieces.append(piece)
        left -= len(piece)
    return "".join(pieces)


def between(separator: str, items: Iterable[str | Piece]) -> list[str | Piece]:
    """Pieces with a separator between them."""
    found: list[str | Piece] = []
    for item in items:
        if found:
            found.append(separator)
        found.append(item)
    return found


def cut_name(name: str) -> str:
    """A derived name of a column, which must not be longer than names can be (qmcb.NAME_SIZE_MAX)."""
    if len(name) <= _NAME_SIZE_KEPT // 4:
        return name
    raw = name.encode(errors="surrogatepass")
    if len(raw) <= _NAME_SIZE_KEPT:
        return name
    return raw[:_NAME_SIZE_KEPT].decode(errors="ignore") + "…"


def shown_value(value: object) -> str:
    """A constant as Python writes it: of a long one, its beginning."""
    if isinstance(value, (str, bytes, bytearray)) and len(value) > TEXT_SIZE_MAX:
        return f"{value[:TEXT_SIZE_MAX]!r}…"
    if type(value) is int and value.bit_length() > 1 << 14:
        return f"<an integer of {value.bit_length()} bits>"  # longer ones Python refuses to write
    return repr(value)
