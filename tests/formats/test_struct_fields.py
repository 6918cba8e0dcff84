"""Fields of structures are read on their own when somebody names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from tests.raises import raises_code

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 50_000


def place(row: int) -> dict[str, Any] | None:
    """NULL at every level, and something that repeats beside it."""
    inner = None if row % 5 == 0 else {"c": f"x{row % 100}", "d": [row] * (row % 3)}
    return None if row % 7 == 0 else {"a": row, "b": inner}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("struct") / "places.parquet"
    table = pa.table({"id": range(ROWS), "s": [place(row) for row in range(ROWS)]})
    pq.write_table(table, path, row_group_size=20_000)
    return path


def wanted(row: int, *path: str) -> Any:
    value: Any = place(row)
    for name in path:
        value = None if value is None else value[name]
    return value


def test_values(path: Path) -> None:
    frame = QueryMode.local().table(path)
    assert frame.columns == ["id", "s"]
    rows = frame.select("id", "s.b.c", "s.b", "s.a").to_arrow().to_pylist()
    for row, found in enumerate(rows):
        assert found["s.a"] == wanted(row, "a")
        assert found["s.b"] == wanted(row, "b")
        assert found["s.b.c"] == wanted(row, "b", "c")


def test_filters_and_aggregates(path: Path) -> None:
    frame = QueryMode.local().table(path)
    expected = [row for row in range(ROWS) if wanted(row, "b", "c") == "x7"]
    assert [row["id"] for row in frame.filter("s.b.c", "eq", "x7").select("id").rows] == expected
    assert frame.filter(col("s.a") >= ROWS - 10).count() == sum(
        wanted(row, "a") is not None for row in range(ROWS - 10, ROWS)
    )
    (found,) = frame.agg(col("s.a").count().alias("n"), col("s.a").max().alias("most")).rows
    assert found["n"] == sum(wanted(row, "a") is not None for row in range(ROWS))
    assert found["most"] == max(wanted(row, "a") or 0 for row in range(ROWS))


def test_only_the_field_is_read(path: Path) -> None:
    frame = QueryMode.local().table(path)
    assert frame.select("s.b.c").collect().stats["bytes"] < 0.5 * frame.select("s").collect().stats["bytes"]


def test_files_that_differ(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": [-1, -2]}), other)
    frame = QueryMode.local().table([path, other])
    rows = frame.filter("id", "lt", 3).select("id", "s.a").rows
    assert rows == [{"id": row, "s.a": wanted(row, "a") if row >= 0 else None} for row in (0, 1, 2, -1, -2)]


def test_a_field_that_is_not_there(path: Path) -> None:
    with raises_code("COLUMN_NOT_FOUND"):
        QueryMode.local().table(path).select("s.z")
