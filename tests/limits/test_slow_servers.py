"""`timeout=` is one deadline: servers that drip, stall, say "later" or never end do not move it."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.frame.frame import DataFrame
from querymode.store import s3
from querymode.store.fetch import IoGate
from tests.limits.child import run
from tests.limits.slow_server import SlowServer
from tests.parquet_tables import open_table
from tests.raises import raises_code

TIMEOUT = 0.3
#: Beyond it, on a machine that does other things meanwhile.
GRACE = 1.5

Call = Callable[[], object]


@pytest.fixture(scope="module")
def server() -> Iterator[SlowServer]:
    random = np.random.default_rng(3)
    columns = {name: random.integers(0, 1 << 60, 30_000) for name in ("a", "b")}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=10_000, write_page_index=True)
    made = SlowServer(sink.getvalue())
    warm = session(made, timeout=None)
    assert warm.table(made.url("good")).filter("a", "gt", 0).count() > 0
    assert warm.table(made.url("good", "s3")).count() == 30_000
    yield made
    made.close()


def session(server: SlowServer, timeout: float | None = TIMEOUT, **settings: Any) -> QueryMode:
    options = {
        "endpoint_url": server.endpoint,
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hunter2",
        "region": "us-east-1",
        **settings,
    }
    return QueryMode.local(timeout=timeout, storage_options=options)


def failures(calls: dict[str, Call]) -> dict[str, tuple[str, float]]:
    """What each of the calls, made at the same time, ended with, and after how long."""

    def ended(call: Call) -> tuple[str, float]:
        begun = time.monotonic()
        try:
            call()
            code = "no failure"
        except QueryModeError as failure:
            code = failure.code
        except BaseException as failure:
            code = repr(failure)
        return code, time.monotonic() - begun

    with ThreadPoolExecutor(len(calls)) as executor:
        return dict(zip(calls, executor.map(ended, calls.values()), strict=True))


def check(server: SlowServer, calls: dict[str, Call], *codes: str) -> None:
    found = failures(calls)
    wrong = {name: end for name, end in found.items() if end[0] not in codes or end[1] > TIMEOUT + GRACE}
    assert wrong == {}
    assert server.is_idle(), "somebody still waits for an answer that nobody wants"


def opening_calls(server: SlowServer, url: str) -> dict[str, Call]:
    def registered() -> object:
        return session(server).register("t", url)

    return {
        "table": lambda: session(server).table(url),
        "tables": lambda: session(server).table([url, f"{url}2", f"{url}3"]),
        "register": registered,
        "sql": lambda: session(server).sql(f"SELECT count(*) FROM '{url}'").rows,
        "join": lambda: session(server).sql(f"FROM '{url}' JOIN '{url}2' USING (a)"),
    }


SLOW = [
    "drip-body",
    "drip-head",
    "drip-status",
    "drip-many-heads",
    "flood-heads",
    "drip-chunks",
    "stall",
    "stall-inside",
    "busy",
]


def codes(behaviour: str) -> tuple[str, ...]:
    # An answer without a range may be refused for that, before it has come to its end.
    return ("QUERY_TIMEOUT", "QUERY_FAILED") if behaviour == "drip-chunks" else ("QUERY_TIMEOUT",)


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("behaviour", SLOW)
def test_opening(server: SlowServer, behaviour: str, scheme: str) -> None:
    check(server, opening_calls(server, server.url(behaviour, scheme)), *codes(behaviour))


def test_redirections(server: SlowServer) -> None:
    calls = opening_calls(server, server.url("drip-redirects"))
    check(server, calls, "QUERY_TIMEOUT", "QUERY_FAILED")


@pytest.mark.parametrize("scheme", ["http", "https", "s3"])
def test_a_port_that_nobody_answers(server: SlowServer, scheme: str) -> None:
    """With https, no answer comes to the first word of the handshake."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        url = "s3://b/x.parquet" if scheme == "s3" else f"{endpoint.replace('http', scheme)}/x.parquet"
        call = partial(session(server, endpoint_url=endpoint).table, url)
        check(server, {scheme: call}, "QUERY_TIMEOUT")


@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_names_that_nobody_knows(server: SlowServer, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system looks them up, which cannot be stopped; nobody waits for it."""
    known = socket.getaddrinfo

    def slow(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == "slow.example":
            time.sleep(2.5)
            raise socket.gaierror(socket.EAI_AGAIN, "later")
        return known(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    url = "s3://b/x.parquet" if scheme == "s3" else "http://slow.example/x.parquet"
    call = partial(session(server, endpoint_url="http://slow.example").table, url)
    check(server, {scheme: call}, "QUERY_TIMEOUT")


@pytest.mark.parametrize("behaviour", [*SLOW, "endless-listing", "endless-empty-listing"])
@pytest.mark.parametrize("name", ["folder/", "*.parquet", "a/**/b.parquet"])
def test_listing(server: SlowServer, behaviour: str, name: str) -> None:
    calls = opening_calls(server, server.url(behaviour, "s3", name))
    check(server, {"table": calls["table"], "sql": calls["sql"]}, *codes(behaviour))


def reading_calls(frame: DataFrame, folder: Path) -> dict[str, Call]:
    def shown() -> None:
        with redirect_stdout(io.StringIO()):
            frame.show()

    return {
        "collect": frame.collect,
        "rows": lambda: frame.rows,
        "count": lambda: frame.filter("a", "gt", 5).count(),
        "stream": lambda: list(frame.stream()),
        "head": lambda: frame.head(3).rows,
        "first": frame.first,
        "exists": frame.filter("b", "gt", 5).exists,
        "describe": frame.select("a").distinct().describe,
        "explain analyze": lambda: frame.explain(analyze=True),
        "show": shown,
        "page": lambda: frame.lazy().page(0, 5),
        "to_arrow": frame.to_arrow,
        "to_pandas": frame.to_pandas,
        "sort": lambda: frame.sort("a").limit(3).rows,
        "join": lambda: frame.join(frame, on="a").count(),
        "group_by": lambda: frame.group_by("a").count().rows,
        "write_parquet": lambda: frame.write_parquet(folder / "x.parquet"),
        "write_csv": lambda: frame.write_csv(folder / "x.csv"),
        "write_json": lambda: frame.write_json(folder / "x.json"),
        "write_arrow": lambda: frame.write_arrow(folder / "x.arrow"),
    }


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("behaviour", SLOW)
def test_reading(server: SlowServer, behaviour: str, scheme: str, tmp_path: Path) -> None:
    frame = session(server, TIMEOUT).table(server.url(f"later-{behaviour}", scheme))
    check(server, reading_calls(frame, tmp_path), *codes(behaviour))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def indexed() -> Iterator[SlowServer]:
    """A file of many small pages: their index begins before what opening brings along."""
    columns = {name: np.random.default_rng(3).integers(0, 1 << 60, 60_000) for name in "ab"}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, write_page_index=True, data_page_size=64, write_batch_size=8)
    made = SlowServer(sink.getvalue())
    yield made
    made.close()


@pytest.mark.parametrize("behaviour", SLOW)
def test_explain_reads_too(indexed: SlowServer, behaviour: str) -> None:
    frame = session(indexed).table(indexed.url(f"later-{behaviour}")).filter("a", "lt", 1 << 55)
    check(indexed, {"explain": frame.explain}, *codes(behaviour))


def test_threads_do_not_pile_up(server: SlowServer) -> None:
    frame = session(server, timeout=0.05).table(server.url("good"))
    slow = session(server, timeout=None).table(server.url("later-drip-body"))
    before = threading.active_count()
    for _ in range(20):
        for call in (
            lambda: session(server, timeout=0.02).table(server.url("drip-head")),
            lambda: session(server, timeout=0.02).table(server.url("drip-head", "s3")),
            lambda: slow.collect(timeout=0.02),
        ):
            with raises_code("QUERY_TIMEOUT"):
                call()
    assert server.is_idle()
    end = time.monotonic() + 2
    while threading.active_count() > before + 20 and time.monotonic() < end:  # those that wait for work
        time.sleep(0.01)
    assert threading.active_count() <= before + 20
    assert frame.count() == 30_000


# ---- without a timeout ----


@pytest.mark.parametrize("behaviour", ["repeating-listing", "circling-listing", "endless-empty-listing"])
def test_listings_that_bring_nothing_new_end(
    server: SlowServer, behaviour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_EMPTY_PAGES_MAX", 10)
    before = server.count(behaviour)
    with raises_code("QUERY_FAILED", match="listing that"):
        session(server, timeout=None).table(server.url(behaviour, "s3", "folder/"))
    assert server.count(behaviour) - before < 20


def test_listings_count_as_requests(server: SlowServer) -> None:
    frame = session(server, timeout=None).table(server.url("good", "s3", "*.parquet"))
    assert frame.filter("a", "gt", 0).collect().stats["opening_requests"] >= 1
    endless = server.url("endless-listing", "s3", "*.parquet")
    gate = IoGate(max_requests=5)
    before = server.count("endless-listing")
    with raises_code("BUDGET_EXCEEDED"):
        open_table(endless, session(server)._store_options(), gate=gate)
    assert server.count("endless-listing") - before == 5


# ---- Ctrl-C ----

CONTROL_C = """
import json, os, sys, threading, time
from querymode import QueryMode

endpoint = sys.argv[1]
options = {"endpoint_url": endpoint, "aws_access_key_id": "me", "aws_secret_access_key": "x"}
qm = QueryMode.local(storage_options=options)
later = qm.table(f"{endpoint}/later-drip-body/x.parquet")
calls = {
    "http": lambda: qm.table(f"{endpoint}/drip-head/x.parquet"),
    "stall": lambda: qm.table(f"{endpoint}/stall/x.parquet"),
    "busy": lambda: qm.table(f"{endpoint}/busy/x.parquet"),
    "several": lambda: qm.table([f"{endpoint}/stall/{n}.parquet" for n in range(40)]),
    "s3": lambda: qm.table("s3://drip-body/x.parquet"),
    "s3 busy": lambda: qm.table("s3://busy/x.parquet"),
    "listing": lambda: qm.table("s3://endless-listing/*.parquet"),
    "sql": lambda: qm.sql(f"SELECT * FROM '{endpoint}/stall/x.parquet'"),
    "collect": lambda: later.collect(),
    "stream": lambda: list(later.stream()),
    "count": lambda: later.filter("a", "gt", 5).count(),
}
waits = {}
for name, call in calls.items():
    pressed = []
    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), 2)
    timer = threading.Timer(0.15, press)
    timer.start()
    try:
        call()
        waits[name] = "not interrupted"
    except KeyboardInterrupt:
        waits[name] = time.monotonic() - pressed[0]
    timer.join()
print(json.dumps(waits))
"""


def test_control_c(server: SlowServer) -> None:
    script = CONTROL_C.replace("sys.argv[1]", repr(server.endpoint))
    waits = run(script)
    print({name: f"{seconds * 1000:.0f} ms" for name, seconds in waits.items()}, "(bar 200)")
    assert len(waits) == 11
    assert max(waits.values()) < 1.0
    assert server.is_idle()
