"""Python scripts in processes of their own: limits of a process are tried where nothing else lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20


def start(script: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, timeout: float = 60, **environment: str) -> Any:
    """What the script printed last, as JSON."""
    process = start(script, **environment)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{err}"
    return json.loads(out.splitlines()[-1])


#: Samples the resident size while a query runs; the peak counts from `begin`.
PEAK = """
import threading, time, os

class Peak(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.file = open("/proc/self/statm", "rb", buffering=0)
        self.baseline = self.peak = self.now()
        self.start()

    def now(self):
        self.file.seek(0)
        return int(self.file.read(200).split()[1]) * self.page

    def run(self):
        while True:
            self.peak = max(self.peak, self.now())
            time.sleep(0.002)
"""
