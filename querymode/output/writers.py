"""Answers as files: Parquet, CSV, JSON and Arrow, written while the query runs.

A file is written beside its place under another name and moved there when it is complete, so that nobody sees
a part of one. Formats write to any binary file: the command line gives them its output.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from querymode._checks import row_count
from querymode.errors import QueryModeError, error
from querymode.store.source import Touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    import pyarrow

    from querymode.frame.frame import DataFrame
    from querymode.session import QueryMode

#: Rows are gathered for a row group until they have this many bytes.
ROW_GROUP_SIZE_MAX = 128 << 20
#: Rows that become Python values at a time.
PART_ROWS = 1024
COMPRESSIONS = ("zstd", "snappy", "gzip", "brotli", "lz4", "none")


class Format:
    """How rows become bytes. `check` refuses what a format cannot hold before anything is read."""

    def check(self, frame: DataFrame) -> None:
        pass

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        """Runs the query; returns how many rows were written."""
        raise NotImplementedError


def write_file(frame: DataFrame, path: object, format: Format, overwrite: object) -> int:
    """The rows of a frame as a local file."""
    target = _target(frame._session, path)
    if not overwrite and os.path.lexists(target):
        raise _exists(target)
    format.check(frame)
    temporary = f"{target}.{os.getpid()}.{os.urandom(6).hex()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as failure:
        raise _failed(target, failure) from failure
    try:
        with os.fdopen(descriptor, "wb") as file:
            rows = _written(frame, format, file)
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, target, overwrite=bool(overwrite))
    except BaseException as failure:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(failure, OSError) and not isinstance(failure, QueryModeError):
            raise _failed(target, failure) from failure
        raise
    return rows


def _written(frame: DataFrame, format: Format, file: BinaryIO) -> int:
    try:
        return format.write(frame, file)
    except Touched:  # a file that is read, by somebody who may have changed nothing in it
        file.seek(0)
        file.truncate()
        return format.write(frame, file)


def _target(session: QueryMode, path: object) -> str:
    from querymode.store.access import absolute
    from querymode.store.location import display_name, local_path, scheme_of

    if (
        not isinstance(path, (str, os.PathLike))
        or not isinstance(os.fspath(path), str)
        or not os.fspath(path)
    ):
        raise error("QUERY_FAILED", f"a file is written to a path, not to {path!r}")
    text = absolute(os.fspath(path), session.root)
    if scheme_of(text) not in ("", "file"):
        raise error("NOT_SUPPORTED", f"{display_name(text)}: files are written on this machine only, so far")
    if "\0" in text:
        raise error("QUERY_FAILED", f"{text!r} cannot be the name of a file")
    target = local_path(text, session.root)
    if not os.path.basename(target) or os.path.isdir(target):
        raise error("QUERY_FAILED", f"{target} is a folder; give the name of a file")
    if os.path.exists(target) and not os.path.isfile(target):  # moving a file there would replace it
        raise error("QUERY_FAILED", f"{target} is a device, pipe or socket; give the name of a file")
    return session._store_options().access.local(target)


def _publish(temporary: str, target: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # fails if somebody else was faster
    except FileExistsError:
        raise _exists(target) from None
    except OSError as failure:
        if failure.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(target):
            raise _exists(target) from None
        os.rename(temporary, target)
        return
    os.unlink(temporary)


def _exists(target: str) -> QueryModeError:
    return error("TABLE_EXISTS", f"{target} is there already; overwrite=True replaces it")


def _failed(target: str, failure: OSError) -> QueryModeError:
    if failure.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return error(
            "ACCESS_DENIED", f"this user may not write {target}; check the permissions of its folder"
        )
    if failure.errno in (errno.ENOENT, errno.ENOTDIR):
        return error("QUERY_FAILED", f"there is no folder for {target}; make it first")
    return error("QUERY_FAILED", f"{target} could not be written: {os.strerror(failure.errno or 0)}")


# ---- formats ----


class ParquetFormat(Format):
    def __init__(self, compression: str = "zstd", row_group_size: int = 1 << 20) -> None:
        if compression not in COMPRESSIONS:
            raise error("NOT_SUPPORTED", f"compression={compression!r}; there are {', '.join(COMPRESSIONS)}")
        self._compression = compression
        self._rows = row_count("row_group_size", row_group_size)
        if self._rows == 0:
            raise error("QUERY_FAILED", "row_group_size is a number of rows, at least one")

    def check(self, frame: DataFrame) -> None:
        from io import BytesIO

        import pyarrow.parquet

        schema = _arrow_schema(frame)
        for field in schema:
            try:
                pyarrow.parquet.write_table(pyarrow.schema([field]).empty_table(), BytesIO())
            except pyarrow.ArrowException as failure:
                raise _no_type(frame, field.name, "Parquet") from failure

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        import pyarrow.parquet

        compression: Any = "NONE" if self._compression == "none" else self._compression
        schema = _arrow_schema(frame)
        rows = 0
        with pyarrow.parquet.ParquetWriter(file, schema, compression=compression) as writer:
            for table in self._groups(frame.stream(min(self._rows, 1 << 16)), schema):
                writer.write_table(table, row_group_size=self._rows)
                rows += table.num_rows
        return rows

    def _groups(
        self, batches: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema
    ) -> Iterator[pyarrow.Table]:
        """Batches together, as many as a row group takes."""
        import pyarrow

        waiting: list[pyarrow.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            while rows + batch.num_rows >= self._rows:
                count = self._rows - rows
                yield pyarrow.Table.from_batches([*waiting, batch.slice(0, count)], schema)
                batch = batch.slice(count)
                waiting, rows, size = [], 0, 0
            if batch.num_rows:
                waiting.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
            if size >= ROW_GROUP_SIZE_MAX:
                yield pyarrow.Table.from_batches(waiting, schema)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield pyarrow.Table.from_batches(waiting, schema)


class ArrowFormat(Format):
    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        import pyarrow

        target: Any = file
        rows = 0
        with pyarrow.ipc.new_file(target, _arrow_schema(frame)) as writer:
            for batch in frame.stream():
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows


class CsvFormat(Format):
    def __init__(self, delimiter: str = ",", header: bool = True) -> None:
        if (
            not isinstance(delimiter, str)
            or len(delimiter) != 1
            or delimiter in '"\r\n'
            or ord(delimiter) > 127
        ):
            raise error(
                "QUERY_FAILED", f"delimiter={delimiter!r}; it is one ASCII character, no quote or line end"
            )
        self._delimiter = delimiter
        self._header = bool(header)

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        import pyarrow
        import pyarrow.csv

        fields = [(field.name, _csv_type(field.type)) for field in _arrow_schema(frame)]
        options = pyarrow.csv.WriteOptions(include_header=self._header, delimiter=self._delimiter)
        schema = pyarrow.schema(fields)
        rows = 0
        with pyarrow.csv.CSVWriter(file, schema, write_options=options) as writer:
            for batch in frame.stream():
                columns = [
                    _csv_column(column, field.type)
                    for column, field in zip(batch.columns, schema, strict=True)
                ]
                writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
                rows += batch.num_rows
        return rows


class JsonFormat(Format):
    """An array with one object a line, or (`lines`) the objects alone."""

    def __init__(self, *, lines: bool = False) -> None:
        self._lines = lines

    def write(self, frame: DataFrame, file: BinaryIO) -> int:
        first, between, last = ("", "\n", "\n") if self._lines else ("[", ",\n ", "]\n")
        rows = 0
        file.write(first.encode())
        for row in json_rows(frame):
            file.write((row if rows == 0 else between + row).encode())
            rows += 1
        if rows or not self._lines:
            file.write(last.encode())
        return rows


def json_rows(frame: DataFrame) -> Iterator[str]:
    """Every row as an object."""
    from querymode.output.cells import dump_json, to_json

    names = frame.columns
    for columns in column_batches(frame):
        for values in zip(*columns, strict=True):
            yield dump_json(dict(zip(names, map(to_json, values), strict=True)))


def column_batches(frame: DataFrame) -> Iterator[list[list[Any]]]:
    """By some rows, the values of each column. Names may repeat, so rows as dicts would lose some."""
    from querymode.qmcb import column_values, decode_columnar_batch, sliced_column

    session = frame._session
    for data in session._stream_qmcb(frame._node, session._limits()):
        batch = decode_columnar_batch(data)
        # A batch may have 100,000 rows, and whoever reads them may stop after two.
        for start in range(0, batch.row_count, PART_ROWS):
            stop = min(start + PART_ROWS, batch.row_count)
            yield [column_values(sliced_column(column, start, stop)) for column in batch.columns]


def _arrow_schema(frame: DataFrame) -> pyarrow.Schema:
    from querymode.arrow.to_arrow import arrow_schema

    return arrow_schema(frame.schema)


def _no_type(frame: DataFrame, name: str, what: str) -> QueryModeError:
    kind = frame.dtypes()[name]
    return error(
        "NOT_SUPPORTED",
        f"{what} files cannot hold {name!r}, which is {kind}; cast it, or drop it",
        column=name,
    )


def _csv_type(given: Any) -> Any:
    """The type that pyarrow writes a column as: its own, or text where it has no text of it."""
    import pyarrow

    types = pyarrow.types
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_string)
    moments = (types.is_date, types.is_time, types.is_timestamp, types.is_null)
    if any(is_it(given) for is_it in (*plain, *moments)) and not types.is_float16(given):
        return given
    return pyarrow.float32() if types.is_float16(given) else pyarrow.string()


def _csv_column(column: Any, target: Any) -> Any:
    import pyarrow

    if column.type == target:
        return column
    if pyarrow.types.is_float16(column.type):
        return column.cast(target)
    from querymode.output.cells import dump_json, to_json

    texts = []
    for value in column.to_pylist():
        plain = to_json(value)
        texts.append(plain if plain is None or isinstance(value, bytes) else dump_json(plain))
    return pyarrow.array(texts, target)
