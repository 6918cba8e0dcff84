"""Parquet files that lie: a few hundred bytes each, made by hand, named after their lie.

`BOMBS` maps a name to its bytes and to what reading may end with. Most must be refused; a few are honest in
the format's own terms (a run of two billion NULLs is one) and may also be read, or ask for too much memory.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.corrupt.craft import (
    MAGIC,
    Chunk,
    Codec,
    Element,
    Encoding,
    Leaf,
    Physical,
    Value,
    delta_head,
    dictionary,
    file,
    finish,
    group,
    i32,
    i64,
    items,
    levels,
    location,
    offset_index,
    packed,
    page,
    page_v2,
    plain,
    run,
    text,
    thrift,
    varint,
)

REFUSED = frozenset({"INVALID_FORMAT", "NOT_SUPPORTED"})
#: Rows, or more of them than fit or than anyone waits for.
HONEST = REFUSED | {"OK", "MEMORY_EXCEEDED", "QUERY_FAILED", "QUERY_TIMEOUT"}

HUGE = (1 << 31) - 1
X = Leaf("x")
OPTIONAL = Leaf("x", repetition=1)
TEXT = Leaf("x", Physical.BYTE_ARRAY, converted=0)
REPEATED = Leaf("x", repetition=2)


@dataclass(frozen=True)
class Bomb:
    make: Callable[[], bytes]
    endings: frozenset[str] = REFUSED


BOMBS: dict[str, Bomb] = {}


def bomb(endings: frozenset[str] = REFUSED) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    def add(make: Callable[[], bytes]) -> Callable[[], bytes]:
        BOMBS[make.__name__] = Bomb(make, endings)
        return make

    return add


def one(leaf: Leaf, chunk: Chunk, rows: int) -> bytes:
    return file([leaf], [[chunk.but(physical=leaf.physical)]], [rows])


def coded(data: bytes, count: int, entries: bytes = plain(7, 8, 9), entry_count: int = 3) -> Chunk:
    """A dictionary and one page of codes."""
    head = dictionary(entries, count=entry_count)
    body = page(data, count=count, encoding=Encoding.DICTIONARY)
    return Chunk(head + body, count, dictionary_size=len(head))


GOOD = Chunk(page(plain(1, 2, 3), count=3), 3)


# --- Footers ------------------------------------------------------------------------------------


@bomb()
def footer_longer_than_the_file() -> bytes:
    return finish(MAGIC, b"\0", claim=0xFFFF_FFFF)


@bomb()
def footer_of_no_bytes() -> bytes:
    return finish(MAGIC, b"")


@bomb()
def two_billion_row_groups() -> bytes:
    return file([X], [[GOOD]], [3], footer={4: items([{}], claim=1 << 31)})


@bomb()
def as_many_row_groups_as_bytes() -> bytes:
    """Structures without fields: one byte each, a hundred thousand of them."""
    return file([X], [], [], footer={4: items([{}] * 100_000)})


@bomb()
def two_billion_columns() -> bytes:
    return file([X], [[GOOD]], [3], footer={2: items([group("s", HUGE, 0), X.element()])})


@bomb()
def two_billion_schema_elements() -> bytes:
    return file([X], [[GOOD]], [3], footer={2: items([group("s", 1, 0)], claim=1 << 31)})


@bomb()
def a_chunk_list_longer_than_the_schema() -> bytes:
    return file([X], [[GOOD, GOOD]], [3])


@bomb()
def a_hundred_thousand_groups_in_each_other() -> bytes:
    nest = [group("g", 1) for _ in range(100_000)]
    return file([*nest, X], [[GOOD]], [3], top=1)


@bomb()
def lists_in_each_other() -> bytes:
    """Three repetition levels more than a byte can count."""
    nest = [group("l", 1, 2) for _ in range(258)]
    return file([*nest, X], [[GOOD]], [3], top=1)


@bomb()
def thrift_in_itself() -> bytes:
    """An unknown field that nests structures to the end of the footer."""
    return finish(MAGIC, b"\xfc" + b"\x1c" * 200_000)


@bomb()
def thrift_lists_in_themselves() -> bytes:
    return finish(MAGIC, b"\xf9" + b"\x19" * 200_000)


@bomb()
def a_name_longer_than_the_footer() -> bytes:
    return finish(MAGIC, thrift({1: i32(2)})[:-1] + b"\x58" + varint(1 << 40))


@bomb()
def negative_rows() -> bytes:
    return file([X], [[GOOD]], [-5])


@bomb()
def more_rows_than_values() -> bytes:
    return file([X], [[GOOD]], [1 << 40])


@bomb()
def row_counts_that_overflow() -> bytes:
    return file([X], [[GOOD], [GOOD], [GOOD]], [(1 << 62), (1 << 62), (1 << 62)])


@bomb()
def rows_without_columns() -> bytes:
    """Nothing to read: only the count says how many rows there are."""
    return file([], [[]], [1 << 60])


@bomb()
def values_of_a_gigabyte() -> bytes:
    leaf = Leaf("x", Physical.FIXED, type_length=1 << 30)
    return one(leaf, Chunk(page(b"abc", count=3), 3), 3)


@bomb(HONEST)
def null_values_of_a_megabyte() -> bytes:
    leaf = Leaf("x", Physical.FIXED, repetition=1, type_length=1 << 20)
    return one(leaf, Chunk(page(levels(run(0, 8000, 1)), count=8000), 8000), 8000)


@bomb()
def a_chunk_behind_the_file() -> bytes:
    return one(X, GOOD.but(start=1 << 40), 3)


@bomb()
def a_chunk_that_wraps_around() -> bytes:
    return one(X, GOOD.but(start=(1 << 63) - 1, size=(1 << 63) - 1), 3)


@bomb()
def a_chunk_of_terabytes() -> bytes:
    return one(X, GOOD.but(size=1 << 42), 3)


@bomb()
def a_chunk_that_is_the_footer() -> bytes:
    """Pages where the footer's own bytes are."""
    return one(X, GOOD.but(start=40, size=60), 3)


@bomb(REFUSED | {"OK"})
def chunks_over_each_other() -> bytes:
    """Two columns of the same bytes: some writers share them, so this may be read."""
    return file([X, Leaf("y")], [[GOOD.but(start=4), GOOD.but(start=4)]], [3])


# --- Page headers -------------------------------------------------------------------------------


@bomb()
def a_page_of_two_gigabytes() -> bytes:
    return one(X, Chunk(page(zlib.compress(bytes(12)), count=3, size=HUGE), 3, codec=Codec.GZIP), 3)


@bomb()
def an_uncompressed_page_of_two_gigabytes() -> bytes:
    return one(X, Chunk(page(plain(1, 2, 3), count=3, size=HUGE), 3), 3)


@bomb()
def a_compressed_size_of_two_gigabytes() -> bytes:
    head = thrift({1: i32(0), 2: i32(12), 3: i32(HUGE), 5: {1: i32(3), 2: i32(0), 3: i32(3), 4: i32(3)}})
    return one(X, Chunk(head + plain(1, 2, 3), 3), 3)


@bomb()
def a_negative_page_size() -> bytes:
    head = thrift({1: i32(0), 2: i32(-12), 3: i32(-12), 5: {1: i32(3), 2: i32(0), 3: i32(3), 4: i32(3)}})
    return one(X, Chunk(head + plain(1, 2, 3), 3), 3)


@bomb()
def a_page_header_that_never_ends() -> bytes:
    return one(X, Chunk(b"\x15\0" * 200_000, 3), 3)


@bomb()
def pages_without_values() -> bytes:
    """Forty thousand headers in front of nothing."""
    return one(X, Chunk(page(b"", count=0) * 40_000, 3), 3)


@bomb()
def index_pages_without_end() -> bytes:
    return one(X, Chunk(thrift({1: i32(1), 2: i32(0), 3: i32(0)}) * 40_000, 3), 3)


@bomb()
def two_billion_values_in_twelve_bytes() -> bytes:
    return one(X, Chunk(page(plain(1, 2, 3), count=HUGE), HUGE), HUGE)


@bomb()
def two_billion_texts_in_a_page() -> bytes:
    return one(TEXT, Chunk(page(b"\0\0\0\0" * 3, count=HUGE), HUGE), HUGE)


@bomb()
def two_billion_booleans() -> bytes:
    return one(Leaf("x", Physical.BOOLEAN), Chunk(page(b"\xff", count=HUGE), HUGE), HUGE)


@bomb()
def fewer_values_than_the_chunk_says() -> bytes:
    return one(X, Chunk(page(plain(1, 2, 3), count=3), 1000), 1000)


@bomb()
def more_values_than_the_chunk_says() -> bytes:
    return one(X, Chunk(page(plain(*range(500)), count=500), 3), 3)


@bomb()
def a_text_longer_than_its_page() -> bytes:
    return one(TEXT, Chunk(page(struct.pack("<I", 0xFFFF_FFF0) + b"abc", count=1), 1), 1)


@bomb()
def texts_that_add_up_to_four_gigabytes() -> bytes:
    return one(TEXT, Chunk(page(struct.pack("<I", 0x7FFF_FFFF) * 3, count=3), 3), 3)


@bomb()
def v2_levels_longer_than_the_page() -> bytes:
    return one(OPTIONAL, Chunk(page_v2(plain(1, 2, 3), count=3, definition=HUGE), 3), 3)


@bomb()
def v2_levels_that_overflow() -> bytes:
    body = page_v2(plain(1, 2, 3), count=3, definition=HUGE, repetition=HUGE)
    return one(REPEATED, Chunk(body, 3), 3)


@bomb()
def v2_negative_levels() -> bytes:
    return one(OPTIONAL, Chunk(page_v2(plain(1, 2, 3), count=3, definition=-4), 3), 3)


@bomb()
def v2_levels_longer_than_the_uncompressed_page() -> bytes:
    body = page_v2(run(1, 3, 1) + plain(1, 2, 3), count=3, definition=2, size=1)
    return one(OPTIONAL, Chunk(body, 3), 3)


@bomb()
def v2_more_rows_than_values() -> bytes:
    return one(
        REPEATED, Chunk(page_v2(run(0, 3, 1) + plain(1, 2, 3), count=3, rows=HUGE, repetition=2), 3), 3
    )


# --- Levels and runs ----------------------------------------------------------------------------


@bomb()
def levels_longer_than_the_page() -> bytes:
    return one(OPTIONAL, Chunk(page(struct.pack("<I", HUGE) + run(1, 3, 1), count=3), 3), 3)


@bomb()
def a_run_of_two_billion_values() -> bytes:
    return one(OPTIONAL, Chunk(page(levels(run(1, HUGE, 1)) + plain(1), count=HUGE), HUGE), HUGE)


@bomb(HONEST)
def a_run_of_two_billion_nulls() -> bytes:
    return one(OPTIONAL, Chunk(page(levels(run(0, HUGE, 1)), count=HUGE), HUGE), HUGE)


@bomb(HONEST)
def terabytes_of_nulls() -> bytes:
    pages = page(levels(run(0, HUGE, 1)), count=HUGE) * 60
    return one(OPTIONAL, Chunk(pages, 60 * HUGE), 60 * HUGE)


@bomb(HONEST)
def a_list_of_two_billion_nulls() -> bytes:
    """One row. Its levels alone need two gigabytes."""
    data = levels(run(0, 1, 1) + run(1, HUGE - 1, 1)) + levels(run(0, HUGE, 1))
    return one(REPEATED, Chunk(page(data, count=HUGE), HUGE), 1)


@bomb()
def a_packed_run_of_two_billion_groups() -> bytes:
    return one(OPTIONAL, Chunk(page(levels(packed(HUGE, b"\xff")) + plain(1), count=HUGE), HUGE), HUGE)


@bomb()
def a_run_longer_than_sixty_four_bits() -> bytes:
    return one(OPTIONAL, Chunk(page(levels(b"\xff" * 20) + plain(1, 2, 3), count=3), 3), 3)


@bomb()
def runs_of_nothing() -> bytes:
    """Runs of length 0, for ever."""
    return one(OPTIONAL, Chunk(page(levels(run(1, 0, 1) * 100_000) + plain(1, 2, 3), count=3), 3), 3)


@bomb()
def definition_levels_too_high() -> bytes:
    schema: list[Element] = [group("g", 1), Leaf("x", repetition=1)]
    data = page(levels(run(3, 3, 2)) + plain(1, 2, 3), count=3)
    return file(schema, [[Chunk(data, 3)]], [3], top=1)


@bomb()
def repetition_that_does_not_begin_with_a_row() -> bytes:
    data = levels(run(1, 3, 1)) + levels(run(1, 3, 1)) + plain(1, 2, 3)
    return one(REPEATED, Chunk(page(data, count=3), 3), 1)


@bomb()
def rows_that_the_levels_do_not_have() -> bytes:
    data = levels(run(0, 1, 1) + run(1, 2, 1)) + levels(run(1, 3, 1)) + plain(1, 2, 3)
    return one(REPEATED, Chunk(page(data, count=3), 3), 1 << 30)


@bomb()
def leaves_of_a_structure_that_disagree() -> bytes:
    schema: list[Element] = [group("g", 2, 2), Leaf("a"), Leaf("b")]
    shapes = (run(0, 1, 1) + run(1, 2, 1), run(0, 2, 1) + run(1, 1, 1))
    chunks = [
        Chunk(page(levels(shape) + levels(run(1, 3, 1)) + plain(1, 2, 3), count=3), 3) for shape in shapes
    ]
    return file(schema, [chunks], [1], top=1)


@bomb()
def bit_packed_levels_of_two_billion() -> bytes:
    body = page(b"\xff", count=HUGE, levels_encoding=Encoding.BIT_PACKED)
    return one(OPTIONAL, Chunk(body, HUGE), HUGE)


# --- Dictionaries -------------------------------------------------------------------------------


@bomb()
def a_dictionary_of_two_billion_values() -> bytes:
    return one(X, coded(bytes((2,)) + packed(1, b"\0\0"), 3, entry_count=HUGE), 3)


@bomb()
def a_dictionary_of_two_billion_texts() -> bytes:
    return one(TEXT, coded(bytes((2,)) + packed(1, b"\0\0"), 3, b"\0\0\0\0", HUGE), 3)


@bomb()
def codes_beyond_the_dictionary() -> bytes:
    return one(X, coded(bytes((2,)) + packed(1, b"\xff\xff"), 3), 3)


@bomb()
def a_run_of_a_code_beyond_the_dictionary() -> bytes:
    return one(X, coded(bytes((32,)) + run(0xFFFF_FFFF, 3, 32), 3), 3)


@bomb()
def codes_of_an_empty_dictionary() -> bytes:
    return one(X, coded(bytes((0,)) + run(0, 3, 0), 3, b"", 0), 3)


@bomb()
def codes_wider_than_thirty_two_bits() -> bytes:
    return one(X, coded(bytes((64,)) + packed(1, b"\0" * 64), 3), 3)


@bomb()
def codes_without_a_dictionary() -> bytes:
    return one(X, Chunk(page(bytes((2,)) + packed(1, b"\0\0"), count=3, encoding=Encoding.DICTIONARY), 3), 3)


@bomb()
def two_dictionaries() -> bytes:
    head = dictionary(plain(7, 8, 9), count=3)
    body = page(bytes((2,)) + packed(1, b"\0\0"), count=3, encoding=Encoding.DICTIONARY)
    return one(X, Chunk(head + head + body, 3, dictionary_size=len(head)), 3)


@bomb()
def a_dictionary_behind_its_codes() -> bytes:
    head = dictionary(plain(7, 8, 9), count=3)
    body = page(bytes((2,)) + packed(1, b"\0\0"), count=3, encoding=Encoding.DICTIONARY)
    return one(X, Chunk(body + head, 3), 3)


@bomb(REFUSED | {"OK"})
def a_dictionary_between_pages() -> bytes:
    """Odd but in order: the page in front of it needs none."""
    head = dictionary(plain(7, 8, 9), count=3)
    body = page(bytes((2,)) + packed(1, b"\0\0"), count=3, encoding=Encoding.DICTIONARY)
    return one(X, Chunk(page(plain(1, 2, 3), count=3) + head + body, 6), 6)


@bomb()
def a_dictionary_of_codes() -> bytes:
    head = dictionary(b"\2\3\0\0", count=3, encoding=Encoding.DICTIONARY)
    body = page(bytes((2,)) + packed(1, b"\0\0"), count=3, encoding=Encoding.DICTIONARY)
    return one(X, Chunk(head + body, 3, dictionary_size=len(head)), 3)


@bomb()
def a_dictionary_of_booleans() -> bytes:
    return one(Leaf("x", Physical.BOOLEAN), coded(bytes((1,)) + packed(1, b"\0"), 3, b"\1", 2), 3)


@bomb(HONEST)
def a_text_of_a_megabyte_two_million_times() -> bytes:
    entry = struct.pack("<I", 1 << 20) + bytes(1 << 20)
    deflated = gzip.compress(entry)
    head = dictionary(deflated, count=1, size=len(entry))
    codes = bytes((1,)) + run(0, 2_000_000, 1)
    body = page(gzip.compress(codes), count=2_000_000, encoding=Encoding.DICTIONARY, size=len(codes))
    return one(TEXT, Chunk(head + body, 2_000_000, dictionary_size=len(head), codec=Codec.GZIP), 2_000_000)


# --- Deltas and split streams -------------------------------------------------------------------


def delta_page(leaf: Leaf, encoding: int, data: bytes, count: int = 3) -> bytes:
    return one(leaf, Chunk(page(data, count=count, encoding=encoding), count), count)


@bomb(HONEST)
def a_delta_block_of_two_billion() -> bytes:
    return delta_page(X, Encoding.DELTA, delta_head(1 << 31, 4, HUGE) + b"\0" * 20, HUGE)


@bomb()
def more_miniblocks_than_values() -> bytes:
    return delta_page(X, Encoding.DELTA, delta_head(128, 1 << 31, 3) + b"\0" * 20)


@bomb()
def no_miniblocks() -> bytes:
    return delta_page(X, Encoding.DELTA, delta_head(128, 0, 3) + b"\0" * 20)


@bomb(REFUSED | {"OK"})
def a_delta_count_of_sixty_four_bits() -> bytes:
    """What the page needs is there; what its encoding claims beyond is not looked at."""
    return delta_page(X, Encoding.DELTA, delta_head(128, 4, (1 << 64) - 1) + b"\0" * 20)


@bomb()
def deltas_of_two_hundred_bits() -> bytes:
    return delta_page(X, Encoding.DELTA, delta_head(128, 4, 3) + b"\0" + b"\xff" * 4 + b"\0" * 600)


@bomb(HONEST)
def two_billion_equal_deltas() -> bytes:
    """Blocks of deltas without bits are six bytes for as many values as they say."""
    data = delta_head(1 << 24, 1, HUGE) + (b"\0" + b"\0") * 200
    return delta_page(X, Encoding.DELTA, data, HUGE)


@bomb()
def delta_lengths_below_nothing() -> bytes:
    data = delta_head(128, 4, 3, -1) + b"\0" + b"\0" * 4
    return delta_page(TEXT, Encoding.DELTA_LENGTH, data + b"abc")


@bomb()
def delta_lengths_of_gigabytes() -> bytes:
    data = delta_head(128, 4, 3, HUGE) + b"\0" + b"\0" * 4
    return delta_page(TEXT, Encoding.DELTA_LENGTH, data + b"abc")


@bomb()
def delta_prefixes_longer_than_what_is_before() -> bytes:
    prefixes = delta_head(128, 4, 3, 1 << 30) + b"\0" + b"\0" * 4
    suffixes = delta_head(128, 4, 3, 1) + b"\0" + b"\0" * 4
    return delta_page(TEXT, Encoding.DELTA_BYTES, prefixes + suffixes + b"abc")


@bomb(HONEST)
def texts_that_grow_by_a_byte_each() -> bytes:
    """Every text is the one before and one byte more: two kilobytes of gzip, terabytes of text."""
    count = 1 << 20
    block = b"\2" + b"\0" * 4
    prefixes = delta_head(128, 4, count, 0) + block * (count // 128)
    suffixes = delta_head(128, 4, count, 1) + (b"\0" + b"\0" * 4) * (count // 128)
    data = prefixes + suffixes + b"a" * count
    body = page(gzip.compress(data), count=count, encoding=Encoding.DELTA_BYTES, size=len(data))
    return one(TEXT, Chunk(body, count, codec=Codec.GZIP), count)


@bomb()
def a_split_stream_that_does_not_divide() -> bytes:
    return delta_page(X, Encoding.SPLIT, b"abcdefg")


@bomb()
def split_streams_of_two_billion() -> bytes:
    return delta_page(X, Encoding.SPLIT, b"abcdefgh", HUGE)


# --- Compression --------------------------------------------------------------------------------


def compressed(codec: int, name: Any, size: int, claim: int | None = None) -> bytes:
    """`size` zeros as int32 values, said to be `claim` bytes."""
    body = pa.Codec(name).compress(bytes(size), asbytes=True)
    count = (size if claim is None else claim) // 4
    return one(
        X, Chunk(page(body, count=count, size=size if claim is None else claim), count, codec=codec), count
    )


@bomb(HONEST)
def a_zip_bomb() -> bytes:
    """Honest: four hundred kilobytes are 400 MB of zeros."""
    return compressed(Codec.GZIP, "gzip", 400_000_000)


@bomb(HONEST)
def a_zstd_bomb() -> bytes:
    return compressed(Codec.ZSTD, "zstd", 400_000_000)


@bomb(HONEST)
def a_brotli_bomb() -> bytes:
    return compressed(Codec.BROTLI, "brotli", 400_000_000)


def _claims(codec: int, name: str) -> None:
    for word, claim in (("more", 100_000_000), ("less", 400)):

        def make(claim: int = claim) -> bytes:
            return compressed(codec, name, 4_000, claim)

        BOMBS[f"{name}_that_claims_{word}"] = Bomb(make)


for _codec, _name in (
    (Codec.SNAPPY, "snappy"),
    (Codec.GZIP, "gzip"),
    (Codec.BROTLI, "brotli"),
    (Codec.ZSTD, "zstd"),
    (Codec.LZ4_RAW, "lz4_raw"),
):
    _claims(_codec, _name)


@bomb()
def snappy_of_four_gigabytes() -> bytes:
    """The size that snappy itself writes in front."""
    body = varint(0xFFFF_FFFF) + b"\0a"
    return one(X, Chunk(page(body, count=3, size=12), 3, codec=Codec.SNAPPY), 3)


@bomb()
def a_codec_that_is_none() -> bytes:
    return one(X, GOOD.but(codec=77), 3)


# --- Indexes ------------------------------------------------------------------------------------


def indexed(index: bytes) -> bytes:
    """Two pages of three values and an offset index of one's own; readers use it where they filter."""
    data = page(plain(1, 2, 3), count=3) * 2
    bounds = thrift(
        {
            1: Value(9, bytes((2 << 4 | 2,)) + b"\2\2"),
            2: items([text(plain(1))] * 2),
            3: items([text(plain(3))] * 2),
            4: i32(0),
        }
    )
    return one(X, Chunk(data, 6, offset_index=index, column_index=bounds), 6)


PAGE_SIZE = len(page(plain(1, 2, 3), count=3))
FIRST = location(4, PAGE_SIZE, 0)


@bomb(REFUSED | {"OK"})
def pages_behind_the_file() -> bytes:
    return indexed(offset_index(FIRST, location(1 << 40, PAGE_SIZE, 3)))


@bomb(REFUSED | {"OK"})
def pages_that_wrap_around() -> bytes:
    return indexed(offset_index(FIRST, location((1 << 63) - 1, HUGE, 3)))


@bomb(REFUSED | {"OK"})
def pages_of_two_gigabytes_in_the_index() -> bytes:
    return indexed(offset_index(location(4, HUGE, 0), location(4 + PAGE_SIZE, HUGE, 3)))


@bomb(REFUSED | {"OK"})
def pages_over_each_other() -> bytes:
    return indexed(offset_index(FIRST, location(4, PAGE_SIZE, 3)))


@bomb(REFUSED | {"OK"})
def pages_in_the_wrong_order() -> bytes:
    return indexed(offset_index(location(4 + PAGE_SIZE, PAGE_SIZE, 0), location(4, PAGE_SIZE, 3)))


@bomb(REFUSED | {"OK"})
def rows_that_do_not_rise() -> bytes:
    return indexed(offset_index(FIRST, location(4 + PAGE_SIZE, PAGE_SIZE, 0)))


@bomb(REFUSED | {"OK"})
def rows_behind_the_row_group() -> bytes:
    return indexed(offset_index(FIRST, location(4 + PAGE_SIZE, PAGE_SIZE, 1 << 40)))


@bomb(REFUSED | {"OK"})
def an_index_of_two_billion_pages() -> bytes:
    return indexed(offset_index(FIRST, claim=1 << 31))


@bomb(REFUSED | {"OK"})
def an_index_that_is_a_page() -> bytes:
    return indexed(page(plain(1, 2, 3), count=3))


@bomb(REFUSED | {"OK"})
def an_index_of_no_pages() -> bytes:
    return indexed(thrift({1: items([])}))


@bomb(REFUSED | {"OK"})
def an_index_that_points_at_itself() -> bytes:
    return indexed(offset_index(FIRST, location(4 + 2 * PAGE_SIZE, 20, 3)))


@bomb(REFUSED | {"OK"})
def a_bloom_filter_of_terabytes() -> bytes:
    return one(X, GOOD.but(fields={14: i64(4), 15: i32(HUGE)}), 3)
