"""Long lists of constants behind IN, taken out of a text before it is parsed.

A token and its node take sqlglot some 50 µs and a kilobyte, and a list may have a million of them. So a list
of plain numbers, texts and NULLs is read here, and a quoted text of the same length stands in its place: what
is behind it stays where it was. The parser's literal at that place is the list; no other text can be one.
"""

from __future__ import annotations

import re
from decimal import Decimal

from querymode._call import check, claim
from querymode.expr.nodes import LONG, Literal
from querymode.expr.value_list import ValueList, claim_values
from querymode.sql import constants
from querymode.sql.scan import after_blanks, end_of_in
from querymode.types import DATE

#: Shorter texts hold no list that is worth it.
_TEXT_SIZE_MIN = 2048
#: Values that are read before somebody asks for the time.
_CHUNK = 32_768
#: Numbers of more characters than these are the parser's.
_NUMBER_SIZE_MAX = 28

#: What a token and its part of the tree take, measured with tracemalloc: 300 bytes of the token, and up to a
#: kilobyte of nodes, of what they become, and of where they stand.
_TOKEN_SIZE = 1300
_TOKENS_CLAIMED = 1024
#: The text itself, its tokens, and what is made of their texts.
_COPIES = 3
#: Roughly, and never far too many: what is quoted is one.
_COUNTED = re.compile(r"""\w++|'[^']*+'|"[^"]*+"|--[^\n\r]*+|[^\w\s]""")

_BLANK = r"(?:\s++|--[^\n\r]*+[\n\r]|/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/)*+"
_TEXT = r"'(?:[^']++|'')*+'"
_DATE = rf"[dD][aA][tT][eE]\s*+{_TEXT}"
_VALUE = rf"(?:{_DATE}|-?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|{_TEXT}|[nN][uU][lL][lL])"
_INTEGERS = re.compile(rf"(?:\s*+-?\d{{1,18}}+\s*+,){{1,{_CHUNK}}}+", re.ASCII)
_TEXTS = re.compile(rf"(?:\s*+{_TEXT}\s*+,){{1,{_CHUNK}}}+")
_VALUES = re.compile(rf"(?:{_BLANK}{_VALUE}{_BLANK},){{1,{_CHUNK}}}+", re.ASCII)
_INSIDE = re.compile(r"'((?:[^']++|'')*+)'")
_ONE = re.compile(rf"{_BLANK}({_VALUE}){_BLANK},", re.ASCII)
_LAST = re.compile(rf"{_BLANK}({_VALUE}){_BLANK}\)", re.ASCII)


def lift(sql: str) -> tuple[str, dict[int, ValueList]]:
    """The text without its long lists, and these by the place of what stands for each."""
    lists: dict[int, ValueList] = {}
    if len(sql) < _TEXT_SIZE_MIN:
        return sql, lists
    kept: list[str] = []
    position = copied = 0
    claim(_COPIES * len(sql), "the text of the statement")
    while (end := end_of_in(sql, position, lambda start, end: _claim_tokens(sql, start, end))) is not None:
        check()
        open_ = after_blanks(sql, end)
        if not sql.startswith("(", open_):
            position = end
            continue
        values, position = _values(sql, open_ + 1)
        if values is not None:
            lists[open_ + 1] = values
            # Behind the list stands its parenthesis.
            kept += [sql[copied : open_ + 1], "'", " " * (position - open_ - 4), "'"]
            copied = position - 1
    return ("".join((*kept, sql[copied:])), lists) if lists else (sql, lists)


def _claim_tokens(sql: str, start: int, end: int) -> None:
    """Counts what the tree of a piece of text will take."""
    for count, _ in enumerate(_COUNTED.finditer(sql, start, end), 1):
        if count % _TOKENS_CLAIMED == 0:
            check()
            claim(_TOKEN_SIZE * _TOKENS_CLAIMED, "planning the statement")


def _values(sql: str, start: int) -> tuple[ValueList | None, int]:
    """The values from a parenthesis on, and the place behind the list or behind what was looked at."""
    values: list[object] = []
    position = start
    while (read := _chunk(sql, position)) is not None:
        check()
        more, position = read
        claim_values(len(more))
        values += more
    last = _LAST.match(sql, position)
    if last is None or len(values) < LONG:
        return None, position
    try:
        values.append(_value(last[1]))
    except ValueError:
        return None, position
    present = [value for value in values if value is not None]
    return ValueList(present, len(present) != len(values)), last.end()


def _chunk(sql: str, position: int) -> tuple[list[object], int] | None:
    """The next values, up to the comma behind them."""
    found = _INTEGERS.match(sql, position)
    if found is not None:
        return list(map(int, found[0][:-1].split(","))), found.end()
    found = _TEXTS.match(sql, position)
    if found is not None:
        texts = _INSIDE.findall(found[0])
        return ([text.replace("''", "'") for text in texts] if "''" in found[0] else texts), found.end()
    found = _VALUES.match(sql, position)
    if found is None:
        return None
    try:
        return [_value(text) for text in _ONE.findall(found[0])], found.end()
    except ValueError:
        return None


def _date(text: str) -> object:
    found = constants.text_as(text, DATE)
    if not isinstance(found, Literal):
        raise ValueError(text)
    return found.value


def _value(text: str) -> object:
    """What the parser's literal would be. ValueError: that is for the parser to say."""
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    if text[0] in "nN":
        return None
    if text[0] in "dD":
        return _date(text[text.index("'") + 1 : -1])
    if len(text) > _NUMBER_SIZE_MAX:
        raise ValueError(text)
    if "." in text and "e" not in text and "E" not in text:
        return Decimal(text)
    digits = text.removeprefix("-")
    found = constants.number(digits)
    if found is not None and digits != text:
        found = constants.negated(found)
    if found is None:
        raise ValueError(text)
    return found.value
