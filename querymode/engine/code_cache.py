"""Compiled machine code on disk, so that a new process need not compile the engine again.

Loading machine code is running somebody's program: `store/private_cache.py` says what has to be right about
an entry before it is used. Anything else counts as absent, and the caller compiles and writes the entry anew.
"""

from __future__ import annotations

import hashlib
import os

from querymode.store.private_cache import PrivateCache

# Differ from moment to moment or from core to core, and compilers do not look at them.
_CPU_LINES_IGNORED = (
    b"cpu MHz",
    b"bogomips",
    b"BogoMIPS",
    b"processor",
    b"apicid",
    b"initial apicid",
    b"core id",
)


def _sha256(_: bytes, code: bytes) -> bytes:
    """A damaged program is worse than a damaged number, so here the checksum is a strong one."""
    return hashlib.sha256(code).digest()


#: No engine of ours compiles to a hundredth of what one entry may have.
CACHE = PrivateCache(
    "",
    magic=b"QMCODE\x01\n",
    prefix="engine-",
    suffix=".code",
    size_max=4 << 30,
    count_max=8,
    exact=True,
    checksum=_sha256,
)
load = CACHE.read
store = CACHE.write


def cpu_identity() -> str:
    """What the compiler may have tuned for: model and feature flags of the first processor."""
    machine = os.uname()
    text = f"{machine.sysname} {machine.machine}"
    try:
        # One read: the first processor's lines. The whole file is slow where there are many.
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, 16384).split(b"\n\n", 1)[0]
        finally:
            os.close(descriptor)
    except OSError:
        return f"{text} {machine.release}"
    lines = [line for line in first.split(b"\n") if not line.startswith(_CPU_LINES_IGNORED)]
    return f"{text} {hashlib.sha256(b''.join(lines)).hexdigest()}"
