"""Errors: codes, builtin bases, pickling, what messages say, and what a traceback shows."""

from __future__ import annotations

import copy
import pickle
import traceback

import pyarrow as pa
import pytest

from querymode import QueryMode, QueryModeError, col
from querymode.errors import CODES, column_not_found, error

BASES: dict[str, type[BaseException]] = {
    "TABLE_NOT_FOUND": FileNotFoundError,
    "TABLE_EXISTS": FileExistsError,
    "COLUMN_NOT_FOUND": LookupError,
    "INVALID_FORMAT": ValueError,
    "SCHEMA_MISMATCH": TypeError,
    "INVALID_FILTER": ValueError,
    "INVALID_AGGREGATE": ValueError,
    "SQL_SYNTAX": ValueError,
    "NOT_SUPPORTED": NotImplementedError,
    "ACCESS_DENIED": PermissionError,
    "MEMORY_EXCEEDED": MemoryError,
    "NETWORK_TIMEOUT": TimeoutError,
    "QUERY_TIMEOUT": TimeoutError,
    "BUDGET_EXCEEDED": Exception,
    "COMMIT_CONFLICT": Exception,
    "QUERY_FAILED": Exception,
    "INTERNAL": RuntimeError,
}


def test_codes_are_those_of_the_design() -> None:
    assert set(CODES) == set(BASES)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_every_code_survives_pickling(code: str, again: object) -> None:
    made = error(code, "what and how – é", table="t", column="c", offset=7)
    assert isinstance(made, QueryModeError)
    assert isinstance(made, BASES[code])
    assert callable(again)
    back = again(made)
    assert type(back) is type(made)
    fields = ("code", "message", "table", "column", "offset")
    assert [getattr(back, name) for name in fields] == [code, "what and how – é", "t", "c", 7]
    assert str(back) == str(made) == f"{code}: what and how – é"


def test_an_unknown_code_is_our_mistake() -> None:
    with pytest.raises(KeyError):
        error("NO_SUCH_CODE", "")


@pytest.mark.parametrize(
    ("name", "columns", "suggested"),
    [
        ("amuont", ["amount", "region"], "amount"),
        ("amount", ["Amount"], "Amount"),
        ("REGION", ["amount", "region"], "region"),
        ("zzz", ["amount", "region"], None),
        ("x", [], None),
    ],
)
def test_a_misspelt_column_suggests_the_nearest(name: str, columns: list[str], suggested: str | None) -> None:
    failure = column_not_found(name, columns, table="orders")
    assert failure.code == "COLUMN_NOT_FOUND"
    assert (failure.column, failure.table) == (name, "orders")
    assert repr(name) in failure.message
    assert all(column in failure.message for column in columns)
    assert (f"Did you mean {suggested!r}?" in failure.message) == (suggested is not None)
    assert ("Did you mean" in failure.message) == (suggested is not None)


def test_a_long_list_of_columns_is_cut() -> None:
    message = column_not_found("x", [f"column_{index}" for index in range(500)]).message
    assert "500 in all" in message
    assert len(message) < 500


FRAME = QueryMode.from_arrow(pa.table({"a": [1, 2], "zero": [0, 0], "s": ["x", "y"]}))


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: FRAME.select(col("a") // col("zero")).rows, "QUERY_FAILED"),
        (lambda: FRAME.select(col("a").cast("int8") + 127).rows, "QUERY_FAILED"),
        (lambda: FRAME.collect(memory="1KiB"), "MEMORY_EXCEEDED"),
        (lambda: QueryMode.from_csv('a\n"open'), "INVALID_FORMAT"),
        (lambda: QueryMode.from_json("[{"), "INVALID_FORMAT"),
        (lambda: FRAME.filter("b", "eq", 1), "COLUMN_NOT_FOUND"),
        (lambda: QueryMode.local().table("none"), "TABLE_NOT_FOUND"),
        (lambda: QueryMode.from_arrow(7), "INVALID_FORMAT"),
        (lambda: FRAME.select("a", "a"), "SCHEMA_MISMATCH"),
        (lambda: FRAME.filter("s", "gt", 5), "INVALID_FILTER"),
        (lambda: FRAME.agg(col("s").sum()), "INVALID_AGGREGATE"),
        (lambda: col("a").cast("no such type"), "NOT_SUPPORTED"),
    ],
)
def test_no_engine_frames_in_a_traceback(ask: object, code: str) -> None:
    assert callable(ask)
    with pytest.raises(QueryModeError) as caught:
        ask()
    failure = caught.value
    assert failure.code == code
    files = [frame.filename for frame in traceback.extract_tb(failure.__traceback__)]
    assert not [name for name in files if "wasmtime" in name or name.endswith("instance.py")]
    assert "wasmtime" not in "".join(traceback.format_exception(failure))
    assert FRAME.count() == 2  # and the next query works
