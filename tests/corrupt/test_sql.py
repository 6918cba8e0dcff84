"""SQL that somebody has fallen asleep over: every text gets an answer or a QueryModeError with a stable code.

Statements of tests/slt and of TPC-H lose, gain and swap tokens and characters, by a random number each, so
that a failure can be had again from the number in its message. Tables are tiny: what is tested is everything
before rows are read.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, QueryModeError
from querymode.errors import CODES
from querymode.sql.output_names import unique_names
from tests.slt.data import tables
from tests.slt.runner import records
from tests.sql.tpch import NUMBERS, TABLES, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Nothing here may take this long, on any machine.
SECONDS_MAX = 20
_TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|<=|>=|<>|\|\||::|.", re.DOTALL)
_WORDS = """
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT OFFSET JOIN LEFT ON USING UNION ALL EXCEPT WITH AS DISTINCT CASE
WHEN THEN ELSE END NULL NOT IN EXISTS BETWEEN LIKE AND OR CAST INTERVAL DATE count sum OVER FILTER LATERAL
VALUES RECURSIVE PIVOT EXPLAIN DESCRIBE DROP INSERT ( ) , * . ? $1 ; -- /* ' " 0 1e999 99999999999999999999 -1
'' \0 é [ { ] } :: % @ # ~ ^ & | \\ ` =
""".split()  # noqa: SIM905
#: Numbers, texts, names and operators.
_KINDS = (re.compile(r"\d+$"), re.compile(r"'"), re.compile(r"[a-z]\w*$"), re.compile(r"[<>=+*/%|-]+$"))


def mutated(statements: Sequence[str], number: int) -> str:
    random = Random(number)
    tokens = _TOKEN.findall(random.choice(statements))
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        random.choice(MUTATIONS)(tokens, random, statements)
    return "".join(tokens)


def _delete(tokens: list[str], random: Random, _: Sequence[str]) -> None:
    start = random.randrange(len(tokens) + 1)
    del tokens[start : start + random.choice((1, 1, 1, 2, 3, 10))]


def _duplicate(tokens: list[str], random: Random, _: Sequence[str]) -> None:
    start = random.randrange(len(tokens) + 1)
    piece = tokens[start : start + random.choice((1, 2, 4, 10))]
    tokens[start:start] = [*piece, " "] * random.choice((1, 1, 1, 2, 50))


def _swap(tokens: list[str], random: Random, _: Sequence[str]) -> None:
    if len(tokens) > 1:
        a, b = random.randrange(len(tokens)), random.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]


def _replace(tokens: list[str], random: Random, statements: Sequence[str]) -> None:
    """By a token of another statement, or by one that nobody expects."""
    if not tokens:
        return
    others = _TOKEN.findall(random.choice(statements)) if random.random() < 0.5 else _WORDS
    tokens[random.randrange(len(tokens))] = random.choice(others)


def _alike(tokens: list[str], random: Random, statements: Sequence[str]) -> None:
    """A number for a number, a name for a name: most of these still parse."""
    places = [place for place, token in enumerate(tokens) if _kind(token) >= 0]
    if not places:
        return
    place = random.choice(places)
    kind = _kind(tokens[place])
    others = [token for token in _TOKEN.findall(random.choice(statements)) if _kind(token) == kind]
    if others:
        tokens[place] = random.choice(others)


def _kind(token: str) -> int:
    return next((number for number, kind in enumerate(_KINDS) if kind.match(token)), -1)


def _insert(tokens: list[str], random: Random, _: Sequence[str]) -> None:
    tokens.insert(random.randrange(len(tokens) + 1), f" {random.choice(_WORDS)} ")


def _splice(tokens: list[str], random: Random, statements: Sequence[str]) -> None:
    """The beginning of one and the end of another."""
    other = _TOKEN.findall(random.choice(statements))
    tokens[random.randrange(len(tokens) + 1) :] = other[random.randrange(len(other)) :]


def _nest(tokens: list[str], random: Random, statements: Sequence[str]) -> None:
    """A statement where a token stood."""
    if tokens:
        tokens[random.randrange(len(tokens))] = f"({random.choice(statements).rstrip('; ')})"


def _characters(tokens: list[str], random: Random, _: Sequence[str]) -> None:
    """One token is misspelled, or everything behind it is."""
    if not tokens:
        return
    place = random.randrange(len(tokens))
    letters = list(tokens[place])
    at = random.randrange(len(letters) + 1)
    match random.randrange(3):
        case 0:
            del letters[at : at + 1]
        case 1:
            letters.insert(at, random.choice("'\"(),.;:-/*%_\\\0 \t\n\x1b€\u200b\U0001f600aZ09"))
        case 2:
            letters[at : at + 1] = letters[at : at + 1] * 2
    tokens[place] = "".join(letters)


MUTATIONS: tuple[Callable[[list[str], Random, Sequence[str]], None], ...] = (
    _alike, _alike, _alike, _alike, _alike, _alike, _alike, _alike,
    _delete, _duplicate, _swap, _replace, _insert, _splice, _nest, _characters,
)  # fmt: skip


@pytest.fixture(scope="module")
def statements() -> list[str]:
    of_tpch = [re.sub(r"\borders\b", "orders_of_tpch", text(number)) for number in NUMBERS]
    return [record.sql for record in records()] + of_tpch


@pytest.fixture(scope="module")
def session(tpch_files: Path) -> QueryMode:
    qm = QueryMode.local(
        threads=1, timeout=5, memory="256MiB", allowed_paths=[tpch_files], allow_network=False
    )
    for name, table in tables().items():
        qm.register(name, table.slice(0, 40))
    for name in TABLES:
        known = "orders_of_tpch" if name == "orders" else name
        qm.register(known, pq.read_table(tpch_files / f"{name}.parquet").slice(0, 40))
    return qm


def ask(session: QueryMode, sql: str, number: int = -1) -> str:
    """The code of the refusal, or OK."""
    started = time.monotonic()
    try:
        session.sql(sql).collect()
        code = "OK"
    except QueryModeError as failure:
        code = failure.code
        _ = str(failure), repr(failure)
        # There is a net below; nothing should fall into it.
        cause = failure.__cause__
        foreign = isinstance(cause, (AttributeError, IndexError, KeyError, TypeError))
        assert not foreign or isinstance(cause, QueryModeError), sql
    except Exception as failure:
        raise AssertionError(f"{number}: {type(failure).__name__}: {failure}\n{sql[:3000]}") from failure
    assert code == "OK" or code in CODES, f"{number}: {code}\n{sql[:3000]}"
    assert code not in ("INTERNAL",), f"{number}\n{sql[:3000]}"
    assert time.monotonic() - started < SECONDS_MAX, f"{number} took too long\n{sql[:3000]}"
    return code


def test_statements_are_valid(session: QueryMode, statements: list[str]) -> None:
    """What the mutations start from is answered, or they would only test the parser."""
    codes = [ask(session, sql) for sql in statements]
    assert codes.count("OK") > 0.8 * len(codes)


def test_mutated_statements(session: QueryMode, statements: list[str]) -> None:
    codes = [ask(session, mutated(statements, number), number) for number in range(2000)]
    assert 0.1 < codes.count("OK") / len(codes) < 0.9
    assert len(set(codes)) > 5


@pytest.mark.soak
def test_many_mutated_statements(session: QueryMode, statements: list[str]) -> None:
    for number in range(10_000, 60_000):
        ask(session, mutated(statements, number), number)


# ---- what it found ----


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("ELSE 1 MONTH TRUE", "SQL_SYNTAX"),
        ("SELECT 1e", "SQL_SYNTAX"),
        ("SELECT * RENAME FILTER (id AS number) FROM people", "SQL_SYNTAX"),
        ("SELECT string_agg(name, ORDER BY name, id) AS names FROM people", "SQL_SYNTAX"),
        ("SELECT 1e5.", "SQL_SYNTAX"),
        ("SELECT dec . 0.005 FROM numbers", "SQL_SYNTAX"),
        ("SELECT CAST(1 AS DECIMAL(1e, 2))", "NOT_SUPPORTED"),
        ("SELECT CAST(1 AS DECIMAL((SELECT 1), 2))", "NOT_SUPPORTED"),
        ("SELECT count( ORDER BY v) FROM one", "SQL_SYNTAX"),
        (f"SELECT {NINES}", "SQL_SYNTAX"),
        (f"SELECT 1 ORDER BY {NINES}", "SQL_SYNTAX"),
        (f"SELECT ${NINES}", "SQL_SYNTAX"),
        (f"SELECT CAST('{NINES}' AS INTEGER)", "QUERY_FAILED"),
        (f"SELECT INTERVAL '{NINES} days'", "QUERY_FAILED"),
        (f"SELECT 1 LIMIT '{NINES}'", "OK"),
        ("SELECT CAST('١' AS INTEGER)", "QUERY_FAILED"),
        (f"SELECT 1 FROM one {'JOIN one ' * 40}", "SQL_SYNTAX"),
        (f"SELECT 1 FROM one {'CROSS JOIN one ' * 40}", "OK"),
        (f"SELECT 1 FROM one {'JOIN one USING (v) ' * 40}", "OK"),
        ("SELECT repeat('ab', 9223372036854775807)", "MEMORY_EXCEEDED"),
    ],
    ids=lambda value: value[:40],
)
def test_found(sql: str, code: str, session: QueryMode) -> None:
    assert ask(session, sql) == code


def test_twenty_thousand_columns_of_one_name() -> None:
    """Numbers behind a name go on where they were; counting from 1 each time took minutes."""
    names = unique_names(["a", "a_7", *["A", "b"] * 10_000])
    assert len({name.casefold() for name in names}) == len(names)
    assert names[:6] == ["a", "a_7", "A_1", "b", "A_2", "b_1"]
    assert "A_7" not in names


def test_an_interval_with_a_sign() -> None:
    rows = QueryMode.local().sql(
        "SELECT INTERVAL '+01:00' = INTERVAL 1 HOUR AS a, INTERVAL '-01:00' > INTERVAL 0 DAY AS b"
    )
    assert rows.rows == [{"a": True, "b": False}]
