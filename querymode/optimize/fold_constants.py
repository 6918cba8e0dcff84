"""Constants: expressions without columns are computed once, by the engine, before a plan is made."""

from __future__ import annotations

from querymode.errors import QueryModeError
from querymode.expr.literals import fit
from querymode.expr.nodes import Aggregate, Arithmetic, Cast, Expr, Function, Literal, Negate
from querymode.expr.trees import identity, map_children, once, parts_of, reads_columns
from querymode.plan.bind import bind
from querymode.plan.nodes import Filter, Join, Node, rebuilt
from querymode.schema import Schema
from querymode.types import is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.engine.instance import Instance
    from querymode.expr.trees import Identities

_COMPUTED = (Arithmetic, Function, Negate)


def fold(node: Node) -> Node:
    """The plan with its constants computed. What fails stays, and fails when it is asked for."""
    found: dict[object, Expr] = {}
    _collect(_conditions(node), found)
    if not found:
        return node
    values = _computed(found)
    if not values:
        return node
    return rebuilt(node, _Folding(values).step)


def _conditions(root: Node) -> list[Expr]:
    """Expressions of filters and joins: where a constant decides what is read."""
    found: list[Expr] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Filter):
            found.append(node.predicate)
        elif isinstance(node, Join) and node.residual is not None:
            found.append(node.residual)
        waiting += reversed(node.children)
    return found


def _collect(expressions: list[Expr], found: dict[object, Expr]) -> None:
    seen: set[int] = set()
    waiting = expressions[::-1]
    while waiting:
        expression = waiting.pop()
        if not expression.OPERANDS or id(expression) in seen or isinstance(expression, Aggregate):
            continue
        seen.add(id(expression))
        if isinstance(expression, _COMPUTED) and not reads_columns(expression):
            found.setdefault(identity(expression), expression)
        else:
            waiting += reversed(tuple(parts_of(expression)))


def _computed(found: dict[object, Expr]) -> dict[object, Expr]:
    """Each by itself, so that one that fails takes no other with it."""
    from querymode.engine.one_task import on_instance

    nothing = Schema(())
    plans: list[tuple[object, bytes, Schema]] = []
    for key, expression in found.items():
        try:
            bound = bind(expression, nothing)
        except QueryModeError:
            continue  # the node that holds it says what is wrong
        if not is_nested(bound.type) and not is_vector(bound.type):
            plans.append((key, bound.wire, Schema([("value", bound.type)])))
    return on_instance(lambda instance: _ask(instance, plans)) if plans else {}


def _ask(instance: Instance, plans: list[tuple[object, bytes, Schema]]) -> dict[object, Expr]:
    from querymode._abi import NodeTag, SourceKind
    from querymode.engine.one_task import outputs
    from querymode.engine.plan_bytes import encode_name, encode_plan
    from querymode.qmcb import rows_of
    from querymode.table.memory import Layout

    values: dict[object, Expr] = {}
    one_row = Layout((), 1).descriptors(0)
    for key, wire, schema in plans:
        plan = encode_plan([], [bytes((NodeTag.PROJECT,)) + b"\x01\x00" + encode_name("value") + wire])
        try:
            query = instance.query_open(plan)
            batches = list(
                outputs(instance, query, instance.query_push(query, SourceKind.DESCRIPTOR, data=one_row))
            )
            batches += outputs(instance, query, instance.query_finish(query))
            instance.query_close(query)
        except QueryModeError:
            continue
        (row,) = rows_of(batches)
        value, data_type = row["value"], schema.types[0]
        fits = value is None or fit(value, data_type) is not None
        cast = Cast(Literal(value), data_type, False)
        values[key] = Literal(value, data_type, fixed=True) if fits else cast
    return values


class _Folding:
    def __init__(self, values: dict[object, Expr]) -> None:
        self._values = values
        self._known: Identities = {}
        self._folded = once(self._fold)

    def step(self, node: Node) -> Node:
        if isinstance(node, Filter):
            predicate = self._folded(node.predicate)
            return node if predicate is node.predicate else Filter(node.input, predicate)
        if isinstance(node, Join) and node.residual is not None:
            residual = self._folded(node.residual)
            if residual is not node.residual:
                return Join(
                    node.left,
                    node.right,
                    node.kind,
                    node.keys,
                    residual,
                    mark=node.mark,
                    null_equal=node.null_equal,
                )
        return node

    def _fold(self, expression: Expr) -> Expr:
        if isinstance(expression, _COMPUTED):
            known = self._values.get(identity(expression, self._known))
            if known is not None:
                return known
        return map_children(expression, self._folded)
