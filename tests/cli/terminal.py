"""Runs the command line in a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def run_in_terminal(*words: str, columns: int) -> tuple[int, str]:
    """The exit status, and what was written, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "querymode", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm", "PYTHONUTF8": "1"},
    )
    os.close(theirs)
    parts = []
    try:
        while data := os.read(ours, 65536):
            parts.append(data)
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;]*m", "", b"".join(parts).decode())
    return process.wait(60), text.replace("\r\n", "\n")
