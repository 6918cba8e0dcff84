"""A plan as a list of short words, from the top down."""

from __future__ import annotations

from querymode.plan.nodes import Join, Node


def shape(node: Node) -> list[str]:
    own = f"{node.kind} join" if isinstance(node, Join) else type(node).__name__.lower()
    return [own, *(word for child in node.children for word in shape(child))]


def joins(node: Node) -> list[Join]:
    """All joins of a plan; one that is reached twice comes once."""
    found: dict[int, Join] = {}

    def visit(one: Node) -> None:
        if isinstance(one, Join):
            found[id(one)] = one
        for child in one.children:
            visit(child)

    visit(node)
    return list(found.values())


def kinds(node: Node) -> list[str]:
    return sorted(join.kind for join in joins(node))
