"""What pylance writes, we read: every kind of column × version × NULLs × sizes, and every way to ask.

A case is a dataset of one column and the numbers of its rows. Its answers have to be those that the same
queries give over the rows as pylance reads them, held in memory: to the last bit, errors included. By default
every kind is read once, and settings take turns; `--soak` reads the whole product. What pylance cannot write
has no case (lance_sweep.py says why). One case by itself: `python -m tests.formats.lance_cases --help`.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from querymode import QueryMode
from tests.formats.lance_cases import (
    SIZES,
    ByPylance,
    Case,
    all_cases,
    check,
    few_cases,
    is_ours,
    refusal,
    table_of,
    write,
)
from tests.formats.lance_sweep import kinds
from tests.lance_tables import VERSIONS, pylance
from tests.raises import raises_code

pa: Any = pyarrow
FEW = list(few_cases())
#: Queries of each case; which ones take turns.
QUERIES_FEW, QUERIES_ALL = 4, 9


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryMode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Of one case: megabytes that nobody needs afterwards."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_few(session: QueryMode, folder: Path, case: Case) -> None:
    reason = check(session, case, folder, queries=QUERIES_FEW)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", VERSIONS)
def test_all(session: QueryMode, tmp_path: Path, version: str, size: str) -> None:
    failures = []
    counts: Counter[str] = Counter()
    for case in all_cases():
        if (case.version, case.size) != (version, size):
            continue
        try:
            reason = check(session, case, tmp_path, queries=QUERIES_ALL)
            counts[reason or "right"] += 1
        except Exception as error:
            failures.append(f"{case}: {type(error).__name__}: {str(error)[:300]}")
        shutil.rmtree(tmp_path / "case.lance", ignore_errors=True)
    print(f"{version}, {size}: {dict(counts)}")
    assert not failures, f"{len(failures)} of {counts.total() + len(failures)} cases, such as\n" + "\n".join(
        failures[:40]
    )


# ---- the cases themselves ----


@pytest.mark.parametrize("case", FEW[::12], ids=str)
def test_cases_are_right(folder: Path, case: Case) -> None:
    """With pylance in our place they pass: no query has two right answers, and it reads what it wrote."""
    if is_ours(table_of(case).slice(0, 100)):
        check(ByPylance(), case, folder, queries=QUERIES_FEW)


#: What pylance says that pages are made of. Blobs and packed structures have layouts of their own.
_ENCODINGS = {
    "2.0": "AllNulls Binary Compression Dictionary FixedSizeList Flat Fsst List NoNulls Nullable "
    "PackedStruct SimpleStruct SomeNulls",
    "2.1": "BitsPerOffset BitsPerValue BlobLayout ByteStreamSplit CompressionAlgorithmLz4 "
    "CompressionAlgorithmZstd ConstantLayout FixedSizeList Flat Fsst FullZipLayout General InlineBitpacking "
    "MiniBlockLayout OutOfLineBitpacking PackedStruct RepdefAllValidItem RepdefAllValidList "
    "RepdefEmptyableList RepdefNullAndEmptyList RepdefNullableItem RepdefNullableList Rle Variable",
    "2.2": "BitsPerLength BitsPerOffset BitsPerValue ByteStreamSplit CompressionAlgorithmLz4 "
    "CompressionAlgorithmZstd ConstantLayout FixedSizeList Flat Fsst FullZipLayout General InlineBitpacking "
    "MiniBlockLayout OutOfLineBitpacking PackedStruct RepdefAllValidItem RepdefAllValidList "
    "RepdefEmptyableList RepdefNullAndEmptyList RepdefNullableItem RepdefNullableList Rle Variable "
    "VariablePackedStruct",
}


@pytest.mark.soak
@pytest.mark.parametrize("version", _ENCODINGS)
def test_no_encoding_is_left_out(tmp_path: Path, version: str) -> None:
    found: set[str] = set()
    for kind in kinds():
        for nulls in ("none", "some") if kind.has_nulls else ("none",):
            case = Case(kind, version, nulls, "a page")
            table = table_of(case)
            if version in kind.versions and refusal(case, table.column("c").chunk(0)) is None:
                write(case, table, tmp_path / "case.lance")
                found |= encodings_of(tmp_path / "case.lance")
                shutil.rmtree(tmp_path / "case.lance")
    assert set(_ENCODINGS[version].split()) <= found


def encodings_of(path: Path) -> set[str]:
    pylance()
    from lance.file import LanceFileReader

    columns = [
        column
        for file in (path / "data").iterdir()
        for column in LanceFileReader(str(file)).metadata().columns
    ]
    texts = [page.encoding for column in columns for page in column.pages]
    return {name for text in texts for name in re.findall(r"\b[A-Z][A-Za-z0-9]+", text)}


# ---- what it refuses ----


def unwritable() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Arrays that pylance does not write, or not in these versions: there is nothing to read of them."""
    number, pairs = Decimal("1.5"), pa.map_(pa.string(), pa.int32())
    return {
        "list view": (pa.array([[1], None], pa.list_view(pa.int32())), VERSIONS),
        "run ends": (pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([1])), VERSIONS),
        "decimal32": (pa.array([number], pa.decimal32(5, 2)), VERSIONS),
        "decimal64": (pa.array([number], pa.decimal64(5, 2)), VERSIONS),
        "interval": (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), VERSIONS),
        "vectors of no numbers": (pa.array([[]], pa.list_(pa.int32(), 0)), VERSIONS),
        "fixed-size list of lists": (pa.array([[[1]]], pa.list_(pa.list_(pa.int32()), 1)), VERSIONS),
        "dictionary of dates": (pa.array([1], pa.date32()).dictionary_encode(), VERSIONS),
        "map": (pa.array([[("a", 1)]], pairs), VERSIONS[:3]),
        "structure that is NULL": (pa.array([{"a": 1}, None]), ("2.0",)),
    }


@pytest.mark.parametrize("name", unwritable())
def test_pylance_does_not_write(tmp_path: Path, name: str) -> None:
    """When it does one day, there should be a case."""
    array, versions = unwritable()[name]
    for version in versions:
        with pytest.raises(OSError, match=r"[Uu]nsupported|Not supported|dimension|does not|Cannot encode"):
            pylance().write_dataset(
                pa.table({"c": array}), str(tmp_path / version), data_storage_version=version
            )


def test_files_of_a_version_to_come(session: QueryMode, tmp_path: Path) -> None:
    pylance().write_dataset(pa.table({"c": [1]}), str(tmp_path / "t.lance"), data_storage_version="2.3")
    with raises_code("NOT_SUPPORTED", match=r"2\.3"):
        session.table(str(tmp_path / "t.lance")).to_arrow()
