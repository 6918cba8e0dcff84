"""The installed package as a zip, with its engine, for `sc.addPyFile` and `--py-files`.

wasmtime, numpy and pyarrow are native and cannot travel so: executors need them in their Python.
"""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_PACKAGE = "querymode"
_ENGINE = f"{_PACKAGE}/querymode.wasm"


def package_zip(path: str | os.PathLike[str]) -> str:
    """Writes the zip, and returns its path. The same package gives the same bytes.

    `spark.sparkContext.addPyFile(package_zip("querymode.zip"))`
    """
    target = os.fspath(path)
    if not target.endswith(".zip"):
        raise error("QUERY_FAILED", f"{target!r}: Spark imports only from files that end in .zip")
    members = dict(_members(files(_PACKAGE), _PACKAGE))
    if _ENGINE not in members:
        raise error("INTERNAL", f"the engine module {_ENGINE} is missing; reinstall querymode")
    directory = os.path.dirname(os.path.abspath(target))
    descriptor, temporary = tempfile.mkstemp(suffix=".zip", dir=directory)
    try:
        os.fchmod(descriptor, 0o644)  # other users' executors may fetch it from here
        with os.fdopen(descriptor, "wb") as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
            for name in sorted(members):
                # Without a date: it would be the only difference between two zips of one package.
                archive.writestr(_entry(name), members[name].read_bytes())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _members(directory: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Every file of the package but compiled Python, which belongs to one version of it."""
    for item in directory.iterdir():
        name = f"{prefix}/{item.name}"
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _members(item, name)
        elif not item.name.endswith((".pyc", ".pyo")):
            yield name, item
