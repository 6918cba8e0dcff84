"""Arrow data that is malformed in every way, where it is malformed, and however it comes: never a crash."""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow
import pytest

from querymode import QueryMode
from querymode._call import Call
from querymode.arrow.checks import check_table
from querymode.table.from_arrow import from_arrow
from tests.corrupt import arrow_cases
from tests.raises import raises_code
from tests.unit.test_arrow import arrow_values, table_values

pa: Any = pyarrow


def run_road(road: str) -> list[str]:
    lines: list[str] = []
    start = 0
    while not lines or lines[-1] != "END":
        child = subprocess.run(
            [sys.executable, "-m", "tests.corrupt.arrow_child", road, str(start)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        new = child.stdout.splitlines()
        assert new, child.stderr
        if new[-1] != "END":
            # Before it was made the process died inside of pyarrow.
            died = "DIED" if new[-1].endswith("made ") else "died before"
            start = int(new[-1].split()[0]) + 1
            new[-1] += f"{died} {child.stderr[-300:]}"
        lines += new
    return lines[:-1]


@pytest.mark.parametrize(
    ("road", "refused_min"),
    [("tables", 1500), ("streams", 300), ("messages", 800), ("misshapen", 9000), ("functions", 100)],
)
def test_malformed_data_is_refused(road: str, refused_min: int) -> None:
    lines = run_road(road)
    wrong = [
        line
        for line in lines
        if line.rsplit(" ", 1)[-1] not in ("refused", "equal", "theirs") and "died before" not in line
    ]
    assert not wrong, f"{len(wrong)} of {len(lines)}, such as\n" + "\n".join(wrong[:20])
    counts = Counter(line.rsplit(" ", 1)[-1] for line in lines)
    assert counts["refused"] >= refused_min, counts


# ---- what is odd, and right ----


def odd_arrays() -> dict[str, Any]:
    good = arrow_cases.good_arrays()
    found = {f"{name}, itself": array for name, array in good.items()}
    found |= {f"{name}, a slice": array.slice(1, len(array) - 2) for name, array in good.items()}
    found |= {f"{name}, no rows": array.slice(2, 0) for name, array in good.items()}
    found |= {
        f"{name}, an empty one": pa.array([], array.type)
        for name, array in good.items()
        if name != "extension"
    }
    for name, array in good.items():
        if not name.startswith(("runs", "extension", "vector")):
            found[f"{name}, all NULL"] = pa.array([None] * 9, array.type).slice(1)
    no_text = [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]
    found["no bytes of text"] = pa.Array.from_buffers(pa.string(), 3, no_text)
    bits = pa.py_buffer(b"\x05")
    found["not UTF-8 under a NULL"] = pa.Array.from_buffers(
        pa.string(), 3, [bits, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xffb")]
    )
    found["24:00:00"] = pa.array([0, 86_400], pa.int32()).cast(pa.time32("s"))
    return found


@pytest.mark.parametrize("name", odd_arrays())
def test_odd_data_comes_in_as_it_is(name: str) -> None:
    array = odd_arrays()[name]
    for given in (arrow_cases.table_of(array), arrow_cases.Streamed(arrow_cases.table_of(array))):
        assert table_values(from_arrow(given)) == arrow_values(array)


def test_the_end_of_a_day_is_a_time_in_nested_columns_too() -> None:
    times = pa.array([0, 86_400_000_000]).cast(pa.time64("us"))
    nested = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), times)
    frame = QueryMode.from_arrow(pa.table({"t": nested}))
    assert frame.rows == [{"t": [datetime.time(0), "24:00:00"]}]


# ---- what pyarrow does not survive ----


def test_a_map_with_null_keys_inside_of_a_struct() -> None:
    code = """
import pyarrow as pa
from querymode import QueryMode, QueryModeError
from querymode._call import Call
entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
pairs = pa.array([[("a", 1), (None, 2)]], pa.list_(entry))
kind = pa.struct([("inner", pa.map_(pa.string(), pa.int64()))])
given = pa.record_batch({"column": pa.StructArray.from_arrays([pairs], ["inner"])})
class Given:
    def __arrow_c_array__(self, requested=None):
        return pa.schema([("column", kind)]).__arrow_c_schema__(), given.__arrow_c_array__()[1]
try:
    QueryMode.from_arrow(Given())
except QueryModeError as failure:
    print(failure.code, failure.column)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.stdout == "INVALID_FORMAT column\n", child.stderr


def test_maps_of_other_libraries() -> None:
    child = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.corrupt.arrow_maps"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    *lines, end = child.stdout.splitlines()
    assert (end, child.stderr) == ("END", "")
    outcomes = dict(line.split(": ", 1) for line in lines)
    assert len(outcomes) == 90
    a, c = "[('a', 1), ('b', None)]", "[('c', 3)]"
    whole = f"[{a}, None, [], {c}]"
    wanted = {
        "itself": whole,
        "in lists": f"[[{a}], [None, [], {c}]]",
        "in large lists": f"[[{a}], [None, [], {c}]]",
        "in list views": f"[[None, [], {c}], [{a}]]",
        "in lists of two": f"[[{a}, None], [[], {c}]]",
        "in structs": f"[[{a}], [None], [[]], [{c}]]",
        "in maps": f"[[('0', {a})], [('1', None), ('2', []), ('3', {c})]]",
        "in a dictionary": whole,
        "sliced": "[None, []]",
        "no rows": "[]",
    }
    for name, outcome in outcomes.items():
        if name.startswith("good"):
            assert outcome == wanted[name.removeprefix("good ").split(",")[0]], name
        elif "bad" in name:
            assert outcome.startswith("INVALID_FORMAT c column 'c' of map<"), name
            assert outcome.endswith("it has NULL keys"), name
    for kind in ("Producer", "StreamProducer"):
        assert outcomes[f"before the first row, {kind}"].startswith("INVALID_FORMAT c ")
        assert outcomes[f"no entries, {kind}"].startswith("INVALID_FORMAT c ")
    assert outcomes["several"] == f"[{a}, None, [], {c}, {a}, None, [], {c}]"
    assert outcomes["none"] == "[]"
    failed = {
        name: outcome.split("cannot be read: ")[1] for name, outcome in outcomes.items() if "fail" in name
    }
    assert failed == {
        "failing": "the disk is \ufffd full",
        "failing silently": "its producer failed with 5",
        "failing without maps": "no more",
    }


class Misnamed:
    """A name inside the schema that is not UTF-8."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested: object = None) -> object:
        written = arrow_cases.sent(self._table)
        return pa.ipc.open_stream(written.replace(b"NAME", b"NA\xffE")).__arrow_c_stream__()


@pytest.mark.parametrize(
    "column",
    [
        ("NAME", pa.array([1])),
        ("s", pa.array([{"NAME": 1}])),
        ("s", pa.array([[{"NAME": 1}]])),
        ("NAME", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_names_that_are_not_utf8(column: tuple[str, Any]) -> None:
    table = pa.table({"first": pa.array([1]), column[0]: column[1]})
    for given in (Misnamed(table), pa.table(Misnamed(table))):
        with raises_code("INVALID_FORMAT", match=r"column 1 .*is not UTF-8"):
            QueryMode.from_arrow(given)


@pytest.mark.parametrize("is_foreign", [True, False])
def test_streams_without_an_end_take_as_long_as_they_may(is_foreign: bool) -> None:
    batch = pa.record_batch({"a": [1]})
    reader = pa.RecordBatchReader.from_batches(batch.schema, itertools.repeat(batch))
    with raises_code("QUERY_TIMEOUT"):
        QueryMode(timeout=0.2).from_arrow(arrow_cases.Streamed(reader) if is_foreign else reader)


def test_validation_takes_as_long_as_it_may() -> None:
    texts = pa.array(["a text of some length"]).take(pa.array(np.zeros(1 << 22, np.int64)))
    with Call(deadline=time.monotonic() + 0.001), raises_code("QUERY_TIMEOUT"):
        check_table(pa.table({"a": texts, "b": texts}))


class Failing:
    def __arrow_c_stream__(self, requested: object = None) -> object:
        raise RuntimeError("the connection is gone")


def failing_reader() -> Any:
    def batches() -> Any:
        yield pa.record_batch({"a": [1]})
        raise ValueError("no more")

    return pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())


@pytest.mark.parametrize("make", [Failing, failing_reader])
def test_producers_that_fail(make: Any) -> None:
    with raises_code("INVALID_FORMAT"):
        QueryMode.from_arrow(make())


# ---- what it costs ----


@pytest.mark.parametrize("kind", ["list", "struct", "dictionary", "runs"])
def test_slices_of_one_array_are_checked_in_linear_time(kind: str) -> None:
    count = 400_000
    texts = pa.array([f"text {index}" for index in range(count)])
    made = {
        "list": lambda: pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), texts),
        "struct": lambda: pa.StructArray.from_arrays([texts], ["text"]),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(np.arange(count, dtype=np.int32), texts),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays(np.arange(1, count + 1, dtype=np.int32), texts),
    }
    array = made[kind]()
    whole = pa.table({"c": array})
    parts = pa.table({"c": pa.chunked_array([array.slice(at, 400) for at in range(0, count, 400)])})
    once, often = (min(_seconds(check_table, table) for _ in range(3)) for table in (whole, parts))
    # Validation by pyarrow of what lies below takes 400 to 900 times as long.
    assert often < 60 * once + 0.2


def _seconds(function: Any, *arguments: Any) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started
