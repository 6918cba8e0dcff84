"""http sources against a real server on loopback: ranges, redirections, faults, changes, credentials."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import random
import ssl
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from querymode import QueryModeError
from querymode.store.open import open_source
from querymode.store.options import StoreOptions
from querymode.store.source import ByteSource, Patience, ReadCancelled
from tests.forked import in_child
from tests.unit.range_server import Handler, RangeServer

DATA = random.Random(7).randbytes(300_000)
SECRET = "hunter2"


@pytest.fixture
def server() -> Iterator[RangeServer]:
    made = RangeServer(DATA)
    yield made
    made.close()


@pytest.fixture
def elsewhere() -> Iterator[RangeServer]:
    made = RangeServer(DATA)
    yield made
    made.close()


def options(**changes: object) -> StoreOptions:
    return StoreOptions(**{"back_off": 0.001, "timeout": 5.0, **changes})  # type: ignore[arg-type]


def read_into(source: ByteSource, *wanted: tuple[int, int], patience: Patience | None = None) -> list[bytes]:
    targets = [bytearray(size) for _, size in wanted]
    views = [(offset, memoryview(target)) for (offset, _), target in zip(wanted, targets, strict=True)]
    source.read_into(views, patience=patience)
    return [bytes(target) for target in targets]


def failure(action: Callable[[], object]) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        action()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert SECRET not in shown
    return caught.value


# ---- ranges ----


def test_ranges(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    assert (source.size, source.local) == (len(DATA), False)
    assert (source.opening_requests, source.opening_bytes) == (1, 1)
    assert source.read(1000, 5000) == DATA[1000:6000]
    assert read_into(source, (5, 10), (0, 0), (299_000, 1000)) == [DATA[5:15], b"", DATA[299_000:]]
    assert server.spans == ["bytes=0-0", "bytes=1000-5999", "bytes=5-14", "bytes=299000-299999"]
    assert all(headers["If-Range"] == '"v1"' for _, _, headers in server.log[1:])
    assert all(headers["Accept-Encoding"] == "identity" for _, _, headers in server.log)
    assert server.connections == 1  # kept alive
    source.verify_unchanged()
    source.prefetch([(0, 10)])
    source.close()


def test_the_tail_comes_with_opening(server: RangeServer) -> None:
    source = open_source(server.url(), options(), tail_size=65536)
    assert source.read_tail(1000) == DATA[-1000:]
    assert source.read_tail(65536) == DATA[-65536:]
    assert server.spans == ["bytes=-65536"]
    assert (source.size, source.opening_bytes) == (len(DATA), 65536)
    assert source.read_tail(70_000) == DATA[-70_000:]
    assert len(server.log) == 2


def test_a_file_smaller_than_its_tail(server: RangeServer) -> None:
    server.data = b"abc"
    source = open_source(server.url(), options(), tail_size=100)
    assert (source.size, source.read_tail(100), source.opening_bytes) == (3, b"abc", 3)


def test_a_server_that_misreads_the_tail(server: RangeServer) -> None:
    server.suffix_ranges = False
    source = open_source(server.url(), options(), tail_size=100)
    assert (source.size, source.tail, source.opening_requests) == (len(DATA), b"", 2)
    assert source.read_tail(100) == DATA[-100:]


@pytest.mark.parametrize("tail_size", [0, 100])
def test_an_empty_file(server: RangeServer, tail_size: int) -> None:
    server.data = b""
    source = open_source(server.url(), options(), tail_size=tail_size)
    assert (source.size, source.read(0, 0), source.read_tail(9)) == (0, b"", b"")


def test_identity(server: RangeServer) -> None:
    first = open_source(server.url(), options()).identity
    assert first == open_source(server.url(), options()).identity
    hash(first)
    assert first != open_source(server.url("/other"), options()).identity
    assert first != open_source(server.url("/file?id=2"), options()).identity
    server.etag = '"v2"'
    assert first != open_source(server.url(), options()).identity
    server.etag = None
    # Nothing to recognise it by: never the same.
    assert open_source(server.url(), options()).identity != open_source(server.url(), options()).identity
    server.modified = "Mon, 01 Jan 2024 00:00:00 GMT"
    assert open_source(server.url(), options()).identity == open_source(server.url(), options()).identity


def test_ranges_outside_are_not_asked_for(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    assert failure(lambda: source.read(len(DATA), 1)).code == "INVALID_FORMAT"
    assert len(server.log) == 1


def test_many_threads_share_a_source(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(15):
            offset = (seed * 31_337 + step * 1013) % (len(DATA) - 3000)
            if source.read(offset, 3000) != DATA[offset : offset + 3000]:
                wrong.append(offset)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert server.connections <= 9


# ---- servers without ranges ----


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("etag", ['"v1"', None])
def test_a_server_without_ranges_is_read_whole(server: RangeServer, chunked: bool, etag: str | None) -> None:
    server.ranges, server.chunked, server.etag = False, chunked, etag
    with pytest.warns(UserWarning, match="does not answer range requests"):
        source = open_source(server.url(f"/f?token={SECRET}"), options(), tail_size=100)
    assert source.size == source.opening_bytes == len(DATA)
    assert read_into(source, (5, 10), (1000, 9)) == [DATA[5:15], DATA[1000:1009]]
    assert source.read_tail(10) == DATA[-10:]
    assert len(server.log) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert open_source(server.url(f"/f?token={SECRET}"), options()).identity == source.identity
    assert SECRET not in str(caught[0].message)


@pytest.mark.parametrize("chunked", [False, True])
def test_the_whole_has_a_limit(server: RangeServer, chunked: bool) -> None:
    server.ranges, server.chunked = False, chunked
    small = options(storage_options={"whole_file_limit": 1000})
    problem = failure(lambda: open_source(server.url(), small))
    assert problem.code == "QUERY_FAILED"
    assert "whole_file_limit" in problem.message


# ---- changes ----


def test_a_changed_object(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    server.etag = '"v2"'
    problem = failure(lambda: source.read(0, 100))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)


def test_a_changed_object_at_a_server_that_ignores_conditions(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    server.etag, server.if_range = '"v2"', False
    assert "changed" in failure(lambda: source.read(0, 100)).message


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_dates_where_there_is_no_strong_etag(server: RangeServer, etag: str | None) -> None:
    server.etag, server.modified = etag, "Mon, 01 Jan 2024 00:00:00 GMT"
    source = open_source(server.url(), options())
    assert source.read(3, 3) == DATA[3:6]
    assert server.log[-1][2]["If-Range"] == server.modified
    server.modified = "Tue, 02 Jan 2024 00:00:00 GMT"
    assert "changed" in failure(lambda: source.read(0, 100)).message


@pytest.mark.parametrize("size", [10, len(DATA) + 1])
def test_another_size_is_another_object(server: RangeServer, size: int) -> None:
    server.etag = None
    source = open_source(server.url(), options())
    server.data = bytes(size)
    assert "changed" in failure(lambda: source.read(50, 100)).message


def test_the_whole_file_in_place_of_a_range_is_asked_for_again(server: RangeServer) -> None:
    source = open_source(server.url(), options())

    def whole(handler: Handler, number: int) -> bool:
        if number == 2:
            handler.answer(200, DATA)
        return number == 2

    server.hook = whole
    assert source.read(5, 5) == DATA[5:10]


def test_another_range_than_asked_for(server: RangeServer) -> None:
    source = open_source(server.url(), options())

    def wrong(handler: Handler, number: int) -> bool:
        handler.answer(206, DATA[1:6], {"Content-Range": f"bytes 1-5/{len(DATA)}"})
        return True

    server.hook = wrong
    assert "another range" in failure(lambda: source.read(0, 5)).message


def test_more_bytes_than_asked_for(server: RangeServer) -> None:
    source = open_source(server.url(), options())

    def more(handler: Handler, number: int) -> bool:
        handler.answer(206, DATA[:100], {"Content-Range": f"bytes 0-4/{len(DATA)}"})
        return True

    server.hook = more
    assert "more than" in failure(lambda: source.read(0, 5)).message


# ---- faults ----


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_is_worth_asking_again(server: RangeServer, status: int) -> None:
    server.hook = lambda handler, number: number in (1, 2, 4, 5) and handler.fail(status)
    source = open_source(server.url(), options())
    assert source.read(7, 7) == DATA[7:14]
    assert len(server.log) == 6


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *[(status, "ACCESS_DENIED") for status in (401, 403)],
        *[(status, "TABLE_NOT_FOUND") for status in (404, 410)],
        *[(status, "QUERY_FAILED") for status in (400, 416, 418, 501)],
    ],
)
def test_what_is_not(server: RangeServer, status: int, code: str) -> None:
    server.hook = lambda handler, number: handler.fail(status)
    url = server.url(f"/f?sig={SECRET}", user=f"me:{SECRET}@")
    problem = failure(lambda: open_source(url, options()))
    assert problem.code == code
    assert f"127.0.0.1:{server.port}/f" in problem.message
    assert len(server.log) == 1


def test_giving_up(server: RangeServer) -> None:
    server.hook = lambda handler, number: handler.fail(503)
    problem = failure(lambda: open_source(server.url(f"/f?sig={SECRET}"), options()))
    assert problem.code == "NETWORK_TIMEOUT"
    assert isinstance(problem, TimeoutError)
    assert "5 attempts" in problem.message and "503" in problem.message
    assert len(server.log) == 5


def test_broken_connections(server: RangeServer) -> None:
    server.hook = lambda handler, number: number in (1, 3) and handler.hang_up()
    source = open_source(server.url(), options())
    assert source.read(7, 7) == DATA[7:14]


def test_answers_that_break_off_are_continued(server: RangeServer) -> None:
    source = open_source(server.url(), options())
    server.hook = lambda handler, number: number in (2, 3) and handler.truncate(1000)
    assert source.read(100, 5000) == DATA[100:5100]
    assert server.spans[1:] == ["bytes=100-5099", "bytes=1100-5099", "bytes=2100-5099"]


def test_an_object_that_changes_between_two_attempts(server: RangeServer) -> None:
    source = open_source(server.url(), options())

    def change(handler: Handler, number: int) -> bool:
        if number == 2:
            handler.truncate(1000)
            server.etag = '"v2"'
        return number == 2

    server.hook = change
    assert "changed" in failure(lambda: source.read(100, 5000)).message


def test_a_tail_that_breaks_off(server: RangeServer) -> None:
    server.hook = lambda handler, number: number == 1 and handler.truncate(10)
    assert open_source(server.url(), options(), tail_size=100).read_tail(100) == DATA[-100:]


def test_nobody_there() -> None:
    server = RangeServer()
    server.close()
    problem = failure(lambda: open_source(server.url(f"/f?sig={SECRET}", user=f"me:{SECRET}@"), options()))
    assert problem.code == "NETWORK_TIMEOUT"
    assert "no connection could be made" in problem.message


def test_silence(server: RangeServer) -> None:
    hold = threading.Event()
    server.hook = lambda handler, number: hold.wait(5)
    started = time.monotonic()
    problem = failure(lambda: open_source(server.url(), options(timeout=0.05, attempts=2)))
    hold.set()
    assert (problem.code, "in time" in problem.message) == ("NETWORK_TIMEOUT", True)
    assert time.monotonic() - started < 2
    assert len(server.log) == 2


def test_retrying_has_an_end_in_time(server: RangeServer) -> None:
    server.hook = lambda handler, number: handler.fail(503, {"Retry-After": "9"})
    started = time.monotonic()
    problem = failure(lambda: open_source(server.url(), options(retry_seconds=0.5)))
    assert problem.code == "NETWORK_TIMEOUT"
    assert time.monotonic() - started < 1


def test_retry_after_is_obeyed(server: RangeServer) -> None:
    server.hook = lambda handler, number: number == 1 and handler.fail(429, {"Retry-After": "0.2"})
    started = time.monotonic()
    open_source(server.url(), options())
    assert 0.2 <= time.monotonic() - started < 2


def test_a_deadline_ends_waiting(server: RangeServer) -> None:
    hold = threading.Event()
    server.hook = lambda handler, number: number > 1 and hold.wait(5)
    source = open_source(server.url(), options())
    started = time.monotonic()
    problem = failure(lambda: read_into(source, (0, 10), patience=Patience(started + 0.1)))
    assert problem.code == "QUERY_TIMEOUT"
    assert failure(lambda: open_source(server.url(), options(deadline=time.monotonic() + 0.1))).code == (
        "QUERY_TIMEOUT"
    )
    hold.set()
    assert time.monotonic() - started < 2


def test_a_deadline_ends_a_drip(server: RangeServer) -> None:
    over = threading.Event()

    def drip(handler: Handler, number: int) -> bool:
        if number == 1:
            return False
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 0-9999/{len(DATA)}")
        handler.send_header("Content-Length", "10000")
        handler.end_headers()
        while not over.wait(0.02):
            handler.wfile.write(b"x")
        return True

    server.hook = drip
    source = open_source(server.url(), options())
    started = time.monotonic()
    assert failure(lambda: read_into(source, (0, 10_000), patience=Patience(started + 0.2))).code == (
        "QUERY_TIMEOUT"
    )
    over.set()
    assert time.monotonic() - started < 2


def test_a_cancelled_query_stops_asking(server: RangeServer) -> None:
    server.hook = lambda handler, number: handler.fail(503, {"Retry-After": "5"})
    flag = threading.Event()
    threading.Timer(0.1, flag.set).start()
    started = time.monotonic()
    with pytest.raises(ReadCancelled):
        open_source(server.url(), options(cancelled=flag.is_set))
    assert time.monotonic() - started < 2


# ---- redirections ----


def test_redirections(server: RangeServer, elsewhere: RangeServer) -> None:
    server.hook = lambda handler, number: (
        handler.redirect("/b") if handler.path == "/a" else handler.redirect(elsewhere.url("/c"))
    )
    source = open_source(server.url("/a"), options())
    assert source.read(5, 5) == DATA[5:10]
    assert source.name == server.url("/a")
    # The place is remembered.
    assert (len(server.log), len(elsewhere.log)) == (2, 2)


def test_a_remembered_place_that_expired(server: RangeServer, elsewhere: RangeServer) -> None:
    server.hook = lambda handler, number: handler.redirect(elsewhere.url(f"/{number}"))
    elsewhere.hook = lambda handler, number: handler.path == "/1" and number > 1 and handler.fail(403)
    source = open_source(server.url(), options())
    assert source.read(5, 5) == DATA[5:10]
    assert [path for path, _, _ in elsewhere.log] == ["/1", "/1", "/2"]


def test_credentials_stay_at_home(server: RangeServer, elsewhere: RangeServer) -> None:
    server.hook = lambda handler, number: handler.path == "/file" and handler.redirect("/same")
    given = options(storage_options={"token": SECRET, "headers": {"X-Api-Key": SECRET}})
    open_source(server.url(), given)
    assert all(headers["Authorization"] == f"Bearer {SECRET}" for _, _, headers in server.log)
    assert all(headers["X-Api-Key"] == SECRET for _, _, headers in server.log)
    server.hook = lambda handler, number: handler.redirect(elsewhere.url())
    open_source(server.url(), given)
    assert not {"Authorization", "X-Api-Key"} & set(elsewhere.log[0][2])


def test_redirections_are_checked(server: RangeServer, elsewhere: RangeServer) -> None:
    server.hook = lambda handler, number: handler.redirect(elsewhere.url(f"/f?sig={SECRET}"))
    allowed = options(allowed_paths=[server.url("/")])
    problem = failure(lambda: open_source(server.url(), allowed))
    assert problem.code == "ACCESS_DENIED"
    assert elsewhere.log == []
    open_source(server.url(), options(allowed_paths=[server.url("/"), elsewhere.url("/f")]))


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://host/x", "http://", "gopher:x"])
def test_redirections_to_nowhere(server: RangeServer, location: str) -> None:
    server.hook = lambda handler, number: handler.redirect(location)
    assert failure(lambda: open_source(server.url(), options())).code == "QUERY_FAILED"


def test_redirections_in_a_circle(server: RangeServer) -> None:
    server.hook = lambda handler, number: handler.redirect("/file")
    problem = failure(lambda: open_source(server.url(), options()))
    assert (problem.code, "redirections" in problem.message) == ("QUERY_FAILED", True)
    assert len(server.log) == 11


# ---- settings ----


@pytest.mark.parametrize(
    ("settings", "user"),
    [({"username": "me", "password": SECRET}, ""), ({}, f"me:{SECRET}@")],
)
def test_basic_authentication(server: RangeServer, settings: dict[str, str], user: str) -> None:
    open_source(server.url(user=user), options(storage_options=settings))
    expected = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert server.log[0][2]["Authorization"] == f"Basic {expected}"


def test_a_token_for_one_server_only(server: RangeServer, elsewhere: RangeServer) -> None:
    given = options(storage_options={server.url("/data"): {"token": SECRET}})
    open_source(server.url("/data/x"), given)
    open_source(server.url("/other"), given)
    open_source(elsewhere.url("/data/x"), given)
    assert [headers.get("Authorization") for _, _, headers in server.log] == [f"Bearer {SECRET}", None]
    assert "Authorization" not in elsewhere.log[0][2]


@pytest.mark.parametrize("value", ["a\r\nX: y", "größe…"])
def test_headers_that_are_none(server: RangeServer, value: str) -> None:
    given = options(storage_options={"headers": {"X-Key": value}})
    assert failure(lambda: open_source(server.url(), given)).code == "QUERY_FAILED"
    assert server.log == []


def test_proxies(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = server.url("", user=f"me:{SECRET}@")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    open_source("http://host.invalid/x", options())
    path, _, headers = server.log[0]
    assert path == "http://host.invalid/x"
    assert headers["proxy-authorization"].startswith("Basic ")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    open_source(server.url("/y"), options())
    assert server.log[1][0] == "/y"
    open_source(server.url("/z"), options(storage_options={"proxy": None}))
    assert server.log[2][0] == "/z"


def test_paths_are_sent_as_they_should(server: RangeServer) -> None:
    open_source(server.url("/a b/%C3%A4/ü?x=1&y=ö#fragment"), options())
    assert server.log[0][0] == "/a%20b/%C3%A4/%C3%BC?x=1&y=%C3%B6"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For 127.0.0.1, signed by itself, with its key in the same file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(
        now + datetime.timedelta(1)
    )
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    form = serialization.Encoding.PEM
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        signed.public_bytes(form)
        + key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_certificates_are_checked(certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = RangeServer(DATA, context)
    problem = failure(lambda: open_source(server.url(), options()))
    assert (problem.code, "ca_file" in problem.message) == ("QUERY_FAILED", True)
    assert server.log == []
    source = open_source(server.url(), options(storage_options={"ca_file": certificate}))
    assert source.read(5, 5) == DATA[5:10]
    assert open_source(server.url(), options(storage_options={"verify": False})).size == len(DATA)
    server.close()


def test_https_does_not_lead_to_http(certificate: Path, elsewhere: RangeServer) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = RangeServer(DATA, context)
    server.hook = lambda handler, number: handler.redirect(elsewhere.url())
    given = options(storage_options={"ca_file": certificate})
    assert failure(lambda: open_source(server.url(), given)).code == "ACCESS_DENIED"
    assert elsewhere.log == []
    server.close()


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    missing = options(storage_options={"ca_file": tmp_path / "none.pem"})
    assert "none.pem" in failure(lambda: open_source("https://127.0.0.1:1/x", missing)).message


def test_a_forked_child_has_its_own_connections(server: RangeServer) -> None:
    source = open_source(server.url(), options())

    def work() -> None:
        assert source.read(5, 5) == DATA[5:10]

    in_child(work)
    assert source.read(9, 9) == DATA[9:18]
    assert server.connections == 2
