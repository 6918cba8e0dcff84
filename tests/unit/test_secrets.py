"""Credentials of URLs: in no error, pickle, traceback, repr, explain or file of the plan cache."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode._secrets import has_secrets, hide, tells_of_secrets
from querymode.errors import error
from tests.raises import raises_code

SECRET = "hunter2SECRET"
URLS = [
    f"https://user:{SECRET}@127.0.0.1:1/a.parquet",
    f"https://{SECRET}@127.0.0.1:1/a.parquet",
    f"HTTPS://user:{SECRET}@127.0.0.1:1/a.parquet",
    f"https://user:p/{SECRET}@127.0.0.1:1/a.parquet",
    f"https://user:p?{SECRET}@127.0.0.1:1/a.parquet",
    f"https://127.0.0.1:1/a.parquet?X-Amz-Credential=x&X-Amz-Signature={SECRET}",
    f"http://127.0.0.1:1/a.parquet?{SECRET}",
    f"http://127.0.0.1:1/a.parquet#token={SECRET}",
    f"http://127.0.0.1:1/*.parquet?sig={SECRET}",
    f"s3://AK:{SECRET}@bucket/key.parquet",
    f"s3://bucket/key.parquet?X-Amz-Security-Token={SECRET}",
    f"gs://user:{SECRET}@bucket/key",
    f"az://container/x?sv=1&sig={SECRET}",
    f"file://user:{SECRET}@host/x",
    f"https:/user:{SECRET}@127.0.0.1/x",
    f"  https://user:{SECRET}@127.0.0.1/x",
]
ONCE = {"max_attempts": 1, "timeout": 1}
CALLS: list[Callable[[QueryMode, str], Any]] = [
    lambda qm, url: qm.table(url),
    lambda qm, url: qm.table(["none.parquet", url]),
    lambda qm, url: qm.register("x", url),
    lambda qm, url: qm.sql(f"SELECT nope FROM '{url}'"),
    lambda qm, url: qm.sql(f"SELECT * FROM '{url}"),
    lambda qm, url: qm.sql(f'SELECT * FROM "{url}" t JOIN u ON nope(t.a)'),
    lambda qm, url: qm.sql(f"SELECT * FROM read_parquet(['a.parquet', '{url}'])"),
    lambda qm, url: qm.sql(f"SELECT a b c d FROM '{url}' WHERE x ="),
    lambda qm, url: qm.sql(f"SELECT * FROM nothing -- {url}"),
    lambda qm, url: qm.sql(f"SELECT * FROM nothing, '{url}' {' ' * 80} '{url}'"),
    lambda qm, url: qm.sql(f"SELECT\n'{url}' FROM\n'{url}'\nnothing else ("),
    lambda qm, url: qm.sql(f'SELECT * FROM (VALUES (1)) AS "{url}"(a) WHERE "{url}".b'),
    lambda qm, url: qm.sql(f"ATTACH '{url}' AS x"),
    lambda qm, url: qm.from_json([{"a": 1}], name=url).select("b"),
    lambda qm, url: qm.from_json([{url: 1}]).select("b"),
    lambda qm, url: qm.from_json([{"a": 1}]).filter("a", "eq", url),
    lambda qm, url: QueryMode.local(root=url, timeout=5, storage_options=ONCE).table("x"),
    lambda qm, url: QueryMode.local(allowed_paths=["/nowhere"]).table(url),
    lambda qm, url: QueryMode.local(allow_network=False, allowed_paths=[]).table(url),
    lambda qm, url: QueryMode.local(storage_options={url: 1}),
    lambda qm, url: qm.from_descriptor({"version": url}),
]


@pytest.mark.parametrize("call", CALLS)
def test_errors_hold_none(call: Callable[[QueryMode, str], Any], tmp_path: Path) -> None:
    qm = QueryMode.local(root=tmp_path, timeout=5, storage_options=ONCE)
    for url in URLS:
        with pytest.raises(QueryModeError) as caught:
            call(qm, url)
        failure = caught.value
        again = pickle.loads(pickle.dumps(failure))
        assert str(again) == str(failure)
        shown = [
            str(failure),
            repr(failure),
            repr(failure.args),
            repr(vars(failure)),
            repr(pickle.dumps(failure)),
        ]
        shown += traceback.format_exception(failure)
        behind: BaseException | None = failure
        while behind is not None:  # what tracebacks leave out may be logged all the same
            shown.append(repr(behind))
            behind = behind.__cause__ or behind.__context__
        assert not [text for text in shown if SECRET in text], url


@pytest.mark.parametrize(
    "text", ["CREATE SECRET x (SECRET 'hunter2SECRET')", "SET s3_secret='hunter2SECRET'"]
)
def test_commands_are_not_repeated(text: str) -> None:
    for sql in (text, f"SELECT 1; {text}"):
        with raises_code("NOT_SUPPORTED") as caught:
            QueryMode.local().sql(sql)
        assert SECRET not in caught.value.message


def test_what_shows_a_query_holds_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "a.parquet")
    for url in URLS:
        assert SECRET not in repr(QueryMode.local(root=url))
        assert SECRET not in repr(QueryMode.local(root=url)._store_options())
        frame = QueryMode.local(root=tmp_path).sql(f"SELECT a, '{url}' FROM 'a.parquet' WHERE a <> '{url}'")
        assert SECRET not in repr(frame)
        for shown in (frame.explain(), frame.explain(format="json"), frame.explain(analyze=True)):
            assert SECRET not in shown
        assert frame.count() == 1


def test_carets_stand_where_they_did() -> None:
    url = f"https://user:{SECRET}@host/x?a=b"
    with pytest.raises(QueryModeError) as caught:
        QueryMode.local().sql(f"SELECT '{url}' a b FROM t")
    _, _, line, carets = caught.value.message.split("\n")
    assert line == f"  SELECT 'https://{'*' * 18}@host/x?***' a b FROM t"
    assert line[carets.index("^")] == "b"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("https://u:p@h/x could not be read", "https://…@h/x could not be read"),
        ("at https://h/x?a=b: no", "at https://h/x?…: no"),
        ("at https://h/x?…: no", "at https://h/x?…: no"),
        ("(https://h:80/x, s3://u:p@b/k)", "(https://h:80/x, s3://…@b/k)"),
        ("s3://b/part-?.parquet", "s3://b/part-?.parquet"),
        ("s3://b/at@home/x", "s3://b/at@home/x"),
        ("file:///home/me@work/a?.parquet", "file:///home/me@work/a?.parquet"),
        ("/home/me@work/a?b=c", "/home/me@work/a?b=c"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("https://u:p@h", "https://…@h"),
        ("https://u:p@x@h/y@z", "https://…@h/y@z"),
        ("https://a/b?u=https://c:d@e", "https://a/b?…"),
        ("12:/3", "12:/3"),
        ("https://", "https://"),
    ],
)
def test_what_is_hidden(text: str, hidden: str) -> None:
    assert hide(text) == hide(hidden) == hidden
    assert has_secrets(text) == (text != hidden)
    masked = hide(text, same_size=True)
    assert len(masked) == len(text) and hide(masked) == masked


@pytest.mark.parametrize(
    "part", ["https://", "a:/", "https://u:p@h/?", "@", "://a@", "a:/@ ", "x" * 40 + "://u:p@h "]
)
def test_hiding_takes_time_in_proportion(part: str) -> None:
    def seconds(size: int) -> float:
        text = "a:/" + part * (size // len(part))
        begun = time.process_time()
        error("QUERY_FAILED", text)
        return time.process_time() - begun

    small = min(seconds(100_000) for _ in range(3))
    assert min(seconds(800_000) for _ in range(3)) < 30 * small + 0.05


# ---- plans on disk ----


def stored_bytes(tmp_path: Path, *texts: str) -> bytes:
    """What another process leaves in its cache when it asks these."""
    cache = tmp_path / "cache"
    code = (
        "import sys\nfrom querymode import QueryMode, QueryModeError\n"
        "qm = QueryMode.local(root=sys.argv[1])\n"
        "for text in sys.argv[2:]:\n    print(qm.sql(text).count())\n"
    )
    environment = os.environ | {"QUERYMODE_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path), *texts], check=True, env=environment)
    return b"".join(path.read_bytes() for path in cache.rglob("*.plan"))


def test_plans_on_disk_hold_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "a.parquet")
    table = "FROM 'a.parquet' WHERE a"
    assert b"plain-constant" in stored_bytes(tmp_path, f"SELECT a {table} = 'plain-constant'")
    texts = [f"SELECT a {table} <> '{url}'" for url in URLS]
    texts += [f"SELECT a AS {word} {table} = '{SECRET}'" for word in ("password", "Api_Key", "my_token")]
    assert SECRET.encode() not in stored_bytes(tmp_path, *texts)


def test_texts_that_tell_of_secrets() -> None:
    assert all(map(tells_of_secrets, URLS))
    assert not tells_of_secrets("SELECT * FROM 'https://host/a.parquet' WHERE name = 'Ada'")
