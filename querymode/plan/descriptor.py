"""Plans as JSON: what `to_descriptor` writes and `from_descriptor` reads, and the form of plans on disk.

    {"querymode": 1, "nodes": [node, …]}       children before parents; the last one is the query

    node         {"node": "filter", "input": 0, "where": expression}, …: inputs by their places in the list,
                 so that what several nodes read stays one node
    expression   a list, its kind first: ["compare", "gt", ["col", "x"], 5], or a constant
    constant     null, true, 5, 2.5 or "text"; {"date": "2024-05-01"} and the like for other values;
                 {"value": 5, "type": "int32"} where the type is said
    table        {"path": …} or {"paths": […]}, with "options"; {"name": …} if registered; {"columns": …,
                 "rows": …} if it stands in the text of a query

Names that expressions have for their own sake (`alias`) and the way in which ANDs are nested say nothing, and
are left out. Neither data nor credentials are written, and functions of Python cannot be. What is read is not
trusted: every part is checked, and nesting is bounded.
"""

from __future__ import annotations

import json
from functools import partial

from querymode._abi import EXPRESSION_DEPTH_MAX
from querymode.errors import QueryModeError, error
from querymode.plan.expression_json import (
    decode_constant,
    decode_expression,
    encode_constant,
    encode_expression,
)
from querymode.plan.nodes import KINDS, MapBatches, Node, Scan
from querymode.types import parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from querymode.expr.nodes import Aggregate, Expr
    from querymode.plan.nodes import Part
    from querymode.session import QueryMode
    from querymode.table.memory import MemoryTable
    from querymode.table.table import Table

VERSION = 1
#: Deeper plans cannot be planned.
NODE_DEPTH_MAX = 200
NODE_COUNT_MAX = 10_000
_ROWS_MAX = 1 << 63


def to_descriptor(session: QueryMode, node: Node) -> str:
    """The plan as JSON text."""
    return described(node, partial(encode_table, session))


def described(node: Node, table: Callable[[Table], dict[str, Any]]) -> str:
    """The same where `table` says how a table is found again."""
    nodes = _Encoder(table).encode(node)
    return json.dumps({"querymode": VERSION, "nodes": nodes}, ensure_ascii=False, separators=(",", ":"))


def from_descriptor(session: QueryMode, given: object) -> Node:
    """The plan that a descriptor describes, over tables of this session."""
    return Decoder(session).decode(parse_nodes(given))


def parse_nodes(given: object) -> list[Any]:
    """The nodes of a descriptor, for a Decoder."""
    try:
        document = json.loads(given) if isinstance(given, (str, bytes, bytearray)) else given
    except (ValueError, RecursionError) as failure:
        raise error("QUERY_FAILED", f"the descriptor is no JSON: {failure}") from None
    if not isinstance(document, dict) or "querymode" not in document:
        raise error("QUERY_FAILED", "this is no descriptor of a query; to_descriptor() writes one")
    if document["querymode"] != VERSION:
        raise error(
            "NOT_SUPPORTED",
            f"the descriptor has version {document['querymode']!r}, and this QueryMode reads {VERSION}",
        )
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not nodes or len(nodes) > NODE_COUNT_MAX:
        raise malformed("nodes are a list that is not empty", nodes)
    return nodes


def malformed(wanted: str, found: object) -> QueryModeError:
    shown = repr(found) if isinstance(found, (str, int, float, bool, type(None))) else type(found).__name__
    return error("QUERY_FAILED", f"the descriptor is malformed: {wanted}, not {shown[:80]}")


# ---- writing ----


class _Encoder:
    def __init__(self, table: Callable[[Table], dict[str, Any]]) -> None:
        self._table = table
        self._nodes: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}

    def encode(self, root: Node) -> list[dict[str, Any]]:
        # Without recursion: a frame may be a chain of hundreds of calls.
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, is_ready = stack.pop()
            if id(node) in self._places:
                continue
            if not is_ready:
                stack.append((node, True))
                stack += [(child, False) for child in reversed(node.children)]
                continue
            self._places[id(node)] = len(self._nodes)
            self._nodes.append(self._encode_node(node))
        return self._nodes

    def _encode_node(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Scan):
            return self._scan(node)
        if node.PARTS is None:
            what = _UNWRITTEN.get(type(node), node.KIND)
            raise error("NOT_SUPPORTED", f"{what} cannot be written down; describe the query before it")
        places = [self._places[id(child)] for child in node.children]
        found: dict[str, Any] = {"node": node.KIND}
        if node.INPUTS is None:
            found["inputs"] = places
        else:
            found.update(zip(node.INPUTS, places, strict=True))
        for part in node.PARTS:
            value = getattr(node, part.slot)
            if not part.is_optional or value is not part.default:
                found[part.name] = FORMS[part.form][0](value)
        return found

    def _scan(self, node: Scan) -> dict[str, Any]:
        found: dict[str, Any] = {"node": "scan", "table": self._table(node.source)}
        if node.names is not None:
            found["names"] = list(node.names)
        return found


def encode_table(session: QueryMode, table: Table) -> dict[str, Any]:
    """How a table is found again, if need be by its name in the session."""
    found = describe_table(table)
    if found is not None:
        return found
    name = _registered_name(session, table)
    if name is not None:
        return {"name": name}
    if table.origin is not None:
        raise error(
            "NOT_SUPPORTED",
            "the table's address holds credentials or a query, which are not written down; register it with "
            "qm.register(name, address)",
        )
    raise error(
        "NOT_SUPPORTED",
        "a table in memory that has no name in its session cannot be written down; register it with "
        "qm.register(name, frame)",
    )


def describe_table(table: Table) -> dict[str, Any] | None:
    """How a table is found again anywhere; None where its data, or a secret, would have to be written."""
    if table.constants is not None:
        return {
            "columns": [[name, str(data_type)] for name, data_type in table.schema],
            "rows": [list(map(encode_constant, row)) for row in zip(*table.constants, strict=True)],
        }
    return None if table.origin is None or table.origin.is_secret else table.origin.to_json()


def _registered_name(session: QueryMode, table: Table) -> str | None:
    for name, frame in session._tables.items():
        node = frame._node
        if isinstance(node, Scan) and node.source is table and node.names is None:
            return name
    return None


def _encode_items(items: Sequence[tuple[str, Expr]]) -> list[Any]:
    return [[name, encode_expression(item)] for name, item in items]


def _encode_pairs(pairs: Sequence[tuple[Expr, Expr]]) -> list[Any]:
    return [[encode_expression(ours), encode_expression(theirs)] for ours, theirs in pairs]


def _encode_sort_keys(keys: Sequence[tuple[Expr, bool, bool]]) -> list[Any]:
    return [[encode_expression(key), bool(down), bool(first)] for key, down, first in keys]


def _same(value: object) -> object:
    return value


#: What nodes that cannot be written down are, where their kind says too little.
_UNWRITTEN: dict[type[Node], str] = {MapBatches: "a Python function (map_batches, computed)"}


# ---- reading ----


class Decoder:
    """Nodes of one descriptor. Each of its tables is opened once."""

    def __init__(self, session: QueryMode) -> None:
        self._session = session
        self._nodes: list[Node] = []
        self._depths: list[int] = []
        #: By what the descriptor says of them.
        self.tables: dict[str, Table] = {}

    def decode(self, parts: list[Any]) -> Node:
        for part in parts:
            if not isinstance(part, dict):
                raise malformed("a node is an object", part)
            self._depth = 0
            try:
                self._nodes.append(self._node(part))
            except RecursionError:
                raise _too_deep() from None
            self._depths.append(self._depth + 1)
        return self._nodes[-1]

    def _node(self, given: dict[str, Any]) -> Node:
        kind = given.get("node")
        if kind == "scan":
            return self._scan(given)
        made = KINDS.get(kind) if isinstance(kind, str) else None
        if made is None:
            raise error("NOT_SUPPORTED", f"the descriptor has a node {str(kind)[:80]!r}, which is unknown")
        if made.INPUTS is None:
            inputs = [self._input(place) for place in _list(given.get("inputs"), "inputs are a list")]
        else:
            inputs = [self._input(given.get(name)) for name in made.INPUTS]
        assert made.PARTS is not None
        return made.made(inputs, {part.slot: _decode_part(part, given) for part in made.PARTS})

    def _input(self, place: object) -> Node:
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(self._nodes):
            raise malformed("an input is the place of a node before it", place)
        self._depth = max(self._depth, self._depths[place])
        if self._depth > NODE_DEPTH_MAX:
            raise _too_deep()
        return self._nodes[place]

    def _scan(self, part: dict[str, Any]) -> Node:
        source = self._table(part.get("table"))
        names = part.get("names")
        if names is None:
            return Scan(source)
        listed = [_text(name, "names are texts") for name in _list(names, "names are a list")]
        if len(listed) != len(source.schema):
            raise error(
                "SCHEMA_MISMATCH",
                f"the descriptor names {len(listed)} columns of a table that has {len(source.schema)}",
            )
        return Scan(source, listed)

    def _table(self, given: object) -> Table:
        key = json.dumps(given, sort_keys=True)
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = _open(self._session, given)
        return found


def _open(session: QueryMode, given: object) -> Table:
    if not isinstance(given, dict):
        raise malformed("a table is an object", given)
    if "name" in given:
        return _registered(session, _text(given["name"], "a table's name is a text"))
    if "columns" in given:
        return _constant_table(given)
    where = given.get("path") if "path" in given else given.get("paths")
    texts = where if isinstance(where, list) else [where]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise malformed("a table has a path, paths, a name, or columns", where)
    options = given.get("options", {})
    if not isinstance(options, dict):
        raise malformed("options are an object", options)
    node = session._file_frame(where, None, **options)._node
    assert isinstance(node, Scan)
    return node.source


def _registered(session: QueryMode, name: str) -> Table:
    frame = session._tables.get(name)
    if frame is None:
        known = ", ".join(sorted(session._tables)) or "none"
        raise error(
            "TABLE_NOT_FOUND",
            f"the descriptor reads {name!r}, which is not registered in this session. "
            f"Registered are: {known}",
            table=name,
        )
    if not isinstance(frame._node, Scan) or frame._node.names is not None:
        raise error("SCHEMA_MISMATCH", f"{name!r} was a table, and is registered as a query here", table=name)
    return frame._node.source


def _constant_table(given: dict[str, Any]) -> MemoryTable:
    from querymode.expr import literals
    from querymode.table.constant import constant_table

    fields = []
    for pair in _list(given["columns"], "columns are a list"):
        name, kind = _list(pair, "a column is a name and a type", 2)
        fields.append((_text(name, "a column's name is a text"), parse_type(_text(kind, "a type is a text"))))
    columns: list[list[object]] = [[] for _ in fields]
    if not fields:
        raise malformed("a table has columns", fields)
    for row in _list(given.get("rows"), "rows are a list"):
        values = _list(row, "a row has a value for every column", len(fields))
        for (name, data_type), column, item in zip(fields, columns, values, strict=True):
            value = decode_constant(item).value
            if value is not None and literals.fit(value, data_type) is None:
                raise malformed(f"column {name!r} holds {data_type}", repr(value))
            column.append(value)
    return constant_table(fields, columns)


def _too_deep() -> QueryModeError:
    return error(
        "NOT_SUPPORTED",
        f"the descriptor is nested too deep: {NODE_DEPTH_MAX} steps and expressions of "
        f"{EXPRESSION_DEPTH_MAX // 2} levels are the most",
    )


def _list(given: object, wanted: str, count: int | None = None) -> list[Any]:
    if not isinstance(given, list) or (count is not None and len(given) != count):
        raise malformed(wanted, given)
    return given


def _text(given: object, wanted: str) -> str:
    if not isinstance(given, str):
        raise malformed(wanted, given)
    return given


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise malformed("a flag is true or false", given)
    return given


def _rows(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < _ROWS_MAX:
        raise malformed("a number of rows is an integer from 0 on", given)
    return given


def _decode_part(part: Part, given: dict[str, Any]) -> object:
    if part.name in given:
        return FORMS[part.form][1](given[part.name])
    if part.is_optional:
        return part.default
    raise malformed(f"{given['node']} has a part {part.name!r}", None)


def _decode_items(given: object) -> list[tuple[str, Expr]]:
    found = []
    for pair in _list(given, "items are a list"):
        name, item = _list(pair, "an item is a name and an expression", 2)
        found.append((_text(name, "a column's name is a text"), decode_expression(item)))
    return found


def _decode_calls(given: object) -> list[tuple[str, Aggregate]]:
    from querymode.expr.nodes import Aggregate

    found = []
    for name, call in _decode_items(given):
        if not isinstance(call, Aggregate):
            raise malformed("calls are aggregates", type(call).__name__)
        found.append((name, call))
    return found


def _decode_pairs(given: object) -> list[tuple[Expr, Expr]]:
    found = []
    for pair in _list(given, "keys are a list"):
        ours, theirs = _list(pair, "a key is a pair of expressions", 2)
        found.append((decode_expression(ours), decode_expression(theirs)))
    return found


def _decode_sort_keys(given: object) -> list[tuple[Expr, bool, bool]]:
    found = []
    for key in _list(given, "sort keys are a list"):
        item, down, first = _list(key, "a sort key is an expression and two flags", 3)
        found.append((decode_expression(item), _flag(down), _flag(first)))
    return found


def _rows_or_all(given: object) -> int | None:
    return None if given is None else _rows(given)


def _word(given: object) -> str:
    return _text(given, "a name is a text")


#: What parts of nodes are: how they are written, and how they are read.
FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "expression": (encode_expression, decode_expression),
    "items": (_encode_items, _decode_items),
    "calls": (_encode_items, _decode_calls),
    "pairs": (_encode_pairs, _decode_pairs),
    "sort_keys": (_encode_sort_keys, _decode_sort_keys),
    "rows": (_same, _rows),
    "rows_or_all": (_same, _rows_or_all),
    "text": (_same, _word),
    "flag": (bool, _flag),
}
