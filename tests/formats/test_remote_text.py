"""CSV and NDJSON on other machines: what a query asks for, counted by the server."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from querymode import QueryMode
from querymode.catalog import reference
from querymode.format.text.head import HEAD_SIZE
from querymode.store.s3 import ClientSettings
from tests.unit.range_server import RangeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from querymode.output.result import Result

ROWS = 200_000
CSV = b"id,x,name\n" + b"".join(b"%d,%d.5,name %d\n" % (i, i, i % 7) for i in range(ROWS))
NDJSON = b"".join(b'{"id":%d,"name":"n%d"}\n' % (i, i % 7) for i in range(ROWS))


@pytest.fixture
def server() -> Iterator[RangeServer]:
    made = RangeServer(CSV)
    yield made
    made.close()


def sizes(server: RangeServer) -> list[int]:
    """Of the ranges that were asked for."""
    found = []
    for span in server.spans:
        assert span is not None
        first, _, last = span.removeprefix("bytes=").partition("-")
        found.append(int(last) - int(first) + 1 if first else int(last))
    return found


@pytest.mark.parametrize(("path", "data"), [("/a.csv", CSV), ("/a.ndjson", NDJSON)])
def test_a_few_rows_cost_the_head_and_nothing_else(server: RangeServer, path: str, data: bytes) -> None:
    server.data = data
    session = QueryMode.local()
    frame = session.table(server.url(path)).limit(5)
    assert [row["id"] for row in frame.rows] == [0, 1, 2, 3, 4]
    assert sizes(server) == [1, HEAD_SIZE]
    # The next query asks whether the file is what it was, and has the head still.
    server.log.clear()
    assert len(frame.rows) == 5
    assert sizes(server) == [1]


def test_rows_behind_the_head_are_read_once(server: RangeServer) -> None:
    session = QueryMode.local(threads=1)
    assert session.table(server.url("/a.csv")).count() == ROWS
    assert sum(sizes(server)) < len(CSV) + HEAD_SIZE + len(server.log) * 100


def test_a_small_file_is_read_once(server: RangeServer) -> None:
    text = CSV[: CSV.index(b"\n5000,") + 1]
    for path, data in (("/a.csv", text), ("/a.csv.gz", gzip.compress(text))):
        server.data = data
        frame = QueryMode.local().table(server.url(path))
        for query in (frame, frame.select("id")):
            assert query.count() == 5000
        assert [size for size in sizes(server) if size > 1] == [len(server.data)]
        server.log.clear()


def test_what_was_kept_is_not_of_a_file_that_changed(
    server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "FRESH_SECONDS", 0.0)
    frame = QueryMode.local().table(server.url("/a.csv")).select("id").limit(2)
    assert [row["id"] for row in frame.rows] == [0, 1]
    server.data, server.etag = CSV.replace(b"\n0,", b"\n7,", 1), '"v2"'
    assert [row["id"] for row in frame.rows] == [7, 1]


def test_many_heads_are_not_kept(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from querymode.format.text import format as format_module

    monkeypatch.setattr(format_module, "HEADS_SIZE_MAX", HEAD_SIZE)
    frame = QueryMode.local().table([server.url("/a.csv"), server.url("/b.csv")])
    kept = [len(file.beginning) for file in frame._node.source.files]  # type: ignore[attr-defined]
    assert kept == [HEAD_SIZE, 0]
    assert frame.count() == 2 * ROWS


@pytest.fixture
def storage(s3_endpoint: str) -> dict[str, Any]:
    return {
        "endpoint_url": s3_endpoint,
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hunter2",
        "region": "us-east-1",
    }


def cost(found: Result) -> tuple[int, int]:
    """Requests and bytes, of opening and of reading."""
    stats = found.stats
    return stats["opening_requests"] + stats["requests"], stats["opening_bytes"] + stats["bytes"]


def test_objects(storage: dict[str, Any]) -> None:
    client = ClientSettings(storage, 5.0).client()
    client.create_bucket(Bucket="texts")
    for number in range(3):
        client.put_object(Bucket="texts", Key=f"some/{number}.csv", Body=CSV)
    client.put_object(Bucket="texts", Key="one.ndjson", Body=NDJSON)
    session = QueryMode.local(storage_options=storage)
    found = session.table("s3://texts/one.ndjson").limit(5).collect()
    assert [row["id"] for row in found.rows] == [0, 1, 2, 3, 4]
    assert cost(found) == (2, 1 + HEAD_SIZE)
    # A listing says what an opening would: only heads are read.
    found = session.table("s3://texts/some/*.csv").limit(5).collect()
    assert cost(found) == (4, 3 * HEAD_SIZE)
    assert session.table("s3://texts/some/*.csv").count() == 3 * ROWS
