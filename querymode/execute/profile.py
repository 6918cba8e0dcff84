"""What a run tells of a query, for explain: rows out of every node, reads of every scan, time of stages."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Profile:
    """By the numbers of a plan's nodes."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.seconds: dict[int, float] = {}
        self.reads: dict[int, dict[str, int]] = {}

    @property
    def is_filled(self) -> bool:
        """Whether somebody has measured."""
        return bool(self.rows or self.seconds or self.reads)

    def add_rows(self, nodes: Sequence[int], counts: Sequence[int], *, is_final: bool) -> None:
        """`counts`: rows that came to each step, and those that left the last one.

        What came to a step left the one before. Of a node's several steps the last one counts, and of a
        final plan's node that plan's alone.
        """
        found: dict[int, int] = {}
        left = list(counts[1:])
        for place in reversed(range(len(left) - 1)):  # of filters that a scan ran, the last one is known
            if counts[place] == 0 and counts[place + 1] == 0:
                left[place] = left[place + 1]
        for node, count in zip(nodes, left, strict=True):
            found[node] = count
        for number, count in found.items():
            self.rows[number] = count if is_final else self.rows.get(number, 0) + count

    def forget(self) -> None:
        """Of a query that runs again from its beginning."""
        self.rows.clear()
        self.seconds.clear()
        self.reads.clear()

    def forget_rows(self, nodes: Sequence[int]) -> None:
        """Of nodes that run again, over what they have left: it is not to be counted twice."""
        for node in nodes:
            self.rows.pop(node, None)

    def add_reads(self, scan: int, **facts: int) -> None:
        known = self.reads.setdefault(scan, {})
        for name, value in facts.items():
            known[name] = known.get(name, 0) + value
