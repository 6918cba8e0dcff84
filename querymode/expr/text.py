"""Methods of expressions that are functions of text: `col("name").upper()`.

plan/functions/rules.py says what they take. Characters are Unicode code points, counted from 1 as in SQL.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Expr


class TextMethods:
    __slots__ = ()

    def _call(self, name: str, *arguments: object) -> Expr:
        raise NotImplementedError

    def length(self) -> Expr:
        """How many characters the text has."""
        return self._call("length")

    def byte_length(self) -> Expr:
        """How many bytes it has in UTF-8."""
        return self._call("byte_length")

    def lower(self) -> Expr:
        return self._call("lower")

    def upper(self) -> Expr:
        return self._call("upper")

    def trim(self, *characters: object) -> Expr:
        """Without spaces, or these characters, at both ends."""
        return self._call("trim", *characters)

    def trim_start(self, *characters: object) -> Expr:
        return self._call("trim_start", *characters)

    def trim_end(self, *characters: object) -> Expr:
        return self._call("trim_end", *characters)

    def substring(self, start: object, *length: object) -> Expr:
        """From character `start`, counted from 1, or from the end if it is negative."""
        return self._call("substring", start, *length)

    def head(self, count: object) -> Expr:
        """The first characters (SQL's left); without the last ones if the count is negative."""
        return self._call("head", count)

    def tail(self, count: object) -> Expr:
        """The last characters (SQL's right); without the first ones if the count is negative."""
        return self._call("tail", count)

    def position(self, part: object) -> Expr:
        """The number of the character where `part` begins; 0 where it is not in the text."""
        return self._call("position", part)

    def contains(self, part: object) -> Expr:
        return self._call("contains", part)

    def starts_with(self, part: object) -> Expr:
        return self._call("starts_with", part)

    def ends_with(self, part: object) -> Expr:
        return self._call("ends_with", part)

    def replace(self, part: object, other: object) -> Expr:
        """Every `part` becomes `other`."""
        return self._call("replace", part, other)

    def concat(self, *others: object) -> Expr:
        """The values as text, one behind the other. NULLs are left out; `call("||", …)` becomes NULL."""
        return self._call("concat", *others)

    def reverse(self) -> Expr:
        return self._call("reverse")

    def repeat(self, count: object) -> Expr:
        return self._call("repeat", count)

    def pad_left(self, count: object, fill: object = " ") -> Expr:
        """Cut, or filled up from the left, to `count` characters."""
        return self._call("pad_left", count, fill)

    def pad_right(self, count: object, fill: object = " ") -> Expr:
        return self._call("pad_right", count, fill)

    def split_part(self, separator: object, number: object) -> Expr:
        """The text between two separators, counted from 1, or from the end if the number is negative."""
        return self._call("split_part", separator, number)

    def translate(self, characters: object, others: object) -> Expr:
        """Each of the characters becomes the one at its place in `others`, or nothing."""
        return self._call("translate", characters, others)

    def code_point(self) -> Expr:
        """The number of the first character; -1 for the empty text."""
        return self._call("code_point")
