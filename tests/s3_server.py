"""One S3 server for all tests of a run, whichever process they are in: moto, as a process of its own.

    door     a lock: whoever comes or goes does so alone
    users    a lock that every process with the server shares; who gets it alone is the server, to end
    address  where the server listens, as long as it does

Locks are the system's, so that a process that crashes lets go of them. Tests of a module have a bucket of
their own, for they share all others.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """The server of all that name this folder, which is started by the first and ends with the last."""
    address = folder / "address"
    with (folder / "users").open("a") as users:
        with (folder / "door").open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            # Waits for a server that is about to end.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not address.exists():
                start(folder)
        yield address.read_text()


def start(folder: Path) -> None:
    """Returns when it listens."""
    command = [sys.executable, "-m", "tests.s3_server", str(folder)]
    # Ctrl-C, which some tests press, is not for it.
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "listens\n"
    server.stdout.close()


def serve(folder: Path) -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = folder / "address"
    address.write_text(f"http://{host}:{port}")
    print("listens", flush=True)
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)  # nobody is left
        address.unlink()
        server.stop()


def settings_of(endpoint: str, secret: str = "secret") -> dict[str, Any]:
    """Storage options for it."""
    return {
        "endpoint_url": endpoint,
        "aws_access_key_id": "me",
        "aws_secret_access_key": secret,
        "region": "us-east-1",
    }


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
