"""Row groups are fetched while the one before them is decoded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from querymode.execute import files
from querymode.store.local import is_settled
from querymode.store.open import open_source
from querymode.store.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from querymode.store.source import Patience

GROUPS = 10
SECONDS_A_RANGE = 0.02


class SlowSource(ByteSource):
    """Another machine, 20 ms away."""

    local = False

    def __init__(self, path: str) -> None:
        self._source = open_source(path)
        self.name, self.size, self.identity = path, self._source.size, self._source.identity

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        for offset, view in ranges:
            time.sleep(SECONDS_A_RANGE)
            data = self._source.read(offset, view.nbytes)
            if patience is None:
                view[:] = data
            else:
                patience.deliver(view, data)

    def close(self) -> None:
        self._source.close()


def seconds(path: str, total: int) -> float:
    """The best of three sums of everything."""
    frame = QueryMode.local(threads=1).table(path)
    (file,) = frame._node.source.files  # type: ignore[attr-defined]
    file.files = (file.files[0]._replace(open=lambda gate=None: SlowSource(path)),)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        (row,) = frame.agg(*(col(name).sum().alias(name) for name in frame.columns)).rows
        best = min(best, time.perf_counter() - started)
        assert row["a"] == total
    return best


@pytest.mark.alone
def test_the_next_row_group_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "slow.parquet")
    rows = 300_000
    values = np.random.default_rng(1).integers(0, 1 << 40, rows * GROUPS)
    table = pa.table(dict.fromkeys("abcd", values))
    pq.write_table(table, path, row_group_size=rows, compression="zstd", use_dictionary=False)
    total = int(values.sum())
    while not is_settled(open_source(path)):  # or every query looks at the file again, and finds a fast one
        time.sleep(0.002)
    monkeypatch.setattr(files, "AHEAD_REMOTE", 0)
    serial = seconds(path, total)
    monkeypatch.undo()
    overlapped = seconds(path, total)
    # Reading and decoding side by side take as long as the longer of the two.
    reading = GROUPS * SECONDS_A_RANGE
    decoding = serial - reading
    assert overlapped < max(reading, decoding) + 0.5 * min(reading, decoding), (serial, overlapped)
