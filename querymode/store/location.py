"""Where bytes are: paths and URLs taken apart, and their names without credentials.

One parser decides for all: what is checked against `allowed_paths` is put together again from the parts that
were checked, so that no other library reads another host or path out of the same text.
"""

from __future__ import annotations

import os

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.errors import QueryModeError

#: What systems take for a path at most.
_PATH_SIZE_MAX = 4096
_DEFAULT_PORTS = {"http": 80, "https": 443}


def scheme_of(path: str) -> str:
    """`s3` of `s3://bucket/key`; empty for a plain path."""
    head, separator, _ = path.partition("://")
    # A path may hold "://" further in; a scheme is letters, digits, + - and . only.
    if separator and head[:1].isalpha() and head.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return head.lower()
    return "file" if path[:6].lower() == "file:/" else ""


def display_name(path: str) -> str:
    """A path or URL as it may appear in errors: no user, password, query or fragment."""
    scheme = scheme_of(path)
    if scheme in _DEFAULT_PORTS:
        try:
            return HttpUrl(path).name
        except ValueError:
            pass
    elif scheme in ("", "file"):
        return path
    host, slash, rest = path.partition("://")[2].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{rest.partition('?')[0]}"


def file_url_path(url: str) -> str:
    """The path of a file: URL. Other machines than this one are refused."""
    from urllib.parse import unquote

    rest = url[len("file:") :]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if host not in ("", "localhost"):
            raise error("NOT_SUPPORTED", f"{url} is on another machine; mount it, and give its path")
    path = unquote(rest)
    if "\0" in path:
        raise error("TABLE_NOT_FOUND", f"{url} holds a zero byte; no file has such a name")
    return path


def local_path(path: str, root: str) -> str:
    """A plain path or file: URL as an absolute path. Relative ones are below the root."""
    for text in (path, root):
        if len(text) > _PATH_SIZE_MAX:
            # Nobody can open it, and to put its parts in order would take minutes.
            raise error("TABLE_NOT_FOUND", f"{text[:40]}… has {len(text):,} letters; no path has so many")
    if scheme_of(path) == "file":
        path = file_url_path(path)
    elif path.startswith("~"):
        path = os.path.expanduser(path)
    full = os.path.join(os.path.abspath(root), path)
    try:
        encoded = os.fsencode(full)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise error("TABLE_NOT_FOUND", f"{path!r} cannot be the name of a file")
    return full


class HttpUrl:
    """An http(s) URL in parts. ValueError, without the URL in its text, when it is none."""

    __slots__ = ("host", "password", "path", "port", "query", "scheme", "username")

    def __init__(self, url: str) -> None:
        from urllib.parse import quote, unquote, urlsplit

        # Parsers disagree about these, which is how one host is checked and another one asked.
        if "\\" in url or any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url.strip()):
            url = quote(url.strip(), safe="%/:=&?~#+!$,;'@()*[]")
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or "%" in parts.netloc.rpartition("@")[2]:
            raise ValueError("not an http(s) URL with a host")
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self.path = _without_dots(parts.path) or "/"
        self.query = parts.query
        self.username = unquote(parts.username) if parts.username is not None else None
        self.password = unquote(parts.password or "")

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def name(self) -> str:
        return self.origin + self.path + ("?…" if self.query else "")

    @property
    def target(self) -> str:
        """What is requested: the user and password travel in a header instead."""
        return self.origin + self.path + (f"?{self.query}" if self.query else "")

    def joined(self, location: str) -> HttpUrl:
        """Where a redirection leads."""
        from urllib.parse import urljoin

        return HttpUrl(urljoin(self.target, location))


def _without_dots(path: str) -> str:
    """Resolves . and .. also where they are percent-encoded: some servers decode first."""
    segments = [_unquote_dots(segment) for segment in path.split("/")]
    if "." not in segments and ".." not in segments:
        return path
    kept: list[str] = []
    for segment in segments:
        if segment == ".." and len(kept) > 1:
            kept.pop()
        elif segment not in (".", ".."):
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def _unquote_dots(segment: str) -> str:
    dots = segment.lower().replace("%2e", ".")
    return dots if dots in (".", "..") else segment


def parse_http(url: str) -> HttpUrl:
    try:
        return HttpUrl(url)
    except ValueError:
        raise _not_a_url(url, "https://host/path") from None


def parse_s3(url: str) -> tuple[str, str]:
    """Bucket and key. A key is taken as it stands: S3 knows neither escapes nor dots."""
    bucket, _, key = url.partition("://")[2].partition("/")
    if "@" in bucket:
        raise error(
            "QUERY_FAILED",
            f"{display_name(url)}: credentials do not belong into an s3 URL; give them as storage_options",
        )
    if not bucket:
        raise _not_a_url(url, "s3://bucket/key")
    return bucket, key


def _not_a_url(url: str, example: str) -> QueryModeError:
    return error("TABLE_NOT_FOUND", f"{display_name(url)!r} is not a URL like {example}")
