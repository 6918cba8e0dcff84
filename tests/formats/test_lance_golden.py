"""Every dataset of fixtures/lance says what the .json files beside it say, in each of its versions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fixtures import by_pylance
from fixtures.by_pylance import LANCE, Dataset, write
from fixtures.golden import Golden, load, values_of
from querymode import QueryMode, col
from tests.lance_tables import READS, VERSIONS, ours, pylance, skip_unless_read, table_at
from tests.raises import raises_code

#: By where they sort, without pylance: a clone that lacks it reads all of them.
GOLDENS = sorted(LANCE.glob("*.json"))


class Said(NamedTuple):
    """A .json file: what a dataset says at a version or a tag."""

    path: Path
    version: int | str | None
    golden: Golden


def said_by(golden: Path) -> Said:
    name, _, version = golden.stem.partition("@")
    at = None if not version else int(version) if version.isdecimal() else version
    return Said(LANCE / f"{name}.lance", at, load(golden))


def version_of(said: Said) -> str:
    """Of its files: in the dataset's name, or pylance's default."""
    if said.path.stem == "overwritten" and said.version not in (2, 3):
        return "0.1"
    return next((version for version in VERSIONS if said.path.stem.endswith(version)), VERSIONS[-1])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryMode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=1)


def test_what_is_read_is_tested(session: QueryMode) -> None:
    """Fails as soon as files are read that READS in tests/lance_tables.py leaves out."""
    for version in set(VERSIONS) - set(READS):
        with raises_code("NOT_SUPPORTED"):
            session.table(LANCE / f"types_{version}.lance").to_arrow()


#: Refused by name as yet: blobs, and NULLs within vectors of version 2.0.
UNREAD = ("settings", "nested_2.0")


def is_unread(session: QueryMode, said: Said) -> bool:
    if said.path.stem not in UNREAD:
        return False
    with raises_code("NOT_SUPPORTED"):
        table_at(session, said.path, said.version).to_arrow()
    return True


@pytest.mark.parametrize("golden", GOLDENS, ids=[path.stem for path in GOLDENS])
def test_dataset(session: QueryMode, golden: Path) -> None:
    said = said_by(golden)
    skip_unless_read(version_of(said))
    frame = table_at(session, said.path, said.version)
    assert frame.dtypes() == said.golden.types
    assert frame.count() == len(next(iter(said.golden.values.values())))
    if is_unread(session, said):
        return
    assert json.dumps(values_of(frame.to_arrow())) == json.dumps(said.golden.values)


@pytest.mark.parametrize("golden", GOLDENS, ids=[path.stem for path in GOLDENS])
def test_columns_and_filters(session: QueryMode, golden: Path) -> None:
    """Each column alone; and rows by their values, of which none is lost and none is too many."""
    said = said_by(golden)
    skip_unless_read(version_of(said))
    if is_unread(session, said):
        return
    frame = table_at(session, said.path, said.version)
    for name, kind in said.golden.types.items():
        values = said.golden.values[name]
        assert json.dumps(values_of(frame.select(name).to_arrow())[name]) == json.dumps(values)
        there = [value for value in values if value is not None]
        assert frame.filter(col(name).is_null()).count() == len(values) - len(there)
        if kind not in ("int16", "int32", "int64", "utf8"):
            continue
        for value in sorted({*there[:2], *there[-1:]}):
            assert frame.filter(col(name) == value).count() == there.count(value)
            assert frame.filter(col(name) > value).count() == sum(other > value for other in there)


# ---- the goldens themselves ----


def test_there_are_no_others() -> None:
    datasets = {path.name for path in LANCE.iterdir()} - {path.name for path in GOLDENS}
    assert datasets == {said_by(path).path.name for path in GOLDENS}
    assert sum(path.stat().st_size for path in LANCE.rglob("*") if path.is_file()) < 400_000


def datasets() -> list[Dataset]:
    pylance()
    return list(by_pylance.datasets())


def test_script_reproduces_the_goldens(tmp_path: Path) -> None:
    """Symbols of texts and orders of deleted rows are for chance and versions to choose, rows are not."""
    goldens: dict[str, str] = {}
    for dataset in datasets():
        goldens |= dict(dataset.goldens())
        path = write(dataset, tmp_path)
        for version, table in dataset.says.items():
            assert said_by_pylance(path, version) == values_of(ours(table)), (dataset.name, version)
    assert goldens == {path.name: path.read_text() for path in GOLDENS}


def test_pylance_agrees(tmp_path: Path) -> None:
    """With copies: opening may write."""
    pylance()
    for path in GOLDENS:
        said = said_by(path)
        copy = tmp_path / said.path.name
        if not copy.exists():
            (shutil.copytree if said.path.is_dir() else shutil.copyfile)(said.path, copy)
        found = said_by_pylance(copy, said.version)
        assert json.dumps(plain(found)) == json.dumps(said.golden.values), path.name


def plain(values: dict[str, list[Any]]) -> Any:
    return json.loads(json.dumps(values))


def said_by_pylance(path: Path, version: int | str | None) -> dict[str, list[Any]]:
    lance = pylance()
    if path.is_file():
        return values_of(ours(single_file(path)))
    at = int(version) if isinstance(version, str) and version.isdecimal() else version or None
    return values_of(ours(lance.dataset(str(path), version=at).to_table(blob_handling="all_binary")))


def single_file(path: Path) -> Any:
    """pylance reads files 0.1 in datasets only."""
    if "0.1" in path.name:
        return next(dataset for dataset in datasets() if dataset.path_name == path.name).says[""]
    from lance.file import LanceFileReader

    return LanceFileReader(str(path)).read_all().to_table()
