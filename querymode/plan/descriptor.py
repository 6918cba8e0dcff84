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
from querymode.plan.nodes import (
    JOIN_KINDS,
    Filter,
    GroupBy,
    Join,
    Limit,
    MapBatches,
    Node,
    Project,
    Repeat,
    Scan,
    Sort,
    Step,
    Union,
)
from querymode.types import parse_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from querymode.expr.nodes import Aggregate, Expr
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
        places = [self._places[id(child)] for child in node.children]
        if isinstance(node, Scan):
            return self._scan(node)
        kind, parts = _ENCODERS[type(node)](node)
        if isinstance(node, Step):
            return {"node": kind, "input": places[0], **parts}
        inputs = {"inputs": places} if isinstance(node, Union) else {"left": places[0], "right": places[1]}
        return {"node": kind, **inputs, **parts}

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


def _encode_join(node: Join) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {
        "kind": node.kind,
        "keys": [[encode_expression(ours), encode_expression(theirs)] for ours, theirs in node.keys],
    }
    if node.residual is not None:
        found["where"] = encode_expression(node.residual)
    if node.mark is not None:
        found["mark"] = node.mark
    if node.null_equal:
        found["nulls_equal"] = True
    return "join", found


def _encode_sort(node: Sort) -> tuple[str, dict[str, Any]]:
    keys = [[encode_expression(key), bool(down), bool(first)] for key, down, first in node.keys]
    return "sort", {"keys": keys}


def _refuse_function(node: MapBatches) -> NoReturn:
    raise error(
        "NOT_SUPPORTED",
        "a Python function (map_batches, computed) cannot be written down; describe the query before it",
    )


#: A node's kind, and its parts but for its inputs. Scans need the session.
_ENCODERS: dict[type[Node], Callable[[Any], tuple[str, dict[str, Any]]]] = {
    Filter: lambda node: ("filter", {"where": encode_expression(node.predicate)}),
    Project: lambda node: ("project", {"items": _encode_items(node.items)}),
    GroupBy: lambda node: (
        "group_by",
        {"keys": _encode_items(node.keys), "calls": _encode_items(node.calls)},
    ),
    Sort: _encode_sort,
    Limit: lambda node: ("limit", {"offset": node.offset, "count": node.count}),
    Repeat: lambda node: ("repeat", {"count": encode_expression(node.count)}),
    Union: lambda node: ("union", {}),
    Join: _encode_join,
    MapBatches: _refuse_function,
}


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
            kind = part.get("node")
            rule = _DECODERS.get(kind) if isinstance(kind, str) else None
            if rule is None:
                raise error(
                    "NOT_SUPPORTED", f"the descriptor has a node {str(kind)[:80]!r}, which is unknown"
                )
            try:
                self._nodes.append(rule(self, part))
            except RecursionError:
                raise _too_deep() from None
            self._depths.append(self._depth + 1)
        return self._nodes[-1]

    # ---- parts ----

    def _input(self, place: object) -> Node:
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(self._nodes):
            raise malformed("an input is the place of a node before it", place)
        self._depth = max(self._depth, self._depths[place])
        if self._depth > NODE_DEPTH_MAX:
            raise _too_deep()
        return self._nodes[place]

    def _items(self, given: object) -> list[tuple[str, Expr]]:
        found = []
        for pair in _list(given, "items are a list"):
            name, item = _list(pair, "an item is a name and an expression", 2)
            found.append((_text(name, "a column's name is a text"), decode_expression(item)))
        return found

    def _calls(self, given: object) -> list[tuple[str, Aggregate]]:
        from querymode.expr.nodes import Aggregate

        found = []
        for name, call in self._items(given):
            if not isinstance(call, Aggregate):
                raise malformed("calls are aggregates", type(call).__name__)
            found.append((name, call))
        return found

    # ---- nodes ----

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

    def _filter(self, part: dict[str, Any]) -> Node:
        return Filter(self._input(part.get("input")), decode_expression(_required(part, "where")))

    def _project(self, part: dict[str, Any]) -> Node:
        return Project(self._input(part.get("input")), self._items(part.get("items")))

    def _group_by(self, part: dict[str, Any]) -> Node:
        source = self._input(part.get("input"))
        return GroupBy(source, self._items(part.get("keys")), self._calls(part.get("calls")))

    def _sort(self, part: dict[str, Any]) -> Node:
        source = self._input(part.get("input"))
        keys = []
        for key in _list(part.get("keys"), "sort keys are a list"):
            item, down, first = _list(key, "a sort key is an expression and two flags", 3)
            keys.append((decode_expression(item), _flag(down), _flag(first)))
        if not keys:
            raise malformed("a sort has at least one key", keys)
        return Sort(source, keys)

    def _limit(self, part: dict[str, Any]) -> Node:
        count = _required(part, "count")
        source = self._input(part.get("input"))
        return Limit(source, _rows(part.get("offset")), None if count is None else _rows(count))

    def _repeat(self, part: dict[str, Any]) -> Node:
        return Repeat(self._input(part.get("input")), decode_expression(_required(part, "count")))

    def _union(self, part: dict[str, Any]) -> Node:
        inputs = [self._input(place) for place in _list(part.get("inputs"), "inputs are a list")]
        if not inputs:
            raise malformed("a union has inputs", inputs)
        return Union(inputs)

    def _join(self, part: dict[str, Any]) -> Node:
        left, right = self._input(part.get("left")), self._input(part.get("right"))
        kind, mark = part.get("kind"), part.get("mark")
        if kind not in JOIN_KINDS or (mark is not None) != (kind == "mark"):
            raise malformed(f"a join is one of {', '.join(JOIN_KINDS)}, and a mark has a name", kind)
        keys = []
        for pair in _list(part.get("keys"), "keys are a list"):
            ours, theirs = _list(pair, "a key is a pair of expressions", 2)
            keys.append((decode_expression(ours), decode_expression(theirs)))
        where = decode_expression(part["where"]) if "where" in part else None
        return Join(
            left,
            right,
            kind,
            keys,
            where,
            mark=None if mark is None else _text(mark, "a mark is a text"),
            null_equal=_flag(part.get("nulls_equal", False)),
        )


_DECODERS: dict[str, Callable[[Decoder, dict[str, Any]], Node]] = {
    "scan": Decoder._scan,
    "filter": Decoder._filter,
    "project": Decoder._project,
    "group_by": Decoder._group_by,
    "sort": Decoder._sort,
    "limit": Decoder._limit,
    "repeat": Decoder._repeat,
    "union": Decoder._union,
    "join": Decoder._join,
}


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


def _required(part: dict[str, Any], name: str) -> Any:
    if name not in part:
        raise malformed(f"{part.get('node')} has a part {name!r}", None)
    return part[name]


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
