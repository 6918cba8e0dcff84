"""Rows chosen at random: which, and what is read for them."""

from __future__ import annotations

import functools
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from querymode.frame.sample import _with_rows

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 200_000


@functools.cache
def table() -> pa.Table:
    return pa.table(
        {
            "id": range(ROWS),
            "text": [f"text {index}" for index in range(ROWS)],
            "few": [f"one of {index % 7}" for index in range(ROWS)],
            "list": [[index, None] if index % 3 else None for index in range(ROWS)],
        }
    )


@pytest.fixture(scope="module", params=["memory", "file", "file with an index", "files"])
def frame(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    data = table()
    if request.param == "memory":
        return QueryMode.from_arrow(data)
    folder = tmp_path_factory.mktemp("sample")
    if request.param == "files":
        for index in range(5):
            pq.write_table(
                data.slice(index * 40_000, 40_000), folder / f"{index}.parquet", row_group_size=9_000
            )
        return QueryMode.local().table(str(folder))
    indexed = request.param != "file"
    pq.write_table(
        data, folder / "t.parquet", row_group_size=70_000, write_page_index=indexed, data_page_size=4096
    )
    return QueryMode.local().table(str(folder / "t.parquet"))


@pytest.mark.parametrize("count", [0, 1, 3, 200, 3_000, ROWS + 5])
def test_samples_are_rows_of_the_table_in_order(frame: Any, count: int) -> None:
    wanted = sorted(Random(9).sample(range(ROWS), min(count, ROWS)))
    assert (
        frame.sample(count, seed=9).to_arrow().to_pydict()
        == table().take(pa.array(wanted, pa.int64())).to_pydict()
    )


def test_all_rows_need_no_draw(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing millions of numbers takes seconds."""
    monkeypatch.setattr(Random, "sample", None)
    assert frame.sample(ROWS).count() == frame.sample(10 * ROWS).count() == ROWS


def test_samples_of_computed_columns(frame: Any) -> None:
    computed = frame.select((col("id") * 2).alias("twice"), col("few"))
    places = sorted(Random(0).sample(range(ROWS), 5))
    assert [row["twice"] for row in computed.sample(5).rows] == [place * 2 for place in places]
    assert frame.filter(col("id") < 3).sample(10).count() == 3


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_change_nothing(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(table(), path, row_group_size=20_000)
    rows = QueryMode.local(threads=threads).table(str(path)).sample(50, seed=4).rows
    assert [row["id"] for row in rows] == sorted(Random(4).sample(range(ROWS), 50))


def test_every_row_is_as_likely_as_another() -> None:
    small = QueryMode.from_arrow(pa.table({"n": range(1280)}))
    counts = Counter(row["n"] // 128 for seed in range(400) for row in small.sample(10, seed=seed).rows)
    expected = 400 * 10 / 10
    chi_square = sum((counts[part] - expected) ** 2 / expected for part in range(10))
    assert chi_square < 30  # nine degrees of freedom: beyond 27.9 once in a thousand


def test_only_pages_with_chosen_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    data = table().select(["id", "text"])
    pq.write_table(
        data, path, row_group_size=50_000, write_page_index=True, data_page_size=4096, use_dictionary=False
    )
    time.sleep(0.05)  # of what was written this moment, the tail is not kept
    opened = QueryMode.local().table(str(path))
    picked = _with_rows(opened._node, [60_000, 60_001, 199_999])
    assert picked is not None
    result = opened._with(picked).collect()
    assert [row["id"] for row in result.rows] == [60_000, 60_001, 199_999]
    assert result.stats["row_groups"] == 2
    assert (
        result.stats["bytes"] < path.stat().st_size / 6
    )  # with indexes, and gaps that are not worth a request
