"""Nodes of plans and expressions that refuse to be changed, in every test.

They are frozen by agreement: a check at every write would take 7 % of a large query's planning, and 3 % with
`object.__setattr__` in all constructors. Here it is paid: no line of the package breaks the agreement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn


def _write_once(self: object, name: str, value: object) -> None:
    if hasattr(self, name):
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name}")
    object.__setattr__(self, name, value)


def _never(self: object, name: str) -> NoReturn:
    raise AttributeError(f"a {type(self).__name__} cannot be changed: {name}")


def freeze() -> None:
    """From now on a slot is written once: by constructors, and by whoever makes a copy."""
    from querymode.expr.nodes import Expr
    from querymode.plan.nodes import Node

    for base in (Expr, Node):
        base.__setattr__ = _write_once  # type: ignore[method-assign]
        base.__delattr__ = _never  # type: ignore[method-assign]
