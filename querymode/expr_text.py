"""Methods of expressions that are functions of text: `col("name").upper()`. functions.py says what they take.

Characters are Unicode code points, counted from 1 as in SQL.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr import Expr


class TextMethods:
    __slots__ = ()

    def _call(self, name: str, *arguments: object) -> Expr:
        raise NotImplementedError

    def length(self) -> Expr:
        """How many characters the text has."""
        return self._call("length")

    def byte_length(self) -> Expr:
        return self._call("byte_length")
