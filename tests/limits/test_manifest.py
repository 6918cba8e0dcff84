"""A manifest of a hundred thousand fragments: what a query does not read costs it next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.formats.toy_format import record, write_fragment, write_manifest
from tests.limits.child import MIB, PEAK, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 1.0
#: Of a machine that has other things to do, the best of these counts.
ATTEMPTS = 5
MEMORY = 200 * MIB

COUNT = 100_000
#: The fragments whose files are there.
WRITTEN = (500, 70_000)

#: The engine with the toy format, which has every check on, is slower than the one that users have.
MANIFEST = """
import json, os
from querymode import QueryMode, col
from querymode.engine import program
from querymode.format import registry
from tests.formats.toy_format import Fragments, Toy

program._default_program = program.Program.from_file(os.environ["WASM"])
registry.FORMATS = (*registry.FORMATS, Toy())
path = os.environ["MANIFEST"]
session = QueryMode.local(threads=2)
assert session.table(path + "/small.toy").filter(col("id") >= 1501).count() == 1  # the engine is warm
Fragments.made.clear()
"""

MEASURED = (
    MANIFEST
    + PEAK
    + """
peak = Peak()
seconds = []
for attempt in range(ATTEMPTS):
    started = time.perf_counter()
    frame = session.table(path + "/large.toy")
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
    """Fragment `n` has the ids 3 n to 3 n + 2."""
    folder = tmp_path_factory.mktemp("manifest")
    for number in WRITTEN:
        write_fragment(folder, number, range(3 * number, 3 * number + 3))
    write_fragment(folder, 0, range(1499, 1502))
    write_manifest(folder / "small.toy", [1499], [3], [0])
    write_manifest(folder / "large.toy", range(0, 3 * COUNT, 3), [3] * COUNT, [0] * COUNT)
    return folder


@pytest.fixture
def measured(folder: Path, safe_wasm: Path) -> Callable[[str], Any]:
    def measure(answer: str) -> Any:
        script = f"ATTEMPTS, SECONDS = {ATTEMPTS}, {SECONDS}\n" + MEASURED.replace("ANSWER", answer)
        found = run(script, MANIFEST=str(folder), WASM=str(safe_wasm))
        assert min(found["seconds"]) <= SECONDS, found
        assert found["bytes"] <= MEMORY, found
        return found

    return measure


FILTER = "frame.filter((col('id') == 1501) | (col('id') == 210002))"


@pytest.mark.alone
def test_two_fragments_of_many(measured: Callable[[str], Any]) -> None:
    found = measured(f"{FILTER}.rows")
    assert found["answer"] == [record(1501), record(210_002)]
    assert found["made"] == [*WRITTEN]


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
def test_other_ways(answer: str, expected: Any, measured: Callable[[str], Any]) -> None:
    found = measured(answer)
    assert found["answer"] == expected
    assert set(found["made"]) <= {*WRITTEN}
