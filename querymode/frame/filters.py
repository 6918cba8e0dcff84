"""DataFrame methods that keep some of the rows, in words: `where_in("region", ["us", "eu"])`."""

from __future__ import annotations

from querymode.errors import error
from querymode.expr.nodes import (
    And,
    Between,
    Column,
    Expr,
    InList,
    IsNull,
    Like,
    Not,
    as_expr,
    joined,
    listed,
)
from querymode.frame.arguments import FrameBase, column_name
from querymode.plan.nodes import Filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from querymode.frame.frame import DataFrame


class FilterMethods(FrameBase):
    """Conditions on one column; NULLs are neither in nor out, as in SQL."""

    def where_in(self, column: str | Expr, values: Iterable[object]) -> DataFrame:
        """Rows whose value is one of these."""
        return self._where(InList(self._value("where_in", column), listed(values, "where_in")))

    def where_not_in(self, column: str | Expr, values: Iterable[object]) -> DataFrame:
        """Rows whose value is none of these; none at all where NULL is among them, as in SQL."""
        return self._where(Not(InList(self._value("where_not_in", column), listed(values, "where_not_in"))))

    def where_between(self, column: str | Expr, low: object, high: object) -> DataFrame:
        """Rows whose value lies between two others, both of them included."""
        return self._where(Between(self._value("where_between", column), as_expr(low), as_expr(high)))

    def where_not_between(self, column: str | Expr, low: object, high: object) -> DataFrame:
        value = self._value("where_not_between", column)
        return self._where(Not(Between(value, as_expr(low), as_expr(high))))

    def where_like(self, column: str | Expr, pattern: str, escape: str | None = None) -> DataFrame:
        """Rows whose text fits a pattern: `%` is any text, `_` one character."""
        return self._where(Like(self._value("where_like", column), pattern, escape, False))

    def where_not_like(self, column: str | Expr, pattern: str, escape: str | None = None) -> DataFrame:
        return self._where(Not(Like(self._value("where_not_like", column), pattern, escape, False)))

    def where_null(self, *columns: str | Expr) -> DataFrame:
        """Rows that have no value there; with several columns, in none of them."""
        return self._where_null("where_null", columns, negated=False)

    def where_not_null(self, *columns: str | Expr) -> DataFrame:
        """Rows that have a value there; with several columns, in all of them."""
        return self._where_null("where_not_null", columns, negated=True)

    def _where_null(self, what: str, columns: tuple[str | Expr, ...], *, negated: bool) -> DataFrame:
        if not columns:
            raise error("INVALID_FILTER", f"{what} takes at least one column")
        return self._where(joined(And, [IsNull(self._value(what, one), negated) for one in columns]))

    def _value(self, what: str, column: object) -> Expr:
        if isinstance(column, Expr):
            return column
        return Column(column_name(what, column, self._node.schema))

    def _where(self, predicate: Expr) -> DataFrame:
        return self._with(Filter(self._node, predicate))
