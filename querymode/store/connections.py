"""Connections of urllib3, and so of boto3, that know who waits for their answer.

They tell the read under way (`current_reading`) which socket it waits for, so that whoever stops it can hang
up, and no single wait of theirs goes on past its deadline.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from querymode.store.source import current_reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from urllib3 import PoolManager


class _Attended:
    """Goes before a connection class of urllib3."""

    sock: Any
    timeout: Any

    def _new_conn(self) -> Any:
        self._limit()
        connected = super()._new_conn()  # type: ignore[misc]
        _hold(connected)  # before TLS and proxies have their say, which takes answers too
        return connected

    def request(self, *arguments: Any, **options: Any) -> Any:
        if self.sock is not None:  # it was connected for an earlier request
            _hold(self.sock)
        self._limit()
        return super().request(*arguments, **options)  # type: ignore[misc]

    def getresponse(self) -> Any:
        self._limit()
        return super().getresponse()  # type: ignore[misc]

    def _limit(self) -> None:
        reading = current_reading()
        if reading is not None and isinstance(self.timeout, (int, float)):
            self.timeout = reading.patience.limited(self.timeout)


def _hold(connected: Any) -> None:
    reading = current_reading()
    if reading is None:
        return
    with suppress(OSError):  # no descriptor left: then its own time-outs have to do
        number = connected.fileno()
        reading.hold(number, socket.socket(fileno=os.dup(number)))


def attend(manager: PoolManager) -> None:
    """Makes a manager use such connections, for pools that it has not made yet."""
    manager.pool_classes_by_scheme = {
        scheme: _attended_pool(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


def _attended_pool(pool: Any) -> Any:
    connection = type(f"Attended{pool.ConnectionCls.__name__}", (_Attended, pool.ConnectionCls), {})
    return type(f"Attended{pool.__name__}", (pool,), {"ConnectionCls": connection})
