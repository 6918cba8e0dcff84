"""Errors are tested by their codes, which is what programs see of them."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from querymode import QueryModeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def raises_code(code: str, *, match: str | None = None) -> Iterator[pytest.ExceptionInfo[QueryModeError]]:
    """As `pytest.raises`, for an error of ours with that code."""
    __tracebackhide__ = True
    with pytest.raises(QueryModeError, match=match) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
