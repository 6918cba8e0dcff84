"""Whatever a server answers, what leaves the package is a QueryModeError, within the agreed requests."""

from __future__ import annotations

import io
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.cli import main
from tests.limits.odd_answers import ODD, ODD_LISTINGS
from tests.limits.slow_server import SlowServer
from tests.limits.test_slow_servers import reading_calls
from tests.raises import raises_code

SECRET = "hunter2"
ATTEMPTS = 2
#: Of boto3, to follow a bucket to its region.
REQUESTS_PER_ATTEMPT = 4
#: Redirections that are followed.
REDIRECTIONS = 11


@pytest.fixture(scope="module")
def server() -> Iterator[SlowServer]:
    columns = {name: np.random.default_rng(3).integers(0, 1 << 60, 30_000) for name in "ab"}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=10_000, write_page_index=True)
    made = SlowServer(sink.getvalue())
    yield made
    made.close()


def session(server: SlowServer) -> QueryMode:
    options = {
        "endpoint_url": server.endpoint,
        "aws_access_key_id": "me",
        "aws_secret_access_key": SECRET,
        "region": "us-east-1",
        "max_attempts": ATTEMPTS,
        "retry_seconds": 0.3,
    }
    return QueryMode.local(storage_options=options, timeout=20)


def problem(call: Callable[[], object]) -> str:
    """What is wrong with how the call ended; nothing, if it answered or raised an error of ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except QueryModeError as failure:
        told = "".join(traceback.format_exception(failure))
        if failure.code in ("INTERNAL", "QUERY_TIMEOUT"):
            return repr(failure)
        return f"tells secrets: {told}" if SECRET in told else ""
    except BaseException as failure:
        return "".join(traceback.format_exception(failure))
    return ""


def problems(calls: dict[str, Callable[[], object]]) -> dict[str, str]:
    return {name: found for name, call in calls.items() if (found := problem(call))}


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("behaviour", ODD)
def test_opening(server: SlowServer, behaviour: str, scheme: str) -> None:
    url = server.url(behaviour, scheme)
    before = server.count(behaviour)
    assert problem(lambda: session(server).table(url).count()) == ""
    # An object that is not there may be a folder, which is looked for.
    most = ATTEMPTS * REQUESTS_PER_ATTEMPT * 2 if scheme == "s3" else ATTEMPTS * REDIRECTIONS
    assert server.count(behaviour) - before <= most
    calls = {
        "register": lambda: session(server).register("t", url),
        "sql": lambda: session(server).sql(f"SELECT * FROM '{url}' LIMIT 1").rows,
        "several": lambda: session(server).table([url, f"{url}2"]),
        "unknown name": lambda: session(server).table(url.replace(".parquet", "")),
    }
    assert problems(calls) == {}


@pytest.mark.parametrize("behaviour", [*ODD, *ODD_LISTINGS])
def test_listing(server: SlowServer, behaviour: str) -> None:
    before = server.count(behaviour)
    folder = server.url(behaviour, "s3", "folder/")
    assert problem(lambda: session(server).table(folder).filter("a", "gt", 1).count()) == ""
    assert server.count(behaviour) - before <= 4 * ATTEMPTS * REQUESTS_PER_ATTEMPT
    pattern = server.url(behaviour, "s3", "**/*.parquet")
    assert problem(lambda: session(server).table(pattern).filter("a", "gt", 1).count()) == ""


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("behaviour", ODD)
def test_reading(server: SlowServer, behaviour: str, scheme: str, tmp_path: Path) -> None:
    frame = session(server).table(server.url(f"later-{behaviour}", scheme))
    calls = reading_calls(frame, tmp_path)
    chosen = ["collect", "stream", "head", "describe", "explain analyze", "write_parquet", "join"]
    assert problems({name: calls[name] for name in chosen} | {"explain": frame.explain}) == {}


@pytest.mark.parametrize("words", [["head"], ["count"], ["inspect"], ["inspect", "--pages"]], ids=" ".join)
def test_command_line(server: SlowServer, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    behaviours = ["odd-html", "odd-circle-301", "odd-region", "odd-part-huge", "odd-404-html", "odd-416"]
    for behaviour in [*behaviours, *(f"later-{name}" for name in behaviours)]:
        for scheme in ("http", "s3"):
            said = io.StringIO()
            with redirect_stdout(io.StringIO()), redirect_stderr(said), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = main([words[0], server.url(behaviour, scheme), *words[1:]])
            assert code in (0, 1)
            assert (code == 0) == (said.getvalue() == ""), said.getvalue()
            assert SECRET not in said.getvalue() and "INTERNAL" not in said.getvalue()


def test_tls_where_there_is_none(server: SlowServer) -> None:
    url = server.url("good").replace("http:", "https:")
    with raises_code("NETWORK_TIMEOUT"):
        session(server).table(url)
    qm = session(server)
    qm.storage_options["endpoint_url"] = server.endpoint.replace("http:", "https:")
    with raises_code("NETWORK_TIMEOUT"):
        qm.table(server.url("good", "s3"))
