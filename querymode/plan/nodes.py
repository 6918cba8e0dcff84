"""Logical plans: nodes with a schema each. DataFrames and SQL both build them.

A node checks itself when it is made, so a misspelt column fails at the call that names it. Names are unique
in every schema, so a column is known by its name alone. optimize/ rewrites plans into better ones,
stage/ turns them into work for the engine.

Nodes are frozen by agreement: nothing is written to one after its constructor. Tests enforce it
(tests/frozen.py), since a check at every write would slow planning down by 7 %.

A class says what its nodes are made of: its inputs, and its PARTS. Copies, descriptors, the call that to_code
writes and the line that explain shows follow from that; a file names a class where it has more to say of it.
"""

from __future__ import annotations

from querymode._call import check
from querymode.engine.plan_bytes import UNLIMITED, encode_repeat
from querymode.errors import error
from querymode.expr.nodes import Aggregate, Column, Expr, unnamed
from querymode.expr.trees import all_of, columns_in, columns_of, expressions_in, in_type, slots_of
from querymode.plan.aggregates import BoundCall
from querymode.plan.bind import (
    Bound,
    bind,
    bind_argument,
    bind_keys,
    bind_predicate,
)
from querymode.schema import Schema
from querymode.types import BOOL, INT64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow

    from querymode.table.table import Table
    from querymode.types import DataType


_REQUIRED = object()


class Part:
    """What a node has besides its inputs: a slot, which its constructor takes by the same name."""

    __slots__ = ("default", "form", "is_optional", "name", "slot")

    def __init__(self, slot: str, form: str, name: str = "", *, default: object = _REQUIRED) -> None:
        """`form`: one of plan/descriptor.py's; `name`: what it is called there, if not as its slot.

        `default`: what need not be said.
        """
        self.slot = slot
        self.form = form
        self.name = name or slot
        self.is_optional = default is not _REQUIRED
        self.default = default


#: Classes whose nodes can be written down, by what they are called there.
KINDS: dict[str, type[Node]] = {}


class Node:
    """A relation: rows of a schema. Frozen: what others make of it is kept beside it (stage/lower.py)."""

    __slots__ = ("__weakref__", "schema")
    schema: Schema
    #: The class's name in descriptors and the like: GroupBy is a group_by.
    KIND = "node"
    #: What its inputs are called; None: any number of them, called `inputs`.
    INPUTS: tuple[str, ...] | None = ()
    #: What else it is made of; None: something that cannot be written down.
    PARTS: tuple[Part, ...] | None = None

    def __init_subclass__(cls) -> None:
        name = cls.__name__
        cls.KIND = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]
        if "PARTS" in vars(cls):
            KINDS[cls.KIND] = cls

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    @classmethod
    def made(cls, inputs: Sequence[Node], parts: Mapping[str, object]) -> Node:
        """A node of this class, from its inputs and its parts by their slots."""
        make: Callable[..., Node] = cls
        return make(*inputs, **parts)

    def with_children(self, children: Sequence[Node]) -> Node:
        """The same node over other inputs, whose schemas hold what it names."""
        assert self.PARTS is not None
        return self.made(children, {part.slot: getattr(self, part.slot) for part in self.PARTS})

    def expressions(self) -> Iterator[Expr]:
        """All that stand in its parts."""
        return expressions_in(tuple([getattr(self, part.slot) for part in self.PARTS or ()]))

    def twin(self) -> Node:
        """The same node once more: whoever keeps it does not keep this one."""
        other = object.__new__(type(self))
        for name in slots_of(type(self)):
            object.__setattr__(other, name, getattr(self, name))
        return other


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with every node changed, inputs first. One that several others read stays one node."""
    done: dict[int, tuple[Node, Node]] = {}

    def of(node: Node) -> Node:
        known = done.get(id(node))
        if known is None:
            check()
            old = node.children
            children = [of(child) for child in old]
            # Different objects are never equal: nodes have no __eq__.
            same = tuple(children) == old
            # The node is kept beside: its number must not be used again while it is remembered.
            known = done[id(node)] = (node, change(node if same else node.with_children(children)))
        return known[1]

    return of(node)


class Rows(Node):
    """Rows that come from somewhere else: statistics, an earlier stage, a piece of a table."""

    __slots__ = ()

    def __init__(self, schema: Schema) -> None:
        self.schema = schema


class Scan(Node):
    """A table. `names`: what its columns are called here, if not as in the table.

    `text`: what its rows say, where that is a text to be shown as it is, as EXPLAIN's.
    """

    __slots__ = ("names", "source", "text")

    def __init__(self, source: Table, names: Sequence[str] | None = None, *, text: str | None = None) -> None:
        self.source = source
        self.text = text
        self.names = None if names is None else tuple(names)
        if self.names is None:
            self.schema = source.schema
        else:
            self.schema = Schema(zip(self.names, source.schema.types, strict=True))


class Step(Node):
    """A node with one input."""

    __slots__ = ("input",)
    input: Node
    INPUTS = ("input",)
    #: What becomes of a row depends on that row alone, so lanes need not know of each other.
    ROW_BY_ROW = False

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        """The input's columns that this step needs to give `needed` of its own; None is all."""
        return None

    def encoded(self, schema: Schema) -> bytes:
        """The one step of the engine that it is, over these columns: for steps without a rule in stage/."""
        raise NotImplementedError(self.KIND)


class Passing(Step):
    """A step whose columns are its input's, with the values that they had."""

    __slots__ = ()

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return _and_columns(needed, self.expressions())


class Filter(Passing):
    __slots__ = ("predicate",)
    PARTS = (Part("predicate", "expression", "where"),)
    ROW_BY_ROW = True

    def __init__(self, source: Node, predicate: Expr) -> None:
        bind_predicate(predicate, source.schema)
        self.input = source
        self.predicate = predicate
        self.schema = source.schema


def filtered(node: Node, terms: Sequence[Expr]) -> Node:
    """Rows for which all of these are true; the node itself where nothing is asked."""
    return Filter(node, all_of(terms)) if terms else node


class Project(Step):
    __slots__ = ("items",)
    PARTS = (Part("items", "items"),)
    ROW_BY_ROW = True

    def __init__(
        self, source: Node, items: Sequence[tuple[str, Expr]], types: Iterable[DataType] | None = None
    ) -> None:
        """`types`: those of the items, where they are known already."""
        self.input = source
        # The names stand beside: a plain column is one, whatever it is called.
        self.items = tuple((name, unnamed(item)) for name, item in items)
        if types is None:
            types = [_type_of(item, source.schema) for _, item in self.items]
        self.schema = Schema(zip((name for name, _ in self.items), types, strict=True))

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        used = [item for name, item in self.items if needed is None or name in needed]
        return _and_columns(set(), used)


class GroupBy(Step):
    """Aggregates, by keys or over everything."""

    __slots__ = ("calls", "keys")
    PARTS = (Part("keys", "items"), Part("calls", "calls"))

    def __init__(
        self, source: Node, keys: Sequence[tuple[str, Expr]], calls: Sequence[tuple[str, Aggregate]]
    ) -> None:
        self.input = source
        self.keys = tuple(keys)
        self.calls = tuple(calls)
        fields = [(name, _group_key(bind(key, source.schema))) for name, key in self.keys]
        for name, call in self.calls:
            fields.append((name, BoundCall(call, source.schema).type))
        self.schema = Schema(fields)

    def columns_read(self, needed: set[str] | None) -> set[str] | None:
        return _and_columns(set(), self.expressions())


class Sort(Passing):
    __slots__ = ("keys",)
    PARTS = (Part("keys", "sort_keys"),)

    def __init__(self, source: Node, keys: Sequence[tuple[Expr, bool, bool]]) -> None:
        """Keys with: descending? NULLs first?"""
        self.input = source
        self.keys = tuple(keys)
        self.schema = source.schema
        if not self.keys:
            raise error("QUERY_FAILED", "a sort has at least one key")
        for key, _, _ in self.keys:
            bound = bind_argument(key, source.schema)
            if not has_order(bound.type):
                raise error("NOT_SUPPORTED", f"cannot sort by {bound.text}: {bound.type} has no order")


class Limit(Passing):
    __slots__ = ("count", "offset")
    PARTS = (Part("offset", "rows"), Part("count", "rows_or_all"))

    def __init__(self, source: Node, offset: int, count: int | None) -> None:
        self.input = source
        self.offset = offset
        self.count = count
        self.schema = source.schema

    def rows_needed(self) -> int:
        """Rows of the input that can matter."""
        return UNLIMITED if self.count is None else min(self.offset + self.count, UNLIMITED)


class Repeat(Passing):
    """Every row as often as an int64 expression says: what INTERSECT ALL and EXCEPT ALL need."""

    __slots__ = ("count",)
    PARTS = (Part("count", "expression"),)
    ROW_BY_ROW = True

    def __init__(self, source: Node, count: Expr) -> None:
        self.input = source
        self.count = count
        self.schema = source.schema
        bound = bind(count, source.schema)
        if bound.type != INT64:
            raise error("QUERY_FAILED", f"rows are repeated by an int64, but {bound.text} is {bound.type}")

    def encoded(self, schema: Schema) -> bytes:
        return encode_repeat(bind(self.count, schema).wire)


class MapBatches(Step):
    """What a Python function makes of Arrow batches."""

    __slots__ = ("function",)

    def __init__(
        self, source: Node, function: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch], schema: Schema
    ) -> None:
        self.input = source
        self.function = function
        self.schema = schema

    def with_children(self, children: Sequence[Node]) -> MapBatches:
        return MapBatches(children[0], self.function, self.schema)


#: `mark`: every row of the left side and whether it has a match: TRUE, FALSE or NULL, as IN in SQL. `single`:
#: like left, but several matches of one row are an error. `semi`, `anti`: left rows with and without a match.
JOIN_KINDS = ("inner", "left", "right", "full", "cross", "semi", "anti", "mark", "single")
_LEFT_ONLY = ("semi", "anti", "mark")


class Join(Node):
    """Pairs of rows for which all keys are equal and the residual, if any, is true.

    Keys are pairs of expressions, one over each side. `null_equal`: NULL keys equal each other. `mark`: the
    name of the bool column that a mark join adds.
    """

    __slots__ = ("keys", "kind", "left", "mark", "null_equal", "residual", "right")
    INPUTS = ("left", "right")
    PARTS = (
        Part("kind", "text"),
        Part("keys", "pairs"),
        Part("residual", "expression", "where", default=None),
        Part("mark", "text", default=None),
        Part("null_equal", "flag", "nulls_equal", default=False),
    )

    def __init__(
        self,
        left: Node,
        right: Node,
        kind: str,
        keys: Sequence[tuple[Expr, Expr]] = (),
        residual: Expr | None = None,
        *,
        mark: str | None = None,
        null_equal: bool = False,
    ) -> None:
        check()
        if kind not in JOIN_KINDS or (mark is not None) != (kind == "mark"):
            kinds = ", ".join(JOIN_KINDS)
            raise error("QUERY_FAILED", f"a join is one of {kinds}, and a mark has a name, not {kind!r}")
        self.left = left
        self.right = right
        self.kind = kind
        self.keys = tuple(keys)
        self.residual = residual
        self.mark = mark
        self.null_equal = null_equal
        both = Schema([*left.schema, *right.schema])
        for ours, theirs in self.keys:
            bind_keys(ours, left.schema, theirs, right.schema)
        if residual is not None:
            bind_predicate(residual, both)
        if mark is not None:
            self.schema = Schema([*left.schema, (mark, BOOL)])
        else:
            self.schema = left.schema if kind in _LEFT_ONLY else both

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def columns_read(self, needed: set[str] | None) -> tuple[set[str], set[str]]:
        """Of the left and of the right side."""
        names = set(self.schema.names) if needed is None else set(needed)
        for expression in self.expressions():
            columns_of(expression, names)
        left, right = set(self.left.schema.names), set(self.right.schema.names)
        return names & left, names & right


class Union(Node):
    """All rows of all inputs, which have the same types; the names are the first one's."""

    __slots__ = ("inputs",)
    INPUTS = None
    PARTS = ()

    def __init__(self, inputs: Sequence[Node]) -> None:
        self.inputs = tuple(inputs)
        if not self.inputs:
            raise error("QUERY_FAILED", "a union has inputs")
        self.schema = self.inputs[0].schema
        for other in self.inputs[1:]:
            if other.schema.types != self.schema.types:
                raise error(
                    "SCHEMA_MISMATCH",
                    f"a union takes inputs of the same types, not {self.schema} and {other.schema}",
                )

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs

    @classmethod
    def made(cls, inputs: Sequence[Node], parts: Mapping[str, object]) -> Node:
        return cls(inputs)


def _type_of(item: Expr, schema: Schema) -> DataType:
    if isinstance(item, Column):  # most often, and binding would take longer
        return schema.type_of(item.name)
    return bind(item, schema).type


def _and_columns(needed: set[str] | None, expressions: Iterable[Expr]) -> set[str] | None:
    if needed is None:
        return None
    return needed | columns_in(*expressions)


def _group_key(bound: Bound) -> DataType:
    from querymode.types import is_nested, is_vector

    if is_nested(bound.type) or is_vector(bound.type):
        raise error("NOT_SUPPORTED", f"cannot group by {bound.text} yet: it is {bound.type}")
    return bound.type


def has_order(data_type: DataType) -> bool:
    """Whether values of the type can be sorted: then they also have a least and a greatest."""
    from querymode.types import is_nested, is_vector

    return not (is_nested(data_type) or is_vector(data_type))


def with_types(node: Node, schema: Schema) -> Node:
    """The node, whose columns have these names, in these types. Arrow has decimals for 128-bit integers."""
    if node.schema == schema:
        return node
    types = node.schema.type_of
    return Project(node, [(name, in_type(Column(name), types(name), kind)) for name, kind in schema])


def comes_whole(node: Node) -> bool:
    """Whether an answer's first row comes when all of it has been computed."""
    while isinstance(node, (Filter, Project, Limit, MapBatches)):
        node = node.input
    return isinstance(node, (GroupBy, Sort))


def text_of(node: Node) -> str | None:
    """The answer as a text to be shown as it is; None where it is rows."""
    return node.text if isinstance(node, Scan) else None
