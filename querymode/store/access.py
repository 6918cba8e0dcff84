"""What may be read: `allowed_paths` and `allow_network`, asked before anything is opened.

A local path is allowed if it lies, after all links and .. are resolved, at or below an allowed one. A URL is
allowed if it has the origin (or bucket) of an allowed URL and its path lies at or below that URL's path.
Without `allowed_paths` everything is; `allow_network=False` refuses every URL even if it is allowed.
"""

from __future__ import annotations

import os

from querymode.errors import error
from querymode.store.location import display_name, local_path, parse_http, parse_s3, scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from querymode.errors import QueryModeError
    from querymode.store.location import HttpUrl


class Access:
    __slots__ = ("_paths", "_urls", "allow_network", "restricted")

    def __init__(
        self, allowed_paths: Iterable[str | os.PathLike[str]] | None, *, allow_network: bool, root: str
    ) -> None:
        self.restricted = allowed_paths is not None
        self.allow_network = allow_network
        self._paths: list[str] = []
        self._urls: list[tuple[str, str]] = []
        for entry in allowed_paths or ():
            self._allow(absolute(os.fspath(entry), root), root)

    def _allow(self, path: str, root: str) -> None:
        scheme = scheme_of(path)
        if scheme in ("http", "https"):
            url = parse_http(path)
            self._urls.append((url.origin, _decoded(url.path)))
        elif scheme in ("s3", "s3a"):
            bucket, key = parse_s3(path)
            self._urls.append((f"s3://{bucket}", f"/{key}"))
        else:
            self._paths.append(os.path.realpath(local_path(path, root)))

    def local(self, path: str) -> str:
        """The path to open for an absolute path: where links may not lead out, they are resolved first."""
        if not self.restricted:
            return path
        real = os.path.realpath(path)
        if not any(_is_below(real, allowed) for allowed in self._paths):
            raise _not_allowed(path)
        return real

    def opened(self, descriptor: int, path: str) -> None:
        """Asks again, now that a link can no longer be put in the way."""
        if not self.restricted:
            return
        real = _descriptor_path(descriptor, path)
        if not any(_is_below(real, allowed) for allowed in self._paths):
            raise _not_allowed(path)

    def http(self, url: HttpUrl) -> None:
        self._network(url.name)
        path = _decoded(url.path)
        # A server may take an escaped slash or a backslash for a separator; then dots appear behind our back.
        if self.restricted and (_has_dots(path) or not self._is_allowed(url.origin, path)):
            raise _not_allowed(url.name)

    def s3(self, bucket: str, key: str) -> None:
        name = f"s3://{bucket}/{key}"
        self._network(name)
        if self.restricted and (_has_dots(f"/{key}") or not self._is_allowed(f"s3://{bucket}", f"/{key}")):
            raise _not_allowed(name)

    def _network(self, name: str) -> None:
        if not self.allow_network:
            raise error(
                "ACCESS_DENIED",
                f"{name} is on the network, and this session was made with allow_network=False",
            )

    def _is_allowed(self, origin: str, path: str) -> bool:
        return any(origin == allowed and _is_below(path, prefix) for allowed, prefix in self._urls)


def absolute(path: str, root: str) -> str:
    """A path below a root that may itself be a URL."""
    if scheme_of(path) or not scheme_of(root) or path.startswith(("/", "~")):
        return path
    return f"{root.rstrip('/')}/{path}"


def _is_below(path: str, allowed: str) -> bool:
    return path == allowed or path.startswith(allowed if allowed.endswith("/") else allowed + "/")


def _decoded(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path).replace("\\", "/")


def _has_dots(path: str) -> bool:
    return not {".", ".."}.isdisjoint(path.split("/"))


def _descriptor_path(descriptor: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        pass
    # No /proc: the path resolved once more must still lead to the file that was opened.
    real = os.path.realpath(path)
    try:
        same = os.path.samestat(os.stat(real), os.fstat(descriptor))
    except OSError:
        same = False
    if not same:
        raise _not_allowed(path)
    return real


def _not_allowed(path: str) -> QueryModeError:
    return error(
        "ACCESS_DENIED", f"{display_name(path)} is outside of the allowed_paths of this session; add it there"
    )
