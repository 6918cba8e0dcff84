"""What a query would do, and what it did: the optimized plan as a tree, as text or JSON.

Every node has its estimated rows; scans of files say what would be read and what is left out. After a run
(`analyze`) nodes have the rows that left them, scans what was read, and stages the time that they took.
"""

from __future__ import annotations

import time
from functools import partial

from querymode.errors import error
from querymode.optimize.estimate import Estimator
from querymode.optimize.known_answers import known_answer
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
from querymode.plan.snapshots import pinned
from querymode.stage.lower import lower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from querymode.engine.instance import Instance
    from querymode.execute.profile import Profile
    from querymode.session import QueryMode
    from querymode.stage.stage import Branch, Stage, Work
    from querymode.store.fetch import IoGate


#: It may leave profiles as they are: they are a hint.
_NOT_MEASURED = "this executor measures nothing: rows and reads are those that were expected"


def explain(session: QueryMode, node: Node, *, analyze: bool = False, format: str = "text") -> str:
    """The plan as text or JSON; with `analyze` it is run first."""
    if format not in ("text", "json"):
        raise error("NOT_SUPPORTED", f"explain knows the formats 'text' and 'json', not {format!r}")
    profile = None
    node = pinned(node)
    if analyze:
        from querymode.execute.profile import Profile

        profile = Profile()
        started = time.perf_counter()
        answer = session._execute(node, session._limits(), profile=profile)
        taken = time.perf_counter() - started
    known = known_answer(node) is not None
    if profile is None or known or profile.is_filled:
        tree = _Tree(session, node, profile, is_known=known).root()
        if profile is not None and known:  # nothing ran that could tell
            tree["rows"], tree["ms"] = answer.row_count, taken * 1000
    else:
        tree = _Tree(session, node, None, is_known=known).root()
        tree["measured"] = False
        details = [_NOT_MEASURED, *tree.get("details", ())]
        tree = {**tree, "details": details}
    if format == "text":
        return "\n".join(_lines(tree, 0))
    import json

    return json.dumps(tree, indent=2, default=str)


def _lines(tree: dict[str, Any], depth: int) -> list[str]:
    indent = "  " * depth
    facts = []
    if "rows" in tree:
        facts.append(f"{tree['rows']:,} rows")
    elif "estimate" in tree:
        facts.append(f"~{tree['estimate']:,} rows")
    if "ms" in tree:
        facts.append(f"{tree['ms']:.1f} ms")
    lines = [f"{indent}{tree['text']}" + (f"  ({', '.join(facts)})" if facts else "")]
    lines += [f"{indent}  {detail}" for detail in tree.get("details", ())]
    for child in tree.get("children", ()):
        lines += _lines(child, depth + 1)
    return lines


class _Tree:
    def __init__(self, session: QueryMode, node: Node, profile: Profile | None, *, is_known: bool) -> None:
        self._node = node
        self._profile = profile
        self._estimator = Estimator()
        self._is_known = is_known
        self._session = session
        self._work = lower(node)
        self._branches: dict[int, tuple[Stage, Branch]] = {}
        for stage in self._work.stages:
            for branch in stage.branches:
                if branch.scan is not None:
                    self._branches[branch.scan] = (stage, branch)
        self._seen: dict[Node, int] = {}

    def root(self) -> dict[str, Any]:
        return self._tree(self._work.root)

    def _tree(self, node: Node) -> dict[str, Any]:
        kind, text = describe_step(node)
        tree: dict[str, Any] = {"node": kind, "text": text}
        tree["estimate"] = round(self._estimator.of(node).rows)
        if node in self._seen and not isinstance(node, Scan):
            tree["text"] = f"{text}, as above"
            return tree
        self._seen[node] = len(self._seen)
        if self._profile is not None:
            self._add_profile(tree, node)
        if isinstance(node, Scan):
            self._add_scan(tree, node)
        children = [self._tree(child) for child in node.children]
        if children:
            tree["children"] = children
        return tree

    def _add_profile(self, tree: dict[str, Any], node: Node) -> None:
        assert self._profile is not None
        rows = self._profile.rows.get(self._work.numbers[node])
        if rows is not None:
            tree["rows"] = rows
        seconds = self._profile.seconds.get(self._work.numbers[node])
        if seconds is not None:
            tree["ms"] = round(seconds * 1000, 3)

    def _add_scan(self, tree: dict[str, Any], node: Scan) -> None:
        table = node.source
        if not table.is_stored:
            return
        details = tree["details"] = []
        if self._is_known:
            details.append("answered from footers: 0 requests, 0 bytes")
            tree["requests"] = tree["bytes"] = 0
            return
        stage, branch = self._branches[self._work.numbers[node]]
        tree["columns"] = [table.schema.field(index)[0] for index in branch.columns]
        details.append("columns " + (", ".join(tree["columns"]) or "(none)"))
        if branch.sought:
            tree["sought"] = list(branch.sought)
            details.append(f"only rows whose {', '.join(branch.sought)} a build has")
        read = None if self._profile is None else self._profile.reads.get(self._work.numbers[node])
        if read is not None:
            tree.update(read)
            text = f"read {read['requests']:,} requests, {read['bytes']:,} bytes"
            if "row_groups" in read:
                text += f"; left out {read['row_groups_skipped']:,} of {read['row_groups']:,} row groups"
            details.append(text)
            return
        if table.evidence is None:
            return
        foreseen = Foreseen(self._session, self._work, stage, branch)
        if branch.pruning is not None:
            kept = foreseen.group_count - foreseen.groups_pruned
            tree["pruned_by"] = list(branch.pruning.columns)
            tree["row_groups_left"] = kept
            details.append(f"pruned by {', '.join(branch.pruning.columns)}: {kept:,} row groups left")
        remark = foreseen.remark or (" at most" if branch.sought else "")
        tree["requests"], tree["bytes"] = foreseen.requests, foreseen.bytes
        about = "about " if foreseen.is_rough else ""
        details.append(f"reads {about}{foreseen.requests:,} requests, {foreseen.bytes:,} bytes{remark}")


def describe_step(node: Node) -> tuple[str, str]:
    """A node's kind and what it does, in words."""
    words = _WORDS.get(type(node))
    if words is not None:
        kind, text = words
        return kind, text(node)
    parts = ", ".join(str(getattr(node, part.slot)) for part in node.PARTS or ())
    return node.KIND, f"{node.KIND} by {parts}" if parts else node.KIND


def _join_text(node: Join) -> str:
    sign = "is not distinct from" if node.null_equal else "="
    keys = " and ".join(f"{ours} {sign} {theirs}" for ours, theirs in node.keys)
    residual = f" where {node.residual}" if node.residual is not None else ""
    return f"{node.kind} join" + (f" on {keys}" if keys else "") + residual


def _aggregate_text(node: GroupBy) -> str:
    keys = ", ".join(name for name, _ in node.keys)
    calls = ", ".join(name for name, _ in node.calls)
    return f"aggregate {calls}" + (f" by {keys}" if keys else "")


def _sort_text(node: Sort) -> str:
    keys = ", ".join(f"{key} desc" if down else str(key) for key, down, _ in node.keys)
    return f"sort by {keys}"


def _limit_text(node: Limit) -> str:
    rows = "all rows" if node.count is None else f"{node.count:,} rows"
    return f"limit {rows}" + (f" from row {node.offset:,} on" if node.offset else "")


#: Others are their kind and their parts.
_WORDS: dict[type[Node], tuple[str, Callable[[Any], str]]] = {
    Scan: ("scan", lambda node: node.source.describe()),
    Filter: ("filter", lambda node: f"filter {node.predicate}"),
    Project: ("project", lambda node: "select " + ", ".join(name for name, _ in node.items)),
    GroupBy: ("aggregate", _aggregate_text),
    Sort: ("sort", _sort_text),
    Limit: ("limit", _limit_text),
    Join: ("join", _join_text),
    Union: ("union", lambda node: f"union of {len(node.inputs)}"),
    MapBatches: ("map_batches", lambda node: "a Python function over batches"),
}


class Foreseen:
    """What a scan of files would read. Indexes of pages are read to know it, pages are not.

    The numbers are exact, unless `remark` says otherwise, or they are rough: column chunks that are read in
    several pieces of memory= are cut where pages begin, and that is known when they are read.
    """

    def __init__(self, session: QueryMode, work: Work, stage: Stage, branch: Branch) -> None:
        self.requests = 0
        self.bytes = 0
        self.groups_pruned = 0
        self.group_count = 0
        self.remark = ""
        self.is_rough = False
        self._session = session
        assert branch.table is not None
        #: Foreseen is what has evidence, and that are pieces of known rows.
        self._table: Any = branch.table
        self._branch = branch
        self._stage = stage
        self._work = work
        from querymode._call import deadline
        from querymode.engine.one_task import on_instance
        from querymode.store.fetch import IoGate

        gate = IoGate(deadline=deadline())
        on_instance(partial(self._ask, gate), gate=gate)

    def _ask(self, gate: IoGate, instance: Instance) -> None:
        from querymode.execute.files import FileScan, Worker
        from querymode.execute.local import worker_size

        branch = self._branch
        table = self._table
        rows_needed = self._stage.rows_needed
        scan = FileScan(
            table,
            branch.columns,
            branch.pruning,
            gate,
            has_filter=branch.has_filter,
            rows_needed=rows_needed,
            memory=worker_size(self._work, self._stage, self._session._budget.total, self._session._limits()),
        )
        try:
            scan.prune(instance)
            query = instance.query_open(branch.scan_plan)
            worker = Worker(scan, instance, query, lambda: None)
            self.requests, self.bytes = worker.foresee()
            worker.close()
            instance.query_close(query)
            self.groups_pruned = scan.groups_pruned
            self.group_count = len(table.pieces)
            self.is_rough = scan.foreseen_in_pieces
            if rows_needed is not None or self._may_stop_early():
                self.remark = " at most"
            elif scan.reads_filter_first:
                self.remark = " for the filter, then what surviving rows need"
            if scan.foreseen_unsure:
                self.remark += ", and dictionaries if pages use them"
        finally:
            scan.close(verify=False)

    def _may_stop_early(self) -> bool:
        """A top-k leaves out row groups that lie behind what it has found by then."""
        branch = self._branch
        return self._stage.top is not None and branch.top_column is not None and len(self._table.pieces) > 1
