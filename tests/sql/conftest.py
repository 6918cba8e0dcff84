"""Two small tables under names, for tests of plans and messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from querymode import QueryMode


@pytest.fixture
def qm() -> QueryMode:
    session = QueryMode.local(threads=1)
    session.register(
        "t",
        pa.table(
            {
                "a": pa.array([1, 2, 3], pa.int32()),
                "b": pa.array([10, 20, None], pa.int32()),
                "s": ["x", "y", "z"],
                "d": pa.array([0, 1, 2], pa.date32()),
            }
        ),
    )
    session.register(
        "u", pa.table({"a": pa.array([1, 1, 4], pa.int32()), "c": pa.array([100, 101, 400], pa.int32())})
    )
    return session
