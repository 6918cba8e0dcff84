"""A case of the sweep: a dataset that pylance writes, and what every query over it has to answer.

    python -m tests.formats.lance_cases --kind "list of" --version 2.2 --nulls some --size "a page"

runs all cases whose names have these words in them, and says which fail and how; `--all` goes on after the
first ten failures of a kind of case, `--keep FOLDER` leaves the datasets that failed there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from querymode import QueryMode, QueryModeError, col
from tests.formats.lance_sweep import MORE_NULLS, NULLS, Kind, kinds
from tests.lance_tables import READS, ours, pylance
from tests.same_arrays import assert_same_columns, assert_same_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from querymode import DataFrame

    Session: TypeAlias = "QueryMode | ByPylance"
    Query = Callable[[DataFrame], DataFrame]


class Size(NamedTuple):
    rows: int
    #: Its writer is given so many batches.
    batches: int
    #: And told this besides.
    options: dict[str, Any]


SIZES = {
    "one row": Size(1, 1, {}),
    "a page": Size(20_000, 1, {}),
    "pages": Size(300_000, 40, {"data_cache_bytes": 1}),
    "fragments": Size(20_000, 7, {"max_rows_per_group": 700}),
}


class Case(NamedTuple):
    kind: Kind
    version: str
    nulls: str
    size: str

    def __str__(self) -> str:
        return f"{self.version}-{self.kind.name}-{self.nulls}-{self.size}"

    @property
    def coin(self) -> int:
        """What is chosen by chance, but is the same in every run."""
        return zlib.crc32(str(self).encode())


def all_cases() -> Iterator[Case]:
    for kind in kinds():
        for version in kind.versions:
            for size in SIZES:
                for nulls in _nulls_of(kind, size):
                    yield Case(kind, version, nulls, size)


def few_cases() -> Iterator[Case]:
    """Every kind once; versions, sizes and NULLs take turns, new versions often and large sizes seldom."""
    for kind in kinds():
        turn = zlib.crc32(kind.name.encode())
        version = kind.versions[-1] if turn % 3 == 0 else kind.versions[turn // 3 % len(kind.versions)]
        size = ("a page", "fragments", "one row", "a page", "fragments", "pages")[turn // 12 % 6]
        choices = _nulls_of(kind, size)
        yield Case(kind, version, choices[turn // 72 % len(choices)], size)


def _nulls_of(kind: Kind, size: str) -> tuple[str, ...]:
    if not kind.has_nulls:
        return ("none",)
    return (*NULLS, *MORE_NULLS) if size == "a page" else NULLS


# ---- written by pylance ----


def table_of(case: Case) -> pa.Table:
    """The column, and the number of its row before or behind it."""
    column = case.kind.column(SIZES[case.size].rows, case.nulls)
    fields = {
        "c": (pa.field("c", column.type, metadata=dict(case.kind.metadata or {})), column),
        "id": (pa.field("id", pa.int64()), pa.array(np.arange(len(column)))),
    }
    # Behind a structure without fields pylance takes every column for another one, and finds NULLs.
    is_behind = case.coin % 2 and case.kind.name != "struct without fields"
    order = [fields[name] for name in (("c", "id") if is_behind else ("id", "c"))]
    return pa.Table.from_arrays(
        [array for _, array in order], schema=pa.schema([field for field, _ in order])
    )


def refusal(case: Case, column: Any) -> str | None:
    """Why pylance does not write it; a test holds this to what pylance does."""
    if case.version == "2.0" and _has_null_structs(column):
        return "files 2.0 do not say which structures are NULL"
    return None


def _has_null_structs(array: Any) -> bool:
    kind = array.type
    if pa.types.is_struct(kind):
        return array.null_count > 0 or any(map(_has_null_structs, array.flatten()))
    return pa.types.is_nested(kind) and not pa.types.is_map(kind) and _has_null_structs(array.flatten())


def write(case: Case, table: pa.Table, path: Path) -> None:
    size = SIZES[case.size]
    batch_rows = -(-table.num_rows // size.batches)
    pylance().write_dataset(
        _in_batches(table, batch_rows),
        str(path),
        data_storage_version=case.version,
        max_rows_per_file=batch_rows if case.size == "fragments" else 1 << 20,
        **size.options,
    )


def _in_batches(table: pa.Table, rows: int) -> pa.RecordBatchReader:
    """Structures are copied, not sliced: its writer mistakes bits of booleans in those that begin later."""
    batches = table.to_batches(max_chunksize=rows)
    if "struct" in str(table.schema.field("c").type):
        batches = [batch.take(pa.array(range(batch.num_rows))) for batch in batches]
    return pa.RecordBatchReader.from_batches(table.schema, batches)


def read_by_pylance(path: Path | str) -> pa.Table:
    """Blobs as their bytes, not as where they lie."""
    table: pa.Table = pylance().dataset(str(path)).to_table(blob_handling="all_binary")
    return table


class ByPylance:
    """Stands where a session does, and has pylance read: that tries the tests themselves."""

    def table(self, path: str) -> DataFrame:
        batches = ours(read_by_pylance(path)).combine_chunks().to_batches(max_chunksize=1_111)
        return QueryMode.from_arrow(pa.Table.from_batches(batches))


# ---- asked of both ----


def queries_of(case: Case, table: pa.Table) -> dict[str, Query]:
    """Ways to ask for parts of it: by rows, by columns, by values of the column where it has any order."""
    rows = table.num_rows
    low, high = rows // 3, rows // 3 + max(1, rows // 50)
    some = sorted({(case.coin * step) % rows for step in range(1, 40)})
    c, number = col("c"), col("id")
    found: dict[str, Query] = {
        "the column": lambda frame: frame.select("c"),
        "row numbers": lambda frame: frame.select("id"),
        "columns in another order": lambda frame: frame.select("id", "c"),
        "rows in the middle": lambda frame: frame.filter(number.between(low, high)),
        "rows here and there": lambda frame: frame.filter(number.is_in(some)),
        "the last row": lambda frame: frame.filter(number == rows - 1).select("c"),
        "no rows": lambda frame: frame.filter(number < 0),
        "the first rows": lambda frame: frame.limit(rows // 2 + 1),
        "first rows of some": lambda frame: frame.filter(number >= low).limit(7).select("c"),
        "rows with a value": lambda frame: frame.filter(c.is_not_null()).select("id"),
        "rows without": lambda frame: frame.filter(c.is_null()),
        "how many": lambda frame: frame.agg(c.count().alias("n"), number.sum().alias("sum")),
        "how many of some": lambda frame: frame.filter(number < high).agg(c.count().alias("n")),
        "least and greatest": lambda frame: frame.agg(c.min().alias("least"), c.max().alias("greatest")),
        "in order": lambda frame: frame.sort("c", "id").limit(20),
        "backwards": lambda frame: frame.sort("c", "id", descending=True).limit(20).select("id", "c"),
        "groups": _groups,
    }
    for name, value in _values(table).items():
        found |= _compared(name, value)
    return found


#: Of every case these are asked; others take turns where time is short.
ALWAYS = ("the column",)


def _groups(frame: DataFrame) -> DataFrame:
    """By the first of their rows: which of two zeros stands for its group is not said."""
    counted = frame.group_by("c").agg(col("id").count().alias("n"), col("id").min().alias("first"))
    return counted.sort("first").limit(100).select("n", "first")


def _compared(name: str, value: Any) -> dict[str, Query]:
    c = col("c")
    return {
        f"equal to the {name}": lambda frame: frame.filter(c == value),
        f"at least the {name}": lambda frame: frame.filter(c >= value).select("id"),
        f"not the {name}": lambda frame: frame.filter(c != value).select("id", "c"),
    }


def _values(table: pa.Table) -> dict[str, Any]:
    """Of types that have literals, two that are there."""
    column = table.column("c")
    kind = column.type
    has_literals = any(
        is_kind(kind)
        for is_kind in (
            *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal),
            *(pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_binary),
        )
    )
    if not has_literals:
        return {}
    there = column.drop_null()
    if not len(there):
        return {}
    return {"first": there[0].as_py(), "middle": there[len(there) // 2].as_py()}


def answer(query: Query, frame: DataFrame) -> pa.Table | str:
    try:
        return query(frame).to_arrow()
    except QueryModeError as error:
        # What is said of a file is an error of reading it, which no query over rows in memory has.
        return str(error) if "case.lance" in str(error) or error.code == "INTERNAL" else error.code
    except Exception as error:
        return f"{error!r} {traceback.format_tb(error.__traceback__)[-1].strip()}"


# ---- checked ----


class Differs(AssertionError):
    pass


def check(session: Session, case: Case, folder: Path, *, queries: int | None = None) -> str | None:
    """Why there was nothing to read, or None. `queries`: as many of them, and reading everything."""
    table = table_of(case)
    refused = refusal(case, table.column("c").chunk(0))
    if refused is not None:
        return refused
    if case.version not in READS and not isinstance(session, ByPylance):
        return f"files {case.version} are not read yet"
    path = folder / "case.lance"
    write(case, table, path)
    theirs = read_by_pylance(path)
    if not is_ours(theirs):
        check_foreign(session, path)
        return None
    if (case.kind.is_optional or is_unread(case)) and is_refused(session, path):
        return "what we do not read yet"
    wanted = ours(theirs)
    if case.version != "0.1" and not case.kind.is_optional:
        assert_same_tables(wanted, ours(table))  # or pylance has an error, and no test is possible
    frame = session.table(str(path))
    _compare("everything", frame.to_arrow(), wanted)
    count = frame.count()
    assert count == wanted.num_rows, f"count() is {count:,}, not {wanted.num_rows:,}"
    if not isinstance(session, ByPylance) and not case.kind.name.startswith("packed struct"):
        _check_fields(frame, wanted)
    held = QueryMode.from_arrow(theirs)
    for name, query in _chosen(case, queries_of(case, wanted), queries):
        _compare(name, answer(query, frame), answer(query, held))
    return None


def _check_fields(frame: DataFrame, wanted: pa.Table) -> None:
    """Each of a structure's alone, where there is a structure; what lies in memory has no such columns."""
    column = wanted.column("c")
    for index, field in enumerate(column.type if pa.types.is_struct(column.type) else ()):
        chunks: list[Any] = column.chunks
        arrays = [chunk.flatten()[index] for chunk in chunks]
        alone = pa.table({f"c.{field.name}": pa.chunked_array(arrays, field.type)})
        (name,) = alone.column_names
        _compare(f"field {field.name}", answer(methodcaller("select", name), frame), alone)
        some = frame.filter(col("id") >= 5)
        _compare(f"field {field.name} of some", answer(methodcaller("select", name), some), alone.slice(5))


def _chosen(case: Case, found: dict[str, Query], count: int | None) -> list[tuple[str, Query]]:
    names = list(found)
    if count is not None:
        start = case.coin % len(names)
        turns = (names * 2)[start : start + count]
        names = [*ALWAYS, *(name for name in turns if name not in ALWAYS)]
    return [(name, found[name]) for name in names]


def _compare(query: str, found: pa.Table | str, wanted: pa.Table | str) -> None:
    try:
        if isinstance(found, str) or isinstance(wanted, str):
            assert found == wanted, f"{_short(found)}, not {_short(wanted)}"
        else:
            assert_same_tables(found, wanted)
    except AssertionError as error:
        raise Differs(f"{query}: {error}") from error


def _short(answer: pa.Table | str) -> str:
    return answer if isinstance(answer, str) else f"{answer.num_rows:,} rows"


def is_ours(table: pa.Table) -> bool:
    """Whether we have its types at all. (Vectors with NULLs in them are of none.)"""
    try:
        QueryMode.from_arrow(table)
    except QueryModeError as error:
        assert error.code == "NOT_SUPPORTED"
        return False
    return True


def check_foreign(session: Session, path: Path) -> None:
    """A column of a type that we do not have is refused by name, and what stands beside it is read."""
    numbers = session.table(str(path)).select("id").to_arrow().column("id")
    assert_same_columns(numbers, pa.chunked_array([np.arange(len(numbers))]), "id")
    assert is_refused(session, path), "a column of a type that we do not have was read"


#: What is refused by name as yet: by parts of a kind's name, and the versions of files.
UNREAD = {
    "2.0": (
        "by LZ4",
        "by Zstandard",
        ", Zstandard",
        "dictionary of",
        "of 130 bools",
        "of 3 bools",
        "packed struct",
    ),
    "2.1": ("blobs",),
    "2.2": ("blobs", "struct without fields"),
}


def is_unread(case: Case) -> bool:
    """Cases that may be refused. Those that are not have to be right all the same."""
    return any(
        part in case.kind.name for part in (*UNREAD.get(case.version, ()), "blobs", "with NULLs in them")
    )


def is_refused(session: Session, path: Path) -> bool:
    try:
        session.table(str(path)).select("c").to_arrow()
    except QueryModeError as error:
        assert error.code == "NOT_SUPPORTED" and "'c'" in str(error), error
        return True
    return False


# ---- by hand ----


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.formats.lance_cases", description=__doc__)
    for name in ("kind", "version", "nulls", "size"):
        parser.add_argument(f"--{name}", default="", help="has this in it")
    parser.add_argument("--few", action="store_true", help="those that the suite runs")
    parser.add_argument("--queries", type=int, help="as many, instead of all")
    parser.add_argument("--keep", type=Path, help="where datasets that failed are left")
    parser.add_argument("--pylance", action="store_true", help="has pylance read: tries the cases themselves")
    options = parser.parse_args()
    chosen = [
        case
        for case in (few_cases() if options.few else all_cases())
        if options.kind in case.kind.name
        and options.version in case.version
        and options.nulls in case.nulls
        and options.size in case.size
    ]
    counts: Counter[str] = Counter()
    session = ByPylance() if options.pylance else QueryMode.local(threads=1)
    started = time.monotonic()
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            counts[_report(session, case, Path(folder), options)] += 1
    print(f"{len(chosen)} cases in {time.monotonic() - started:.0f} s: {dict(counts)}")
    return 1 if counts["failed"] else 0


def _report(session: Session, case: Case, folder: Path, options: argparse.Namespace) -> str:
    try:
        refused = check(session, case, folder, queries=options.queries)
    except Exception as error:
        said = " ".join(str(error).split()).replace(str(folder), "")
        print(f"{case}: {type(error).__name__}: {said[:300]}", flush=True)
        if options.keep:
            kept = options.keep / str(case).replace("/", " ")
            shutil.copytree(folder / "case.lance", kept, dirs_exist_ok=True)
        return "failed"
    return "not tried" if refused else "right"


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    sys.exit(main())
