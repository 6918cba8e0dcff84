"""`memory=` counts what grows with the data before a query runs: text, footers, tables of very many columns.

Every case runs in a process of its own, whose resident size is sampled meanwhile.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from tests.limits.child import MIB, PEAK, run
from tests.raises import raises_code

#: Threads' stacks, Python's own objects, and what the sampler misses.
SLACK = 32 * MIB

SCRIPT = (
    PEAK
    + """
import json, gc
from querymode import QueryMode, QueryModeError

qm = QueryMode.local(memory={memory!r}, timeout={timeout!r}, threads=2)
qm.from_json([{{"warm": 1}}]).rows
{setup}
gc.collect()
peak = Peak()
started = time.monotonic()
code = None
try:
    {call}
except QueryModeError as failure:
    code = failure.code
print(json.dumps({{"code": code, "grown": peak.peak - peak.baseline, "seconds": time.monotonic() - started}}))
"""
)


def ask(call: str, *, memory: str, setup: str = "", timeout: float | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = run(SCRIPT.format(call=call, memory=memory, setup=setup, timeout=timeout))
    return answer


NEW_KEYS = 'text = "\\n".join(f\'{{"k{i}":1}}\' for i in range(%d))'


@pytest.mark.alone
@pytest.mark.parametrize(
    ("setup", "call"),
    [
        (NEW_KEYS % 5_000, "qm.from_json(text)"),
        (NEW_KEYS % 50_000, "qm.from_json(text)"),
        ("rows = [{f'k{i}': 1} for i in range(5_000)]", "qm.from_json(rows)"),
        ("text = 'a,b\\n' + '1,2.5\\n' * 16_000_000", "qm.from_csv(text)"),
        ("text = b'a,b\\n' + b'1,2.5\\n' * 16_000_000", "qm.from_csv(text)"),
        ("text = '[' + ','.join(['{\"a\":\"\u00e9\"}'] * 5_000_000) + ']'", "qm.from_json(text)"),
        ("rows = [{'a': 'x' * 1000}] * 100_000", "qm.from_json(rows)"),
    ],
    ids=["keys", "more-keys", "dicts", "csv", "csv-bytes", "json", "long-rows"],
)
def test_text_is_refused_in_time(setup: str, call: str) -> None:
    answer = ask(call, memory="64MiB", setup=setup)
    assert answer["code"] == "MEMORY_EXCEEDED"
    assert answer["grown"] < 64 * MIB + SLACK
    assert answer["seconds"] < 5


@pytest.mark.alone
@pytest.mark.parametrize("setup", [NEW_KEYS % 20_000, "text = 'a,b\\n' + '1,2.5\\n' * 30_000_000"])
def test_text_has_a_deadline(setup: str) -> None:
    call = "(qm.from_csv if text.startswith('a') else qm.from_json)(text)"
    answer = ask(call, memory="2GiB", setup=setup, timeout=0.3)
    assert answer["code"] == "QUERY_TIMEOUT"
    assert answer["seconds"] < 1.5


@pytest.mark.alone
def test_rows_have_a_deadline() -> None:
    rows = [{"a": 1, "b": "some text"}] * 3_000_000
    started = time.monotonic()
    with raises_code("QUERY_TIMEOUT"):
        QueryMode.local(timeout=0.2).from_json(rows)
    assert time.monotonic() - started < 1


@pytest.mark.alone
def test_integers_without_end_are_refused_at_once() -> None:
    setup = "import sys\nsys.set_int_max_str_digits(0)\nrows = [{'a': [{'b': 10**100_000}]}] * 100"
    answer = ask("qm.from_json(rows)", memory="64MiB", setup=setup, timeout=3)
    assert answer["code"] == "INVALID_FORMAT"
    assert answer["seconds"] < 0.5


@pytest.mark.alone
def test_long_rows_are_written_a_few_at_a_time() -> None:
    answer = ask("qm.from_json([{'a': text}] * 1000)", memory="64MiB", setup="text = 'x' * 10_000_000")
    assert answer["code"] == "MEMORY_EXCEEDED"
    assert answer["grown"] < 64 * MIB + SLACK


def test_text_within_the_memory() -> None:
    answer = ask(
        "assert qm.from_csv(text).count() == 1_000_000",
        memory="96MiB",
        setup="text = 'a\\n' + '1\\n' * 10**6",
    )
    assert answer["code"] is None
    assert answer["grown"] < 96 * MIB + SLACK


def lying_footer(path: Path, size: int) -> Path:
    """A file that says it has a footer of that size; what it holds is a hole."""
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.seek(4 + size)
        file.write(size.to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("size", [20 << 20, (1 << 30) - 1])
def test_a_large_footer(tmp_path: Path, size: int) -> None:
    path = lying_footer(tmp_path / "lying.parquet", size)
    answer = ask(f"qm.table({str(path)!r})", memory="16MiB")
    assert answer["code"] == "MEMORY_EXCEEDED"
    assert answer["grown"] < 16 * MIB + SLACK


def test_footers_of_many_columns(tmp_path: Path) -> None:
    """One that is real: 2,000 columns in 100 row groups."""
    path = tmp_path / "wide.parquet"
    columns = {f"column_{number}": np.arange(100) for number in range(2000)}
    pq.write_table(pa.table(columns), path, row_group_size=1)
    answer = ask(f"qm.table({str(path)!r})", memory="16MiB")
    assert answer["code"] == "MEMORY_EXCEEDED"
    assert answer["grown"] < 16 * MIB + SLACK
    answer = ask(f"assert qm.table({str(path)!r}).count() == 100", memory="256MiB")
    assert answer["code"] is None


@pytest.mark.parametrize("source", ["memory", "file"])
def test_many_groups_stay_within_the_memory(tmp_path: Path, source: str) -> None:
    """What a query has freed goes back to the system where memory is scarce."""
    path = tmp_path / "groups.parquet"
    generator = np.random.default_rng(1)
    rows = 4_000_000
    pq.write_table(pa.table({"k": generator.permutation(rows), "v": generator.random(rows)}), path)
    setup = f"import pyarrow.parquet as pq\ntable = pq.read_table({str(path)!r})\nqm.register('t', table)"
    if source == "file":
        setup = f"qm.register('t', {str(path)!r})"
    query = "SELECT k, sum(v), count(*) FROM t GROUP BY k"
    answer = ask(f"assert qm.sql({query!r}).collect().row_count == {rows}", memory="192MiB", setup=setup)
    assert answer["code"] is None
    assert answer["grown"] < 192 * MIB + SLACK, json.dumps(answer)
