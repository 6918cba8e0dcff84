"""A manifest of a hundred thousand fragments: what a query does not read costs it next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.limits.child import MIB, PEAK, run

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 1.0
#: Of a machine that has other things to do, the best of these counts.
ATTEMPTS = 5
MEMORY = 200 * MIB

#: Fragment `n` has the ids 3 n to 3 n + 2. All look the same but for those, so one file stands for each of
#: the two that are read; making any other fragment is counted.
MANIFEST = """
import json, os
from array import array
from querymode import QueryMode, col
from querymode.plan.nodes import Scan
from querymode.table.evidence import KnownValues, ManifestEvidence
from querymode.table.files import Cuts, FileTable

COUNT = 100_000
FOLDER = os.environ["FOLDER"]
session = QueryMode.local(threads=2)
kinds = {name: session.table(f"{FOLDER}/{name}.parquet") for name in ("500", "70000")}
files = {int(name): frame._node.source.files[0] for name, frame in kinds.items()}
for frame in kinds.values():
    assert frame.filter(col("id") >= 0).count() == 3  # the engine is warm

class Fragments:
    made = []
    def __len__(self):
        return COUNT
    def __getitem__(self, number):
        if number >= COUNT:
            raise IndexError(number)
        self.made.append(number)
        return files[number]
    def __iter__(self):
        return map(self.__getitem__, range(COUNT))

def resolve(name):
    first = array("q", range(0, 3 * COUNT, 3))
    last = array("q", range(2, 3 * COUNT, 3))
    known = {"id": KnownValues(first.tobytes(), last.tobytes(), array("q", bytes(8 * COUNT)))}
    schema = kinds["500"]._node.source.schema
    table = FileTable(schema, Fragments(), Cuts(array("q", [3]) * COUNT), name)
    table.use_evidence(ManifestEvidence(table, known.get))
    return kinds["500"]._with(Scan(table))
"""

MEASURED = (
    MANIFEST
    + PEAK
    + """
peak = Peak()
seconds = []
for attempt in range(ATTEMPTS):
    started = time.perf_counter()
    frame = resolve(f"t{attempt}")
    answer = ANSWER
    seconds.append(time.perf_counter() - started)
    if seconds[-1] <= SECONDS:
        break
peak.peak = max(peak.peak, peak.now())
made = sorted(set(Fragments.made))
size = peak.peak - peak.baseline
print(json.dumps({"answer": answer, "seconds": seconds, "bytes": size, "made": made}))
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manifest")
    for number in (500, 70_000):
        ids = range(3 * number, 3 * number + 3)
        pq.write_table(pa.table({"id": ids, "t": [f"row {id}" for id in ids]}), folder / f"{number}.parquet")
    return folder


def measured(folder: Path, answer: str) -> Any:
    script = f"ATTEMPTS, SECONDS = {ATTEMPTS}, {SECONDS}\n" + MEASURED.replace("ANSWER", answer)
    found = run(script, FOLDER=str(folder))
    assert min(found["seconds"]) <= SECONDS, found
    assert found["bytes"] <= MEMORY, found
    return found


FILTER = "frame.filter((col('id') == 1501) | (col('id') == 210002))"


@pytest.mark.alone
def test_two_fragments_of_many(folder: Path) -> None:
    found = measured(folder, f"{FILTER}.rows")
    assert found["answer"] == [{"id": 1501, "t": "row 1501"}, {"id": 210_002, "t": "row 210002"}]
    assert found["made"] == [500, 70_000]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("frame.count()", 300_000),
        (f"[row['id'] for row in {FILTER}.sort('id', descending=True).limit(1).rows]", [210_002]),
        (f"sum(batch.num_rows for batch in {FILTER}.stream())", 2),
        (f"'2 row groups left' in str({FILTER}.explain())", True),
        (f"{FILTER}.join(frame.filter((col('id') < 1503) & (col('id') > 1499)), on='id').count()", 1),
    ],
)
def test_other_ways(answer: str, expected: Any, folder: Path) -> None:
    found = measured(folder, answer)
    assert found["answer"] == expected
    assert set(found["made"]) <= {500, 70_000}
