"""An http server on loopback that serves one object by ranges, and misbehaves on request."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Answers a request itself and returns True, or returns False for the normal answer.
Hook = Callable[["Handler", int], bool]


class RangeServer:
    """`data` at every path. Change the attributes between requests; `log` has (path, Range, headers)."""

    def __init__(self, data: bytes = b"", context: ssl.SSLContext | None = None) -> None:
        self.data = data
        self.scheme = "http" if context is None else "https"
        self.etag: str | None = '"v1"'
        self.modified: str | None = None
        self.ranges = True
        self.suffix_ranges = True
        self.chunked = False
        self.if_range = True
        self.hook: Hook | None = None
        self.log: list[tuple[str, str | None, dict[str, str]]] = []
        self.connections = 0
        self.lock = threading.Lock()
        server = self

        class Bound(Handler):
            owner = server

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # clients that hang up are part of the tests

        self._server = Quiet(("127.0.0.1", 0), Bound)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/file", user: str = "") -> str:
        return f"{self.scheme}://{user}127.0.0.1:{self.port}{path}"

    @property
    def spans(self) -> list[str | None]:
        return [span for _, span, _ in self.log]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: RangeServer

    def setup(self) -> None:
        super().setup()
        with self.owner.lock:
            self.owner.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        owner = self.owner
        with owner.lock:
            owner.log.append((self.path, self.headers.get("Range"), dict(self.headers)))
            number = len(owner.log)
        if owner.hook is not None and owner.hook(self, number):
            return
        self.serve()

    def serve(self) -> None:
        owner = self.owner
        span = self.span()
        if span is None:
            self.answer(200, owner.data)
        elif span[0] >= span[1]:
            self.answer(416, b"", {"Content-Range": f"bytes */{len(owner.data)}"})
        else:
            content_range = f"bytes {span[0]}-{span[1] - 1}/{len(owner.data)}"
            self.answer(206, owner.data[span[0] : span[1]], {"Content-Range": content_range})

    def span(self) -> tuple[int, int] | None:
        owner, size = self.owner, len(self.owner.data)
        header = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        if header is None or not owner.ranges:
            return None
        if owner.if_range and condition is not None and condition not in (owner.etag, owner.modified):
            return None
        first, _, last = header.removeprefix("bytes=").partition("-")
        if first:
            return int(first), min(int(last) + 1, size)
        return (max(0, size - int(last)), size) if owner.suffix_ranges else (0, min(int(last), size))

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        fields = {"ETag": self.owner.etag, "Last-Modified": self.owner.modified, **(headers or {})}
        for name, value in fields.items():
            if value is not None:
                self.send_header(name, value)
        if self.owner.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # ---- faults ----

    def redirect(self, location: str, status: int = 302) -> bool:
        self.answer(status, b"", {"Location": location})
        return True

    def fail(self, status: int, headers: dict[str, str] | None = None) -> bool:
        self.answer(status, b"sorry", headers)
        return True

    def truncate(self, count: int) -> bool:
        """Sends the right header and `count` bytes of the body, then hangs up."""
        span = self.span()
        assert span is not None
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{len(self.owner.data)}")
        self.send_header("Content-Length", str(span[1] - span[0]))
        if self.owner.etag is not None:
            self.send_header("ETag", self.owner.etag)
        self.end_headers()
        self.wfile.write(self.owner.data[span[0] : span[0] + count])
        self.hang_up()
        return True

    def hang_up(self) -> bool:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        return True
