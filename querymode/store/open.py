"""Opens a path or URL, whatever its scheme, as one kind of ByteSource.

Client libraries are imported when a URL of their kind is first opened.
"""

from __future__ import annotations

import os

from querymode.errors import error
from querymode.store.access import absolute
from querymode.store.local import LocalFile
from querymode.store.location import display_name, local_path, scheme_of
from querymode.store.options import StoreOptions
from querymode.store.source import ByteSource, Patience

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from querymode.store.s3 import Listed


def open_source(
    path: str | os.PathLike[str],
    options: StoreOptions | None = None,
    *,
    tail_size: int = 0,
    known: Listed | None = None,
    patience: Patience | None = None,
    admit: Callable[[int], None] | None = None,
) -> ByteSource:
    """Opens a path or URL for reading.

    `tail_size`: how much of the end a remote source brings along when it is opened, in the same request; see
    `ByteSource.read_tail`. `known`: what a listing said about an object, so that nothing has to be asked.
    `patience`: of who waits for it. `admit`: where a server sends all or nothing, raises if all is too much.
    """
    options = options or StoreOptions()
    assert tail_size >= 0
    text = absolute(os.fspath(path), options.root)
    scheme = scheme_of(text)
    if scheme in ("", "file"):
        return LocalFile(local_path(text, options.root), options.access)
    if scheme in ("http", "https"):
        from querymode.store.http import HttpSource

        return HttpSource(text, options, tail_size, patience=patience, admit=admit)
    if scheme in ("s3", "s3a"):
        from querymode.store.s3 import S3Source

        return S3Source(text, options, tail_size, known, patience=patience)
    raise error(
        "NOT_SUPPORTED",
        f"{display_name(text)}: {scheme}:// is not known here; give a path, or an http(s):// or s3:// URL",
    )


def is_remote(path: str | os.PathLike[str], options: StoreOptions) -> bool:
    """Whether opening it asks another machine."""
    return scheme_of(absolute(os.fspath(path), options.root)) not in ("", "file")
