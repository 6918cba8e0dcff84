"""The bucket of a table: design's worked examples, roots of keys, and lists that are none."""

from __future__ import annotations

import doctest

import pytest

from querymode.catalog import buckets
from querymode.catalog.buckets import check_buckets, fnv1a_32, resolve_bucket, root_key
from tests.raises import raises_code

FOUR = ["b0", "b1", "b2", "b3"]


def test_worked_examples() -> None:
    assert fnv1a_32(b"events.lance") == 0x0F7AF7D9
    assert fnv1a_32(b"users.lance") == 0xD5027E1A
    assert resolve_bucket("events.lance", FOUR) == "b1"
    assert resolve_bucket("users.lance", FOUR) == "b2"
    assert fnv1a_32(b"") == 0x811C9DC5


@pytest.mark.parametrize(
    ("key", "root"),
    [
        ("events.lance", "events.lance"),
        ("events.lance/data/abc.lance", "events.lance"),
        ("a/b/events.lance/_versions/1.manifest", "a/b/events.lance"),
        ("logs/2024/x.parquet", "logs"),
        ("/logs/x", "logs"),
        ("x.parquet", "x.parquet"),
    ],
)
def test_root_key(key: str, root: str) -> None:
    assert root_key(key) == root


def test_a_whole_table_lies_in_one_bucket() -> None:
    keys = ["events.lance/data/1.lance", "events.lance/_versions/9.manifest", "/events.lance/"]
    assert {resolve_bucket(key, FOUR) for key in keys} == {"b1"}


def test_one_bucket_takes_all() -> None:
    assert {resolve_bucket(f"t{number}.lance", ["only"]) for number in range(50)} == {"only"}


def test_tables_spread() -> None:
    counts = [sum(resolve_bucket(f"t{n}.lance", FOUR) == name for n in range(1000)) for name in FOUR]
    assert min(counts) > 150


def test_keys_beyond_ascii_are_hashed_as_utf8() -> None:
    assert resolve_bucket("größe.lance", FOUR) == FOUR[fnv1a_32("größe.lance".encode()) % 4]


@pytest.mark.parametrize(
    "names", [[], ["a", "b", "c", "d", "e"], "abc", ["a", "a"], [""], ["s3://a"], ["a/b"], [1]]
)
def test_lists_that_are_none(names: list[str]) -> None:
    with raises_code("QUERY_FAILED") as caught:
        check_buckets(names)
    assert "bucket" in caught.value.message


def test_an_empty_key_has_no_bucket() -> None:
    with raises_code("TABLE_NOT_FOUND"):
        resolve_bucket("/", FOUR)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(buckets).failed == 0
