"""A server on loopback that answers slowly, endlessly or oddly: the first part of a path says how.

    /good/x.parquet             by ranges, as it should be
    /drip-body/x.parquet        a byte now and then
    /later-stall/x.parquet      good for the end of the file, where its footer is; then `stall`

S3 asks for `/bucket/key`, so that `s3://drip-body/x.parquet` meets the same. Listings are those of S3.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit

PAUSE = 0.1
ETAG = '"v1"'
LIST_XML = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>{}</ListBucketResult>'
)

Behaviour = Callable[["Exchange"], None]


class SlowServer:
    """Serves `data` as every object."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.paths: list[str] = []
        #: Exchanges under way: they end when the other side hangs up.
        self.busy = 0
        self.lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, behaviour: str, scheme: str = "http", name: str = "x.parquet") -> str:
        return f"s3://{behaviour}/{name}" if scheme == "s3" else f"{self.endpoint}/{behaviour}/{name}"

    def count(self, behaviour: str) -> int:
        """Requests so far for what lies there."""
        with self.lock:
            return sum(path.split("?")[0].split("/")[1] == behaviour for path in self.paths)

    def is_idle(self, seconds: float = 2.0) -> bool:
        """Whether everybody hangs up in that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self.lock:
                if self.busy == 0:
                    return True
            time.sleep(0.01)
        return False

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as lines:
            try:
                while (exchange := Exchange.read(self, connection, lines)) is not None:
                    with self.lock:
                        self.busy += 1
                        self.paths.append(exchange.path)
                    try:
                        exchange.answer()
                    finally:
                        with self.lock:
                            self.busy -= 1
                    if exchange.is_last:
                        return
            except OSError:
                pass  # the other side hung up


class Exchange:
    """A request and its answer."""

    def __init__(
        self, server: SlowServer, connection: socket.socket, method: str, path: str, headers: dict[str, str]
    ) -> None:
        self.server = server
        self.connection = connection
        self.method = method
        self.path = path
        self.headers = headers
        self.is_last = False
        parts = urlsplit(path)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.behaviour, _, self.key = unquote(parts.path).lstrip("/").partition("/")

    @classmethod
    def read(cls, server: SlowServer, connection: socket.socket, lines: object) -> Exchange | None:
        first = lines.readline().decode("latin-1").split()  # type: ignore[attr-defined]
        if len(first) != 3:
            return None
        headers = {}
        while line := lines.readline().strip():  # type: ignore[attr-defined]
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return cls(server, connection, first[0], first[1], headers)

    # ---- good answers ----

    @property
    def is_listing(self) -> bool:
        return "list-type" in self.query

    def span(self) -> tuple[int, int] | None:
        size = len(self.server.data)
        first, dash, last = self.headers.get("range", "").removeprefix("bytes=").partition("-")
        if not dash:
            return None
        return (int(first), min(int(last) + 1, size)) if first else (max(0, size - int(last)), size)

    def reaches_end(self) -> bool:
        span = self.span()
        return span is None or span[1] == len(self.server.data) or span == (0, 1)

    def answer(self) -> None:
        name, later = self.behaviour, self.behaviour.removeprefix("later-")
        if later != name and (self.is_listing or self.reaches_end()):
            self.good()
        else:
            BEHAVIOURS.get(later, hang_up)(self)  # what TLS says may look like a request

    def good(self) -> None:
        if self.is_listing:
            self.send(*listing(self.behaviour, ["x.parquet"], len(self.server.data)))
        else:
            self.send(*self.object())

    def object(self) -> tuple[bytes, bytes]:
        """Head and body of the right answer."""
        span, data = self.span(), self.server.data
        fields = [f"ETag: {ETAG}", "Last-Modified: Tue, 18 Nov 2025 00:00:00 GMT"]
        status, body = "200 OK", data
        if span is not None:
            status, body = "206 Partial Content", data[span[0] : span[1]]
            fields.append(f"Content-Range: bytes {span[0]}-{span[1] - 1}/{len(data)}")
        return head(status, [*fields, f"Content-Length: {len(body)}"]), body

    def send(self, head: bytes, body: bytes) -> None:
        self.connection.sendall(head if self.method == "HEAD" else head + body)

    # ---- slow ones ----

    def drip(self, data: bytes) -> None:
        for start in range(len(data)):
            self.connection.sendall(data[start : start + 1])
            if self.has_left(PAUSE):
                raise ConnectionResetError

    def stall(self) -> None:
        self.has_left(60.0)
        raise ConnectionResetError

    def has_left(self, seconds: float) -> bool:
        """Whether the other side hangs up within that time."""
        ready, _, _ = select.select([self.connection], [], [], seconds)
        return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)

    def raw(self, data: bytes) -> None:
        """These very bytes, and nothing after them."""
        self.is_last = True
        self.connection.sendall(data)

    def status(self, status: str, fields: list[str] | None = None, body: bytes = b"") -> None:
        self.send(head(status, [*(fields or []), f"Content-Length: {len(body)}"]), body)


def head(status: str, fields: list[str]) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1")


def listing(bucket: str, keys: list[str], size: int, more: str = "") -> tuple[bytes, bytes]:
    items = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2025-11-18T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;v1&quot;</ETag><Size>{size}</Size></Contents>"
        for key in keys
    )
    return xml(items + (more or "<IsTruncated>false</IsTruncated>"))


def xml(inner: str) -> tuple[bytes, bytes]:
    body = LIST_XML.format(inner).encode()
    return head("200 OK", ["Content-Type: application/xml", f"Content-Length: {len(body)}"]), body


def truncated(token: str) -> str:
    return f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"


# ---- behaviours ----


def drip_body(exchange: Exchange) -> None:
    first, body = listing("b", ["x.parquet"], 9) if exchange.is_listing else exchange.object()
    exchange.connection.sendall(first)
    exchange.drip(body)


def drip_head(exchange: Exchange) -> None:
    first, body = exchange.object()
    exchange.drip(first)
    exchange.connection.sendall(body)


def drip_status(exchange: Exchange) -> None:
    exchange.drip(b"HTTP/1.1 " + b"2" * 1000)


def drip_many_heads(exchange: Exchange) -> None:
    while not exchange.has_left(PAUSE):
        exchange.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def flood_heads(exchange: Exchange) -> None:
    while True:  # until the other side hangs up, which is an OSError
        exchange.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def stall(exchange: Exchange) -> None:
    exchange.stall()


def stall_inside(exchange: Exchange) -> None:
    first, body = exchange.object()
    exchange.connection.sendall(first + body[: len(body) // 2])
    exchange.stall()


def drip_chunks(exchange: Exchange) -> None:
    exchange.connection.sendall(head("200 OK", ["Transfer-Encoding: chunked"]))
    exchange.drip(b"1\r\nx\r\n" * 1000)


def busy(exchange: Exchange) -> None:
    exchange.status("503 Service Unavailable", ["Retry-After: 3600"], b"<Error><Code>SlowDown</Code></Error>")


def hang_up(exchange: Exchange) -> None:
    exchange.is_last = True


def drip_redirects(exchange: Exchange) -> None:
    time.sleep(PAUSE)
    exchange.status("302 Found", [f"Location: {exchange.path}x"])


def endless_listing(exchange: Exchange) -> None:
    """Every page says that there are more, and has others."""
    number = int(exchange.query.get("continuation-token", "0"))
    prefix = exchange.query.get("prefix", "")
    exchange.send(*listing("b", [f"{prefix}{number:09d}.parquet"], 9, truncated(str(number + 1))))


def endless_empty_listing(exchange: Exchange) -> None:
    number = int(exchange.query.get("continuation-token", "0"))
    exchange.send(*xml(truncated(str(number + 1))))


def repeating_listing(exchange: Exchange) -> None:
    exchange.send(*listing("b", [f"{exchange.query.get('prefix', '')}a"], 9, truncated("again")))


def circling_listing(exchange: Exchange) -> None:
    """New tokens for ever, for the same two pages."""
    number = int(exchange.query.get("continuation-token", "0"))
    key = f"{exchange.query.get('prefix', '')}{number % 2}"
    exchange.send(*listing("b", [key], 9, truncated(str(number + 1))))


BEHAVIOURS: dict[str, Behaviour] = {
    "good": Exchange.good,
    "drip-body": drip_body,
    "drip-head": drip_head,
    "drip-status": drip_status,
    "drip-many-heads": drip_many_heads,
    "flood-heads": flood_heads,
    "drip-chunks": drip_chunks,
    "drip-redirects": drip_redirects,
    "stall": stall,
    "stall-inside": stall_inside,
    "busy": busy,
    "hang-up": hang_up,
    "endless-listing": endless_listing,
    "endless-empty-listing": endless_empty_listing,
    "repeating-listing": repeating_listing,
    "circling-listing": circling_listing,
}
