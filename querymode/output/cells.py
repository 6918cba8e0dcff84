"""Values as people and JSON see them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_json(value: Any) -> Any:
    """What json can write: bytes become hexadecimal, decimals, times, NaN and infinities become text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else _float_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value.hex()
    if hasattr(value, "nanoseconds") and hasattr(value, "months"):
        return {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else _plain_text(to_json(key)): to_json(item)
            for key, item in value.items()
        }
    return value.isoformat() if hasattr(value, "isoformat") else format(value, "f")


def _float_text(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _plain_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def to_text(value: Any) -> str:
    """One line, without characters that a terminal would obey. NULL is written so."""
    kind = type(value)
    if kind is str:
        return printable(value)
    if kind is int:
        return str(value)
    if value is None:
        return "NULL"
    if isinstance(value, (bytes, bytearray)):
        return "0x" + value.hex()
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "hour") and hasattr(value, "year"):
        return str(value.isoformat(" "))
    return printable(_plain_text(to_json(value)))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def dump_json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, allow_nan=False)
