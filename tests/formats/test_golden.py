"""Every file of fixtures/ says what the .json beside it says; and what wrote them would write them again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fixtures.golden import PARQUET, Case, golden_of, load, values_of
from fixtures.write import cases
from querymode import QueryMode, col

PATHS = sorted(PARQUET.glob("*.parquet"))
CASES = list(cases())
#: Where the format and parquet-java, which Spark reads with, agree against it.
PYARROW_DIFFERS = {"bit_packed_levels": "it takes the lowest bit first"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=1)


def said(values: dict[str, list[Any]]) -> str:
    """As text, where -0.0 is not 0.0 and 1 is not 1.0."""
    return json.dumps(values)


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_file(session: QueryMode, path: Path) -> None:
    golden = load(path.with_suffix(".json"))
    frame = session.table(path)
    assert frame.dtypes() == golden.types
    assert said(values_of(frame.to_arrow())) == said(golden.values)


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_filters(session: QueryMode, path: Path) -> None:
    """Whatever statistics, indexes and dictionaries say, no row is lost and none is too many."""
    golden = load(path.with_suffix(".json"))
    frame = session.table(path)
    for name, kind in golden.types.items():
        values = [value for value in golden.values[name] if value is not None]
        assert frame.filter(col(name).is_null()).count() == len(golden.values[name]) - len(values)
        if kind not in ("int32", "int64", "utf8"):
            continue
        for value in sorted({*values[:2], *values[-1:]}):
            assert frame.filter(col(name) == value).count() == values.count(value)
            assert frame.filter(col(name) > value).count() == sum(other > value for other in values)


# ---- the goldens themselves ----


def test_there_are_no_others() -> None:
    names = [path.stem for path in PATHS]
    assert names == sorted(case.name for case in CASES)
    assert names == sorted(path.stem for path in PARQUET.glob("*.json"))
    assert sum(path.stat().st_size for path in PARQUET.iterdir()) < 1_000_000


def test_nothing_is_left_out() -> None:
    """As footers say: LZ4 in frames is UNKNOWN to pyarrow, and BIT_PACKED levels are no column's encoding."""
    chunks = [chunk for path in PATHS for chunk in chunks_of(pq.read_metadata(path))]
    schemas = [pq.read_metadata(path).schema for path in PATHS]
    leaves = [schema.column(index) for schema in schemas for index in range(len(schema))]
    delta = "DELTA_BINARY_PACKED DELTA_LENGTH_BYTE_ARRAY DELTA_BYTE_ARRAY"
    encodings = f"PLAIN PLAIN_DICTIONARY RLE_DICTIONARY RLE BYTE_STREAM_SPLIT {delta}"
    assert {name for chunk in chunks for name in chunk.encodings} == set(encodings.split())
    codecs = "UNCOMPRESSED SNAPPY GZIP BROTLI ZSTD LZ4 UNKNOWN"
    assert {chunk.compression for chunk in chunks} == set(codecs.split())
    physical = "BOOLEAN INT32 INT64 INT96 FLOAT DOUBLE BYTE_ARRAY FIXED_LEN_BYTE_ARRAY"
    assert {leaf.physical_type for leaf in leaves} == set(physical.split())
    logical = "NONE STRING ENUM JSON BSON UUID INT DECIMAL DATE TIME TIMESTAMP FLOAT16 UNKNOWN"
    assert {leaf.logical_type.type for leaf in leaves} == set(logical.split())
    assert "INTERVAL" in {leaf.converted_type for leaf in leaves}
    assert {chunk.is_stats_set for chunk in chunks} == {True, False}
    assert {(chunk.has_offset_index, chunk.has_column_index) for chunk in chunks} >= {
        (True, True),
        (False, False),
    }


def chunks_of(metadata: Any) -> list[Any]:
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return [group.column(index) for group in groups for index in range(metadata.num_columns)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_script_reproduces_the_golden(case: Case) -> None:
    """Its bytes may change with a library's version, what they say may not."""
    committed = PARQUET / f"{case.name}.json"
    assert committed.read_text() == golden_of(case).dump()
    golden = load(committed)
    for data in (case.data, committed.with_suffix(".parquet").read_bytes()):
        is_same = said(as_others_read(data, case.table.schema)) == said(golden.values)
        assert is_same == (case.name not in PYARROW_DIFFERS)


def as_others_read(data: bytes, wanted: pa.Schema) -> dict[str, list[Any]]:
    """pyarrow has types of its own for UUIDs, and bytes where a text is only an ENUM."""
    table = pq.read_table(io.BytesIO(data))
    columns = []
    column: Any
    kind: Any
    for column, kind in zip(table.columns, wanted.types, strict=True):
        chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks]
        columns.append(pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind))
    return values_of(pa.table(columns, table.column_names))
