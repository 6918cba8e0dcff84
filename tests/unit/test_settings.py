"""What is accepted must be read: storage_options, buckets= and infer_types=."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.store import http, options, s3, settings
from tests.raises import raises_code

SECRET = "s3cr3t-value"


def refused(storage_options: Any) -> QueryModeError:
    with pytest.raises(QueryModeError) as caught:
        QueryMode.local(storage_options=storage_options)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ({"aws_acess_key_id": SECRET}, "'access_key_id'"),
        ({"secret_acces_key": SECRET}, "'secret_access_key'"),
        ({"AWS_REGOIN": "x"}, "'region'"),
        ({"time_out": 3}, "'timeout'"),
        ({"beaer_token": SECRET}, "'bearer_token'"),
        ({"header": {"X-Key": SECRET}}, "'headers'"),
        ({"Headers": {"X-Key": SECRET}}, "'headers'"),
        ({"https://host/data": {"tokn": SECRET}}, "'token'"),
        ({f"https://user:{SECRET}@host/data": {"tokn": SECRET}}, "'token'"),
    ],
)
def test_a_misspelt_setting_is_refused_by_name(given: dict[str, Any], suggestion: str) -> None:
    failure = refused(given)
    assert failure.code == "NOT_SUPPORTED"
    assert f"Did you mean {suggestion}?" in failure.message


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"": 1}, "NOT_SUPPORTED", "There are: "),
        ({7: 1}, "QUERY_FAILED", "a text, not int"),
        ({"access_key_id": 7}, "QUERY_FAILED", "a text, but a int"),
        ({"token": {"x": SECRET}}, "QUERY_FAILED", "a text, but a dict"),
        ({"anonymous": SECRET}, "QUERY_FAILED", "True or False"),
        ({"timeout": SECRET}, "QUERY_FAILED", "a number above 0"),
        ({"timeout": 0}, "QUERY_FAILED", "a number above 0"),
        ({"timeout": True}, "QUERY_FAILED", "a number above 0"),
        ({"headers": SECRET}, "QUERY_FAILED", "a dict"),
        ({"headers": {1: SECRET}}, "QUERY_FAILED", "a dict"),
        ({"ca_file": 3}, "QUERY_FAILED", "a path"),
        ({"https://host": SECRET}, "QUERY_FAILED", "a dict of settings"),
        ({"https://host": {3: SECRET}}, "QUERY_FAILED", "a text, not int"),
        ({"https://host": {"timeout": 3}}, "NOT_SUPPORTED", "for all URLs"),
        ({"htps://host": {"token": SECRET}}, "NOT_SUPPORTED", "https://"),
        ({"s3a://bucket": {"token": SECRET}}, "NOT_SUPPORTED", "s3://"),
    ],
)
def test_other_mistakes(given: Any, code: str, words: str) -> None:
    failure = refused(given)
    assert (failure.code, words in failure.message) == (code, True), failure


def test_what_is_read_is_accepted() -> None:
    given: dict[str, Any] = {
        "AWS_ACCESS_KEY_ID": "a",
        "s3.secret-access-key": "b",
        "client.region": "r",
        "endpoint_override": "host:9000",
        "use_ssl": "false",
        "anon": True,
        "verify": "no",
        "headers": {"X-Key": "v", "X-Number": 3},
        "proxy": None,
        "timeout": "5",
        "whole_file_limit": 1 << 20,
        "https://host/data": {"token": "t", "ca_file": "x.pem"},
        "s3://bucket": {"aws_session_token": "t"},
    }
    assert QueryMode.local(storage_options=given).storage_options == given


def names_read(module: ModuleType, *receivers: str) -> set[str]:
    """Constant texts that are looked up in `receivers`, or by names that a loop over them goes through."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call):
            target, texts = ast.unparse(node.func).removesuffix(".get"), node.args
        elif isinstance(node, ast.Subscript):
            target, texts = ast.unparse(node.value), [node.slice]
        elif isinstance(node, (ast.For, ast.comprehension)):
            target, texts = receivers[-1], getattr(node.iter, "elts", [])
        else:
            continue
        if target in receivers:
            values = [one.value for one in texts if isinstance(one, ast.Constant)]
            found.update(value for value in values if isinstance(value, str) and value != "true")
    return found


def test_the_list_of_names_is_what_the_stores_read() -> None:
    assert names_read(options, "self._positive") == settings.GENERAL.keys()
    assert names_read(http, "settings") == settings.HTTP.keys()
    assert names_read(s3, "first", "given") == settings.S3.keys()


def test_buckets_are_refused_while_nothing_uses_them() -> None:
    with raises_code("NOT_SUPPORTED", match="buckets="):
        QueryMode.local(buckets=["a", "b"])


def test_infer_types_is_refused_while_nothing_uses_it(tmp_path: Any) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    for value in (False, None, 0):
        with raises_code("NOT_SUPPORTED", match="infer_types="):
            QueryMode.local(root=tmp_path).table("a.parquet", infer_types=value)  # type: ignore[arg-type]
    assert QueryMode.local(root=tmp_path).table("a.parquet", infer_types=True).count() == 1
