"""Plans as Python: what `to_code` writes.

Every node becomes the one call that makes exactly this node. What several others read gets a name first.
"""

from __future__ import annotations

from querymode.errors import error
from querymode.expr.nodes import (
    AGGREGATE_METHODS,
    AGGREGATE_NAMES,
    ARITHMETIC_SIGNS,
    COMPARE_SIGNS,
    Aggregate,
    Alias,
    And,
    Arithmetic,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Expr,
    Field,
    Function,
    InList,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Then,
    unnamed,
)
from querymode.expr.trees import claim_written
from querymode.plan.nodes import (
    Filter,
    GroupBy,
    Join,
    Limit,
    MapBatches,
    Node,
    Project,
    Scan,
    Sort,
    Union,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from querymode.session import QueryMode
    from querymode.table.table import Table

_WIDTH = 100


def to_code(session: QueryMode, node: Node) -> str:
    """Imports and names, if any are needed, and an expression."""
    return _Writer(session).write(node)


class _Writer:
    def __init__(self, session: QueryMode) -> None:
        self._session = session
        self._uses: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._statements: list[str] = []
        self._imports: set[str] = set()

    def write(self, root: Node) -> str:
        self._count(root)
        try:
            last = _laid_out(self._chain(root))
        except RecursionError:
            raise error("NOT_SUPPORTED", "the query is nested too deep to be written as Python") from None
        parts = ["\n".join(sorted(self._imports))] if self._imports else []
        return "\n\n".join([*parts, *self._statements, last])

    def _count(self, root: Node) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            self._uses[id(node)] = self._uses.get(id(node), 0) + 1
            if self._uses[id(node)] == 1:
                for expression in node.expressions():
                    claim_written(expression)
                stack += node.children

    # ---- nodes ----

    def _chain(self, node: Node) -> list[str]:
        """What stands first, and the calls behind it."""
        calls: list[str] = []
        while True:
            if self._uses[id(node)] > 1 and not isinstance(node, Scan):
                return [self._shared(node), *reversed(calls)]
            if isinstance(node, Scan):
                return [*self._table(node), *reversed(calls)]
            calls.append(self._call(node))
            node = node.children[0]

    def _shared(self, node: Node) -> str:
        if id(node) not in self._names:
            self._uses[id(node)] = 1
            text = _laid_out(self._chain(node))
            self._uses[id(node)] = 2
            name = self._names[id(node)] = f"part_{len(self._names) + 1}"
            self._statements.append(f"{name} = {text}")
        return self._names[id(node)]

    def _call(self, node: Node) -> str:
        return _CALLS.get(type(node), _Writer._plain_call)(self, node)

    def _plain_call(self, node: Node) -> str:
        """Frames have a method of the node's name, which takes its parts."""
        if node.PARTS is None:
            raise error("NOT_SUPPORTED", f"{node.KIND} cannot be written as Python")
        parts = [self._inner(other) for other in node.children[1:]]
        for part in node.PARTS:
            value = getattr(node, part.slot)
            text = self.argument(value) if isinstance(value, Expr) else repr(value)
            if not part.is_optional:
                parts.append(text)
            elif value is not part.default:
                parts.append(f"{part.slot}={text}")
        return f".{node.KIND}({', '.join(parts)})"

    def _map_batches(self, node: MapBatches) -> NoReturn:
        raise error(
            "NOT_SUPPORTED", "a Python function (map_batches, computed) cannot be written as Python again"
        )

    def _table(self, node: Scan) -> list[str]:
        found = self._source(node.source)
        if node.names is not None:
            pairs = zip(node.source.schema.names, node.names, strict=True)
            new = ", ".join(f"{old!r}: {name!r}" for old, name in pairs if old != name)
            found.append(f".rename({{{new}}})")
        return found

    def _source(self, table: Table) -> list[str]:
        if table.constants is not None:
            return self._constants(table)
        from querymode.plan.descriptor import encode_table

        described = encode_table(self._session, table)
        where = described.get("name", described.get("path", described.get("paths")))
        options = "".join(f", {name}={value!r}" for name, value in described.get("options", {}).items())
        return [f"qm.table({where!r}{options})"]

    def _constants(self, table: Table) -> list[str]:
        """Rows of constants: one select each, from a table of one row."""
        assert table.constants is not None
        rows = []
        for values in zip(*table.constants, strict=True):
            items = [
                f"{self._literal(Literal(value, data_type, fixed=True))}.alias({name!r})"
                for value, (name, data_type) in zip(values, table.schema, strict=True)
            ]
            rows.append(f'qm.from_json([{{"row": 0}}]).select({", ".join(items)})')
        if not rows:
            none = ", ".join(f"lit(None, {str(kind)!r}).alias({name!r})" for name, kind in table.schema)
            return ['qm.from_json([{"row": 0}])', f".select({none})", ".limit(0)"]
        return [rows[0], f".union_all({', '.join(rows[1:])})"] if len(rows) > 1 else [rows[0]]

    def _filter(self, node: Filter) -> str:
        return f".filter({self._condition(node.predicate)})"

    def _project(self, node: Project) -> str:
        if not node.items:
            raise error("NOT_SUPPORTED", "a query without columns cannot be written as Python")
        return f".select({self._items(node.items)})"

    def _items(self, items: Iterable[tuple[str, Expr]]) -> str:
        return ", ".join(self._item(name, item) for name, item in items)

    def _item(self, name: str, item: Expr) -> str:
        item = unnamed(item)
        if isinstance(item, Column) and item.name == name:
            return repr(name)
        return f"{self.operand(item)}.alias({name!r})"

    def _group_by(self, node: GroupBy) -> str:
        calls = ", ".join(f"{self.operand(call)}.alias({name!r})" for name, call in node.calls)
        if not node.keys:
            return f".agg({calls})"
        if not calls and self._is_distinct(node):
            return ".distinct()"
        return f".group_by({self._items(node.keys)})" + (f".agg({calls})" if calls else ".keys()")

    def _is_distinct(self, node: GroupBy) -> bool:
        names = tuple(name for name, _ in node.keys)
        plain = all(isinstance(key, Column) and key.name == name for name, key in node.keys)
        return plain and names == node.input.schema.names

    def _sort(self, node: Sort) -> str:
        keys = ", ".join(self.operand(key) for key, _, _ in node.keys)
        options = ""
        for name, flags in (
            ("descending", [bool(down) for _, down, _ in node.keys]),
            ("nulls_first", [bool(first) for _, _, first in node.keys]),
        ):
            if any(flags):
                options += f", {name}={flags[0] if len(set(flags)) == 1 else flags!r}"
        return f".sort({keys}{options})"

    def _limit(self, node: Limit) -> str:
        if isinstance(node.input, Limit):  # limit and offset would change the one before
            count = "" if node.count is None else f", {node.count}"
            return f".slice({node.offset}{count})"
        offset = f".offset({node.offset})" if node.offset or node.count is None else ""
        return offset + (f".limit({node.count})" if node.count is not None else "")

    def _union(self, node: Union) -> str:
        return f".union_all({', '.join(self._inner(child) for child in node.inputs[1:])})"

    def _join(self, node: Join) -> str:
        # A cross join with a condition is an inner one.
        kind = "inner" if node.kind == "cross" and (node.keys or node.residual is not None) else node.kind
        parts = [self._inner(node.right)]
        if node.keys:
            for side, name in enumerate(("left_on", "right_on")):
                keys = [self._key(pair[side]) for pair in node.keys]
                parts.append(f"{name}={keys[0] if len(keys) == 1 else '[' + ', '.join(keys) + ']'}")
        parts.append(f"how={kind!r}")
        if node.residual is not None:
            parts.append(f"where={self._condition(node.residual)}")
        if node.mark is not None:
            parts.append(f"mark={node.mark!r}")
        if node.keys and kind not in ("semi", "anti", "mark"):
            parts.append("coalesce=False")
        if node.null_equal:
            parts.append("nulls_equal=True")
        return f".join({', '.join(parts)})"

    def _key(self, key: Expr) -> str:
        key = unnamed(key)
        return repr(key.name) if isinstance(key, Column) else self.operand(key)

    def _inner(self, node: Node) -> str:
        return "".join(self._chain(node))

    # ---- expressions ----

    def operand(self, node: Expr) -> str:
        """An expression that methods and operators may follow."""
        return _EXPRESSIONS[type(node)](self, node)

    def right(self, node: Expr) -> str:
        """An expression to the right of an operator: constants need no `lit` there."""
        if isinstance(node, Literal) and node.type is None:
            return self._value(node.value)
        return self.operand(node)

    def argument(self, node: Expr) -> str:
        """An expression that is given to a function, whose parentheses are enough."""
        text = self.right(node)
        return text[1:-1] if isinstance(unnamed(node), _IN_PARENTHESES) else text

    def _condition(self, node: Expr) -> str:
        """Where only an expression will do, a constant alone has to be one."""
        plain = unnamed(node)
        return self.operand(plain) if isinstance(plain, Literal) else self.argument(plain)

    def _arguments(self, nodes: Iterable[Expr]) -> str:
        return ", ".join(map(self.argument, nodes))

    def _literal(self, node: Literal) -> str:
        kind = "" if node.type is None else f", {str(node.type)!r}"
        looseness = "" if node.type is None or node.fixed else ", fixed=False"
        return f"lit({self._value(node.value)}{kind}{looseness})"

    def _value(self, value: object) -> str:
        """A constant of Python, by the names that are imported for it."""
        from querymode.plan.expression_json import encode_constant

        said = encode_constant(value)
        if not isinstance(said, dict):
            return repr(said)
        ((kind, text),) = said.items()
        imports, shown = _VALUES[kind]
        if imports:
            self._imports.add(imports)
        return shown(text)

    def _compare(self, node: Compare) -> str:
        return f"({self.operand(node.left)} {COMPARE_SIGNS[node.op]} {self.right(node.right)})"

    def _arithmetic(self, node: Arithmetic) -> str:
        return f"({self.operand(node.left)} {ARITHMETIC_SIGNS[node.op]} {self.right(node.right)})"

    def _between(self, node: Between) -> str:
        return f"{self.operand(node.value)}.between({self._arguments((node.low, node.high))})"

    def _in_list(self, node: InList) -> str:
        values = [
            self.operand(value) if isinstance(value, Expr) else self._value(value) for value in node.values
        ]
        return f"{self.operand(node.value)}.is_in([{', '.join(values)}])"

    def _like(self, node: Like) -> str:
        escape = "" if node.escape is None else f", {node.escape!r}"
        word = "ilike" if node.ignore_case else "like"
        return f"{self.operand(node.value)}.{word}({node.pattern!r}{escape})"

    def _is_null(self, node: IsNull) -> str:
        return f"{self.operand(node.value)}.{'is_not_null' if node.negated else 'is_null'}()"

    def _and(self, node: And) -> str:
        return "(" + " & ".join(map(self.operand, node.terms)) + ")"

    def _or(self, node: Or) -> str:
        return "(" + " | ".join(map(self.operand, node.terms)) + ")"

    def _not(self, node: Not) -> str:
        return f"(~{self.operand(node.value)})"

    def _negate(self, node: Negate) -> str:
        return f"(-{self.operand(node.value)})"

    def _cast(self, node: Cast) -> str:
        return (
            f"{self.operand(node.value)}.cast({str(node.target)!r}{', strict=False' if node.attempt else ''})"
        )

    def _function(self, node: Function) -> str:
        return f"call({', '.join((repr(node.name), *map(self.argument, node.arguments)))})"

    def _case(self, node: Case) -> str:
        branches = zip(node.conditions, node.values, strict=False)
        shown = ".".join(
            f"when({self.argument(test)}).then({self.argument(value)})" for test, value in branches
        )
        rest = node.values[len(node.conditions) :]
        return shown + "".join(f".otherwise({self.argument(value)})" for value in rest)

    def _coalesce(self, node: Coalesce) -> str:
        return f"coalesce({self._arguments(node.values)})"

    def _field(self, node: Field) -> str:
        return f"{self.operand(node.value)}.field({node.name!r})"

    def _alias(self, node: Alias) -> str:
        return self.operand(node.value)

    def _column(self, node: Column) -> str:
        return f"col({node.name!r})"

    def _aggregate(self, node: Aggregate) -> str:
        if node.value is None:
            text = "count()"
        else:
            method = AGGREGATE_METHODS.get(node.op, f"{AGGREGATE_NAMES[node.op]}({{}})")
            text = f"{self.operand(node.value)}.{method.format(self._arguments(node.extra))}"
        text += ".distinct()" if node.is_distinct else ""
        return text if node.where is None else f"{text}.filter({self.operand(node.where)})"


#: Written with parentheses around them.
_IN_PARENTHESES = (And, Arithmetic, Compare, Negate, Not, Or)

#: Others are a call of their parts in order.
_CALLS: dict[type[Node], Callable[[_Writer, Any], str]] = {
    Filter: _Writer._filter,
    Project: _Writer._project,
    GroupBy: _Writer._group_by,
    Sort: _Writer._sort,
    Limit: _Writer._limit,
    Union: _Writer._union,
    Join: _Writer._join,
    MapBatches: _Writer._map_batches,
}

_EXPRESSIONS: dict[type[Expr], Callable[[_Writer, Any], str]] = {
    Aggregate: _Writer._aggregate,
    Alias: _Writer._alias,
    And: _Writer._and,
    Arithmetic: _Writer._arithmetic,
    Between: _Writer._between,
    Case: _Writer._case,
    Cast: _Writer._cast,
    Coalesce: _Writer._coalesce,
    Column: _Writer._column,
    Compare: _Writer._compare,
    Field: _Writer._field,
    Function: _Writer._function,
    InList: _Writer._in_list,
    IsNull: _Writer._is_null,
    Like: _Writer._like,
    Literal: _Writer._literal,
    Negate: _Writer._negate,
    Not: _Writer._not,
    Or: _Writer._or,
    Then: _Writer._case,
}

#: By their kind in JSON: what is imported for a constant, and how it is written.
_VALUES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "float": ("", lambda said: f"float({said!r})"),
    "bytes": ("", lambda said: f"bytes.fromhex({said!r})"),
    "interval": ("", lambda said: f"interval(months={said[0]}, days={said[1]}, nanoseconds={said[2]})"),
    "decimal": ("from decimal import Decimal", lambda said: f"Decimal({said!r})"),
    "timestamp": ("from datetime import datetime", lambda said: f"datetime.fromisoformat({said!r})"),
    "date": ("from datetime import date", lambda said: f"date.fromisoformat({said!r})"),
    "time": ("from datetime import time", lambda said: f"time.fromisoformat({said!r})"),
    "timedelta": (
        "from datetime import timedelta",
        lambda said: f"timedelta({said[0]}, {said[1]}, {said[2]})",
    ),
    "uuid": ("from uuid import UUID", lambda said: f"UUID({said!r})"),
}


def _laid_out(chain: Sequence[str]) -> str:
    """On one line, or in parentheses with a call a line."""
    line = "".join(chain)
    if len(line) <= _WIDTH or len(chain) == 1:
        return line
    return "(\n" + "\n".join(f"    {part}" for part in chain) + "\n)"
