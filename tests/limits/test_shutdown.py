"""Asking when Python shuts down, and where there is no home: an answer or a QueryModeError, and no litter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ASK = """
import os, sys
from querymode import QueryMode, QueryModeError
path = sys.argv[1]
qm = QueryMode.local(root=os.path.dirname(path), storage_options={"timeout": 1, "max_attempts": 1})
frame = qm.table(path)
rows = QueryMode.from_json([{"a": 1}, {"a": 2}])
if sys.argv[2] == "warm":
    frame.sort("x").rows, rows.count(), qm.sql(f"SELECT count(*) FROM '{path}'").rows

def ask():
    for number, call in enumerate((
        lambda: frame.filter("x", "gt", 3).sort("x").rows,
        lambda: rows.filter("a", "gt", 1).rows,
        lambda: list(frame.stream()),
        lambda: rows.to_arrow(),
        lambda: rows.to_pandas(),
        lambda: rows.write_parquet(path + ".new", overwrite=True),
        lambda: qm.table(path).count(),
        lambda: qm.table(os.path.dirname(path) + "/*.parquet").limit(1).rows,
        lambda: qm.table(["http://127.0.0.1:1/x.parquet", "http://127.0.0.1:1/y.parquet"]),
        lambda: qm.sql(f"SELECT sum(x) FROM '{path}'").rows,
        lambda: QueryMode.from_json([{"z": 1}]).rows,
        lambda: QueryMode.from_csv("a,b\\n1,2\\n").rows,
        lambda: QueryMode.local(),
        lambda: frame.explain(),
        lambda: frame.to_descriptor(),
        lambda: frame.group_by("x").count().rows,
    )):
        try:
            call()
            said = "answer"
        except QueryModeError as failure:
            said = failure.code
        except BaseException as failure:
            said = f"BAD {type(failure).__name__}: {failure}"
        os.write(1, f"{number} {said}\\n".encode())

class Late:
    def __del__(self):
        ask()

if sys.argv[3] == "atexit":
    import atexit
    atexit.register(ask)
else:
    late = Late()
    late.itself = late
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "data" / "a.parquet"
    found.parent.mkdir()
    pq.write_table(pa.table({"x": range(10_000)}), found, row_group_size=1000)
    return found


@pytest.mark.parametrize("warm", ["cold", "warm"])
@pytest.mark.parametrize("when", ["atexit", "del"])
def test_asking_at_shutdown(path: Path, warm: str, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(path), warm, when], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(lines)) == (0, "", 16)
    assert not [line for line in lines if "BAD" in line]
    assert (sum("answer" in line for line in lines) >= 12) == (when == "atexit")


#: Each of these compiles the engine anew, and other relative folders have a test.
RELATIVE = pytest.mark.soak


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": ""},
        {"HOME": "relative"},
        *(pytest.param({"HOME": home}, marks=RELATIVE) for home in (".", "~")),
        {"HOME": None},
        {"HOME": "{folder}/file"},
        {"HOME": "{folder}/locked"},
        {"HOME": "{folder}/none/such"},
        {"HOME": "", "XDG_CACHE_HOME": ""},
        pytest.param({"HOME": "", "XDG_CACHE_HOME": "relative"}, marks=RELATIVE),
        {"HOME": "", "XDG_CACHE_HOME": "{folder}/file"},
        {"HOME": "relative", "XDG_CACHE_HOME": "{folder}/file/x"},
    ],
)
def test_homes_that_are_none(path: Path, tmp_path: Path, environment: dict[str, str | None]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "locked").mkdir(mode=0o500)
    here = tmp_path / "here"
    here.mkdir()
    given = {
        key: value
        for key, value in os.environ.items()
        if key not in ("QUERYMODE_CACHE_DIR", "XDG_CACHE_HOME")
    }
    for key, value in environment.items():
        given.pop(key, None)
        if value is not None:
            given[key] = value.replace("{folder}", str(tmp_path))
    given["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    before = set(Path("/").iterdir())
    code = (
        "import sys; from querymode import QueryMode\n"
        f"print(QueryMode.local().sql(\"SELECT sum(x) AS s FROM '{path}'\").rows)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env=given, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "[{'s': 49995000}]\n")
    assert list(here.iterdir()) == [] and set(Path("/").iterdir()) == before
