"""Which of up to four buckets a table lives in: FNV-1a of its root key.

A whole table lies in one bucket, so that other readers find it complete. The rule depends on nothing but the
key and the list of buckets; another order of the list is another list.
"""

from __future__ import annotations

from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKET_COUNT_MAX = 4

_FNV_OFFSET_BASIS = 0x811C9DC5
_FNV_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """32-bit FNV-1a.

    >>> hex(fnv1a_32(b"users.lance"))
    '0xd5027e1a'
    """
    value = _FNV_OFFSET_BASIS
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFF_FFFF
    return value


def root_key(key: str) -> str:
    """The table's part of a key: up to its first segment that ends in `.lance`, else the first segment.

    >>> root_key("sales/events.lance/data/0a1b.lance")
    'sales/events.lance'
    """
    segments = key.strip("/").split("/")
    for count, segment in enumerate(segments, 1):
        if segment.endswith(".lance"):
            return "/".join(segments[:count])
    return segments[0]


def resolve_bucket(key: str, buckets: Sequence[str]) -> str:
    """The bucket that holds a key.

    >>> resolve_bucket("events.lance/_versions/1.manifest", ["a", "b", "c", "d"])
    'b'
    """
    names = check_buckets(buckets)
    if not key.strip("/"):
        raise error("TABLE_NOT_FOUND", "an empty key belongs to no bucket")
    return names[fnv1a_32(root_key(key).encode()) % len(names)]


def check_buckets(buckets: Sequence[str]) -> tuple[str, ...]:
    """`buckets=` as it was meant: one to four different names."""
    names = () if isinstance(buckets, (str, bytes)) else tuple(buckets)
    if not 1 <= len(names) <= BUCKET_COUNT_MAX:
        raise error("QUERY_FAILED", f"buckets={buckets!r}; it is a list of 1 to {BUCKET_COUNT_MAX} names")
    for name in names:
        if not isinstance(name, str) or not name or not set(name).isdisjoint("/ \t\r\n@?#:"):
            raise error(
                "QUERY_FAILED", f"buckets holds {name!r}; a bucket is named without scheme and slashes"
            )
    if len(set(names)) < len(names):
        raise error("QUERY_FAILED", f"buckets={list(names)!r} names one of them twice")
    return names
