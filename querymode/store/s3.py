"""s3:// through boto3: AWS, R2, MinIO, and whatever else speaks the S3 API.

A source is opened with one GET for its tail (or first byte), whose errors say more than those of HEAD. Every
later range carries If-Match. boto3 signs, pools connections and finds credentials; asking again is ours, so
that it ends with the query. Clients are made once per endpoint, region and credentials, and shared.
What a server leaves out of its answers, or puts into them, is an error of ours, whatever boto3 makes of it.
"""

from __future__ import annotations

import os
import threading

from querymode.errors import QueryModeError, error
from querymode.store.location import parse_s3
from querymode.store.options import is_true
from querymode.store.remote import (
    CHUNK_SIZE,
    SIZE_MAX,
    TRANSIENT_STATUSES,
    ContentRange,
    RemoteSource,
    TransientError,
    check_answer,
    connect_seconds,
    first_answer,
    first_range,
    is_certificate_problem,
    odd_answer,
    refusal,
    retry_after_seconds,
    retrying,
    whole_body,
)
from querymode.store.settings import plain_name
from querymode.store.source import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any, TypeVar

    from querymode.store.options import StoreOptions
    from querymode.store.source import Patience

    T = TypeVar("T")

_TRANSIENT_CODES = frozenset(
    {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException"}
)
_CREDENTIAL_CODES = frozenset(
    {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
)
_MISSING_CODES = frozenset({"NoSuchKey", "NoSuchBucket", "404"})
#: Requests that one call of boto3 may make. It follows a bucket to another region by itself: it asks, is sent
#: away, asks where the bucket is, and asks there. A server that goes on like that would be asked for ever.
_REQUESTS_MAX = 4
#: Pages of a listing in a row that hold no object, though there are more.
_EMPTY_PAGES_MAX = 1000


class Listed:
    """An object of a listing: enough to open it without asking for it first."""

    __slots__ = ("etag", "size", "url")

    def __init__(self, url: str, size: int, etag: str) -> None:
        self.url = url
        self.size = size
        self.etag = etag


class S3Source(RemoteSource):
    def __init__(
        self,
        url: str,
        options: StoreOptions,
        tail_size: int = 0,
        known: Listed | None = None,
        *,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(options)
        self._bucket, self._key = parse_s3(url)
        self.name = f"s3://{self._bucket}/{self._key}"
        options.access.s3(self._bucket, self._key)
        if not self._key:
            raise error("TABLE_NOT_FOUND", f"{self.name} names a bucket; add a key: s3://bucket/key")
        self._settings = ClientSettings(options.settings(self.name), options.timeout)
        self._etag = ""
        if known is None:
            waiting = patience or options.patience()
            retrying(lambda: self._open(tail_size, waiting), self.name, options, waiting)
        else:
            self.size, self._etag = known.size, known.etag
        version = self._etag or os.urandom(16).hex()  # nothing to recognise it by: never the same
        self.identity = ("s3", self._settings.endpoint or "", self.name, version, self.size)

    def _open(self, tail_size: int, patience: Patience) -> None:
        self.opening_requests += 1
        try:
            answer = self._get(first_range(tail_size), patience)
        except _Unsatisfiable:
            return self._open_empty()
        with _Body(answer, self.name) as body:
            span = ContentRange.parse(answer.get("ContentRange"))
            if span is None and answer.get("ContentLength") == 0:
                return self._open_empty()
            if span is None:
                raise error("QUERY_FAILED", f"{self.name}: the server does not answer range requests")
            if not first_answer(self.name, span, tail_size):
                return self._open(0, patience)
            data = whole_body(self.name, body.chunks(patience), span.end - span.start)
        self.size, self._etag = span.total, str(answer.get("ETag", ""))
        self.tail = data if tail_size else b""
        self.opening_bytes = len(data)
        return None

    def _open_empty(self) -> None:
        """An empty object has no range."""
        self.opening_requests += 1
        answer = self._call("head_object", Bucket=self._bucket, Key=self._key)
        if "ContentLength" not in answer:
            raise odd_answer(self.name, "an answer without the object's size")
        if answer["ContentLength"] != 0:
            raise changed(self.name)
        self.size, self._etag = 0, str(answer.get("ETag", ""))

    def fetch(self, offset: int, size: int, patience: Patience) -> Generator[bytes, None, None]:
        span = f"bytes={offset}-{offset + size - 1}"
        conditions = {"IfMatch": self._etag} if self._etag else {}
        try:
            answer = self._get(span, patience, **conditions)
        except _Unsatisfiable:
            raise changed(self.name) from None
        with _Body(answer, self.name) as body:
            if self._etag and answer.get("ETag", self._etag) != self._etag:
                raise changed(self.name)
            check_answer(self.name, ContentRange.parse(answer.get("ContentRange")), offset, size, self.size)
            yield from body.chunks(patience)

    def _get(self, span: str, patience: Patience, **conditions: str) -> dict[str, Any]:
        patience.check()
        return self._call("get_object", Bucket=self._bucket, Key=self._key, Range=span, **conditions)

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = _asked(
            self.name, lambda: getattr(self._settings.client(), method)(**arguments)
        )
        return answer


class _Unsatisfiable(Exception):
    """Status 416: empty when we opened it, or shorter than it was."""


class _Body:
    """The body of an answer: read to its end, or its connection is dropped."""

    __slots__ = ("_body", "_ended", "_name")

    def __init__(self, answer: dict[str, Any], name: str) -> None:
        self._body = answer["Body"]
        self._name = name
        self._ended = False

    def chunks(self, patience: Patience) -> Iterator[bytes]:
        while chunk := self._read():
            yield chunk
            patience.check()
        self._ended = True

    def _read(self) -> bytes:
        from botocore.exceptions import BotoCoreError
        from urllib3.exceptions import HTTPError

        try:
            data: bytes = self._body.read(CHUNK_SIZE)
        except (BotoCoreError, HTTPError, OSError) as failure:
            raise _connection_problem(self._name, failure) from None
        return data

    def __enter__(self) -> _Body:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self._body.close()


# ---- listing ----


def list_prefix(
    url: str,
    options: StoreOptions,
    ask: Callable[[Callable[[Patience], list[Listed]]], list[Listed]] | None = None,
) -> Iterator[Listed]:
    """The objects whose keys begin with the URL's key, in the order of their keys.

    A folder is a prefix that ends in a slash. What merely begins like an allowed path is not below it.
    `ask`: calls what asks for a page, for somebody with more or less patience than the options have.
    """
    listing = _Listing(url, options)
    while not listing.is_complete:
        yield from listing.next_page(options.patience()) if ask is None else ask(listing.next_page)


def list_start(url: str, options: StoreOptions, patience: Patience) -> tuple[list[Listed], bool]:
    """The first page of the same, and whether it is all."""
    listing = _Listing(url, options)
    return listing.next_page(patience), listing.is_complete


class _Listing:
    """A listing, page by page. Its server says whether there is more, and need not be believed for ever."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        self._bucket, self._prefix = parse_s3(url)
        options.access.s3(self._bucket, self._prefix[: self._prefix.rfind("/") + 1])
        self.name = f"s3://{self._bucket}/{self._prefix}"
        self.is_complete = False
        self._options = options
        self._settings = ClientSettings(options.settings(self.name), options.timeout)
        self._token: str | None = None
        #: Tokens and first keys of the pages so far: a new page has others.
        self._seen: set[tuple[str, str]] = set()
        self._empty_count = 0

    def next_page(self, patience: Patience) -> list[Listed]:
        page = retrying(self._ask, self.name, self._options, patience)
        found = [self._listed(item) for item in page.get("Contents") or ()]
        self._note_first(found)
        self.is_complete = not page.get("IsTruncated")
        if not self.is_complete:
            token = page.get("NextContinuationToken")
            if not token or self._was_seen("token", str(token)):
                raise self._endless("says that there is more, but not how to go on")
            self._token = str(token)
        return found

    def _ask(self) -> dict[str, Any]:
        token = {} if self._token is None else {"ContinuationToken": self._token}
        return _asked(
            self.name,
            lambda: self._settings.client().list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, **token
            ),
        )

    def _listed(self, item: dict[str, Any]) -> Listed:
        key, size = item.get("Key"), item.get("Size")
        if not isinstance(key, str) or not isinstance(size, int) or not 0 <= size <= SIZE_MAX:
            raise odd_answer(self.name, "a listing whose objects lack a name or a size")
        if not key.startswith(self._prefix):
            raise odd_answer(self.name, "a listing of objects that lie elsewhere")
        return Listed(f"s3://{self._bucket}/{key}", size, str(item.get("ETag") or ""))

    def _note_first(self, found: list[Listed]) -> None:
        self._empty_count = 0 if found else self._empty_count + 1
        if self._empty_count > _EMPTY_PAGES_MAX:
            raise self._endless("goes on without an object")
        if found and self._was_seen("key", found[0].url):
            raise self._endless("repeats itself")

    def _was_seen(self, kind: str, text: str) -> bool:
        known = (kind, text) in self._seen
        self._seen.add((kind, text))
        return known

    def _endless(self, how: str) -> QueryModeError:
        return odd_answer(self.name, f"a listing that {how}")


# ---- errors ----


class _TooManyRequests(Exception):
    """boto3 goes in circles."""


_this_call = threading.local()


def _count_request(**_: object) -> None:
    """Called by boto3 before each of its requests."""
    left = getattr(_this_call, "requests_left", None)
    if left == 0:
        raise _TooManyRequests
    if left is not None:
        _this_call.requests_left = left - 1


def _asked(name: str, call: Callable[[], T]) -> T:
    """What a call of boto3 answers; its errors become ours."""
    from botocore import exceptions

    _this_call.requests_left = _REQUESTS_MAX
    try:
        return call()
    except (QueryModeError, MemoryError):
        raise
    except exceptions.ClientError as failure:
        problem = _client_problem(name, failure.response)
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.TokenRetrievalError,
    ):
        problem = _no_credentials(name)
    except (exceptions.HTTPClientError, exceptions.ConnectionError, OSError) as failure:
        problem = _connection_problem(name, failure)
    except (exceptions.BotoCoreError, ValueError) as failure:
        problem = error("QUERY_FAILED", f"{name} could not be asked for: {type(failure).__name__} in boto3")
    except (_TooManyRequests, RecursionError):
        problem = odd_answer(name, "one redirection after the other")
    except Exception as failure:
        problem = odd_answer(name, f"an answer that boto3 does not understand ({type(failure).__name__})")
    finally:
        _this_call.requests_left = None
    # Outside of the handlers: what boto3 raised may quote endpoints and keys, so it is no context of ours.
    raise problem


def _client_problem(name: str, answer: dict[str, Any]) -> Exception:
    code = str(answer.get("Error", {}).get("Code", ""))
    metadata = answer.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode", 0))
    if status in TRANSIENT_STATUSES or code in _TRANSIENT_CODES:
        wait = retry_after_seconds(metadata.get("HTTPHeaders", {}).get("retry-after"))
        shown = f" {code}" if code in _TRANSIENT_CODES else ""  # theirs may be any text
        return TransientError(f"the server answered with status {status}{shown}", wait)
    if code in ("InvalidRange", "416") or status == 416:
        return _Unsatisfiable()
    if code in ("PreconditionFailed", "412"):
        return changed(name)
    if code == "NoSuchBucket":
        return error(
            "TABLE_NOT_FOUND", f"{name}: there is no such bucket; check its spelling and the endpoint"
        )
    if code in _MISSING_CODES:
        return refusal(name, 404)
    if code in _CREDENTIAL_CODES:
        return error(
            "ACCESS_DENIED",
            f"{name}: the server refused access ({code}); check the credentials in storage_options or the "
            "environment",
        )
    return refusal(name, status)


def _no_credentials(name: str) -> QueryModeError:
    return error(
        "ACCESS_DENIED",
        f"{name}: no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give "
        'storage_options (for public buckets {"anonymous": True})',
    )


def _connection_problem(name: str, failure: BaseException) -> Exception:
    from botocore import exceptions

    if is_certificate_problem(failure):
        return error(
            "QUERY_FAILED",
            f"{name}: the server's certificate could not be verified; give its authority as "
            'storage_options["ca_file"]',
        )
    if isinstance(failure, (exceptions.ReadTimeoutError, exceptions.ConnectTimeoutError, TimeoutError)):
        return TransientError("the server did not answer in time")
    if isinstance(failure, exceptions.EndpointConnectionError):
        return TransientError("no connection could be made")
    return TransientError(f"the connection broke ({type(failure).__name__})")


# ---- clients ----


class ClientSettings:
    """What makes one client differ from another. Names of settings are taken as other tools spell them."""

    __slots__ = (
        "anonymous",
        "ca_file",
        "credentials",
        "endpoint",
        "path_style",
        "proxy",
        "region",
        "timeout",
        "verify",
    )

    def __init__(self, settings: dict[str, Any], timeout: float) -> None:
        given = {plain_name(key): value for key, value in settings.items() if value is not None}

        def first(*names: str) -> Any:
            return next((given[name] for name in names if name in given), None)

        self.timeout = timeout
        self.region = first("region", "region_name", "default_region")
        self.endpoint = _endpoint(first("endpoint_url", "endpoint", "endpoint_override"), given)
        self.anonymous = any(
            is_true(given.get(name)) for name in ("anonymous", "anon", "skip_signature", "no_sign_request")
        )
        access_key = first("access_key_id", "access_key", "key")
        secret_key = first("secret_access_key", "secret_key", "secret")
        self.credentials = None
        if access_key is not None or secret_key is not None:
            self.credentials = (access_key, secret_key, first("session_token", "security_token", "token"))
        self.path_style = _path_style(given, self.endpoint)
        self.ca_file = first("ca_file", "ca_bundle")
        self.verify = is_true(given.get("verify", True))
        self.proxy = first("proxy")

    def client(self) -> Any:
        """The shared client. The environment belongs to the key: it may hold other credentials next time."""
        environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
        key = (*(getattr(self, name) for name in self.__slots__), environment)
        with _lock:
            client = _clients.get(key)
            if client is None:
                if len(_clients) >= _CLIENTS_MAX:
                    _clients.clear()
                client = _clients[key] = self._new_client()
            return client

    def _new_client(self) -> Any:
        try:
            import boto3
            from botocore import UNSIGNED
            from botocore.config import Config
        except ImportError:
            raise error("NOT_SUPPORTED", "s3:// needs boto3; install it with `pip install boto3`") from None
        config = Config(
            signature_version=UNSIGNED if self.anonymous else None,
            connect_timeout=connect_seconds(self.timeout),
            read_timeout=self.timeout,
            retries={"total_max_attempts": 1},  # ours end with the query
            max_pool_connections=24,
            s3={"addressing_style": "path" if self.path_style else "auto"},
            proxies=None if self.proxy is None else {"http": self.proxy, "https": self.proxy},
            # Ranges have no checksum, and stores other than AWS do not know the new ones.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        access_key, secret_key, session_token = self.credentials or (None, None, None)
        session = boto3.session.Session(botocore_session=_new_session())
        client = session.client(
            "s3",
            region_name=self.region or session.region_name or "us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            aws_session_token=session_token,
            verify=self.ca_file or (None if self.verify else False),
            config=config,
        )
        client.meta.events.register_first("before-send.s3", _count_request)
        _attend(client)
        return client


def _attend(client: Any) -> None:
    """Lets reads that are stopped hang up. boto3 has no door for that; without it, they end by time-outs."""
    from querymode.store.connections import attend

    sessions: Any = getattr(getattr(client, "_endpoint", None), "http_session", None)
    manager: Any = getattr(sessions, "_manager", None)
    if hasattr(manager, "pool_classes_by_scheme"):
        attend(manager)
        sessions._pool_classes_by_scheme = manager.pool_classes_by_scheme  # of proxies


def _new_session() -> Any:
    """A session of its own reads the environment anew; the descriptions of services are read once."""
    global _loader
    from botocore.loaders import create_loader
    from botocore.session import get_session

    if _loader is None:
        _loader = create_loader()
    session = get_session()
    session.register_component("data_loader", _loader)
    return session


#: Loading what boto3 knows about S3 takes 0.3 s, a client otherwise 0.05 s.
_loader: Any = None
#: Clients take a few MB each; nobody has this many.
_CLIENTS_MAX = 32
_lock = threading.Lock()
_clients: dict[tuple[Any, ...], Any] = {}


def _endpoint(value: Any, given: dict[str, Any]) -> str | None:
    if not value:
        return None
    if "://" in str(value):
        return str(value)
    insecure = is_true(given.get("allow_http")) or str(given.get("use_ssl", "true")).lower() in ("false", "0")
    return f"http{'' if insecure else 's'}://{value}"


def _path_style(given: dict[str, Any], endpoint: str | None) -> bool:
    """Bucket in the path rather than in the host name: the rule everywhere but at AWS itself."""
    style = given.get("addressing_style", given.get("url_style"))
    if style is not None:
        return str(style).lower() == "path"
    for name in ("virtual_hosted_style_request", "force_virtual_addressing"):
        if name in given:
            return not is_true(given[name])
    return bool(endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


def _after_fork_in_child() -> None:
    # Two processes on one connection would read each other's answers.
    global _lock
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
