"""Tests that measure have the machine for themselves, and are let in while others come and go."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.alone import Turns

ROOT = Path(__file__).resolve().parents[2]
BUSY = """
import sys, time
from pathlib import Path
from tests.alone import Turns
turns, log = Turns(Path(sys.argv[1])), Path(sys.argv[1]) / "log"
while not (log.parent / "stop").exists():
    with turns.turn(alone=False, next_alone=False):
        with log.open("a") as file:
            file.write(".")
        time.sleep(0.002)
"""


def test_nobody_else_runs_meanwhile(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    busy = subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path)], cwd=ROOT)
    try:
        turns = Turns(tmp_path)
        for _ in range(3):
            wait_for_more(log)
            for next_alone in (True, False):
                with turns.turn(alone=True, next_alone=next_alone):
                    before = log.stat().st_size
                    time.sleep(0.05)
                    assert log.stat().st_size == before
        wait_for_more(log)
        with turns.turn(alone=False, next_alone=True):
            wait_for_more(log)
    finally:
        (tmp_path / "stop").touch()
        busy.wait(30)


def wait_for_more(log: Path) -> None:
    before, deadline = log.stat().st_size, time.monotonic() + 30
    while log.stat().st_size == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


LEAVING = """
import os, sys, time
from pathlib import Path
from tests.alone import Turns
with Turns(Path(sys.argv[1])).turn(alone=True, next_alone=False):
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
"""


def test_a_child_left_behind_keeps_nobody_out(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVING, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            parent.wait(30)
            with (tmp_path / "tests_room.lock").open() as room:
                fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.kill(child, signal.SIGKILL)
