"""What remote sources share: asking again, and going on where an answer broke off.

Worth asking again: connections that fail or break, silence, and answers that say "later" (408, 429, 5xx).
Everything else is an error at once, also what nobody foresaw: servers answer anything, and libraries stumble
over it in many ways. Causes are not chained: their texts may hold signed URLs.
"""

from __future__ import annotations

import random
import time
from contextlib import closing

from querymode.errors import QueryModeError, error
from querymode.store.source import ByteSource, ReadCancelled, changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import TypeVar

    from querymode.store.options import StoreOptions
    from querymode.store.source import Patience

    T = TypeVar("T")

#: What is read from a connection at a time: between two of them a read notices that it was stopped.
CHUNK_SIZE = 256 << 10
#: The longest that a server's Retry-After is obeyed.
RETRY_AFTER_SECONDS_MAX = 10.0
_CONNECT_SECONDS_MAX = 10.0
#: No object is larger; a server that says so is wrong.
SIZE_MAX = (1 << 63) - 1

#: Statuses after which the same question may get another answer.
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class TransientError(Exception):
    """One attempt failed, another one may not. `reason` is shown to people: no URLs, no credentials."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class RemoteSource(ByteSource):
    """Reads each range with one request, if nothing breaks. `fetch` makes the request."""

    local = False

    def __init__(self, options: StoreOptions) -> None:
        self.options = options

    def fetch(self, offset: int, size: int, patience: Patience) -> Generator[bytes, None, None]:
        """One request for a range, as chunks. May end early, or raise TransientError."""
        raise NotImplementedError

    def read_into(
        self, ranges: Sequence[tuple[int, memoryview]], *, patience: Patience | None = None
    ) -> None:
        patience = patience or self.options.patience()
        for offset, target in self.checked(ranges):
            self._fill(offset, target, patience)

    def _fill(self, offset: int, target: memoryview, patience: Patience) -> None:
        done = 0

        def attempt() -> None:
            nonlocal done
            with closing(self.fetch(offset + done, len(target) - done, patience)) as chunks:
                for chunk in chunks:
                    if done + len(chunk) > len(target):
                        raise sent_too_much(self.name)
                    patience.deliver(target[done:], chunk)
                    done += len(chunk)
            if done < len(target):
                raise TransientError("the answer broke off")

        retrying(attempt, self.name, self.options, patience)


def retrying(attempt: Callable[[], T], name: str, options: StoreOptions, patience: Patience) -> T:
    """The first attempt that does not fail with TransientError; NETWORK_TIMEOUT when there is none."""
    started = time.monotonic()
    for number in range(1, options.attempts + 1):
        patience.check()
        try:
            return _attempted(attempt, name, patience)
        except TransientError as failure:
            reason, retry_after = failure.reason, failure.retry_after
        pause = _pause(number, retry_after, options.back_off)
        if number == options.attempts or time.monotonic() - started + pause > options.retry_seconds:
            break
        patience.sleep(pause)
    patience.check()  # a query that has just timed out should say so, rather than blame the network
    raise _gave_up(name, reason, number)


def _attempted(attempt: Callable[[], T], name: str, patience: Patience) -> T:
    try:
        with patience.reading():
            return attempt()
    except (QueryModeError, TransientError, ReadCancelled, Warning):
        raise
    except MemoryError:
        problem = error("MEMORY_EXCEEDED", f"this process has no memory left for what {name} sent")
    except Exception as failure:
        patience.check()  # a connection that we hung up on ends in many ways
        problem = odd_answer(name, f"an answer that cannot be understood ({type(failure).__name__})")
    raise problem


def _pause(number: int, retry_after: float | None, back_off: float) -> float:
    # Jitter, so that clients which a server turned away together do not come back together.
    pause: float = back_off * 2 ** (number - 1) * random.uniform(0.5, 1.0)
    return max(pause, min(retry_after or 0.0, RETRY_AFTER_SECONDS_MAX))


def _gave_up(name: str, reason: str, attempts: int) -> QueryModeError:
    tries = "one attempt" if attempts == 1 else f"{attempts} attempts"
    return error(
        "NETWORK_TIMEOUT",
        f"{name} could not be read: {reason} (given up after {tries}); check that the server can be reached, "
        'or raise "timeout", "max_attempts" or "retry_seconds" in storage_options',
    )


def connect_seconds(seconds: float) -> float:
    return min(seconds, _CONNECT_SECONDS_MAX)


def retry_after_seconds(value: str | None) -> float | None:
    """Retry-After as seconds. Its other form, a date, is rare and needs clocks that agree."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None


class ContentRange:
    """`bytes 0-99/1234`, taken apart. Anything else, and a total of `*`, is None."""

    __slots__ = ("end", "start", "total")

    def __init__(self, start: int, end: int, total: int) -> None:
        self.start = start
        self.end = end
        self.total = total

    @classmethod
    def parse(cls, header: str | None) -> ContentRange | None:
        unit, _, rest = (header or "").strip().partition(" ")
        span, _, total = rest.partition("/")
        start, _, last = span.partition("-")
        try:
            parsed = cls(int(start), int(last) + 1, int(total))
        except ValueError:
            return None
        is_sound = 0 <= parsed.start < parsed.end <= parsed.total <= SIZE_MAX
        return parsed if unit.lower() == "bytes" and is_sound else None

    def is_tail(self, size: int) -> bool:
        return self.end == self.total and self.end - self.start == min(size, self.total)


def first_range(tail_size: int) -> str:
    """The range that a source is opened with: it answers with the size, and brings the tail along."""
    return f"bytes=-{tail_size}" if tail_size else "bytes=0-0"


def check_answer(name: str, answer: ContentRange | None, offset: int, size: int, total: int) -> None:
    """A part of the object we opened, beginning where we asked."""
    if answer is None or answer.start != offset or answer.end > offset + size:
        raise error("QUERY_FAILED", f"{name}: the server answered with another range than it was asked for")
    if answer.total != total:
        raise changed(name)


def is_certificate_problem(failure: BaseException) -> bool:
    import ssl

    # Libraries wrap errors in arguments, or chain them, or both.
    causes: list[object] = [failure]
    for _ in range(4):
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            return True
        wrapped = [cause for cause in causes if isinstance(cause, BaseException)]
        causes = [
            inner
            for cause in wrapped
            for inner in (*cause.args, *getattr(cause, "kwargs", {}).values(), cause.__cause__)
        ]
    return False


def odd_answer(name: str, what: str) -> QueryModeError:
    return error(
        "QUERY_FAILED",
        f"{name}: the server sent {what}; check that the address is right, and what stands between",
    )


def first_answer(name: str, answer: ContentRange, tail_size: int) -> bool:
    """Whether the answer to `first_range` is what was asked for; False: a server that misreads tails."""
    if tail_size:
        return answer.is_tail(tail_size)
    check_answer(name, answer, 0, 1, answer.total)
    return True


def whole_body(name: str, chunks: Iterable[bytes], size: int) -> bytes:
    """The chunks of an answer of known size."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > size:
            raise sent_too_much(name)
    if len(data) < size:
        raise TransientError("the answer broke off")
    return bytes(data)


def sent_too_much(name: str) -> QueryModeError:
    return error("QUERY_FAILED", f"{name}: the server sent more than it was asked for")


def refusal(name: str, status: int) -> QueryModeError:
    """The error for a status that no repetition changes."""
    if status in (401, 403, 407):
        return error(
            "ACCESS_DENIED",
            f"{name}: the server refused access ({status}); check the credentials in storage_options",
        )
    if status in (404, 410):
        return error("TABLE_NOT_FOUND", f"{name} does not exist ({status}); check its spelling")
    return error("QUERY_FAILED", f"{name}: the server answered with status {status}")
