"""What servers answer that should not: by name, for `slow_server.SlowServer`."""

from __future__ import annotations

from functools import partial

from tests.limits.slow_server import BEHAVIOURS, Behaviour, Exchange, head, listing, truncated, xml


def _raw(data: bytes, exchange: Exchange) -> None:
    exchange.raw(data)


def _status(status: str, fields: list[str], body: bytes, exchange: Exchange) -> None:
    exchange.status(status, fields, body)


def _part(content_range: str, exchange: Exchange) -> None:
    exchange.status("206 Partial Content", [f"Content-Range: {content_range}"], b"x")


def _fields(fields: list[str], exchange: Exchange) -> None:
    """The right answer with more in its head, which may contradict the rest."""
    first, body = exchange.object()
    exchange.is_last = True
    exchange.send(first[:-2] + "".join(f"{field}\r\n" for field in fields).encode() + b"\r\n", body)


def _instead(old: str, new: str, exchange: Exchange) -> None:
    """The right answer with a field that reads otherwise."""
    first, body = exchange.object()
    lines = [line for line in first.decode().split("\r\n")[:-2] if not line.startswith(old)]
    exchange.is_last = True
    exchange.send(("\r\n".join([*lines, *([new] if new else [])]) + "\r\n\r\n").encode(), body)


def _redirect(status: str, location: str | None, exchange: Exchange, region: str = "") -> None:
    fields = [] if location is None else [f"Location: {location or exchange.path}"]
    exchange.status(status, fields + ([f"x-amz-bucket-region: {region}"] if region else []))


def _error(status: str, code: str, more: str, exchange: Exchange) -> None:
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>m</Message>{more}</Error>'
    exchange.status(status, ["Content-Type: application/xml"], body.encode())


def _short(exchange: Exchange) -> None:
    first, body = exchange.object()
    exchange.raw(first + body[: len(body) // 2])


def _long(exchange: Exchange) -> None:
    first, body = exchange.object()
    exchange.raw(first + body + b"x" * 100_000)


def _listed(item: str, exchange: Exchange) -> None:
    if not exchange.is_listing:
        return exchange.good()
    prefix = exchange.query.get("prefix", "")
    return exchange.send(*xml(f"<Contents>{item.replace('PREFIX', prefix)}</Contents>"))


def _list_raw(body: str, exchange: Exchange) -> None:
    if not exchange.is_listing:
        return exchange.good()
    return exchange.status("200 OK", ["Content-Type: application/xml"], body.encode())


def _list_more(more: str, exchange: Exchange) -> None:
    exchange.send(*listing("b", [exchange.query.get("prefix", "") + "a"], 9, more))


_BOMB = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
_KEY, _SIZE, _ETAG = "<Key>PREFIXa.parquet</Key>", "<Size>99</Size>", "<ETag>&quot;a&quot;</ETag>"
_DATE = "<LastModified>2025-11-18T00:00:00.000Z</LastModified>"

#: For any request.
ODD: dict[str, Behaviour] = {
    "odd-nothing": BEHAVIOURS["hang-up"],
    "odd-html-without-head": partial(_raw, b"<html>hello</html>\r\n"),
    "odd-binary": partial(_raw, bytes(range(256)) * 10),
    "odd-tls": partial(_raw, b"\x15\x03\x01\x00\x02\x02\x46"),
    "odd-version": partial(_raw, b"HTTP/9.9 abc def\r\n\r\n"),
    "odd-status-999": partial(_raw, b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"),
    "odd-status-negative": partial(_raw, b"HTTP/1.1 -20 Odd\r\nContent-Length: 0\r\n\r\n"),
    "odd-status-word": partial(_raw, b"HTTP/1.1 two OK\r\n\r\n"),
    "odd-head-without-end": partial(_raw, b"HTTP/1.1 200 OK\r\nA: b\r\n"),
    "odd-head-without-colon": partial(_raw, b"HTTP/1.1 200 OK\r\n: :\r\n\x00\xff\r\n\r\nbody"),
    "odd-long-field": partial(_raw, b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000 + b"\r\n\r\n"),
    "odd-many-fields": partial(_raw, b"HTTP/1.1 200 OK\r\n" + b"A: a\r\n" * 5000 + b"\r\n"),
    "odd-html": partial(_status, "200 OK", ["Content-Type: text/html"], b"<html>Please sign in</html>"),
    "odd-empty": partial(_status, "200 OK", [], b""),
    "odd-204": partial(_raw, b"HTTP/1.1 204 No Content\r\n\r\n"),
    "odd-304": partial(_raw, b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "odd-404-html": partial(_status, "404 Not Found", [], b"<html>nothing here"),
    "odd-400-empty": partial(_status, "400 Bad Request", [], b""),
    "odd-403-binary": partial(_status, "403 Forbidden", [], b"\x00\xff" * 100),
    "odd-412": partial(_status, "412 Precondition Failed", [], b"<Error/>"),
    "odd-416": partial(_status, "416 Range Not Satisfiable", [], b""),
    "odd-416-nonsense": partial(_status, "416 Odd", ["Content-Range: bytes */-5"], b"<Error>"),
    "odd-416-empty": partial(_status, "416 Odd", ["Content-Range: bytes */0"], b"<Error/>"),
    "odd-500-xml": partial(_status, "500 Odd", [], b"<a><b></a>"),
    "odd-retry-after": partial(_status, "503 Odd", ["Retry-After: nan"], b"<Error><Code>\n</Code></Error>"),
    "odd-part-nowhere": partial(_status, "206 Partial Content", [], b"x"),
    "odd-part-elsewhere": partial(_part, "bytes 5-5/1000000"),
    "odd-part-of-all": partial(_part, "bytes 0-99999999999/100000000000"),
    "odd-part-negative": partial(_part, "bytes -5--1/-3"),
    "odd-part-unknown": partial(_part, "bytes 0-0/*"),
    "odd-part-huge": partial(_part, f"bytes 0-0/{10**30}"),
    "odd-part-largest": partial(_part, f"bytes 0-0/{2**63 - 1}"),
    "odd-part-digits": partial(_part, "bytes 0-0/" + "9" * 5000),
    "odd-part-units": partial(_part, "rows 0-0/7"),
    "odd-gzip": partial(_fields, ["Content-Encoding: gzip"]),
    "odd-deflate": partial(_fields, ["Content-Encoding: deflate, br, odd"]),
    "odd-two-lengths": partial(_fields, ["Content-Length: 5"]),
    "odd-length-word": partial(_instead, "Content-Length", "Content-Length: many"),
    "odd-length-negative": partial(_instead, "Content-Length", "Content-Length: -7"),
    "odd-length-huge": partial(_instead, "Content-Length", f"Content-Length: {10**30}"),
    "odd-no-length": partial(_instead, "Content-Length", ""),
    "odd-no-etag": partial(_instead, "ETag", ""),
    "odd-etag": partial(_instead, "ETag", "ETag: \x01\x02"),
    "odd-no-date": partial(_instead, "Last-Modified", ""),
    "odd-date": partial(_instead, "Last-Modified", "Last-Modified: yesterday"),
    "odd-date-huge": partial(_instead, "Last-Modified", "Last-Modified: 99999999999999999999"),
    "odd-chunks": partial(_raw, head("200 OK", ["Transfer-Encoding: chunked"]) + b"zz\r\nhello\r\n"),
    "odd-chunks-negative": partial(_raw, head("206 OK", ["Transfer-Encoding: chunked"]) + b"-5\r\nhello\r\n"),
    "odd-chunks-huge": partial(_raw, head("200 OK", ["Transfer-Encoding: chunked"]) + b"f" * 5000 + b"\r\n"),
    "odd-encoding": partial(_instead, "Content-Length", "Transfer-Encoding: odd, chunked"),
    "odd-short": _short,
    "odd-long": _long,
    "odd-circle-301": partial(_redirect, "301 Moved", ""),
    "odd-circle-302": partial(_redirect, "302 Found", ""),
    "odd-circle-307": partial(_redirect, "307 Odd", ""),
    "odd-circle-308": partial(_redirect, "308 Odd", ""),
    "odd-circle-region": partial(_redirect, "301 Moved", "", region="eu-west-1"),
    "odd-circle-region-word": partial(_redirect, "307 Odd", "", region="a b/../c#"),
    "odd-redirect-nowhere": partial(_redirect, "301 Moved", None),
    "odd-redirect-bracket": partial(_redirect, "301 Moved", "http://[::1/x"),
    "odd-redirect-port": partial(_redirect, "301 Moved", "http://localhost:99999999/x"),
    "odd-redirect-file": partial(_redirect, "302 Found", "file:///etc/passwd"),
    "odd-redirect-letters": partial(_redirect, "302 Found", "http://\xff\xfe/\x7f"),
    "odd-region": partial(_error, "400 Odd", "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
    "odd-region-word": partial(
        _error, "400 Odd", "AuthorizationHeaderMalformed", "<Region>a b/../c#</Region>"
    ),
    "odd-permanent-redirect": partial(_error, "301 Moved", "PermanentRedirect", "<Endpoint>x y</Endpoint>"),
    "odd-location": partial(_error, "400 Odd", "IllegalLocationConstraintException", ""),
    "odd-code": partial(_error, "403 Forbidden", "\n  hunter2  ", ""),
    "odd-error-in-200": partial(_error, "200 OK", "InternalError", ""),
    "odd-error-xml": partial(_status, "400 Odd", [], b"<Error><Code>a<Code></Error>"),
    "odd-error-json": partial(_status, "400 Odd", [], b'{"Error": 5}'),
    "odd-error-list": partial(_status, "400 Odd", [], b"<Error><Code/><Code/><Code><a/></Code></Error>"),
}

#: For listings; objects are good.
ODD_LISTINGS: dict[str, Behaviour] = {
    "odd-list-nothing": partial(_list_raw, ""),
    "odd-list-html": partial(_list_raw, "<html><body>Please <br> sign in</body></html>"),
    "odd-list-other": partial(_list_raw, "<Other><Thing/></Other>"),
    "odd-list-json": partial(_list_raw, '{"Contents": []}'),
    "odd-list-cut": partial(_list_raw, "<?xml version='1.0'?><ListBucketResult><Contents><Key>a"),
    "odd-list-bomb": partial(
        _list_raw,
        f'<!DOCTYPE l [<!ENTITY e0 "ha">{_BOMB}]><ListBucketResult><Name>&e9;</Name></ListBucketResult>',
    ),
    "odd-list-deep": partial(_list_raw, "<ListBucketResult>" * 20_000 + "</ListBucketResult>" * 20_000),
    "odd-list-no-key": partial(_listed, _SIZE + _ETAG + _DATE),
    "odd-list-no-size": partial(_listed, _KEY + _ETAG + _DATE),
    "odd-list-no-etag": partial(_listed, _KEY + _SIZE + _DATE),
    "odd-list-no-date": partial(_listed, _KEY + _SIZE + _ETAG),
    "odd-list-empty-item": partial(_listed, ""),
    "odd-list-size-word": partial(_listed, _KEY + "<Size>many</Size>" + _ETAG + _DATE),
    "odd-list-size-negative": partial(_listed, _KEY + "<Size>-5</Size>" + _ETAG + _DATE),
    "odd-list-size-huge": partial(_listed, _KEY + f"<Size>{10**30}</Size>" + _ETAG + _DATE),
    "odd-list-size-largest": partial(_listed, _KEY + f"<Size>{2**63 - 1}</Size>" + _ETAG + _DATE),
    "odd-list-date": partial(_listed, _KEY + _SIZE + _ETAG + "<LastModified>yesterday</LastModified>"),
    "odd-list-year": partial(_listed, _KEY + _SIZE + _ETAG + "<LastModified>99999-01-01</LastModified>"),
    "odd-list-elsewhere": partial(_listed, "<Key>elsewhere.parquet</Key>" + _SIZE + _ETAG + _DATE),
    "odd-list-above": partial(_listed, "<Key>PREFIX../../a.parquet</Key>" + _SIZE + _ETAG + _DATE),
    "odd-list-letters": partial(_listed, "<Key>PREFIX%00%FF%zz.parquet</Key>" + _SIZE + _ETAG + _DATE),
    "odd-list-etag": partial(_listed, _KEY + _SIZE + "<ETag>\n a\tb </ETag>" + _DATE),
    "odd-list-key-twice": partial(_listed, _KEY + _KEY + _SIZE + _ETAG + _DATE),
    "odd-list-no-token": partial(_list_more, "<IsTruncated>true</IsTruncated>"),
    "odd-list-truth": partial(_list_more, "<IsTruncated>perhaps</IsTruncated>"),
    "odd-list-same-token": partial(_list_more, truncated("again")),
}

BEHAVIOURS.update(ODD)
BEHAVIOURS.update(ODD_LISTINGS)
