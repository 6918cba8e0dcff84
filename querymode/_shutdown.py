"""Asking while Python shuts down, and what is nested deeper than Python's stack.

When `__del__` runs at the very end, nothing can be imported and no thread be started any more; in `atexit`
handlers some of it cannot. Public methods then say so, instead of whatever happens to fail first.
"""

from __future__ import annotations

import sys
from functools import wraps
from types import FunctionType

from querymode.errors import QueryModeError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    Class = TypeVar("Class", bound=type)

#: inspect.CO_GENERATOR, without importing inspect.
_GENERATOR = 0x20
_is_finalizing = sys.is_finalizing


def guards_shutdown(owner: Class) -> Class:
    """For classes of the public API: their public methods, inherited ones too, tell of a shutdown."""
    for name in dir(owner):
        found = owner.__dict__.get(name) or getattr(owner, name)
        if (not name.startswith("_") or name == "__init__") and isinstance(found, FunctionType):
            setattr(owner, name, guarded(found))
    return owner


def guarded(function: Any) -> Callable[..., Any]:
    """A function whose failures at shutdown, and of the stack, are a QueryModeError."""
    if function.__code__.co_flags & _GENERATOR:

        @wraps(function)
        def iterate(*arguments: Any, **options: Any) -> Iterator[Any]:
            if _is_finalizing():
                raise _too_late()
            try:
                yield from function(*arguments, **options)
            except QueryModeError as failure:
                _forget_context(failure)
                raise
            except RecursionError:
                raise _too_deep() from None
            except (RuntimeError, ImportError) as failure:
                if _is_of_shutdown(failure):
                    raise _too_late() from None
                raise

        return iterate

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if _is_finalizing():
            raise _too_late()
        try:
            return function(*arguments, **options)
        except QueryModeError as failure:
            _forget_context(failure)
            raise
        except RecursionError:
            raise _too_deep() from None
        except (RuntimeError, ImportError) as failure:
            if _is_of_shutdown(failure):
                raise _too_late() from None
            raise

    return call


def _forget_context(failure: QueryModeError) -> None:
    """What an error was raised `from None` for is of no use to anybody, but may hold the whole of a text with
    its passwords, and be logged with it."""
    if failure.__suppress_context__ and failure.__cause__ is None:
        failure.__context__ = None


def _is_of_shutdown(failure: Exception) -> bool:
    # Python has no class for it: "can't register atexit after shutdown", "Python is likely shutting down".
    is_plain = isinstance(failure, (RuntimeError, ImportError)) and not isinstance(failure, QueryModeError)
    return is_plain and "shut" in str(failure)


def _too_deep() -> QueryModeError:
    return error("NOT_SUPPORTED", "this is nested too deep; compute it in several steps")


def _too_late() -> QueryModeError:
    return error("QUERY_FAILED", "Python is shutting down, so that nothing can be asked any more; ask before")
