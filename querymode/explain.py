"""What a query would do, in words; and what is known of a table, from its metadata where that is enough."""

from __future__ import annotations

from querymode._abi import AggregateOp
from querymode.expr import Aggregate, Column
from querymode.file_table import FileTable
from querymode.plan import Filter, GroupBy, Limit, Node, Project, Scan, Sort, Step, known_counts, lower
from querymode.types import is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode._wasm import Instance
    from querymode.frame import DataFrame
    from querymode.plan import Work
    from querymode.session import QueryMode
    from querymode.types import DataType


def explain(session: QueryMode, node: Node) -> str:
    """The steps, the last one first, and below them the table that they read."""
    lines = []
    bottom = node
    while isinstance(bottom, Step):
        lines.append(_step(bottom))
        bottom = bottom.input
    assert isinstance(bottom, Scan)
    if isinstance(bottom.source, FileTable):
        lines += _describe_files(session, node, bottom.source)
    else:
        lines.append(f"table in memory, {bottom.source.row_count:,} rows")
    return "\n".join("  " * depth + line for depth, line in enumerate(lines))


def _step(node: Step) -> str:
    if isinstance(node, Filter):
        return f"filter {node.predicate}"
    if isinstance(node, Project):
        return "select " + ", ".join(name for name, _ in node.items)
    if isinstance(node, GroupBy):
        keys = ", ".join(name for name, _ in node.keys)
        return "aggregate " + ", ".join(name for name, _ in node.calls) + (f" by {keys}" if keys else "")
    if isinstance(node, Sort):
        return "sort by " + ", ".join(f"{key} desc" if down else str(key) for key, down, _ in node.keys)
    assert isinstance(node, Limit)
    rows = "all rows" if node.count is None else f"{node.count:,} rows"
    return f"limit {rows}" + (f" from row {node.offset:,} on" if node.offset else "")


def _describe_files(session: QueryMode, node: Node, table: FileTable) -> list[str]:
    files = f"{len(table.files):,} files" if len(table.files) != 1 else table.files[0].name
    head = f"scan {files}: {table.row_count:,} rows in {len(table.groups):,} row groups"
    if known_counts(node) is not None or session._known_batch(node) is not None:
        return [head, "answered from footers: 0 requests, 0 bytes"]
    work = lower(node)
    names = [table.schema.field(index)[0] for index in work.columns]
    lines = [f"{head}, columns {', '.join(names) or '(none)'}"]
    foreseen = Foreseen(session, work)
    if work.pruning is not None:
        kept = len(table.groups) - foreseen.groups_pruned
        lines.append(f"pruned by {', '.join(work.pruning.columns)}: {kept:,} row groups left")
    about = "about " if foreseen.is_rough else ""
    lines.append(f"reads {about}{foreseen.requests:,} requests, {foreseen.bytes:,} bytes{foreseen.remark}")
    return lines


class Foreseen:
    """What a scan of files would read. Indexes of pages are read to know it, pages are not.

    The numbers are exact, unless `remark` says otherwise, or they are rough: column chunks that are read in
    several pieces of memory= are cut where pages begin, and that is known when they are read.
    """

    def __init__(self, session: QueryMode, work: Work) -> None:
        self.requests = 0
        self.bytes = 0
        self.groups_pruned = 0
        self.remark = ""
        self.is_rough = False
        self._session = session
        self._work = work
        from querymode.execute.single import on_instance

        on_instance(self._ask)

    def _ask(self, instance: Instance) -> None:
        from querymode.execute.files import FileScan, Worker
        from querymode.execute.local import worker_size
        from querymode.fetch import IoGate

        work = self._work
        assert isinstance(work.source, FileTable)
        scan = FileScan(
            work.source,
            work.columns,
            work.pruning,
            IoGate(),
            has_filter=work.has_filter,
            rows_needed=work.rows_needed,
            memory=worker_size(work, self._session._budget.total, self._session.threads),
        )
        try:
            scan.prune(instance)
            query = instance.query_open(work.lane)
            worker = Worker(scan, instance, query, lambda: None)
            self.requests, self.bytes = worker.foresee()
            worker.close()
            instance.query_close(query)
            self.groups_pruned = scan.groups_pruned
            self.is_rough = scan.foreseen_in_pieces
            if work.rows_needed is not None:
                self.remark = " at most"
            elif scan.reads_filter_first:
                self.remark = " for the filter, then what surviving rows need"
            if scan.foreseen_unsure:
                self.remark += ", and dictionaries if pages use them"
        finally:
            scan.close(verify=False)


# ---- describe ----


def describe(frame: DataFrame) -> list[dict[str, Any]]:
    """Per column its type, its values and NULLs, the least and the greatest."""
    schema = frame.schema
    rows = frame.count()
    found: dict[str, dict[str, Any]] = {}
    left = []
    for name, data_type in schema:
        known = _known(frame, name, data_type)
        if known is None:
            left.append(name)
        else:
            found[name] = known
    if left:
        answer = frame._with(GroupBy(frame._node, (), _calls(frame, left))).collect().rows[0]
        for place, name in enumerate(left):
            found[name] = _picked(answer, place)
    return [
        {"column": name, "type": str(data_type), "rows": rows, "nulls": rows - found[name]["count"]}
        | {"min": found[name].get("min"), "max": found[name].get("max")}
        for name, data_type in schema
    ]


def _known(frame: DataFrame, name: str, data_type: DataType) -> dict[str, Any] | None:
    node = GroupBy(frame._node, (), _calls(frame, [name]))
    if not _has_order(data_type):
        counts = known_counts(node)
        return None if counts is None else {"count": counts[0]}
    batch = frame._session._known_batch(node)
    if batch is None:
        return None
    from querymode.result import Result

    return _picked(Result([batch], node.schema, {}).rows[0], 0)


def _calls(frame: DataFrame, names: list[str]) -> list[tuple[str, Aggregate]]:
    calls = []
    for place, name in enumerate(names):
        calls.append((f"count {place}", Aggregate(AggregateOp.COUNT, Column(name))))
        if _has_order(frame.schema.type_of(name)):
            calls.append((f"min {place}", Aggregate(AggregateOp.MIN, Column(name))))
            calls.append((f"max {place}", Aggregate(AggregateOp.MAX, Column(name))))
    return calls


def _picked(row: dict[str, Any], place: int) -> dict[str, Any]:
    return {kind: row.get(f"{kind} {place}") for kind in ("count", "min", "max")}


def _has_order(data_type: DataType) -> bool:
    return not (is_nested(data_type) or is_vector(data_type))
