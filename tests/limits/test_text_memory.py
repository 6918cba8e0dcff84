"""Files of text pass through: what a query over them takes does not grow with the file."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

import pytest

from tests.limits.child import MIB, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: The smaller one is large enough that every window, chunk and buffer is as large as it gets.
ROWS = (500_000, 2_000_000)
#: Of one peak beside the other: what an allocator and two threads leave to chance.
CHANCE = 12 * MIB

LINES = {
    "a.csv": (b"id,x,name,note\n", b"%d,%d.25,name %d,some words of a note that nobody reads\n"),
    "a.ndjson": (b"", b'{"id":%d,"x":%d.25,"name":"name %d","note":"some words that nobody reads"}\n'),
}

SCRIPT = """
import json
from querymode import QueryMode

query = "SELECT name, sum(x) AS s, count(*) AS n FROM 'PATH' GROUP BY name ORDER BY name"
found = QueryMode.local(threads=2, memory="256MiB").sql(query).rows
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) << 10
print(json.dumps({"rows": sum(row["n"] for row in found), "peak": peak}))
"""


def write(path: Path, name: str, row_count: int) -> None:
    head, line = LINES[name.removesuffix(".gz")]
    with gzip.open(path, "wb", 1) if name.endswith(".gz") else path.open("wb") as file:
        file.write(head)
        for first in range(0, row_count, 10_000):
            file.write(b"".join(line % (row, row, row % 7) for row in range(first, first + 10_000)))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.ndjson", "a.ndjson.gz"])
def test_peaks_are_equal(tmp_path: Path, name: str) -> None:
    peaks = []
    # The first one only sees to it that the engine is compiled.
    for row_count in (10_000, *ROWS):
        path = tmp_path / name
        write(path, name, row_count)
        found = run(SCRIPT.replace("PATH", str(path)))
        assert found["rows"] == row_count
        peaks.append(found["peak"])
    print(name, [f"{peak / 1e6:.0f} MB" for peak in peaks])
    assert peaks[2] <= peaks[1] + CHANCE
