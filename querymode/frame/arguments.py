"""What DataFrame methods are given, checked: names, expressions, counts, other frames."""

from __future__ import annotations

from querymode.errors import error
from querymode.expr.nodes import Column, Expr
from querymode.plan.bind import output_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

    from querymode.frame.frame import DataFrame
    from querymode.plan.nodes import Node
    from querymode.schema import Schema
    from querymode.session import QueryMode
    from querymode.types import DataType


class FrameBase:
    """What every part of DataFrame has: a session and a plan. Nothing of it changes."""

    _session: QueryMode
    _node: Node

    def _with(self, node: Node) -> DataFrame:
        raise NotImplementedError


def flat(items: Iterable[Any]) -> list[Any]:
    """`select(["a", "b"])` is `select("a", "b")`."""
    found: list[Any] = []
    for item in items:
        found.extend(item) if isinstance(item, (list, tuple)) else found.append(item)
    return found


def named(item: object) -> tuple[str, Expr]:
    """A name or an expression, and what its column is called."""
    if isinstance(item, str):
        return item, Column(item)
    if isinstance(item, Expr):
        return output_name(item), item
    raise error("QUERY_FAILED", f"a column is a name or an expression, not {type(item).__name__}")


def all_columns(schema: Schema) -> list[tuple[str, Expr]]:
    """A projection of everything as it is."""
    return [(name, Column(name)) for name in schema.names]


def column_name(what: str, item: object, schema: Schema) -> str:
    """The name of a column that is there."""
    name = item.name if isinstance(item, Column) else item
    if not isinstance(name, str):
        raise error("QUERY_FAILED", f"{what} takes names of columns, not {type(item).__name__}")
    schema.index(name)
    return name


def column_names(what: str, items: Iterable[object], schema: Schema) -> list[str]:
    return list(dict.fromkeys(column_name(what, item, schema) for item in flat(items)))


def new_name(what: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise error("QUERY_FAILED", f"{what} takes a name (a text that is not empty), not {name!r}")
    return name


def other_frame(what: str, other: object) -> DataFrame:
    from querymode.frame.frame import DataFrame

    if isinstance(other, DataFrame):
        return other
    raise error(
        "QUERY_FAILED",
        f"{what} takes a DataFrame, not {type(other).__name__}; QueryMode.from_arrow makes one of Arrow data",
    )


def column_type(what: str, given: object) -> DataType:
    from querymode.types import DataType, parse_type

    if isinstance(given, str):
        return parse_type(given)
    if isinstance(given, DataType):
        return given
    raise error("QUERY_FAILED", f"{what} takes a type such as 'int64', not {type(given).__name__}")


def unused_name(name: str, taken: Container[str]) -> str:
    """The name itself, or a like one that nothing has."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}#{number}"
    return found
