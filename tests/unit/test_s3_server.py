"""The server that tests share: one for several processes, which ends with the last of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from querymode.store.s3 import ClientSettings
from tests.conftest import ROOT
from tests.s3_server import settings_of, shared_server

#: Says the address, and goes when it is told.
USER = """
import sys
from pathlib import Path
from tests.s3_server import shared_server

with shared_server(Path(sys.argv[1])) as endpoint:
    print(endpoint, flush=True)
    sys.stdin.readline()
"""


def test_processes_share_one_server(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None and other.stdout is not None
    with shared_server(tmp_path) as endpoint:
        assert other.stdout.readline() == endpoint + "\n"
        other.communicate("\n")
        client = ClientSettings(settings_of(endpoint), 5.0).client()
        client.create_bucket(Bucket="mine")
        with shared_server(tmp_path) as same:
            assert same == endpoint
    address = tmp_path / "address"
    until = time.monotonic() + 30
    while address.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not address.exists()


def test_only_one_place_starts_a_server() -> None:
    starts = "moto.server"
    found = {
        path.name for path in (ROOT / "tests").rglob("*.py") if starts in path.read_text(encoding="utf-8")
    }
    assert found == {"s3_server.py", Path(__file__).name}
