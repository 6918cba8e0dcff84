"""Credentials in texts: users and passwords of URLs, and their queries, which may be signed.

Every error goes through `hide`, and so does what shows a query: nobody who writes a message has to think of
it. Where a URL ends in a sentence is a guess, so that rather too much is hidden than too little.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What follows a URL in a sentence.
_PUNCTUATION = ",.;:)]}>"
_HIDDEN = "…*"
#: Their names may hold a `?`, which is also a wildcard: only `?name=value` is taken for a query.
_PLAIN_SCHEMES = ("file", "s3", "s3a")
#: Words beside which a constant is probably a secret.
_TELLING = (
    *("password", "passwd", "secret", "token", "credential", "signature", "authorization", "bearer"),
    *("api_key", "apikey", "access_key", "private_key"),
)


def hide(text: str, *, same_size: bool = False) -> str:
    """The text with credentials replaced by `…`, or by as many `*`, so that places in it stay the same."""
    if ":/" not in text:
        return text
    parts: list[str] = []
    done = 0
    for start, end in _spans(text):
        secret = text[start:end]
        shown = secret if not secret.strip(_HIDDEN) else "*" * (end - start) if same_size else "…"
        parts += (text[done:start], shown)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def has_secrets(text: str) -> bool:
    """Whether a path or text holds a URL with a user or password, or with a query."""
    return ":/" in text and hide(text) != text


def tells_of_secrets(text: str) -> bool:
    """Whether a SQL text should not be left lying about: some constant in it may be a credential."""
    folded = text.casefold()
    return has_secrets(text) or any(word in folded for word in _TELLING)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where credentials stand. Each letter is looked at a few times at most."""
    import re  # most texts have no URL, and most programs no error

    # The end of a scheme. One slash is enough: paths that were put in order have no more.
    begin = re.compile(r"[a-z0-9+.-]:/++", re.IGNORECASE)
    to_end = re.compile(r"[^\s'\"`]*+")
    found = begin.search(text)
    while found is not None:
        start = found.end()
        rest = to_end.match(text, start)
        assert rest is not None  # it may be empty
        end = start + len(rest[0].rstrip(_PUNCTUATION))
        slashes = len(found[0]) - len("s:")
        yield from _spans_of_url(text, _scheme_before(text, found.start() + 1), slashes, start, end)
        found = begin.search(text, max(end, start))


def _scheme_before(text: str, colon: int) -> str:
    for scheme in _PLAIN_SCHEMES:
        first = colon - len(scheme)
        if first >= 0 and text[first:colon].lower() == scheme and not text[first - 1 : first].isalnum():
            return scheme
    return ""


def _spans_of_url(text: str, scheme: str, slashes: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """`scheme`: "" if any other. `start`, `end`: of what stands behind the slashes."""
    if scheme != "file" or slashes < 3:  # three slashes: on this machine
        authority_end = _first(text, "/?#", start, end)
        at = text.rfind("@", start, authority_end)
        if at < 0 and _is_cut_password(text[start:authority_end]):
            at = text.rfind("@", start, end)
        if at >= 0:
            yield start, at
            start = at
    query = _first(text, "?#", start, end)
    if query < end and (scheme not in _PLAIN_SCHEMES or "=" in text[query:end]):
        yield query + 1, end


def _first(text: str, marks: str, start: int, end: int) -> int:
    """Where the first of some letters stands, or the end."""
    return min((place for mark in marks if (place := text.find(mark, start, end)) >= 0), default=end)


def _is_cut_password(authority: str) -> bool:
    """`user:pass` of `user:pass/word@host`: what should be a port is none."""
    port = authority.rpartition(":")[2]
    return ":" in authority and not authority.endswith("]") and not (port.isascii() and port.isdigit())
