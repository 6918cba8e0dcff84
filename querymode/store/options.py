"""StoreOptions: how sources are opened. What is allowed, with which credentials, and for how long."""

from __future__ import annotations

import os

from querymode._secrets import hide
from querymode.errors import error
from querymode.store.access import Access
from querymode.store.location import display_name
from querymode.store.source import Patience

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

#: A server that has sent nothing for this long is given up, or asked again.
TIMEOUT_SECONDS = 30.0
ATTEMPTS = 5
#: Asking again ends after this long in all, whatever the attempts left.
RETRY_SECONDS = 60.0
BACK_OFF_SECONDS = 0.1
#: What is read whole from a server that cannot send ranges.
WHOLE_FILE_LIMIT = 256 << 20


class StoreOptions:
    """The options of a session, or of one query of it. Its repr shows no credentials.

    `storage_options` holds settings for all URLs; a key that is itself a URL, such as `https://host/data`,
    holds a dict of settings for what lies below it, so that a token goes to no other server.
    """

    def __init__(
        self,
        storage_options: Mapping[str, Any] | None = None,
        *,
        allowed_paths: Iterable[str | os.PathLike[str]] | None = None,
        allow_network: bool = True,
        root: str | os.PathLike[str] = ".",
        timeout: float | None = None,
        attempts: int | None = None,
        retry_seconds: float | None = None,
        back_off: float = BACK_OFF_SECONDS,
        deadline: float | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.storage_options = dict(storage_options or {})
        self.root = os.fspath(root)
        self.access = Access(allowed_paths, allow_network=allow_network, root=self.root)
        self.timeout = timeout or self._positive("timeout", TIMEOUT_SECONDS)
        self.attempts = attempts or max(1, int(self._positive("max_attempts", ATTEMPTS)))
        self.retry_seconds = retry_seconds or self._positive("retry_seconds", RETRY_SECONDS)
        self.back_off = back_off
        self.deadline = deadline
        self.cancelled = cancelled

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which has credentials of its own: none travel."""
        from querymode.store.settings import secret_names

        secrets = [f"storage_options{name}" for name in secret_names(self.storage_options)]
        if secrets:
            raise error(
                "NOT_SUPPORTED",
                f"{', '.join(secrets)}: credentials do not travel to other processes; set them in the "
                "environment of those",
            )
        return {**self.__dict__, "deadline": None, "cancelled": None}

    def __repr__(self) -> str:
        return f"<StoreOptions root={hide(self.root)!r} with {len(self.storage_options)} storage options>"

    def for_query(
        self, deadline: float | None = None, cancelled: Callable[[], bool] | None = None
    ) -> StoreOptions:
        """The same options with an end."""
        copy = object.__new__(StoreOptions)
        copy.__dict__.update(self.__dict__, deadline=deadline, cancelled=cancelled)
        return copy

    def patience(self) -> Patience:
        return Patience(self.deadline, self.cancelled)

    def settings(self, url: str) -> dict[str, Any]:
        """The general settings, then those for prefixes of a URL, which is given by its display name."""
        found = {key: value for key, value in self.storage_options.items() if "://" not in key}
        prefixes = [key for key in self.storage_options if "://" in key and _covers(key, url)]
        for prefix in sorted(prefixes, key=len):
            found.update(self.storage_options[prefix])
        return found

    def whole_file_limit(self) -> int:
        return int(self._positive("whole_file_limit", WHOLE_FILE_LIMIT))

    def _positive(self, key: str, default: float) -> float:
        value = self.storage_options.get(key, default)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = 0.0
        if not 0 < number < float("inf"):
            raise error("QUERY_FAILED", f"storage_options[{key!r}] is {value!r}; it is a number above 0")
        return number


def _covers(prefix: str, url: str) -> bool:
    prefix = display_name(prefix).rstrip("/")  # spelt as `url` is: host in small letters, no default port
    return url == prefix or url.startswith((f"{prefix}/", f"{prefix}?"))


def is_true(value: object) -> bool:
    """Settings come from code, the environment and files: True, 1, "true" and "yes" are the same."""
    return value is True or str(value).strip().lower() in ("true", "1", "yes", "on")
