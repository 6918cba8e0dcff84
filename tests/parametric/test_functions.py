"""Every function over random columns, compared with DuckDB: NULLs, empty and long texts, any letters.

A case is a function in two spellings, as a DataFrame expression and as SQL over the same columns. All cases
of a group are asked in one query for each table, and columns that differ are named with their first rows.
"""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import pyarrow as pa
import pytest

from querymode import Expr, QueryMode, call, col, lit
from tests.parametric.columns import ORACLE, Cases, check
from tests.raises import raises_code

#: Chunks of the engine have 16,384 rows.
ROW_COUNTS = (0, 1, 7, 1000, 16_384, 40_000)

_ASCII = ["a", "b", "A", "Z", " ", "ab", ",", "%", "_", "\t", "0", "hello", "World ", "  ", "x" * 20]
_BEYOND = ["é", "ß", "€", "😀", "İ", "ı", "ǆ", "ﬁ", "Ω", "\u3000", "\u00a0", "e\u0301", "Å", "Ⱥ", "ñ"]


def random_text(source: random.Random, parts: list[str]) -> str | None:
    kind = source.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        return ""
    count = 200 if kind == 2 and source.random() < 0.1 else 6
    return "".join(source.choice(parts) for _ in range(source.randrange(count) + 1))


def text_table(rows: int, parts: list[str], seed: int) -> pa.Table:
    """Texts, parts of texts that often are in them, and small numbers; each with NULLs."""
    source = random.Random(seed)
    texts = [random_text(source, parts) for _ in range(rows)]
    some = [None if source.random() < 0.1 else source.choice([*parts[:6], "", "ab"]) for _ in range(rows)]
    numbers = [None if source.random() < 0.1 else source.randrange(-8, 9) for _ in range(rows)]
    far = [source.choice([None, 0, 1, -1, 2**31, -(2**31), 2**32 - 1, -(2**32) + 1, 3]) for _ in range(rows)]
    return pa.table(
        {
            "s": pa.array(texts, pa.string()),
            "p": pa.array(some, pa.string()),
            "q": pa.array(list(reversed(some)), pa.string()),
            "n": pa.array(numbers, pa.int64()),
            "k": pa.array([number and abs(number) for number in numbers], pa.int16()),
            "far": pa.array(far, pa.int64()),
            "z": pa.array([None] * rows, pa.string()),
        }
    )


S, P, Q, N, K, FAR, Z = (col(name) for name in ("s", "p", "q", "n", "k", "far", "z"))


def text_cases() -> Cases:
    cases: Cases = [
        (S.length(), "length(s)"),
        (S.byte_length(), "strlen(s)"),
        (call("bit_length", S), "bit_length(s)"),
        (S.lower(), "lower(s)"),
        (S.upper(), "upper(s)"),
        (S.upper().lower().length(), "length(lower(upper(s)))"),
        (S.trim(), "trim(s)"),
        (S.trim_start(), "ltrim(s)"),
        (S.trim_end(), "rtrim(s)"),
        (call("||", S, P), "s || p"),
        (call("||", S, "-", P, Q), "s || '-' || p || q"),
        (call("||", S, None, P), "s || NULL::VARCHAR || p"),
        (S.concat(P, "é", Q), "concat(s, p, 'é', q)"),
        (S.concat(None, P), "concat(s, NULL, p)"),
        (call("concat_ws", ", ", S, P, Q), "concat_ws(', ', s, p, q)"),
        (call("concat_ws", P, S, Q, S), "concat_ws(p, s, q, s)"),
        (call("concat_ws", None, S, Q), "concat_ws(NULL, s, q)"),
        (S.replace(P, Q), "replace(s, p, q)"),
        (S.replace("a", Q), "replace(s, 'a', q)"),
        (call("replace", "banana", P, Q), "replace('banana', p, q)"),
        (S.translate("abé ", "éx"), "translate(s, 'abé ', 'éx')"),
        (S.translate(P, Q), "translate(s, p, q)"),
        (S.pad_left(N, "xé"), "lpad(s, n::INTEGER, 'xé')"),
        (S.pad_right(K, "ab"), "rpad(s, k::INTEGER, 'ab')"),
        (S.pad_left(12, "€uro"), "lpad(s, 12, '€uro')"),
        (S.repeat(N), "repeat(s, n)"),
        (S.repeat(2), "repeat(s, 2)"),
        (call("repeat", "aé", K), "repeat('aé', k::BIGINT)"),
        (call("ascii", S), "ascii(s)"),
        (S.code_point(), "unicode(s)"),
        (call("chr", K * 37), "chr(k * 37)"),
        (S.split_part(P, N), "split_part(s, p, n)"),
        (S.split_part("a", 2), "split_part(s, 'a', 2)"),
        (S.split_part("", -1), "split_part(s, '', -1)"),
        (Z.upper(), "upper(z)"),
        (S.position(Z), "position(z IN s)"),
        (S.position(None), "instr(s, NULL::VARCHAR)"),
        (call("length", "größe"), "length('größe')"),
        (call("upper", None), "upper(NULL::VARCHAR)"),
        (call("substring", "hello", N, K), "substring('hello', n, k)"),
    ]
    for count in (N, FAR, 0, 3, -2):
        sql = _sql(count)
        cases += [(S.head(count), f"left(s, {sql})"), (S.tail(count), f"right(s, {sql})")]
        cases += [(S.substring(count), f"substring(s, {sql})")]
    for start, length in ((N, K), (N, 3), (2, N), (-3, 2), (0, 2), (1, 3), (3, -2), (FAR, 2), (1, FAR)):
        cases.append((S.substring(start, length), f"substring(s, {_sql(start)}, {_sql(length)})"))
    for part in (P, "a", "ab", "é", "", "lo"):
        sql = _sql(part)
        cases += [
            (S.position(part), f"instr(s, {sql})"),
            (S.contains(part), f"contains(s, {sql})"),
            (S.starts_with(part), f"starts_with(s, {sql})"),
            (S.ends_with(part), f"suffix(s, {sql})"),
            (call("contains", "hello", part), f"contains('hello', {sql})"),
            (call("position", "hello", part), f"instr('hello', {sql})"),
            (S.trim(part), f"trim(s, {sql})"),
            (S.trim_start(part), f"ltrim(s, {sql})"),
            (S.trim_end(part), f"rtrim(s, {sql})"),
            (S.replace(part, "yy"), f"replace(s, {sql}, 'yy')"),
            (S.replace(part, ""), f"replace(s, {sql}, '')"),
            (S.replace(part, "é"), f"replace(s, {sql}, 'é')"),
        ]
    return cases


def _sql(value: object) -> str:
    if isinstance(value, Expr):
        return str(value)[5:-2]
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("rows", ROW_COUNTS)
@pytest.mark.parametrize("parts", [_ASCII, _ASCII + _BEYOND], ids=["ascii", "unicode"])
def test_text(rows: int, parts: list[str]) -> None:
    check(text_table(rows, parts, rows), text_cases())


@pytest.mark.parametrize("rows", [5, 20_000])
@pytest.mark.parametrize("parts", [_ASCII, _ASCII + _BEYOND], ids=["ascii", "unicode"])
def test_ilike(rows: int, parts: list[str]) -> None:
    from querymode.expr.nodes import Like

    cases: Cases = []
    for pattern in ("%É%", "ab%", "%ß", "_b%", "%İ%", "hello", "%ȺÉ%", "%i%", "%ﬁ", "%a_%B%", "ω%", ""):
        cases.append((Like(S, pattern, None, True), f"s ILIKE '{pattern}'"))
        cases.append((Like(S, pattern, None, False), f"s LIKE '{pattern}'"))
    check(text_table(rows, parts, 5 + rows), cases)


def test_text_in_filters_and_of_dictionaries(tmp_path: Any) -> None:
    """Files evaluate filters over dictionaries, and once more for NULL."""
    import pyarrow.parquet as pq

    table = text_table(30_000, _ASCII + _BEYOND, 3)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=10_000)
    ORACLE.register("t", table)
    for expr, sql in (
        (S.upper().contains("AB"), "contains(upper(s), 'AB')"),
        (P.length() > 1, "length(p) > 1"),
        (P.fill_null("?") == "?", "coalesce(p, '?') = '?'"),
        (P.concat("x").length() == 1, "length(concat(p, 'x')) = 1"),
        (P.pad_left(4, "ab").starts_with("ab"), "starts_with(lpad(p, 4, 'ab'), 'ab')"),
    ):
        theirs = ORACLE.sql(f"SELECT s, n FROM t WHERE {sql}").to_arrow_table()
        assert QueryMode.local().table(str(path)).filter(expr).select("s", "n").to_arrow().equals(theirs), sql


@pytest.mark.parametrize(
    ("expr", "named"),
    [
        (S.pad_left(20, ""), "pad"),
        (call("chr", N), "-"),
        (call("chr", lit(1_114_112)), "1114112"),
    ],
)
def test_failures_name_the_value(expr: Expr, named: str) -> None:
    frame = QueryMode.from_arrow(text_table(100, _ASCII, 9))
    with raises_code("QUERY_FAILED") as caught:
        frame.select(expr).collect()
    assert named in caught.value.message


def test_failures_are_only_of_rows_that_are_asked() -> None:
    frame = QueryMode.from_arrow(text_table(1000, _ASCII, 10))
    rows = frame.filter(N >= 0).select(call("chr", N).alias("c")).rows
    assert {row["c"] for row in rows} == {chr(number) for number in range(9)}
    assert frame.filter(lit(False)).select(call("chr", lit(-1))).rows == []


def test_case_tables_are_python_s() -> None:
    """Every code point that this Python and the one that built the engine both know."""
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    table = pa.table({"s": [chr(code) for code in codes]})
    answer = QueryMode.from_arrow(table).select(S.lower().alias("l"), S.upper().alias("u")).to_arrow()
    lowers, uppers = answer.column("l").to_pylist(), answer.column("u").to_pylist()
    same_unicode = unicodedata.ucd_3_2_0  # old enough that every Python's tables contain it
    for code, lower, upper in zip(codes, lowers, uppers, strict=True):
        character = chr(code)
        if same_unicode.category(character) == "Cn":
            continue
        full = character.upper()
        simple = full if len(full) == 1 else character.title() if len(character.title()) == 1 else character
        assert lower == character.lower()[0], hex(code)
        assert upper == ("ẞ" if character == "ß" else simple), hex(code)
