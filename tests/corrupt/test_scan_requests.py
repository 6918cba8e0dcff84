"""Runs of rows that a scan request names: the right ones are read, and no others do harm."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from querymode import QueryMode, QueryModeError
from querymode._abi import SCAN_REQUEST_OFFSETS
from querymode.engine.instance import Instance
from tests.corrupt.mutate import mutate

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = 1000
_COUNT_AT = SCAN_REQUEST_OFFSETS["range_count"]
_EDGES = (0, 1, 7, _ROWS - 1, _ROWS, _ROWS + 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


def with_ranges(request: bytes, ranges: list[tuple[int, int]], count: int | None = None) -> bytes:
    """Where nothing is pruned, they stand at the end of a request."""
    assert request[_COUNT_AT : _COUNT_AT + 4] == bytes(4)
    said = struct.pack("<I", len(ranges) if count is None else count)
    tail = b"".join(struct.pack("<II", *one) for one in ranges)
    return request[:_COUNT_AT] + said + request[_COUNT_AT + 4 :] + tail


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t.parquet")
    table = pa.table({"n": range(_ROWS), "t": [str(row) if row % 5 else None for row in range(_ROWS)]})
    parquet.write_table(table, path, data_page_size=256, write_batch_size=50, dictionary_pagesize_limit=512)
    return path


def ask(path: str, monkeypatch: pytest.MonkeyPatch, change: Any) -> list[int] | str:
    scan_open = Instance.scan_open
    with monkeypatch.context() as patch:
        patch.setattr(
            Instance,
            "scan_open",
            lambda self, query, request, *format: scan_open(self, query, change(bytes(request)), *format),
        )
        try:
            rows: Any = QueryMode().table(path).collect().to_arrow()
        except QueryModeError as failure:
            return failure.code
    rows.validate(full=True)
    numbers: list[int] = rows["n"].to_pylist()
    return numbers


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_runs(seed: int, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    cuts = sorted(random.sample(range(_ROWS + 1), 2 * random.choice((1, 2, 5, 40))))
    ranges = list(zip(cuts[::2], cuts[1::2], strict=True))
    wanted = [row for begin, end in ranges for row in range(begin, end)]
    assert ask(path, monkeypatch, lambda request: with_ranges(request, ranges)) == wanted


@pytest.mark.parametrize(
    ("ranges", "count"),
    [
        ([(5, 5)], None),
        ([(6, 5)], None),
        ([(0, _ROWS + 1)], None),
        ([(0, 0xFFFF_FFFF)], None),
        ([(10, 20), (19, 30)], None),
        ([(10, 20), (0, 5)], None),
        ([(10, 20)], 2),
        ([(10, 20)], 0xFFFF_FFFF),
    ],
)
def test_runs_that_are_refused(
    ranges: list[tuple[int, int]], count: int | None, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ask(path, monkeypatch, lambda request: with_ranges(request, ranges, count))
    assert isinstance(answer, str)


def test_any_runs_do_no_harm(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(11)
    answers = []
    for _ in range(1000):
        ranges = [(random.choice(_EDGES), random.choice(_EDGES)) for _ in range(random.randrange(4))]
        count = random.choice((None, None, *_EDGES))

        def changed(request: bytes, ranges: Any = ranges, count: Any = count) -> bytes:
            made = with_ranges(request, ranges, count)
            # The header and the columns stay: what they say is another fuzzer's matter.
            head = len(request)
            return made[:head] + mutate(made[head:] or bytes(8), [made], random)

        answers.append(ask(path, monkeypatch, changed))
    assert all(isinstance(answer, str) or set(answer) <= set(range(_ROWS)) for answer in answers)
