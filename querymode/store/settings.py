"""The names that `storage_options` may hold, all in one place, and what their values are.

What nobody reads is refused when the session is made: a misspelt `acess_key_id` would otherwise send requests
without credentials, and say nothing. Settings for everything and those of HTTP are spelt as they stand here;
those of S3 as other tools spell them, see `plain_name`.
"""

from __future__ import annotations

import os

from querymode._secrets import has_secrets
from querymode.errors import error, nearest
from querymode.store.location import display_name, scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Check = Callable[[object], bool]

_TRUTHS = ("true", "false", "1", "0", "yes", "no", "on", "off")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_truth(value: object) -> bool:
    return isinstance(value, bool) or str(value).strip().lower() in _TRUTHS


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) < float("inf")  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _is_headers(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(text, (str, int, float)) for name, text in value.items()
    )


_KINDS: dict[Check, str] = {
    _is_text: "a text",
    _is_path: "a path",
    _is_truth: "True or False",
    _is_number: "a number above 0",
    _is_headers: "a dict of names and texts",
}

#: For all URLs together, never for some of them.
GENERAL: dict[str, Check] = {
    "timeout": _is_number,
    "max_attempts": _is_number,
    "retry_seconds": _is_number,
    "whole_file_limit": _is_number,
}
HTTP: dict[str, Check] = {
    "headers": _is_headers,
    **dict.fromkeys(("bearer_token", "token", "username", "password", "proxy"), _is_text),
    **dict.fromkeys(("ca_file", "ca_bundle"), _is_path),
    "verify": _is_truth,
}
S3: dict[str, Check] = {
    **dict.fromkeys(("region", "region_name", "default_region"), _is_text),
    **dict.fromkeys(("endpoint_url", "endpoint", "endpoint_override"), _is_text),
    **dict.fromkeys(("access_key_id", "access_key", "key"), _is_text),
    **dict.fromkeys(("secret_access_key", "secret_key", "secret"), _is_text),
    **dict.fromkeys(("session_token", "security_token", "token"), _is_text),
    **dict.fromkeys(("anonymous", "anon", "skip_signature", "no_sign_request"), _is_truth),
    **dict.fromkeys(("addressing_style", "url_style", "proxy"), _is_text),
    **dict.fromkeys(("virtual_hosted_style_request", "force_virtual_addressing"), _is_truth),
    **dict.fromkeys(("allow_http", "use_ssl", "verify"), _is_truth),
    **dict.fromkeys(("ca_file", "ca_bundle"), _is_path),
}
#: Names whose values nobody else may see. Headers may hold anything.
SECRETS = frozenset(
    (
        *("headers", "bearer_token", "token", "username", "password"),
        *("access_key_id", "access_key", "key", "secret_access_key", "secret_key", "secret"),
        *("session_token", "security_token"),
    )
)
_S3_PREFIXES = ("aws_", "s3_", "client_")
#: Whose URLs may be keys with settings of their own.
_SCHEMES = ("http", "https", "s3")


def plain_name(key: str) -> str:
    """`AWS_ACCESS_KEY_ID`, `aws_access_key_id`, `s3.access-key-id` and `access_key_id` are one name."""
    key = key.lower().replace("-", "_").replace(".", "_")
    for prefix in _S3_PREFIXES:
        key = key.removeprefix(prefix)
    return key


def secret_names(storage_options: Mapping[str, Any]) -> list[str]:
    """Which of the settings are credentials, as `['key']` or `['url']['key']`: without their values."""
    found = []
    for key, value in storage_options.items():
        if "://" in key:
            name = display_name(key)
            found += [f"[{name!r}]{inner}" for inner in secret_names(value)]
            found += [f"[{name!r}]"] if has_secrets(key) else []
        elif value is not None and (plain_name(key) in SECRETS or has_secrets(str(value))):
            found.append(f"[{key!r}]")
    return found


def check_settings(storage_options: Mapping[object, Any]) -> None:
    """Refuses names that nobody reads, and values that are not what their names say."""
    for key, value in storage_options.items():
        if not isinstance(key, str):
            raise error("QUERY_FAILED", f"a key of storage_options is a text, not {type(key).__name__}")
        if "://" in key:
            _check_place(key, value)
        elif key in GENERAL:
            _check_value(key, value, (GENERAL[key],))
        else:
            _check_named(key, value, "storage_options")


def _check_place(url: str, settings: object) -> None:
    """A URL, and the settings of what lies below it."""
    name = display_name(url)
    if scheme_of(url) not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise error("NOT_SUPPORTED", f"storage_options[{name!r}]: settings are for URLs of {known}")
    if not isinstance(settings, dict):
        raise error("QUERY_FAILED", f"storage_options[{name!r}] is a dict of settings for what lies below it")
    for key, value in settings.items():
        where = f"storage_options[{name!r}]"
        if key in GENERAL:
            raise error(
                "NOT_SUPPORTED", f"{where}: {key!r} holds for all URLs; set it in storage_options itself"
            )
        if not isinstance(key, str):
            raise error("QUERY_FAILED", f"a key of {where} is a text, not {type(key).__name__}")
        _check_named(key, value, where)


def _check_named(key: str, value: object, where: str) -> None:
    checks = tuple(readers[name] for readers, name in ((HTTP, key), (S3, plain_name(key))) if name in readers)
    if not checks:
        raise _unknown(key, where)
    _check_value(key, value, checks)


def _check_value(key: str, value: object, checks: tuple[Check, ...]) -> None:
    """The value itself may be a secret: it is not shown."""
    if value is not None and not any(check(value) for check in checks):
        raise error(
            "QUERY_FAILED",
            f"storage_options[{key!r}] is {_KINDS[checks[0]]}, but a {type(value).__name__} was given",
        )


def _unknown(key: str, where: str) -> Exception:
    known = [*GENERAL, *HTTP, *(name for name in S3 if name not in HTTP)]
    near = nearest(plain_name(key), known)
    hint = f"Did you mean {near!r}? " if near is not None else ""
    return error("NOT_SUPPORTED", f"{where}: nothing reads {key!r}. {hint}There are: {', '.join(known)}")
