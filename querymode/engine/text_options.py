"""How a text is to be read, as the engine takes it: one form for text in memory and for files."""

from __future__ import annotations

import struct

from querymode import _abi
from querymode._abi import JsonLayout, TextHeader
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = struct.Struct(_abi.TEXT_OPTIONS_FORMAT)
_HEADERS = {False: TextHeader.ABSENT, True: TextHeader.PRESENT, None: TextHeader.UNKNOWN}


def text_options(
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    quote: str | None = '"',
    escape: str | None = None,
    infer_types: bool = True,
    null_strings: Sequence[str] = (),
    json_layout: JsonLayout = JsonLayout.UNKNOWN,
) -> bytes:
    """None, and no quote or escape, are said by an empty one; columns are found out."""
    if header is not None and not isinstance(header, bool):
        raise error("INVALID_FORMAT", f"header is True, False or None (find out), not {header!r}")
    if not isinstance(null_strings, (list, tuple)) or not all(isinstance(word, str) for word in null_strings):
        raise error("INVALID_FORMAT", f"null_strings is a list of texts, not {null_strings!r}")
    nulls = [word.encode("utf-8", "replace") for word in null_strings]
    if any(len(word) > 255 for word in nulls) or len(nulls) > 255:
        raise error("NOT_SUPPORTED", "null_strings holds at most 255 words of 255 bytes each")
    head = OPTIONS.pack(
        0 if delimiter is None else _character(delimiter, "delimiter"),
        _character(quote, "quote") if quote else 0,
        _character(escape, "escape") if escape else 0,  # where it is not given, quotes are doubled
        _HEADERS[header],
        bool(infer_types),
        json_layout,
        len(nulls),
        0,
        0,
    )
    return head + b"".join(bytes((len(word),)) + word for word in nulls)


def _character(text: object, what: str) -> int:
    raw = text.encode() if isinstance(text, str) and text.isascii() else b""
    if len(raw) != 1:
        raise error("INVALID_FORMAT", f"{what} is one ASCII character, not {text!r}")
    return raw[0]
