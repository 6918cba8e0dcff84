"""Every exception QueryMode raises, and every stable code.

`QueryModeError.code` is what programs test; the message names the thing and the remedy. Subclasses
also derive from the builtin a caller would catch. Errors travel between processes (Spark pickles
them), so all fields survive pickling.
"""

from __future__ import annotations

from querymode._secrets import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


_MESSAGE_SIZE_MAX = 4000


class QueryModeError(Exception):
    """A request that could not be answered: `code` says why in a stable word. It shows no credentials."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        table: str | None = None,
        column: str | None = None,
        offset: int | None = None,
    ) -> None:
        message = _shortened(hide(message))
        super().__init__(message)
        self.code = code
        self.message = message
        self.table = hide(table) if isinstance(table, str) else table
        self.column = hide(column) if isinstance(column, str) else column
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.message, self.table, self.column, self.offset)


def _shortened(message: str) -> str:
    """Names and constants may have millions of letters. The end is where SQL shows the place."""
    if len(message) <= _MESSAGE_SIZE_MAX:
        return message
    half = _MESSAGE_SIZE_MAX // 2
    return f"{message[:half]} … {message[-half:]}"


def _rebuild(
    kind: type[QueryModeError],
    code: str,
    message: str,
    table: str | None,
    column: str | None,
    offset: int | None,
) -> QueryModeError:
    return kind(code, message, table=table, column=column, offset=offset)


class TableNotFoundError(QueryModeError, FileNotFoundError):
    """TABLE_NOT_FOUND."""


class TableExistsError(QueryModeError, FileExistsError):
    """TABLE_EXISTS."""


class ColumnNotFoundError(QueryModeError, LookupError):
    """COLUMN_NOT_FOUND."""


class InvalidFormatError(QueryModeError, ValueError):
    """INVALID_FORMAT: bytes that are not what they claim to be."""


class SchemaMismatchError(QueryModeError, TypeError):
    """SCHEMA_MISMATCH."""


class InvalidFilterError(QueryModeError, ValueError):
    """INVALID_FILTER."""


class InvalidAggregateError(QueryModeError, ValueError):
    """INVALID_AGGREGATE."""


class SqlSyntaxError(QueryModeError, ValueError):
    """SQL_SYNTAX."""


class NotSupportedError(QueryModeError, NotImplementedError):
    """NOT_SUPPORTED."""


class AccessDeniedError(QueryModeError, PermissionError):
    """ACCESS_DENIED."""


class MemoryExceededError(QueryModeError, MemoryError):
    """MEMORY_EXCEEDED."""


class NetworkTimeoutError(QueryModeError, TimeoutError):
    """NETWORK_TIMEOUT."""


class QueryTimeoutError(QueryModeError, TimeoutError):
    """QUERY_TIMEOUT."""


class InternalError(QueryModeError, RuntimeError):
    """INTERNAL: a fault of ours."""


_KINDS: dict[str, type[QueryModeError]] = {
    "TABLE_NOT_FOUND": TableNotFoundError,
    "TABLE_EXISTS": TableExistsError,
    "COLUMN_NOT_FOUND": ColumnNotFoundError,
    "INVALID_FORMAT": InvalidFormatError,
    "SCHEMA_MISMATCH": SchemaMismatchError,
    "INVALID_FILTER": InvalidFilterError,
    "INVALID_AGGREGATE": InvalidAggregateError,
    "SQL_SYNTAX": SqlSyntaxError,
    "NOT_SUPPORTED": NotSupportedError,
    "ACCESS_DENIED": AccessDeniedError,
    "MEMORY_EXCEEDED": MemoryExceededError,
    "NETWORK_TIMEOUT": NetworkTimeoutError,
    "QUERY_TIMEOUT": QueryTimeoutError,
    "BUDGET_EXCEEDED": QueryModeError,
    "COMMIT_CONFLICT": QueryModeError,
    "QUERY_FAILED": QueryModeError,
    "INTERNAL": InternalError,
}

CODES = tuple(_KINDS)


def error(
    code: str,
    message: str,
    *,
    table: str | None = None,
    column: str | None = None,
    offset: int | None = None,
) -> QueryModeError:
    """The exception for a code. Raise what it returns."""
    return _KINDS[code](code, message, table=table, column=column, offset=offset)


def column_not_found(name: str, columns: Iterable[str], *, table: str | None = None) -> QueryModeError:
    """Names the nearest spelling and the columns there are."""
    known = list(columns)
    shown = ", ".join(known[:20]) + (f", … ({len(known)} in all)" if len(known) > 20 else "")
    near = nearest(name, known)
    hint = f" Did you mean {near!r}?" if near is not None else ""
    where = f" in {table}" if table else ""
    return error(
        "COLUMN_NOT_FOUND",
        f"there is no column {name!r}{where}.{hint} The columns are: {shown or '(none)'}",
        table=table,
        column=name,
    )


def nearest(name: str, known: list[str]) -> str | None:
    """The name that was probably meant."""
    # difflib is loaded only when somebody misspelt something.
    from difflib import get_close_matches

    folded = {candidate.casefold(): candidate for candidate in known}
    found = get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None
