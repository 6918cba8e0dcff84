"""QueryMode: a query engine that a Python program carries with it.

>>> from querymode import QueryMode, col
>>> people = QueryMode.from_json([{"name": "Ada", "age": 36}, {"name": "Linus", "age": 21}])
>>> people.filter(col("age") > 30).rows
[{'name': 'Ada', 'age': 36}]
"""

from querymode._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.errors import QueryModeError
    from querymode.expr.clock import now, today
    from querymode.expr.intervals import interval
    from querymode.expr.nodes import Expr, call, coalesce, col, count, greatest, least, lit, when
    from querymode.frame.frame import DataFrame
    from querymode.output.result import Result
    from querymode.session import QueryMode

__all__ = [
    "DataFrame",
    "Expr",
    "QueryMode",
    "QueryModeError",
    "Result",
    "__version__",
    "call",
    "coalesce",
    "col",
    "count",
    "greatest",
    "interval",
    "least",
    "lit",
    "now",
    "today",
    "when",
]

#: Public name → its module. Loaded when first asked for: importing the package costs next to nothing.
_HOMES = {
    "DataFrame": "querymode.frame.frame",
    "Expr": "querymode.expr.nodes",
    "QueryMode": "querymode.session",
    "QueryModeError": "querymode.errors",
    "Result": "querymode.output.result",
    "call": "querymode.expr.nodes",
    "coalesce": "querymode.expr.nodes",
    "col": "querymode.expr.nodes",
    "count": "querymode.expr.nodes",
    "greatest": "querymode.expr.nodes",
    "interval": "querymode.expr.intervals",
    "least": "querymode.expr.nodes",
    "lit": "querymode.expr.nodes",
    "now": "querymode.expr.clock",
    "today": "querymode.expr.clock",
    "when": "querymode.expr.nodes",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'querymode' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
