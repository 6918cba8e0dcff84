"""Methods of expressions that are functions of numbers: `col("x").round(2)`.

plan/functions/number.py says what they take.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Expr


class NumberMethods:
    __slots__ = ()

    def _call(self, name: str, *arguments: object) -> Expr:
        raise NotImplementedError

    def _called_by(self, name: str, first: object) -> Expr:
        raise NotImplementedError

    def __pow__(self, exponent: object) -> Expr:
        return self._call("pow", exponent)

    def __rpow__(self, base: object) -> Expr:
        return self._called_by("pow", base)

    def __lshift__(self, count: object) -> Expr:
        return self._call("shift_left", count)

    def __rshift__(self, count: object) -> Expr:
        return self._call("shift_right", count)

    def __abs__(self) -> Expr:
        return self._call("abs")

    def abs(self) -> Expr:
        return self._call("abs")

    def sign(self) -> Expr:
        """-1, 0 or 1."""
        return self._call("sign")

    def round(self, *digits: object) -> Expr:
        """Half away from zero, to so many digits behind the point; before it, if they are negative."""
        return self._call("round", *digits)

    def trunc(self, *digits: object) -> Expr:
        """Toward zero."""
        return self._call("trunc", *digits)

    def floor(self) -> Expr:
        return self._call("floor")

    def ceil(self) -> Expr:
        return self._call("ceil")

    def sqrt(self) -> Expr:
        return self._call("sqrt")

    def cbrt(self) -> Expr:
        return self._call("cbrt")

    def exp(self) -> Expr:
        return self._call("exp")

    def ln(self) -> Expr:
        """The natural logarithm."""
        return self._call("ln")

    def log10(self) -> Expr:
        return self._call("log10")

    def log2(self) -> Expr:
        return self._call("log2")

    def pow(self, exponent: object) -> Expr:
        return self._call("pow", exponent)

    def sin(self) -> Expr:
        return self._call("sin")

    def cos(self) -> Expr:
        return self._call("cos")

    def tan(self) -> Expr:
        return self._call("tan")

    def asin(self) -> Expr:
        return self._call("asin")

    def acos(self) -> Expr:
        return self._call("acos")

    def atan(self) -> Expr:
        return self._call("atan")

    def sinh(self) -> Expr:
        return self._call("sinh")

    def cosh(self) -> Expr:
        return self._call("cosh")

    def tanh(self) -> Expr:
        return self._call("tanh")

    def degrees(self) -> Expr:
        return self._call("degrees")

    def radians(self) -> Expr:
        return self._call("radians")

    def is_nan(self) -> Expr:
        return self._call("isnan")

    def is_finite(self) -> Expr:
        """Neither NaN nor infinite; dates and timestamps may be infinite too."""
        return self._call("isfinite")

    def is_infinite(self) -> Expr:
        return self._call("isinf")

    def bit_and(self, other: object) -> Expr:
        """`&` joins conditions; this one joins the bits of integers."""
        return self._call("bit_and", other)

    def bit_or(self, other: object) -> Expr:
        return self._call("bit_or", other)

    def bit_xor(self, other: object) -> Expr:
        return self._call("bit_xor", other)

    def bit_not(self) -> Expr:
        return self._call("bit_not")

    def bit_count(self) -> Expr:
        """How many bits are 1."""
        return self._call("bit_count")
