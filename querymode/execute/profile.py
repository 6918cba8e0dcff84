"""What a query's run left of itself, for explain: rows out of every node, reads of every scan, time of stages."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.plan import Node, Scan


class Profile:
    """By the number (`id`) of a plan's nodes, which live as long as the plan."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.seconds: dict[int, float] = {}
        self.reads: dict[int, dict[str, int]] = {}

    def add_rows(self, nodes: Sequence[Node], counts: Sequence[int], *, is_final: bool) -> None:
        """Rows that left each step. Of a node's several steps the last one counts, and a final plan's alone."""
        found: dict[int, int] = {}
        for node, count in zip(nodes, counts, strict=True):
            found[id(node)] = count
        for number, count in found.items():
            self.rows[number] = count if is_final else self.rows.get(number, 0) + count

    def add_reads(self, scan: Scan, **facts: int) -> None:
        known = self.reads.setdefault(id(scan), {})
        for name, value in facts.items():
            known[name] = known.get(name, 0) + value
