"""QMCB: many batches become one, or are merged or cut, in the engine."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from types import ModuleType

import pyarrow as pa
import pytest

from querymode import QueryMode, qmcb
from querymode.errors import ColumnNotFoundError, InvalidFormatError, SchemaMismatchError
from querymode.qmcb import (
    ColumnarBatch,
    ColumnarColumn,
    columnar_batch_to_rows,
    columnar_k_way_merge,
    concat_columnar_batches,
    concat_qmcb_batches,
    encode_columnar_batch,
    slice_columnar_batch,
)
from tests.raises import raises_code
from tests.unit.test_qmcb import int_column, one, text_column

# ---- many batches: checks before the engine is asked ----


class Engine:
    """Stands where the engine would, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def concat(self, batches: list[bytes]) -> bytes:
        self.calls.append(("concat", batches))
        return batches[0]

    def take_slice(self, batch: bytes, offset: int, limit: int | None) -> bytes:
        self.calls.append(("take_slice", batch, offset, limit))
        return batch

    def merge_sorted(self, batches: list[bytes], keys: list[tuple[str, bool]], limit: int | None) -> bytes:
        self.calls.append(("merge_sorted", batches, keys, limit))
        return batches[0]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stub, module = Engine(), ModuleType("querymode.engine.batch_ops")
    for name in ("concat", "take_slice", "merge_sorted"):
        setattr(module, name, getattr(stub, name))
    monkeypatch.setitem(sys.modules, "querymode.engine.batch_ops", module)
    return stub


def test_nothing_to_concatenate(engine: Engine) -> None:
    assert concat_qmcb_batches([]) == encode_columnar_batch(ColumnarBatch([], 0))
    assert concat_columnar_batches([]).columns == []
    assert columnar_k_way_merge([], "a", "asc", 3).row_count == 0
    data = encode_columnar_batch(one(int_column("i", [1])))
    assert concat_qmcb_batches([memoryview(data)]) == data
    assert engine.calls == []


def test_what_the_engine_is_asked(engine: Engine) -> None:
    first, second = one(int_column("i", [1, 2])), one(int_column("i", [3]))
    both = [encode_columnar_batch(first), encode_columnar_batch(second)]
    concat_columnar_batches([first, second])
    slice_columnar_batch(first, 1)
    slice_columnar_batch(first, 0, 1)
    columnar_k_way_merge([first, second], "i", "desc", 5)
    columnar_k_way_merge([first, second], ["i", "i"], ["asc", "desc"])
    assert engine.calls == [
        ("concat", both),
        ("take_slice", both[0], 1, None),
        ("take_slice", both[0], 0, 1),
        ("merge_sorted", both, [("i", True)], 5),
        ("merge_sorted", both, [("i", False), ("i", True)], None),
    ]


def test_batches_that_do_not_go_together(engine: Engine) -> None:
    first = one(int_column("i", [1]))
    others = {
        "'i' of int64 and 'j' of int64": one(int_column("j", [1])),
        "'i' of int64 and 'i' of utf8": one(text_column("i", ["a"])),
        r"1 columns \(i\) and 2 \(i, j\)": ColumnarBatch([int_column("i", [1]), int_column("j", [1])], 1),
    }
    for message, other in others.items():
        with pytest.raises(SchemaMismatchError, match=message):
            concat_columnar_batches([first, other])
        with pytest.raises(SchemaMismatchError, match=message):
            columnar_k_way_merge([first, other], "i", "asc", 1)
    assert engine.calls == []


def test_more_than_a_batch_holds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    many = ColumnarBatch([ColumnarColumn("n", 5, b"", 2**31)], 2**31)
    with raises_code("QUERY_FAILED", match="4294967296 rows"):
        concat_columnar_batches([many, many])
    monkeypatch.setattr(qmcb, "COLUMN_SIZE_MAX", 20)
    with raises_code("QUERY_FAILED", match="'i' would be larger than 4 GiB"):
        concat_columnar_batches([one(int_column("i", [1, 2]))] * 2)
    assert engine.calls == []


def test_requests_that_make_no_sense(engine: Engine) -> None:
    batch = one(int_column("i", [1]))
    with pytest.raises(ColumnNotFoundError):
        columnar_k_way_merge([batch], "j", "asc", 1)
    calls: list[Callable[[], object]] = [
        lambda: columnar_k_way_merge([batch], "i", "up", 1),
        lambda: columnar_k_way_merge([batch], [], "asc", 1),
        lambda: columnar_k_way_merge([batch], ["i"], ["asc", "desc"], 1),
        lambda: columnar_k_way_merge([batch], "i", "asc", -1),
        lambda: slice_columnar_batch(batch, -1),
        lambda: slice_columnar_batch(batch, 0, -1),
    ]
    for call in calls:
        with raises_code("QUERY_FAILED"):
            call()
    with pytest.raises(InvalidFormatError):
        concat_qmcb_batches([b"QMCB", b"QMCB"])
    assert engine.calls == []


# ---- many batches, with the engine ----


def test_concat_and_slice_in_the_engine() -> None:
    batches = [
        ColumnarBatch([int_column("i", numbers), text_column("t", list(texts))], len(numbers))
        for numbers, texts in (([1, 2], ["a", None]), ([], []), ([3], ["€"]))
    ]
    whole = concat_columnar_batches(batches)
    rows = [{"i": 1, "t": "a"}, {"i": 2, "t": None}, {"i": 3, "t": "€"}]
    assert columnar_batch_to_rows(whole) == rows
    assert columnar_batch_to_rows(slice_columnar_batch(whole, 1)) == rows[1:]
    assert columnar_batch_to_rows(slice_columnar_batch(whole, 1, 1)) == rows[1:2]
    assert columnar_batch_to_rows(slice_columnar_batch(whole, 7, 1)) == []


def test_merge_in_the_engine() -> None:
    def batch(source: int, numbers: list[float], null_last: bool = False) -> ColumnarBatch:
        bitmap = bytes((1 << (len(numbers) - 1) if null_last else 0,))
        floats = ColumnarColumn("f", 0, array("d", numbers), len(numbers), null_bitmap=bitmap)
        return ColumnarBatch([floats, int_column("s", [source] * len(numbers))], len(numbers))

    nan = float("nan")
    rising = [batch(0, [1, 3, nan, 0], null_last=True), batch(1, [1, 2, 3])]
    merged = columnar_batch_to_rows(columnar_k_way_merge(rising, "f", "asc", None))
    assert str([(row["f"], row["s"]) for row in merged]) == str(
        [(1.0, 0), (1.0, 1), (2.0, 1), (3.0, 0), (3.0, 1), (nan, 0), (None, 0)]
    )
    falling = [batch(0, [nan, 3, 1, 0], null_last=True), batch(1, [3, 2])]
    merged = columnar_batch_to_rows(columnar_k_way_merge(falling, "f", "desc", 4))
    assert str([(row["f"], row["s"]) for row in merged]) == str([(nan, 0), (3.0, 0), (3.0, 1), (2.0, 1)])


def test_slices_of_columns() -> None:
    rows = [
        None
        if row % 11 == 3
        else {
            "flag": row % 3 == 0 if row % 5 else None,
            "small": row if row % 7 else None,
            "text": "é" * (row % 4),
            "items": [None if item % 2 else f"i{item}" for item in range(row % 4)] if row % 6 else None,
            "pairs": [[{"x": row, "y": [row]}] * (row % 3)],
        }
        for row in range(100)
    ]
    table = pa.table(
        {"a": rows, "n": pa.nulls(100), "v": pa.array([[1.0, 2.0]] * 100, pa.list_(pa.float32(), 2))}
    )
    for data in QueryMode.from_arrow(table).collect().to_qmcb():
        for column in qmcb.decode_columnar_batch(data).columns:
            values = qmcb.column_values(column)
            for start, stop in ((0, 100), (0, 0), (100, 100), (8, 33), (3, 4), (13, 99), (64, 100)):
                assert qmcb.column_values(qmcb.sliced_column(column, start, stop)) == values[start:stop]
