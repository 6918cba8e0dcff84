"""Every class of nodes and of expressions is answered by everything that asks by class.

Whoever adds an expression is told by name who has no answer for it. An answer may be a refusal; what a
visitor never meets stands in its list here, with the reason. Nodes say what they are made of, and visitors
have an answer for whatever says no more: their tables are for the others.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from querymode.expr import nodes as expressions
from querymode.expr.nodes import Alias, Case, Expr, Literal, Then
from querymode.expr.trees import slots_of
from querymode.optimize import estimate, pushdown
from querymode.output import explain
from querymode.plan import bind, descriptor, expression_json, nodes, prune, to_code
from querymode.plan.nodes import MapBatches, Node, Passing, Rows, Scan, Step
from querymode.stage import lower

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Classes that nothing is ever of.
ABSTRACT = {Node, Step, Passing, Expr}


def concrete(base: type[Any]) -> Iterator[type[Any]]:
    """All classes of the package below this one; tests may have others."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("querymode.") and kind not in ABSTRACT:
            yield kind
        yield from concrete(kind)


def name_of(kind: type[Any]) -> str:
    return kind.__name__


def in_order(kinds: set[Any]) -> list[Any]:
    return sorted(kinds, key=name_of)


NODES: set[type[Node]] = set(concrete(Node))
EXPRESSIONS: set[type[Expr]] = set(concrete(Expr))

#: Rows of statistics, which no frame is made of, and functions of Python.
UNWRITTEN = {Rows, MapBatches}
NODE_TABLES: dict[str, Mapping[Any, Any]] = {
    "optimize/pushdown": pushdown._RULES,
    "optimize/estimate": estimate._RULES,
    "stage/lower": lower._RULES,
    "plan/to_code": to_code._CALLS,
    "output/explain": explain._WORDS,
}
EXPRESSION_VISITORS: dict[str, tuple[Mapping[Any, Any], dict[type[Expr], str]]] = {
    "plan/bind": (bind._RULES, {}),
    "plan/to_code": (to_code._EXPRESSIONS, {}),
    "plan/expression_json": ({**expression_json._FORMS, **expression_json._SPECIAL}, {}),
    "plan/prune: might": (prune._MIGHT, {}),
    "plan/prune: might_not": (prune._MIGHT_NOT, {}),
    "optimize/estimate": (estimate._PARTS, {}),
    "optimize/pushdown: rejects_null": (pushdown._REJECTING, {}),
}


def test_the_classes_are_all_there_are() -> None:
    """Classes are found by their bases; those that stand in the two modules are all of them."""
    for module, base, found in ((nodes, Node, NODES), (expressions, Expr, EXPRESSIONS)):
        named = {kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)}
        assert named - ABSTRACT == found


@pytest.mark.parametrize("visitor", NODE_TABLES)
def test_tables_are_of_nodes_that_there_are(visitor: str) -> None:
    assert NODE_TABLES[visitor].keys() <= NODES


@pytest.mark.parametrize("kind", in_order({kind for kind in NODES if issubclass(kind, Step)}), ids=name_of)
def test_every_step_can_be_lowered(kind: type[Step]) -> None:
    """By a rule, or because it is one step of the engine: then the table need not have it."""
    assert (kind in lower._RULES) == (kind.encoded is Step.encoded)


@pytest.mark.parametrize("visitor", EXPRESSION_VISITORS)
def test_every_expression_is_answered(visitor: str) -> None:
    table, left_out = EXPRESSION_VISITORS[visitor]
    assert_answered(visitor, EXPRESSIONS, table, left_out)


def assert_answered(
    visitor: str, kinds: set[Any], table: Mapping[Any, Any], left_out: Mapping[Any, str]
) -> None:
    missing = sorted(kind.__name__ for kind in kinds - table.keys() - left_out.keys())
    assert not missing, f"{visitor} has no answer for {', '.join(missing)}"
    assert not table.keys() & left_out.keys(), "what has an answer need not be left out"
    assert (table.keys() | left_out.keys()) <= kinds, "answers are for classes that there are"


def test_what_is_written_down_can_be_read() -> None:
    """Every kind that a descriptor may hold has a reader."""
    ours = {kind for kind in nodes.KINDS.values() if kind in NODES}
    assert ours | {Scan} == NODES - UNWRITTEN
    assert all(nodes.KINDS[kind.KIND] is kind for kind in ours)
    written = {kind for kind, _ in expression_json._FORMS.values()}
    assert written == set(expression_json._KINDS)
    # A name says nothing, constants are themselves, and a CASE is one whether or not it could go on.
    spoken = EXPRESSIONS - {Alias, Literal, Then}
    assert len(expression_json._KINDS) + len(expression_json._RULES) == len(spoken)
    assert expression_json._FORMS[Then] == expression_json._FORMS[Case]


@pytest.mark.parametrize("kind", in_order(NODES), ids=name_of)
def test_nodes_answer_for_themselves(kind: type[Node]) -> None:
    """Their inputs, and the parts that copies and descriptors are made of: all slots, and no others."""
    if kind in (Scan, Rows):
        return
    assert any("children" in vars(base) for base in kind.__mro__ if base is not Node), kind.__name__
    if kind.PARTS is None:
        assert "with_children" in vars(kind), f"{kind.__name__} has no with_children"
        return
    inputs = ("inputs",) if kind.INPUTS is None else kind.INPUTS
    said = [part.slot for part in kind.PARTS]
    assert sorted([*inputs, *said, "schema"]) == sorted(slots_of(kind))
    assert {part.form for part in kind.PARTS} <= descriptor.FORMS.keys()
    arguments = list(inspect.signature(kind).parameters)[len(inputs) :]
    assert set(said) <= set(arguments), f"{kind.__name__} takes its parts by other names"


@pytest.mark.parametrize("kind", in_order(EXPRESSIONS), ids=name_of)
def test_expressions_answer_for_themselves(kind: type[Expr]) -> None:
    """Every one has a text. Its parts are seen to by test_trees.py."""
    assert any("__str__" in vars(base) for base in kind.__mro__ if base is not object), kind.__name__
    assert any("__slots__" in vars(base) for base in (kind,)), kind.__name__


#: Chains of isinstance over classes that take the rest for one thing, and why that is right.
CHAINS = {
    "known_row_count": "not known is always a right answer",
    "_probes": "a filter that is not looked at rules nothing out",
    "_output_name": "all but names and aggregates are called by their text",
    "_constant": "… stands for what is no constant of integers",
    "_columns": "None: others compute the answer",
    "_conditions": "conditions stand in two kinds of nodes, looked for below all",
    "_flatten": "what is no join of the kinds it takes apart is a relation of its own",
    "projected": "asks whether one thing is a projection, and another a column",
    "_with_rows": "None: rows are picked from the answer",
}


def test_no_new_chain_of_classes() -> None:
    """A function that asks for two classes or more, and itself again, is a visitor: it has a table."""
    found = set()
    for path, function in functions():
        asked = {
            name.id
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance"
            for name in ast.walk(call.args[1])
            if isinstance(name, ast.Name)
        }
        known = {kind.__name__ for kind in NODES | EXPRESSIONS}
        again = any(
            function.name in (getattr(name, "id", None), getattr(name, "attr", None))
            for name in ast.walk(function)
        )
        if again and len(asked & known) >= 2 and function.name not in CHAINS:
            found.add(f"{path}: {function.name}")
    assert not found, "give it a table, and a line in NODE_TABLES or EXPRESSION_VISITORS"


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    from pathlib import Path

    root = Path(inspect.getfile(nodes)).parent.parent
    for path in sorted(root.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                yield path.relative_to(root).as_posix(), function
