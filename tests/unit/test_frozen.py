"""Nodes do not change: what was made of one is kept beside it, for as long as it is there."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from querymode import QueryMode, col
from querymode.expr.trees import slots_of
from querymode.plan.nodes import Filter, GroupBy, Join, Limit, MapBatches, Node, Project, Repeat, Sort, Union
from querymode.stage import lower as lowering
from querymode.stage.lower import lower
from tests.unit.test_trees import MADE
from tests.unit.test_visitors import NODES

if TYPE_CHECKING:
    from querymode.expr.nodes import Expr


@pytest.fixture
def qm() -> QueryMode:
    session = QueryMode.local()
    session.register("t", pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}))
    return session


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_expressions_refuse_to_be_changed(kind: type[Expr]) -> None:
    node = MADE[kind]
    for name in slots_of(kind):
        with pytest.raises(AttributeError, match=f"cannot be changed: {name}"):
            setattr(node, name, None)
        with pytest.raises(AttributeError, match=f"cannot be changed: {name}"):
            delattr(node, name)
    with pytest.raises(AttributeError):
        node.other = 1  # type: ignore[attr-defined]


def nodes(qm: QueryMode) -> dict[type[Node], Node]:
    scan = qm.table("t")._node
    other = Project(scan, [("c", col("a")), ("d", col("b"))])
    found = [
        scan,
        lowering_rows(scan),
        Filter(scan, col("a") > 1),
        Project(scan, [("c", col("a") + 1)]),
        GroupBy(scan, [("b", col("b"))], [("n", col("a").sum())]),
        Sort(scan, [(col("a"), False, False)]),
        Limit(scan, 0, 1),
        Repeat(scan, col("a")),
        MapBatches(scan, lambda batch: batch, scan.schema),
        Join(scan, other, "inner", [(col("a"), col("c"))]),
        Union([scan, scan]),
    ]
    return {type(node): node for node in found}


def lowering_rows(scan: Node) -> Node:
    from querymode.plan.nodes import Rows

    return Rows(scan.schema)


def test_nodes_refuse_to_be_changed(qm: QueryMode) -> None:
    made = nodes(qm)
    assert set(made) == NODES
    for kind, node in made.items():
        for name in slots_of(kind):
            with pytest.raises(AttributeError, match=f"a {kind.__name__} cannot be changed: {name}"):
                setattr(node, name, None)
        with pytest.raises(AttributeError):
            node._stage = None  # type: ignore[attr-defined]


def test_a_twin_is_the_same_node_once_more(qm: QueryMode) -> None:
    for kind, node in nodes(qm).items():
        twin = node.twin()
        assert type(twin) is kind
        assert twin is not node
        assert all(getattr(twin, name) is getattr(node, name) for name in slots_of(kind))


def test_a_frame_that_is_asked_again_is_not_lowered_again(qm: QueryMode) -> None:
    frame = qm.table("t").filter(col("a") > 1).select("a")
    stage = lower(frame._node)
    assert lower(frame._node) is stage
    assert frame.to_arrow().to_pylist() == [{"a": 2}, {"a": 3}]
    assert lower(frame._node) is stage


@pytest.mark.parametrize("text", ["select * from t", "select a from t where a > 1 order by a limit 1"])
def test_what_nobody_asks_for_any_more_is_let_go(text: str) -> None:
    """A stage keeps nodes; it must not keep the one that it is kept for, nor with it a table in memory."""
    qm = QueryMode.local()
    frame = qm.register("t", pa.table({"a": [1, 2, 3]}))
    answer = qm.sql(text)
    answer.to_arrow()
    work = lower(answer._node)
    assert all(branch.source is not None for part in work.stages for branch in part.branches)
    table = weakref.ref(frame._node.source)  # type: ignore[attr-defined]
    node, kept = weakref.ref(answer._node), weakref.ref(frame._node)
    assert answer._node in lowering._lowered
    del qm, frame, answer, work
    gc.collect()
    assert node() is None
    assert kept() is None
    assert table() is None
