"""A test that hangs is ended and named, with the stacks of its threads; the others run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HANGING = "def test_hangs():\n    import threading\n    threading.Event().wait()\n"
FINE = "def test_{}():\n    pass\n"
LONG = "import pytest, time\n@pytest.mark.soak\ndef test_long():\n    time.sleep(1.5)\n"


def run(folder: Path, files: list[str], processes: int) -> str:
    """Tests that have a second each, in `processes`."""
    hooks = "pytest_runtest_setup, pytest_xdist_make_scheduler"
    (folder / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    (folder / "pytest.ini").write_text(
        "[pytest]\nfaulthandler_timeout = 1\nfaulthandler_exit_on_timeout = true\nmarkers = soak\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dist", "loadfile"]
    done = subprocess.run(
        [*command, "-n", str(processes), str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("files", "processes", "counts"),
    [
        ([FINE.format(1), FINE.format(1) + HANGING + FINE.format(2)], 2, "1 failed, 3 passed"),
        ([FINE.format(1), FINE.format(1), FINE.format(1), HANGING + FINE.format(2)], 1, "1 failed, 4 passed"),
        ([HANGING, FINE.format(1), FINE.format(1)], 1, "1 failed, 2 passed"),
        ([LONG, HANGING, HANGING], 2, "2 failed, 1 passed"),
    ],
)
def test_the_run_goes_on(tmp_path: Path, files: list[str], processes: int, counts: str) -> None:
    said = run(tmp_path, files, processes)
    assert counts in said, said
    assert re.search(r"crashed while running '\S*test_\d.py::test_hangs'", said), said
    assert re.search(r'File "\S*test_\d.py", line \d+ in test_hangs', said), said
