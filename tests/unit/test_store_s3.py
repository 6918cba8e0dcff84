"""s3 sources against a real server process of moto on loopback, and faults put in front of it."""

from __future__ import annotations

import os
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from querymode import QueryModeError
from querymode.store.open import open_source
from querymode.store.options import StoreOptions
from querymode.store.s3 import ClientSettings, Listed, S3Source, list_prefix
from querymode.store.source import ByteSource
from tests.s3_server import settings_of
from tests.unit.range_server import RangeServer

DATA = random.Random(11).randbytes(100_000)
SECRET = "hunter2"


@pytest.fixture(scope="module")
def endpoint(s3_endpoint: str) -> str:
    return s3_endpoint


@pytest.fixture(scope="module")
def client(endpoint: str) -> Any:
    made = ClientSettings(settings(endpoint), 5.0).client()
    made.create_bucket(Bucket="bucket")
    made.put_object(Bucket="bucket", Key="file", Body=DATA)
    made.put_object(Bucket="bucket", Key="a b/ü+%41?#.bin", Body=b"odd")
    made.put_object(Bucket="bucket", Key="empty", Body=b"", ACL="public-read")
    for number in range(7):
        made.put_object(Bucket="bucket", Key=f"folder/{number}", Body=b"x" * number)
    made.put_object(Bucket="bucket", Key="folder2", Body=b"beside")
    return made


def settings(endpoint: str) -> dict[str, Any]:
    return settings_of(endpoint, SECRET)


def options(endpoint: str, **changes: Any) -> StoreOptions:
    storage_options = {**settings(endpoint), **changes.pop("storage_options", {})}
    return StoreOptions(storage_options, **{"back_off": 0.001, "timeout": 5.0, **changes})


def failure(action: Callable[[], object]) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        action()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


def requests_of(client: Any, action: Callable[[], object]) -> list[dict[str, Any]]:
    """The parameters of the calls that the shared client makes meanwhile."""
    seen: list[dict[str, Any]] = []

    def see(params: dict[str, Any], **_: object) -> None:
        seen.append(params)

    client.meta.events.register("provide-client-params.s3", see)
    try:
        action()
    finally:
        client.meta.events.unregister("provide-client-params.s3", see)
    return seen


# ---- reading ----


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3"])
def test_ranges(endpoint: str, client: Any, scheme: str) -> None:
    source = open_source(f"{scheme}://bucket/file", options(endpoint))
    assert (source.size, source.local, source.name) == (len(DATA), False, "s3://bucket/file")
    assert source.read(1000, 5000) == DATA[1000:6000]
    memory = bytearray(30)
    views = memoryview(memory)
    source.read_into([(5, views[:10]), (0, views[10:10]), (len(DATA) - 20, views[10:])])
    assert bytes(memory) == DATA[5:15] + DATA[-20:]
    assert failure(lambda: source.read(len(DATA), 1)).code == "INVALID_FORMAT"
    assert source.identity == open_source("s3://bucket/file", options(endpoint)).identity
    source.close()


def test_every_range_asks_for_the_version_that_was_opened(endpoint: str, client: Any) -> None:
    def read() -> None:
        open_source("s3://bucket/file", options(endpoint), tail_size=1000).read(5, 5)

    opening, reading = requests_of(client, read)
    assert opening["Range"] == "bytes=-1000" and "IfMatch" not in opening
    assert reading["Range"] == "bytes=5-9" and reading["IfMatch"].startswith('"')


def test_the_tail_comes_with_opening(endpoint: str, client: Any) -> None:
    def read() -> None:
        source = open_source("s3://bucket/file", options(endpoint), tail_size=1000)
        assert source.read_tail(500) == DATA[-500:]
        assert (source.opening_requests, source.opening_bytes) == (1, 1000)

    assert len(requests_of(client, read)) == 1
    assert open_source("s3://bucket/file", options(endpoint), tail_size=1 << 20).read_tail(1 << 20) == DATA


@pytest.mark.parametrize("tail_size", [0, 100])
def test_an_empty_object(endpoint: str, client: Any, tail_size: int) -> None:
    source = open_source("s3://bucket/empty", options(endpoint), tail_size=tail_size)
    assert (source.size, source.read_tail(10)) == (0, b"")


def test_keys_are_taken_as_they_stand(endpoint: str, client: Any) -> None:
    assert open_source("s3://bucket/a b/ü+%41?#.bin", options(endpoint)).read(0, 3) == b"odd"


def test_many_threads_share_a_source(endpoint: str, client: Any) -> None:
    source = open_source("s3://bucket/file", options(endpoint))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(5):
            offset = (seed * 31_337 + step * 1013) % (len(DATA) - 3000)
            if source.read(offset, 3000) != DATA[offset : offset + 3000]:
                wrong.append(offset)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_changed_object(endpoint: str, client: Any) -> None:
    client.put_object(Bucket="bucket", Key="changing", Body=b"first version")
    source = open_source("s3://bucket/changing", options(endpoint))
    client.put_object(Bucket="bucket", Key="changing", Body=b"other version")
    problem = failure(lambda: source.read(0, 5))
    assert (problem.code, "changed while it was read" in problem.message) == ("QUERY_FAILED", True)
    shorter = open_source("s3://bucket/changing", options(endpoint))
    client.put_object(Bucket="bucket", Key="changing", Body=b"short")
    assert "changed" in failure(lambda: shorter.read(8, 2)).message
    client.delete_object(Bucket="bucket", Key="changing")
    assert failure(lambda: shorter.read(0, 2)).code == "TABLE_NOT_FOUND"


# ---- listing ----


def test_listing(endpoint: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(list_prefix("s3://bucket/folder/", options(endpoint)))
    assert [(item.url, item.size) for item in found] == [(f"s3://bucket/folder/{n}", n) for n in range(7)]
    assert len(list(list_prefix("s3://bucket/folder", options(endpoint)))) == 8
    assert list(list_prefix("s3://bucket/none/", options(endpoint))) == []
    assert failure(lambda: list(list_prefix("s3://no-such/", options(endpoint)))).code == "TABLE_NOT_FOUND"


def test_listing_has_pages(endpoint: str, client: Any) -> None:
    def small_pages(params: dict[str, Any], **_: object) -> None:
        params["MaxKeys"] = 3

    client.meta.events.register("provide-client-params.s3.ListObjectsV2", small_pages)
    try:
        calls = requests_of(
            client, lambda: list(list_prefix("s3://bucket/folder/", options(endpoint))).sort(key=id)
        )
        found = list(list_prefix("s3://bucket/folder/", options(endpoint)))
    finally:
        client.meta.events.unregister("provide-client-params.s3.ListObjectsV2", small_pages)
    assert len(calls) == 3
    assert [item.size for item in found] == list(range(7))


def test_what_was_listed_is_opened_without_a_request(endpoint: str, client: Any) -> None:
    listed = next(iter(list_prefix("s3://bucket/file", options(endpoint))))
    sources: list[ByteSource] = []

    def open_known() -> None:
        sources.append(open_source(listed.url, options(endpoint), known=listed))

    assert requests_of(client, open_known) == []
    assert sources[0].identity == open_source(listed.url, options(endpoint)).identity
    assert sources[0].read(7, 7) == DATA[7:14]
    stale = Listed(listed.url, listed.size, '"0123"')
    assert "changed" in failure(lambda: S3Source(listed.url, options(endpoint), 0, stale).read(0, 1)).message


def test_listing_stays_below_allowed_paths(endpoint: str, client: Any) -> None:
    allowed = options(endpoint, allowed_paths=["s3://bucket/folder"])
    assert len(list(list_prefix("s3://bucket/folder/", allowed))) == 7
    assert open_source("s3://bucket/folder/3", allowed).size == 3
    for prefix in ("s3://bucket/folder", "s3://bucket/", "s3://bucket/folder/../", "s3://other/folder/"):
        assert failure(lambda: list(list_prefix(prefix, allowed))).code == "ACCESS_DENIED"  # noqa: B023
    assert failure(lambda: open_source("s3://bucket/folder2", allowed)).code == "ACCESS_DENIED"


# ---- errors ----


def test_missing(endpoint: str, client: Any) -> None:
    for url in ("s3://bucket/none", "s3://no-such-bucket/file", "s3://bucket", "s3:///x"):
        assert failure(lambda: open_source(url, options(endpoint))).code == "TABLE_NOT_FOUND"  # noqa: B023
    assert "bucket" in failure(lambda: open_source("s3://no-such-bucket/f", options(endpoint))).message


def test_credentials_do_not_belong_into_urls() -> None:
    problem = failure(lambda: open_source(f"s3://me:{SECRET}@bucket/file"))
    assert "storage_options" in problem.message


def test_bucket_names_that_are_none(endpoint: str) -> None:
    assert failure(lambda: open_source("s3://a*b/file", options(endpoint))).code == "QUERY_FAILED"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    problem = failure(
        lambda: open_source("s3://bucket/file", StoreOptions({"endpoint": "http://127.0.0.1:1"}))
    )
    assert problem.code == "ACCESS_DENIED"
    assert "AWS_ACCESS_KEY_ID" in problem.message


def test_the_environment(endpoint: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert open_source("s3://bucket/file").size == len(DATA)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    problem = failure(lambda: open_source("s3://bucket/file", StoreOptions(attempts=1)))
    assert problem.code == "NETWORK_TIMEOUT"


def test_nobody_there() -> None:
    problem = failure(lambda: open_source("s3://bucket/file", options("http://127.0.0.1:1")))
    assert (problem.code, "5 attempts" in problem.message) == ("NETWORK_TIMEOUT", True)


def test_anonymous(endpoint: str, client: Any) -> None:
    given = StoreOptions({"endpoint": endpoint, "anonymous": "true"})
    assert open_source("s3://bucket/empty", given).size == 0


# ---- a server that misbehaves ----

ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>key %s</Message></Error>"


@pytest.fixture
def faulty() -> Iterator[RangeServer]:
    made = RangeServer(DATA)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, b"AccessDenied", "ACCESS_DENIED"),
        (403, b"InvalidAccessKeyId", "ACCESS_DENIED"),
        (400, b"ExpiredToken", "ACCESS_DENIED"),
        (404, b"NoSuchKey", "TABLE_NOT_FOUND"),
        (412, b"PreconditionFailed", "QUERY_FAILED"),
        (400, b"MalformedThing", "QUERY_FAILED"),
    ],
)
def test_what_is_not_worth_asking_again(faulty: RangeServer, status: int, code: bytes, expected: str) -> None:
    def refuse(handler: Any, number: int) -> bool:
        handler.answer(status, ERROR % (code, SECRET.encode()))
        return True

    faulty.hook = refuse
    assert failure(lambda: open_source("s3://bucket/file", options(faulty.url("")))).code == expected
    assert len(faulty.log) == 1


def test_what_is_worth_asking_again(faulty: RangeServer) -> None:
    def refuse(handler: Any, number: int) -> bool:
        if number in (1, 4):
            handler.answer(503, ERROR % (b"SlowDown", b""), {"Retry-After": "0.01"})
        elif number == 5:
            handler.answer(400, ERROR % (b"RequestTimeout", b""))
        elif number in (2, 6):
            handler.hang_up()
        elif number == 7:
            handler.truncate(1000)
        else:
            return False
        return True

    faulty.hook = refuse
    source = open_source("s3://bucket/file", options(faulty.url("")))
    assert source.read(100, 5000) == DATA[100:5100]
    assert faulty.spans[-2:] == ["bytes=100-5099", "bytes=1100-5099"]
    assert len(faulty.log) == 8


def test_giving_up(faulty: RangeServer) -> None:
    def refuse(handler: Any, number: int) -> bool:
        handler.answer(503, ERROR % (b"SlowDown", b""))
        return True

    faulty.hook = refuse
    problem = failure(lambda: open_source("s3://bucket/file", options(faulty.url(""))))
    assert (problem.code, len(faulty.log)) == ("NETWORK_TIMEOUT", 5)
    assert "SlowDown" in problem.message


def test_servers_that_ignore_conditions(faulty: RangeServer) -> None:
    source = open_source("s3://bucket/file", options(faulty.url("")))
    faulty.etag = '"v2"'
    assert "changed" in failure(lambda: source.read(0, 10)).message


def test_servers_without_ranges(faulty: RangeServer) -> None:
    faulty.ranges = False
    problem = failure(lambda: open_source("s3://bucket/file", options(faulty.url(""))))
    assert "range requests" in problem.message


# ---- settings ----


@pytest.mark.parametrize(
    "given",
    [
        {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_session_token": "c", "region": "r"},
        {"access_key_id": "a", "secret_access_key": "b", "session_token": "c", "region_name": "r"},
        {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c", "AWS_REGION": "r"},
        {"key": "a", "secret": "b", "token": "c", "AWS_DEFAULT_REGION": "r"},
        {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c", "s3.region": "r"},
    ],
)
def test_spellings(given: dict[str, str]) -> None:
    parsed = ClientSettings(given, 1.0)
    assert (parsed.credentials, parsed.region) == (("a", "b", "c"), "r")


@pytest.mark.parametrize(
    ("given", "endpoint", "path_style"),
    [
        ({}, None, False),
        ({"endpoint_url": "https://x.r2.example"}, "https://x.r2.example", True),
        ({"endpoint": "host:9000"}, "https://host:9000", True),
        ({"endpoint": "host:9000", "allow_http": True}, "http://host:9000", True),
        ({"endpoint": "host", "use_ssl": "false"}, "http://host", True),
        ({"endpoint": "http://h", "addressing_style": "virtual"}, "http://h", False),
        ({"endpoint": "http://h", "virtual_hosted_style_request": "true"}, "http://h", False),
        ({"addressing_style": "path"}, None, True),
    ],
)
def test_endpoints(
    given: dict[str, Any], endpoint: str | None, path_style: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    parsed = ClientSettings(given, 1.0)
    assert (parsed.endpoint, parsed.path_style) == (endpoint, path_style)


def test_clients_are_shared(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ClientSettings(settings(endpoint), 5.0).client()
    assert ClientSettings(settings(endpoint), 5.0).client() is first
    assert ClientSettings({**settings(endpoint), "region": "eu-west-1"}, 5.0).client() is not first
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    assert ClientSettings(settings(endpoint), 5.0).client() is not first
