"""http(s) by range requests, through urllib3.

A source is opened with one GET for its tail (or first byte): the answer tells size, ETag and whether the
server sends ranges at all, and works for URLs that are signed for GET only. Every later range carries
If-Range, so that a changed object comes as a whole new answer, which is an error here, instead of as part of
another file. A server without ranges is read whole, up to a limit, with a warning.
Connections are pooled for the whole process. Redirections are followed here, one by one, because each has to
be allowed, and credentials do not go along to another host.
"""

from __future__ import annotations

import os
import threading

from querymode.errors import error
from querymode.store.location import parse_http
from querymode.store.options import is_true
from querymode.store.remote import (
    CHUNK_SIZE,
    TRANSIENT_STATUSES,
    ContentRange,
    RemoteSource,
    TransientError,
    check_answer,
    connect_seconds,
    first_answer,
    first_range,
    is_certificate_problem,
    refusal,
    retry_after_seconds,
    retrying,
    sent_too_much,
    whole_body,
)
from querymode.store.source import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
    from typing import Any

    import urllib3

    from querymode.store.location import HttpUrl
    from querymode.store.options import StoreOptions
    from querymode.store.source import Patience

_REDIRECTS_MAX = 10
_REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
#: A place that redirections led to may be signed for a short time only: then ask the first place again.
_STALE_STATUSES = frozenset({400, 401, 403, 404, 410})
#: What an unwanted answer may still send before its connection is dropped rather than used again.
_DRAIN_SIZE_MAX = 64 << 10


class HttpSource(RemoteSource):
    def __init__(
        self,
        url: str,
        options: StoreOptions,
        tail_size: int = 0,
        *,
        patience: Patience | None = None,
        admit: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(options)
        self._url = parse_http(url)
        self.name = self._url.name
        options.access.http(self._url)
        self._settings = options.settings(self._url.origin + self._url.path)
        self._headers = _headers(self._settings, self._url)
        self._place = self._url
        #: What a server without ranges sent.
        self._whole: memoryview | None = None
        self._admit = admit
        self._etag: str | None = None
        self._modified: str | None = None
        waiting = patience or options.patience()
        retrying(lambda: self._open(tail_size, waiting), self.name, options, waiting)
        self.identity = self._identity()

    # ---- opening ----

    def _open(self, tail_size: int, patience: Patience) -> None:
        self.opening_requests += 1
        with self._request(first_range(tail_size), patience) as answer:
            if answer.status == 416:
                return self._open_unsatisfied(answer, tail_size, patience)
            self._check_status(answer)
            self._etag, self._modified = answer.header("ETag"), answer.header("Last-Modified")
            span = ContentRange.parse(answer.header("Content-Range"))
            if answer.status != 206 or span is None:
                if answer.status == 206:
                    raise error("QUERY_FAILED", f"{self.name}: the server does not say how large the file is")
                return self._open_whole(answer, patience)
            if not first_answer(self.name, span, tail_size):
                # A server that misreads "the last bytes": the size is all it needs to tell.
                return self._open(0, patience)
            data = whole_body(self.name, answer.chunks(patience), span.end - span.start)
        self.size = span.total
        self.tail = data if tail_size else b""
        self.opening_bytes = len(data)
        return None

    def _open_unsatisfied(self, answer: _Answer, tail_size: int, patience: Patience) -> None:
        """An empty file has no range; neither has anything at a server that refuses our kind of range."""
        if (answer.header("Content-Range") or "").replace(" ", "").endswith("*/0"):
            self.size = 0
            self._keep_whole(memoryview(b""))
        elif tail_size:
            self._open(0, patience)
        else:
            raise refusal(self.name, answer.status)

    def _open_whole(self, answer: _Answer, patience: Patience) -> None:
        """The server does not send ranges. What it sends is kept."""
        import warnings

        announced = answer.length()
        if announced is not None:
            self._check_whole(announced, f"has {announced} bytes")
        data = bytearray()
        for chunk in answer.chunks(patience):
            data += chunk
            self._check_whole(len(data), "is larger")
        if announced is not None and len(data) < announced:
            raise TransientError("the answer broke off")
        if announced is not None and len(data) > announced:
            raise sent_too_much(self.name)
        self.size = self.opening_bytes = self.held_size = len(data)
        self._keep_whole(memoryview(data).toreadonly())
        warnings.warn(
            f"{self.name}: the server does not answer range requests, so the whole file was read "
            f"({len(data)} bytes)",
            stacklevel=2,
        )

    def _keep_whole(self, data: memoryview) -> None:
        self._whole = data
        self.local = True  # from now on nothing is asked of the server

    def _check_whole(self, size: int, how: str) -> None:
        limit = self.options.whole_file_limit()
        if size > limit:
            raise error(
                "QUERY_FAILED",
                f"{self.name}: the server does not answer range requests, and the file {how}, more than the "
                f'{limit} that are read whole; download it, or raise storage_options["whole_file_limit"]',
            )
        if self._admit is not None:
            self._admit(size)

    def _identity(self) -> Hashable:
        from hashlib import sha256

        if self._whole is not None:  # its bytes say more than its date, which is one of seconds
            return ("http", self.name, self.size, sha256(self._whole).hexdigest())
        if self._etag is None and self._modified is None:
            # Nothing to recognise it by, but this one source.
            return ("http", self.name, self.size, os.urandom(16).hex())
        target = sha256(self._url.target.encode()).hexdigest()  # the query may be a secret
        return ("http", self.name, target, self._etag, self._modified, self.size)

    # ---- reading ----

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        if self._whole is None:
            return super().read_into(ranges, patience=patience)
        patience = patience or self.options.patience()
        for offset, target in self.checked(ranges):
            patience.check()
            patience.deliver(target, self._whole[offset : offset + len(target)])
        return None

    def fetch(self, offset: int, size: int, patience: Patience) -> Generator[bytes, None, None]:
        with self._request(f"bytes={offset}-{offset + size - 1}", patience, validated=True) as answer:
            self._check_same(answer)
            self._check_status(answer)
            check_answer(
                self.name, ContentRange.parse(answer.header("Content-Range")), offset, size, self.size
            )
            yield from answer.chunks(patience)

    def _check_same(self, answer: _Answer) -> None:
        """An answer to a range that is not of the object we opened, or not known to be."""
        if answer.status not in (200, 206, 412, 416):
            return
        pairs = [(self._etag, answer.header("ETag")), (self._modified, answer.header("Last-Modified"))]
        known = [opened == now for opened, now in pairs if opened is not None and now is not None]
        same = all(known) if known else None
        if self._etag is not None and self._etag == pairs[0][1] and not self._etag.startswith("W/"):
            same = True  # whatever the date says: the machines behind one name may disagree about it
        # Servers that ignore If-Range still say which version they sent; without a word we trust a range.
        if same is False or answer.status in (412, 416) or (answer.status == 200 and same is None):
            raise changed(self.name)
        if answer.status == 200:
            raise TransientError("the server sent the whole file instead of a range")

    def _check_status(self, answer: _Answer) -> None:
        if answer.status in TRANSIENT_STATUSES:
            raise TransientError(
                f"the server answered with status {answer.status}",
                retry_after_seconds(answer.header("Retry-After")),
            )
        if answer.status not in (200, 206):
            raise refusal(self.name, answer.status)

    # ---- requests ----

    def _request(self, span: str, patience: Patience, *, validated: bool = False) -> _Answer:
        headers = {"Range": span, "Accept-Encoding": "identity"}
        if validated and (condition := self._condition()) is not None:
            headers["If-Range"] = condition
        place = self._place
        answer = self._follow(place, headers, patience)
        if place is not self._url and answer.status in _STALE_STATUSES:
            answer.close()
            answer = self._follow(self._url, headers, patience)
        return answer

    def _condition(self) -> str | None:
        # A weak ETag names a meaning, not bytes, and is not allowed here.
        if self._etag is not None and not self._etag.startswith("W/"):
            return self._etag
        return self._modified

    def _follow(self, place: HttpUrl, headers: dict[str, str], patience: Patience) -> _Answer:
        for _ in range(_REDIRECTS_MAX + 1):
            own = self._headers if place.origin == self._url.origin else {}
            answer = _send(place, {**own, **headers}, self._settings, self.options.timeout, patience)
            location = answer.header("Location")
            if answer.status not in _REDIRECTIONS or location is None:
                self._place = place
                return answer
            answer.close()
            place = self._redirected(place, location)
        raise error("QUERY_FAILED", f"{self.name}: more than {_REDIRECTS_MAX} redirections")

    def _redirected(self, place: HttpUrl, location: str) -> HttpUrl:
        try:
            target = place.joined(location)
        except ValueError:
            raise error(
                "QUERY_FAILED", f"{self.name}: redirected to something that is no http(s) URL"
            ) from None
        if place.scheme == "https" and target.scheme == "http":
            raise error("ACCESS_DENIED", f"{self.name}: redirected from https to http ({target.name})")
        self.options.access.http(target)
        return target


def _headers(settings: dict[str, Any], url: HttpUrl) -> dict[str, str]:
    """The user's own headers, and Authorization from a token or from user and password."""
    headers = {str(key): str(value) for key, value in (settings.get("headers") or {}).items()}
    token = settings.get("bearer_token") or settings.get("token")
    username = settings.get("username", url.username)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif username is not None:
        from base64 import b64encode

        password = settings.get("password", url.password)
        headers["Authorization"] = "Basic " + b64encode(f"{username}:{password}".encode()).decode()
    text = "".join(name + value for name, value in headers.items())
    if "\n" in text or "\r" in text or any(ord(character) > 0xFF for character in text):
        raise error(
            "QUERY_FAILED", "a header in storage_options holds a line break or letters beyond Latin-1"
        )
    return headers


class _Answer:
    """A response whose body has not been read. Its connection goes back to the pool when that is cheap."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str | None:
        value = self._response.headers.get(name)
        return None if value is None else str(value)

    def length(self) -> int | None:
        try:
            size = int(self.header("Content-Length") or "")
        except ValueError:
            return None
        return size if size >= 0 else None

    def chunks(self, patience: Patience) -> Iterator[bytes]:
        """What there is of the body, as it comes."""
        while chunk := self._read():
            yield chunk
            patience.check()

    def _read(self) -> bytes:
        from urllib3.exceptions import HTTPError

        try:
            # read1, so that a server which drips is noticed between two drops.
            return self._response.read1(CHUNK_SIZE)
        except (HTTPError, OSError) as failure:
            raise _transient(failure) from None

    def close(self) -> None:
        length = self._response.length_remaining
        if length is not None and length <= _DRAIN_SIZE_MAX:
            self._response.drain_conn()
            self._response.release_conn()
        else:
            self._response.close()

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failure nobody waits for the rest of a body.
        self.close() if kind is None else self._response.close()


def _send(
    place: HttpUrl, headers: dict[str, str], settings: dict[str, Any], timeout: float, patience: Patience
) -> _Answer:
    import urllib3
    from urllib3.exceptions import HTTPError

    patience.check()
    seconds = patience.limited(timeout)
    try:
        response = _manager(place, settings).request(
            "GET",
            place.target,
            headers=headers,
            timeout=urllib3.Timeout(connect=connect_seconds(seconds), read=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
    except (HTTPError, OSError, ValueError) as failure:
        _refuse_certificate(place, failure)
        if isinstance(failure, ValueError):
            raise error("TABLE_NOT_FOUND", f"{place.name} is not a URL that can be asked for") from None
        raise _transient(failure) from None
    return _Answer(response)


def _refuse_certificate(place: HttpUrl, failure: BaseException) -> None:
    """A certificate does not become right by asking again."""
    if is_certificate_problem(failure):
        raise error(
            "QUERY_FAILED",
            f"{place.name}: the server's certificate could not be verified; give its authority as "
            'storage_options["ca_file"]',
        ) from None


def _transient(failure: BaseException) -> TransientError:
    from urllib3 import exceptions

    # Our words, not theirs: their texts may hold the URL with its signature.
    if isinstance(failure, exceptions.NameResolutionError):
        return TransientError("its host name could not be resolved")
    if isinstance(failure, exceptions.NewConnectionError):  # which urllib3 counts among the timeouts
        return TransientError("no connection could be made")
    if isinstance(failure, (exceptions.TimeoutError, TimeoutError)):
        return TransientError("the server did not answer in time")
    if isinstance(failure, exceptions.ProxyError):
        return TransientError("the proxy could not be used")
    return TransientError(f"the connection broke ({type(failure).__name__})")


# ---- the pools of this process ----

_lock = threading.Lock()
_managers: dict[tuple[str | None, bool, str | None], urllib3.PoolManager] = {}


def _manager(place: HttpUrl, settings: dict[str, Any]) -> urllib3.PoolManager:
    ca_file = settings.get("ca_file") or settings.get("ca_bundle")
    verify = is_true(settings.get("verify", True))
    key = (None if ca_file is None else os.fspath(ca_file), verify, _proxy(place, settings))
    with _lock:
        manager = _managers.get(key)
        if manager is None:
            manager = _managers[key] = _new_manager(*key)
        return manager


def _new_manager(ca_file: str | None, verify: bool, proxy: str | None) -> urllib3.PoolManager:
    import ssl

    import urllib3

    from querymode.store.connections import attend

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError:  # an SSLError too
        raise error("QUERY_FAILED", f"the certificates in {ca_file} could not be loaded") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # As many kept connections as there are threads that read (store/fetch.py), and some for direct reads.
    if proxy is None:
        manager = urllib3.PoolManager(num_pools=64, maxsize=24, ssl_context=context)
        attend(manager)
        return manager
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(proxy)
    login = None
    if parts.username is not None:
        login = urllib3.make_headers(
            proxy_basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        )
    proxies = urllib3.ProxyManager(proxy, num_pools=64, maxsize=24, ssl_context=context, proxy_headers=login)
    attend(proxies)
    return proxies


def _proxy(place: HttpUrl, settings: dict[str, Any]) -> str | None:
    """From the settings, else from the environment: http_proxy, https_proxy, all_proxy, no_proxy."""
    if "proxy" in settings:
        return settings["proxy"] or None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(place.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(f"{place.host}:{place.port}"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _after_fork_in_child() -> None:
    # Two processes on one connection would read each other's answers.
    global _lock
    _lock = threading.Lock()
    _managers.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
