"""Parquet files for the command line's tests, written by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode.store.fetch import IoGate
from tests.unit.range_server import RangeServer

ROW_COUNT = 3000
GROUP_ROWS = 1200


def sample() -> pa.Table:
    rows = range(ROW_COUNT)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "name": pa.array([None if row % 7 == 0 else f"name-{row % 50}" for row in rows]),
            "price": pa.array([Decimal(row) / 100 for row in rows], pa.decimal128(9, 2)),
            "day": pa.array([date(2024, 1, 1) + timedelta(row % 365) for row in rows]),
            "at": pa.array([start + timedelta(seconds=row) for row in rows], pa.timestamp("us", "UTC")),
            "tags": pa.array([["a", None, "é"] if row % 3 else None for row in rows], pa.list_(pa.string())),
            "person": pa.array([{"age": row % 90, "x": {"y": row + 0.5}} for row in rows]),
            "pairs": pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int32())),
            "raw": pa.array([bytes([row % 256, 0]) for row in rows], pa.binary(2)),
            "flag": pa.array([row % 2 == 0 for row in rows]),
            "nothing": pa.array([None] * ROW_COUNT, pa.int32()),
            "small": pa.array([row % 200 for row in rows], pa.uint8()),
        }
    )


@pytest.fixture(scope="session", params=["1.0", "2.0"])
def sample_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nested columns, NULLs, several row groups and pages; with data pages of both versions."""
    version = request.param
    path = tmp_path_factory.mktemp("cli") / f"sample-{version}.parquet"
    pq.write_table(
        sample(),
        path,
        row_group_size=GROUP_ROWS,
        compression={"id": "zstd", "name": "snappy", "price": "gzip", "day": "none", "at": "brotli"},
        use_dictionary=["name", "day", "tags.list.element"],  # type: ignore[arg-type] # the stubs say bool
        data_page_version=version,
        data_page_size=400,
        write_batch_size=50,
        write_page_index=version == "1.0",
        write_page_checksum=True,
    )
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(requests, bytes) of everything that is read."""
    found: list[tuple[int, int]] = []
    charge = IoGate._charge

    def counted(self: IoGate, requests: int, size: int) -> None:
        charge(self, requests, size)
        found.append((requests, size))

    monkeypatch.setattr(IoGate, "_charge", counted)
    return found


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with closing(RangeServer()) as running:
        yield running
