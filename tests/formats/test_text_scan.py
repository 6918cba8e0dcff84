"""Pieces of text files through the engine's doors: whatever the cuts and windows, all rows come once."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from querymode import QueryMode, _abi
from querymode._abi import FileFormat
from querymode.engine.instance import Instance
from querymode.engine.plan_bytes import encode_bound, encode_limit, encode_plan
from querymode.errors import QueryModeError
from querymode.types import FLOAT64, INT64
from tests.formats.text_pieces import open_text, options, places_of, read_rows, run_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.formats.text_pieces import TextFile


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as made:
        yield made


TEXTS = {
    "plain": "a,b,c\n" + "".join(f"{i},{i / 4},t{i % 7}\n" for i in range(400)),
    "quoted": "a,b\n" + "".join(f'{i},"x, ""{i}"" y"\n' for i in range(2000)),
    "lines in quotes": "a;b\n" + "".join(f'"one\ntwo\n{i}";{i}\n' for i in range(500)),
    "crlf": "a|b|c\r\n" + "".join(f"{i}|2020-01-{i % 28 + 1:02}|\r\n" for i in range(1000)),
    "cr": "a\tb\r" + "".join(f"{i}\tx\r" for i in range(300)),
    "one column": "a\n" + "".join("\n" if i % 5 == 0 else f"{i}\n" for i in range(500)),
    "blank lines": "a,b\n\n\n" + "".join(f"{i},{i}\n\n" for i in range(300)),
    "no last line end": "a,b\n1,2\n3,4",
    "trailing delimiters": "a,b\n" + "".join(f"{i},{i},\n" for i in range(300)),
    "quotes inside": "a,b\n" + "".join(f'5" disk {i},{i}\n' for i in range(300)),
    "spaces around quotes": "a,b\n" + "".join(f' "x{i}" ,{i}\n' for i in range(300)),
    "no header": "".join(f"{i},{i * 2},{i % 3 == 0}\n" for i in range(300)),
    "mark": "\ufeffgröße,b\n" + "".join(f"ä{i}€,{i}\n" for i in range(300)),
    "nulls": "a,b,c\n" + "".join(f",{i},\n" if i % 2 else f"{i},,x\n" for i in range(400)),
    "long rows": "a,b\n" + "".join(f"{i},{'x' * (i * 37 % 9000)}\n" for i in range(200)),
    "header alone": "a,b\n",
    "nothing": "",
    "types": "d,t,s,z,f\n" + "2024-02-29,12:30:15,2024-02-29 12:30:15.5,2024-02-29T12:30:15Z,1e300\n" * 200,
}


def from_csv(text: str) -> list[dict[str, object]]:
    return QueryMode.from_csv(text).rows


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_are_the_whole(instance: Instance, name: str) -> None:
    text = TEXTS[name]
    data = text.encode()
    expected = from_csv(text)
    file = open_text(instance, data, head_size=64 << 10 if len(data) > 64 << 10 else len(data))
    assert [name for name, _ in file.columns] == QueryMode.from_csv(text).columns
    assert read_rows(instance, file) == expected
    chance = random.Random(name)
    for window in (1, 4096, 1 << 16):
        cuts = [chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12))]
        assert read_rows(instance, file, cuts, window=window) == expected, (cuts, window)


def test_every_cut_of_a_small_text(instance: Instance) -> None:
    text = 'a,b\r\n"x\r\ny",1\r\n\r\n"",2\n"q""\n""r",3\r4,5\n\n\n"é",6'
    data = text.encode()
    expected = from_csv(text)
    file = open_text(instance, data)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            assert read_rows(instance, file, (first, second)) == expected, (first, second)


def test_projection_skips_what_is_not_wanted(instance: Instance) -> None:
    """A value that does not fit is only found where its column is read."""
    text = "a,b,c\n1,2,3\n" * 1 + "4,5,6\n" * 30_000 + "7,eight,9\n"
    file = open_text(instance, text.encode())
    assert [str(kind) for _, kind in file.columns] == ["int64"] * 3
    assert read_rows(instance, file, names=["c"])[-1] == {"c": 9}
    assert len(read_rows(instance, file, names=["a", "c"])) == 30_002
    with pytest.raises(QueryModeError, match="column b: 'eight' is not an int64") as caught:
        read_rows(instance, file, names=["b"])
    assert caught.value.code == "INVALID_FORMAT"
    assert caught.value.offset == text.index("eight")
    assert instance.error_row == 30_001
    assert instance.error_column == 0


@pytest.mark.parametrize(
    ("text", "message", "at", "row"),
    [
        ("a,b\n1,2\n3\n4,5\n", "expected 2 fields, found 1", 8, 1),
        ("a,b\n1,2\n3,4,5\n", "expected 2 fields, found 3", 8, 1),
        ('a,b\n1,2\n3,"open\n', "a quote is not closed", 10, 1),
        ('a,b\n1,2\n3,"x"y\n', "text follows a closing quote", 13, 1),
        (b"a,b\n1,2\n3,\xff\n", "not valid UTF-8", 10, None),
    ],
)
def test_errors_say_where(
    instance: Instance, text: str | bytes, message: str, at: int, row: int | None
) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    good = open_text(instance, b"a,b\n1,2\n", given=options(b",", header=1))
    good = _grown(good, data)
    with pytest.raises(QueryModeError, match=message) as caught:
        read_rows(instance, good)
    assert caught.value.code == "INVALID_FORMAT"
    assert caught.value.offset == at
    if row is not None:
        assert instance.error_row == row


def test_a_row_may_be_long_but_not_endless(instance: Instance) -> None:
    long = "x" * (3 << 20)
    file = open_text(instance, f"a,b\n1,y\n1,{long}\n".encode())
    assert read_rows(instance, file, window=4096)[1] == {"a": 1, "b": long}
    sizes = [size for _, size in file.reads]
    assert max(sizes) <= 8 << 20
    endless = b"a,b\n1,y\n1," + b"x" * (_abi.TEXT_ROW_SIZE_MAX + (1 << 20))
    file = open_text(instance, endless)
    with pytest.raises(QueryModeError, match="a row of more than"):
        read_rows(instance, file)


def test_a_limit_ends_the_reading(instance: Instance) -> None:
    data = b"a,b\n" + b"1,2\n" * 500_000
    file = open_text(instance, data)
    query = instance.query_open(encode_plan(file.columns, [encode_limit(0, 10)], 0))
    start, end, rows = run_piece(
        instance, file, query, places_of([0, 1]), 4, len(data), exact=True, window=64 << 10
    )
    assert (start, end) == (4, None)
    assert rows == 16_384
    assert len(file.reads) == 1
    instance.query_close(query)
    for wanted, least in ((10, 10), (11, 50)):
        query = instance.query_open(encode_plan(file.columns, [encode_limit(0, wanted)], 0))
        places = places_of([0, 1])
        _, _, rows = run_piece(instance, file, query, places, 4, len(data), exact=True, first_rows=10)
        assert rows == least
        instance.query_close(query)


def test_windows_are_read_once(instance: Instance) -> None:
    """Rows that a window cuts are read again, and nothing else is."""
    data = b"a,b\n" + b"12345,67890\n" * 100_000
    file = open_text(instance, data)
    read_rows(instance, file, names=["a"], window=256 << 10)
    assert sum(size for _, size in file.reads) <= len(data) + 12 * len(file.reads)
    file.reads.clear()
    read_rows(instance, file, [len(data) // 2], names=["a"], window=16 << 20)
    assert [size for _, size in file.reads] == [
        len(data) // 2 - 4 + _abi.TEXT_OVERHANG,
        len(data) - len(data) // 2 + 1,
    ]


def test_constants_and_missing_columns(instance: Instance) -> None:
    file = open_text(instance, b"a\n1\n2\n")
    fields = [("a", INT64), ("part", INT64), ("lacks", FLOAT64), ("again", INT64)]
    query = instance.query_open(encode_plan(fields, [], 0))
    places = places_of([0]) + places_of([0xFFFF_FFFF]) + encode_bound(7, INT64)
    places += places_of([0xFFFF_FFFE, 0])
    run_piece(instance, file, query, places, 2, file.size, exact=True)
    from querymode.qmcb import columnar_batch_to_rows, decode_columnar_batch

    output = instance.query_finish(query)
    rows = columnar_batch_to_rows(decode_columnar_batch(instance.read(output.address, output.size)))
    assert rows == [
        {"a": 1, "part": 7, "lacks": None, "again": 1},
        {"a": 2, "part": 7, "lacks": None, "again": 2},
    ]


def test_heads(instance: Instance) -> None:
    text = "id;when;word\n" + "1;2020-01-01;x\n" * 100_000
    file = open_text(instance, text.encode(), head_size=64 << 10)
    assert chr(file.options[0]) == ";"
    assert file.header == _abi.TextHeader.PRESENT
    assert file.rows_start == text.index("\n") + 1
    assert [(name, str(kind)) for name, kind in file.columns] == [
        ("id", "int64"),
        ("when", "date"),
        ("word", "utf8"),
    ]
    # A head that is cut inside a row, or a quote, does not count it.
    file = open_text(instance, b'a,b\n1,2\n3,"4\n5', head_size=13)
    with pytest.raises(QueryModeError, match="no two rows end"):
        open_text(instance, b"a,b\n1,2222222\n", head_size=10)
    assert [str(kind) for _, kind in open_text(instance, b"a,b\n1,2\n3,x\n", head_size=10).columns] == [
        "int64",
        "int64",
    ]


def test_a_file_on_disk(instance: Instance, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXTS["quoted"].encode())
    file = open_text(instance, str(path))
    assert file.format == FileFormat.CSV
    assert read_rows(instance, file, [1000, 20_000], window=8192) == from_csv(TEXTS["quoted"])


LINES = {
    "plain": "".join(f'{{"a":{i},"b":"t{i}","c":{i / 8}}}\n' for i in range(2000)),
    "spaces": "".join(f'  {{ "a" : {i} , "b": "x" }} \r\n\n' for i in range(500)),
    "dumps": "".join(f'{{"a": {i}, "b": [1, {i}], "c": {{"d": null, "e": "{i}"}}}}\n' for i in range(500)),
    "other orders": "".join(
        f'{{"a":{i},"b":true}}\n' if i % 2 else f'{{"b":false,"x":[{i}],"a":{i}}}\n' for i in range(500)
    ),
    "keys that are missing, or twice": '{"a":1}\n{"b":"x"}\n{"a":2,"a":3}\n{}\n' * 200,
    "escapes": ('{"a":"\\u00e9\\ud83d\\ude00\\n","k\\"y":"ö€"}\n{"a":"' + "x" * 50 + '","k\\"y":null}\n')
    * 200,
    "several lines": '{\n  "a": 1,\n  "b": {\n "c": [1,\n2]\n }\n}\n' * 100,
    "no last line end": '{"a":1}\n{"a":2}',
    "dates": '{"d":"2024-02-29","t":"2024-02-29T12:30:15Z","n":18446744073709551615,"f":1e300}\n' * 300,
    "mark": '\ufeff{"größe":1}\n{"größe":2}\n',
    "mixtures": '{"a":1}\n{"a":"one"}\n{"a":[1,2]}\n{"a":{"k":true}}\n' * 100,
    "nothing": "",
    "only nulls": '{"a":null}\n' * 20,
}


@pytest.mark.parametrize("name", LINES)
def test_pieces_of_lines_are_the_whole(instance: Instance, name: str) -> None:
    text = LINES[name]
    data = text.encode()
    whole = QueryMode.from_json(text)
    file = open_text(instance, data, FileFormat.NDJSON)
    assert [(name, str(kind)) for name, kind in file.columns] == [
        (name, str(kind)) for name, kind in whole.schema
    ]
    assert read_rows(instance, file) == whole.rows
    chance = random.Random(name)
    for window in (1, 4096, 1 << 16):
        cuts = [chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12))]
        assert read_rows(instance, file, cuts, window=window) == whole.rows, (cuts, window)
    if len(file.columns) > 1:
        names = whole.columns[1:]
        assert read_rows(instance, file, names=names) == whole.select(*names).rows


def test_every_cut_of_a_few_lines(instance: Instance) -> None:
    text = '{"a":1,"b":"x"}\r\n\r\n {"b":"\\ud83d\\ude00","a":-2.5}\n{"a":3e2,"b":["é",{}]}\r{"a":4}'
    data = text.encode()
    expected = QueryMode.from_json(text).rows
    file = open_text(instance, data, FileFormat.NDJSON)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1, 3):
            assert read_rows(instance, file, (first, second)) == expected, (first, second)


def test_heads_of_lines(instance: Instance) -> None:
    text = '{"a":1,"b":null}\n' * 50_000 + '{"a":2,"b":[1]}\n'
    file = open_text(instance, text.encode(), FileFormat.NDJSON, head_size=64 << 10)
    assert [(name, str(kind)) for name, kind in file.columns] == [("a", "int64"), ("b", "utf8")]
    assert read_rows(instance, file)[-1] == {"a": 2, "b": "[1]"}
    with pytest.raises(QueryModeError, match="no row ends"):
        open_text(instance, text.encode(), FileFormat.NDJSON, head_size=10)
    with pytest.raises(QueryModeError, match="expected an int64, found x") as caught:
        read_rows(instance, _grown(file, text.encode() + b'{"a":"x"}\n'), names=["a"])
    assert caught.value.offset == len(text) + 6
    assert instance.error_row == 50_001


def _grown(file: TextFile, data: bytes) -> TextFile:
    file.size = len(data)
    file.read_into = lambda offset, view: view.__setitem__(slice(None), data[offset : offset + len(view)])
    return file


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 6)


def _gzip_members(data: bytes) -> bytes:
    third = len(data) // 3
    return gzip.compress(data[:third], 1) + gzip.compress(b"") + gzip.compress(data[third:], 9) + b"\0" * 7


def _gzip_stored(data: bytes) -> bytes:
    return gzip.compress(data, 0)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data))


def _zstd_frames(data: bytes) -> bytes:
    skipped = b"\x50\x2a\x4d\x18\x05\0\0\0abcde"
    half = len(data) // 2
    return _zstd(data[:half]) + skipped + bytes(pa.Codec("zstd", 19).compress(data[half:]))


PACKERS = (_gzip, _gzip_members, _gzip_stored, _zstd, _zstd_frames)
EVERYTHING = (1 << 64) - 1


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    "name", ["plain", "quoted", "lines in quotes", "long rows", "no last line end", "mark"]
)
def test_packed_text_is_one_piece(instance: Instance, name: str, pack: Callable[[bytes], bytes]) -> None:
    text = TEXTS[name]
    file = open_text(instance, pack(text.encode()))
    assert file.compression != _abi.TextCompression.NONE
    for window in (1, 8192, 1 << 20):
        assert read_rows(instance, file, window=window, end=EVERYTHING) == from_csv(text), window


def test_packed_text_takes_bounded_memory(instance: Instance) -> None:
    """A bomb: a hundred megabytes of rows in a hundred kilobytes."""
    data = b"a,b\n" + b"1,xxxxxxxx\n" * 10_000_000
    for pack in (_gzip, _zstd):
        file = open_text(instance, pack(data), head_size=16 << 10)
        query = instance.query_open(encode_plan([], [], 0))
        extent = run_piece(instance, file, query, b"", 4, EVERYTHING, exact=True, window=64 << 10)
        assert extent == (4, len(data), 10_000_000)
        instance.query_close(query)
    assert instance.memory_size < 24 << 20


def test_packed_text_that_is_cut_or_garbled(instance: Instance) -> None:
    data = TEXTS["plain"].encode()
    for pack in (_gzip, _zstd):
        whole = pack(data)
        file = open_text(instance, whole)
        for size in (len(whole) - 1, len(whole) // 2):
            with pytest.raises(QueryModeError) as caught:
                read_rows(instance, _grown(file, whole[:size]), end=EVERYTHING)
            assert caught.value.code == "INVALID_FORMAT"


def test_a_window_that_is_too_large_is_refused(instance: Instance) -> None:
    frame = b"\x28\xb5\x2f\xfd" + bytes((0x00, 17 << 3)) + b"\x01\x00\x00"
    with pytest.raises(QueryModeError, match="a window of 134217728 bytes"):
        open_text(instance, frame)


_WORDS = (
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b'""',
    b" ",
    b"1",
    b"x",
    b"-",
    b"{",
    b"}",
    b"[",
    b":",
    b"\\",
    b"\xff",
    b"\0",
)


def _mutated(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(_WORDS) + data[at + chance.randrange(3) :]
    return data


@pytest.mark.parametrize("format", [FileFormat.CSV, FileFormat.NDJSON])
def test_mutated_text_reads_as_the_whole_or_is_refused(instance: Instance, format: FileFormat) -> None:
    """With the columns of the text as it was: rows, or INVALID_FORMAT; and the same from pieces."""
    texts = TEXTS if format == FileFormat.CSV else LINES
    chance = random.Random(int(format))
    read = refused = 0
    for round in range(400):
        name = chance.choice(sorted(texts))
        whole = texts[name].encode()
        if not whole or name == "header alone":
            continue
        file = open_text(instance, whole, format)
        data = whole[file.rows_start : chance.choice((200, 2000, 20_000))]
        data = data[: data.rfind(b"\n") + 1] or data
        file = _grown(file, whole[: file.rows_start] + _mutated(data, chance))
        cuts = [chance.randrange(file.size + 1) for _ in range(chance.randrange(6))]
        found: list[object] = []
        for given, window in (((), 1 << 20), (cuts, chance.choice((1, 4096, 1 << 20)))):
            try:
                found.append(read_rows(instance, file, given, window=window))
            except QueryModeError as failure:
                assert failure.code == "INVALID_FORMAT", (round, name)
                found.append((failure.message, failure.offset))
        # Several things may be wrong, and pieces may meet another one first.
        assert found[0] == found[1] or (isinstance(found[0], tuple) and isinstance(found[1], tuple)), (
            round,
            name,
        )
        read += isinstance(found[0], list)
        refused += isinstance(found[0], tuple)
    assert read > 5
    assert refused > 30
