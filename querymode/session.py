"""QueryMode: where tables get their names and queries their memory, threads and time.

One object may be used from many threads. Its running queries share its memory; see execute/budget.py.
"""

from __future__ import annotations

import os
import time
from functools import partial
from types import FunctionType

from querymode._checks import parse_size, request_count, seconds, texts
from querymode._secrets import has_secrets, hide
from querymode._shutdown import guarded, guards_shutdown
from querymode.errors import TableNotFoundError, error
from querymode.frame.frame import DataFrame
from querymode.plan.nodes import GroupBy, Node, Scan
from querymode.plan.snapshots import resolved
from querymode.sql.cache import PlanCache
from querymode.table.table import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Concatenate, ParamSpec

    import pyarrow

    from querymode._call import Call
    from querymode.engine.lent import LentBatch
    from querymode.execute.executor import Executor
    from querymode.execute.limits import Limits
    from querymode.execute.profile import Profile
    from querymode.output.result import Result
    from querymode.schema import Schema
    from querymode.store.options import StoreOptions

    Parameters = ParamSpec("Parameters")

#: An engine instance takes about 2 MiB before it has seen a row.
MEMORY_MIN = 16 << 20
#: Of all formats: which files they are, and what their folders say.
_FILE_OPTIONS = frozenset(("format", "hive_partitioning", "hive_types"))


class _of_session:
    """A method that may also be called on the class: then the session is the default one."""

    def __init__(self, function: Callable[..., DataFrame]) -> None:
        self._function = guarded(function)
        self.__doc__ = function.__doc__

    def __get__(self, session: QueryMode | None, owner: type[QueryMode]) -> Callable[..., DataFrame]:
        return partial(self._function, default_session() if session is None else session)


def _with_parameters_of(
    init: Callable[Concatenate[QueryMode, Parameters], None],
) -> Callable[[Callable[..., QueryMode]], Callable[Concatenate[type[QueryMode], Parameters], QueryMode]]:
    """For a function that hands its arguments on to `init`: type checkers, `inspect` and `help` see them."""

    def decorate(function: Any) -> Any:
        shown = FunctionType(init.__code__, init.__globals__, function.__name__, init.__defaults__)
        shown.__kwdefaults__ = init.__kwdefaults__
        shown.__annotations__ = {**init.__annotations__, "return": function.__annotations__["return"]}
        function.__wrapped__ = shown
        return function

    return decorate


@guards_shutdown
class QueryMode:
    """A session. Make one with `QueryMode.local()`; the `from_…` functions make tables without one."""

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        memory: int | str = "2GiB",
        threads: int | None = None,
        timeout: float | None = None,
        storage_options: Mapping[str, Any] | None = None,
        buckets: Sequence[str] | None = None,
        allowed_paths: Sequence[str | os.PathLike[str]] | None = None,
        allow_network: bool = True,
        *,
        hardened: bool = False,
    ) -> None:
        from querymode.execute.budget import Budget

        if not isinstance(root, (str, os.PathLike)):
            raise error("QUERY_FAILED", f"root={root!r}; it is a path")
        if not isinstance(storage_options, (dict, type(None))):
            raise error("QUERY_FAILED", "storage_options is a dict of settings")
        self.root = os.fspath(root)
        self.storage_options = dict(storage_options or {})
        if self.storage_options:
            from querymode.store.settings import check_settings

            check_settings(self.storage_options)
        if buckets is not None:
            raise error("NOT_SUPPORTED", "buckets= is for tables that are written, which is not possible yet")
        self.allowed_paths = texts(allowed_paths, "allowed_paths")
        self.allow_network = bool(allow_network)
        self.memory = parse_size(memory, "memory")
        if self.memory < MEMORY_MIN:
            raise error("QUERY_FAILED", f"memory={memory!r} is too little; 16 MiB is the least")
        self.threads = _thread_count(threads)
        self.timeout = seconds(timeout)
        self.hardened = hardened
        self._budget = Budget(self.memory)
        self._tables: dict[str, DataFrame] = {}
        self._plans = PlanCache()
        self._made_executor: Executor | None = None

    @classmethod
    @_with_parameters_of(__init__)
    def local(cls, *arguments: Any, **options: Any) -> QueryMode:
        """A session in this process.

        `memory`: what all running queries of this object may use together, as bytes or "512MiB".
        `threads`: workers of a query; the cores of this machine if not given. `timeout`: seconds a query
        may take. `storage_options`: credentials and settings of S3 and HTTP; a key that is a URL holds those
        of what lies below it, and a name that nothing reads is refused. `allowed_paths`: if given, no
        path outside of these is opened, whoever names it. `allow_network`: False refuses http(s) and s3.
        `hardened`: also interrupt the engine where it does not look for a cancellation itself, which costs
        speed.
        """
        return cls(*arguments, **options)

    def __repr__(self) -> str:
        return f"<QueryMode root={hide(self.root)!r} memory={self.memory >> 20}MiB threads={self.threads}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Its options; see frame/pickling.py for what does not travel."""
        return _reduced(self)

    def __copy__(self) -> QueryMode:
        """Itself: a session is where its tables and its memory are, and a copy would have neither."""
        return self

    def __deepcopy__(self, memo: object) -> QueryMode:
        return self

    # ---- tables ----

    def register(self, name: str, data: object) -> DataFrame:
        """Gives a name, in this object, to a path, an Arrow table or a DataFrame.

        Types of a path's `key=value` folders are found out; register a `table(…)` for others.
        """
        if not isinstance(name, str) or not name:
            raise error("TABLE_NOT_FOUND", f"a table's name is a text that is not empty, not {name!r}")
        with self._call():
            if isinstance(data, (str, os.PathLike, list)):
                frame = self._file_frame(data, name, hive_types="infer")
            else:
                frame = data if isinstance(data, DataFrame) else self._arrow_frame(data, name)
        self._tables[name] = DataFrame(self, frame._node)
        self._plans.clear()
        return self._tables[name]

    def sql(self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> DataFrame:
        """A query in SQL, as a frame: nothing runs until it is asked for its rows.

        Tables are registered names and files in quotes: `SELECT * FROM 'data/*.parquet'`. `parameters`:
        values for `?` (a list) or for `$name` (a dict); they are bound as constants, never pasted into the
        text.
        """
        from querymode.sql import plan_sql

        with self._call():
            return DataFrame(self, plan_sql(self, text, parameters))

    def table(
        self,
        where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        format: str | None = None,
        infer_types: bool = True,
        snapshot_id: int | None = None,
        ref: str | None = None,
        version: int | str | None = None,
        **reader_options: Any,
    ) -> DataFrame:
        """A registered name, or files: a path, folder, pattern, http(s):// or s3:// URL, or a list of those.

        `format`: "parquet", "csv" or "ndjson", where names do not say it. CSV takes `delimiter`, `header`,
        `quote`, `escape`, `null_strings` and `infer_types`; what is not given is found out. All text takes
        `types={"column": "int64"}`, for where the first 20,480 rows do not tell. Folders `key=value` become
        columns of text; `hive_types={"year": "int64"}` gives them types, `hive_types="infer"` finds out which
        are integers, dates or timestamps, as SQL over a path does; `hive_partitioning=False` leaves them out.
        `verify_crc=True` checks the checksums of pages. Of a Lance table `version=3` is that version, and
        `version="name"` or `ref="name"` the one that has this tag; otherwise every query reads the newest.
        """
        if infer_types is not True:
            reader_options["infer_types"] = bool(infer_types)
        if snapshot_id is not None:
            raise error("NOT_SUPPORTED", "snapshot_id= is for Iceberg tables, which are not read yet")
        reader_options |= {
            option: value for option, value in (("ref", ref), ("version", version)) if value is not None
        }
        if isinstance(where, str) and where in self._tables:
            return self._tables[where]
        with self._call():
            return self._file_frame(where, None, format=format, **reader_options)

    def _file_frame(self, where: Any, name: str | None, **options: Any) -> DataFrame:
        from querymode.catalog.files import open_table
        from querymode.format.registry import all_options
        from querymode.store.fetch import opening_gate

        known_options = _FILE_OPTIONS | all_options()
        unknown = options.keys() - known_options
        if unknown:
            known = ", ".join(sorted(known_options))
            raise error(
                "NOT_SUPPORTED", f"{sorted(unknown)[0]}= is no option of a reader; there are: {known}"
            )
        if not isinstance(options.get("hive_types"), (dict, type(None))) and options["hive_types"] != "infer":
            raise error(
                "QUERY_FAILED", 'hive_types is a dict of types, such as {"year": "int64"}, or "infer"'
            )
        if not isinstance(where, (str, bytes, os.PathLike)) and hasattr(where, "__iter__"):
            where = list(where)
        given = {option: value for option, value in options.items() if value is not None}
        try:
            table = open_table(
                where,
                self._store_options(),
                name=name,
                origin=Origin(_paths(where), given),
                gate=opening_gate(),
                **given,
            )
        except TableNotFoundError as failure:
            if not isinstance(where, str) or "/" in where or not self._tables:
                raise
            known = ", ".join(sorted(self._tables))
            raise error(
                "TABLE_NOT_FOUND", f"{failure.message}. Registered are: {known}", table=where
            ) from failure
        return DataFrame(self, Scan(table))

    def _store_options(self) -> StoreOptions:
        from querymode.store.options import StoreOptions

        return StoreOptions(
            self.storage_options,
            allowed_paths=self.allowed_paths,
            allow_network=self.allow_network,
            root=self.root,
        )

    def _arrow_frame(self, data: object, name: str | None) -> DataFrame:
        from querymode.table.from_arrow import from_arrow

        return DataFrame(self, Scan(from_arrow(data, name)))

    def _text_frame(self, parse: Callable[[], list[bytes]], name: str | None) -> DataFrame:
        """A table of what `parse` makes of a text, within this session's memory."""
        from querymode.table.from_qmcb import from_qmcb

        # It does not wait for running queries to give memory back: the thread that asks may be reading one.
        with self._call():
            return DataFrame(self, Scan(from_qmcb(parse(), name)))

    # ---- tables in memory; called on the class, they belong to the default session ----

    @_of_session
    def from_arrow(self, data: object, name: str | None = None) -> DataFrame:
        """A table over Arrow data: pyarrow, or what has `__arrow_c_stream__` (Polars, DuckDB, pandas)."""
        with self._call():
            return self._arrow_frame(data, name)

    @_of_session
    def from_json(
        self, rows: str | bytes | Iterable[Mapping[str, Any]], name: str | None = None
    ) -> DataFrame:
        """A table from rows (dicts), or from JSON text: an array of objects, or one object a line."""
        from querymode.table.from_text import json_batches

        return self._text_frame(lambda: json_batches(rows), name)

    @_of_session
    def from_csv(
        self,
        text: str | bytes,
        name: str | None = None,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        quote: str = '"',
        infer_types: bool = True,
    ) -> DataFrame:
        """A table from CSV text. Delimiter, header and types are found out unless given."""
        from querymode.table.from_text import csv_batches

        return self._text_frame(
            lambda: csv_batches(
                text, delimiter=delimiter, header=header, quote=quote, infer_types=infer_types
            ),
            name,
        )

    @_of_session
    def from_descriptor(self, descriptor: str | bytes | Mapping[str, Any]) -> DataFrame:
        """The query that `DataFrame.to_descriptor` wrote, over this session's files and registered tables."""
        from querymode.plan.descriptor import from_descriptor

        with self._call():
            return DataFrame(self, from_descriptor(self, descriptor))

    @_of_session
    def demo(self) -> DataFrame:
        """A few hundred thousand orders, the same on every machine."""
        from querymode.table.demo import orders

        return self._arrow_frame(orders(), "orders")

    # ---- running ----

    def _call(self) -> Call:
        """A call with this session's limits, to be entered: what happens in it has one deadline."""
        return self._limits().call(self.memory)

    def _execute(self, node: Node, limits: Limits, *, profile: Profile | None = None) -> Result:
        """The whole answer. `profile`: is filled with what the run tells of itself."""
        from querymode.output.result import Result

        with limits.call(self.memory):
            node = resolved(node)
            known = self._known(node, limits)
            if known is not None:
                return known
            from querymode.stage.lower import lower

            work = lower(node)
            answer = self._executor.run(work, limits, profile=profile)
            return Result(answer.batches, work.schema, answer.stats())

    def _execute_arrow(self, node: Node, limits: Limits) -> pyarrow.Table:
        """The answer as Arrow: every worker lays out what it made, straight from the engine's memory."""
        with limits.call(self.memory):
            node = resolved(node)
            known = self._known(node, limits)
            if known is not None:
                return known.to_arrow()
            import pyarrow

            from querymode.arrow.to_arrow import arrow_schema
            from querymode.stage.lower import lower

            work = lower(node)
            answer = self._executor.run(work, limits, export=_arrow_export(work.schema))
        if not answer.is_exported:
            from querymode.output.result import Result

            return Result(answer.batches, work.schema, {}).to_arrow()
        batches = [batch for part in answer.batches for batch in part]
        return pyarrow.Table.from_batches(batches, arrow_schema(work.schema))

    def _stream(self, node: Node, limits: Limits) -> Iterator[list[pyarrow.RecordBatch]]:
        """Batches of an answer, in order, as they come: never all of them in memory at once."""
        with limits.call(self.memory):
            node = resolved(node)
            known = self._known(node, limits)
            if known is not None:
                return iter((known.to_arrow().to_batches(),))
            from querymode.stage.lower import lower

            work = lower(node)
        return _in_arrow(self._executor.stream(work, limits, export=_arrow_export(work.schema)), work.schema)

    def _stream_qmcb(self, node: Node, limits: Limits) -> Iterator[bytes]:
        """The same in the engine's form."""
        with limits.call(self.memory):
            node = resolved(node)
            known = self._known(node, limits)
            if known is not None:
                return iter(known.to_qmcb())
            from querymode.stage.lower import lower

            work = lower(node)
        return self._executor.stream(work, limits)

    def _known(self, node: Node, limits: Limits) -> Result | None:
        """The answer, where it is known without running anything; opening its table counts all the same."""
        from querymode.optimize.known_answers import known_answer

        batch = known_answer(node)
        if batch is None:
            return None
        from querymode.execute.executor import Answer
        from querymode.output.result import Result

        answer = Answer()
        answer.row_count = int.from_bytes(batch[4:8], "little")
        answer.result_bytes = len(batch)
        if isinstance(node, GroupBy) and isinstance(node.input, Scan):
            from querymode.execute.query_run import Reads

            reads = Reads([node.input.source], limits)
            reads.new_gate()
            answer.opening_requests, answer.opening_bytes = reads.opening_requests, reads.opening_bytes
        return Result([batch], node.schema, answer.stats())

    @property
    def _executor(self) -> Executor:
        if self._made_executor is None:
            from querymode.execute.local import LocalExecutor

            self._made_executor = LocalExecutor(self._budget)
        return self._made_executor

    def _limits(
        self,
        *,
        memory: int | str | None = None,
        timeout: float | None = None,
        max_requests: int | None = None,
        max_bytes: int | str | None = None,
    ) -> Limits:
        """Those of this session, lowered by what one query was given."""
        from querymode.execute.limits import Limits

        return Limits(
            thread_count=self.threads,
            memory=None if memory is None else parse_size(memory, "memory"),
            deadline=_deadline(self.timeout if timeout is None else seconds(timeout)),
            hardened=self.hardened,
            max_requests=None if max_requests is None else request_count(max_requests),
            max_bytes=None if max_bytes is None else parse_size(max_bytes, "max_bytes"),
        )


def _in_arrow(stream: Iterator[Any], schema: Schema) -> Iterator[list[pyarrow.RecordBatch]]:
    """What an executor hands out, also where it does not export."""
    from contextlib import closing

    from querymode.arrow.to_arrow import record_batches
    from querymode.qmcb import view_own_batch

    with closing(stream):  # type: ignore[type-var]
        for batch in stream:
            yield record_batches(view_own_batch(batch), schema) if isinstance(batch, bytes) else batch


def _arrow_export(schema: Schema) -> Callable[[LentBatch], list[pyarrow.RecordBatch]]:
    from querymode.arrow.to_arrow import copied_batches

    return lambda lent: copied_batches(lent, schema)


_default: QueryMode | None = None


def default_session() -> QueryMode:
    """The session behind tables that were made without one."""
    global _default
    if _default is None:
        _default = QueryMode()
    return _default


def _paths(where: Any) -> str | tuple[str, ...]:
    """What a table was opened by, as texts."""
    return os.fspath(where) if isinstance(where, (str, os.PathLike)) else tuple(map(os.fspath, where))


def _thread_count(threads: int | None) -> int:
    if threads is None:
        from querymode.engine.threads import core_count

        return core_count()
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 1024:
        raise error("QUERY_FAILED", f"threads={threads!r}; it is a number from 1 to 1024")
    return threads


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


# ---- between processes ----


def _reduced(session: QueryMode) -> tuple[Any, ...]:
    """For `QueryMode.__reduce__`. The default session is the default one there too."""
    if session is default_session():
        return default_session, ()
    _refuse_secrets(session)
    # `memory` and the like are plain numbers by now. A thread more or less changes no answer.
    return _restored, (
        {
            "root": session.root if "://" in session.root else os.path.abspath(session.root),
            "memory": session.memory,
            "threads": session.threads,
            "timeout": session.timeout,
            "storage_options": session.storage_options,
            "allowed_paths": session.allowed_paths,
            "allow_network": session.allow_network,
            "hardened": session.hardened,
        },
    )


def _restored(options: dict[str, Any]) -> QueryMode:
    """A session with the options of the one that was pickled."""
    return QueryMode(**options)


def _refuse_secrets(session: QueryMode) -> None:
    from querymode.store.settings import secret_names

    names = [f"storage_options{name}" for name in secret_names(session.storage_options)]
    if has_secrets(session.root):
        names.append("root")
    names += ["allowed_paths"] if any(map(has_secrets, map(str, session.allowed_paths or ()))) else []
    if names:
        raise error(
            "NOT_SUPPORTED",
            f"{', '.join(names)}: credentials do not travel with a pickle; set them in the environment of "
            "the process that needs them, and leave them out here",
        )
