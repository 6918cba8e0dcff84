"""Arrow data that stands for far more than it takes: refused before it is made, and in time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.limits.child import MIB

#: What measuring takes, threads' stacks, and what the sampler misses.
SLACK = 32 * MIB


def run_all(memory: str, timeout: float) -> list[dict[str, Any]]:
    child = subprocess.run(
        [sys.executable, "-m", "tests.corrupt.arrow_bombs", memory, str(timeout)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    *lines, end = child.stdout.splitlines()
    assert end == "END", f"{child.returncode} after {lines[-1:]}\n{child.stderr[-2000:]}"
    found = [json.loads(line) for line in lines]
    assert len(found) > 200
    return found


@pytest.mark.alone
def test_what_is_large_is_refused_before_it_is_made() -> None:
    found = run_all("64MiB", 3)
    wrong = [
        case
        for case in found
        if case["outcome"] not in ("MEMORY_EXCEEDED", "taken")
        or case["grown"] > 64 * MIB + SLACK
        or case["seconds"] > 2.5
    ]
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert Counter(case["outcome"] for case in found)["MEMORY_EXCEEDED"] > 190


@pytest.mark.alone
def test_what_takes_long_ends_in_time() -> None:
    found = run_all("6GiB", 0.3)
    known = ("MEMORY_EXCEEDED", "QUERY_TIMEOUT", "taken")
    wrong = [case for case in found if case["outcome"] not in known or case["seconds"] > 1.5]
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert Counter(case["outcome"] for case in found)["QUERY_TIMEOUT"] > 20
