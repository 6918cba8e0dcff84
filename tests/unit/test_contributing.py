"""CONTRIBUTING.md: what it names exists, and its steps are the ones that tests hold to."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.unit.test_toy_operator import AGGREGATE_FILES, GENERATED, OPERATOR_FILES

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

#: Existing files that a format adds to, and where; the rest of it lies in two folders of its own.
FORMAT_FILES = {
    "wasm/src/abi.zig": "pub const FileFormat = enum",
    "wasm/src/format/reader.zig": "pub const Reader = union",
    "wasm/src/tests.zig": "format/",
    "querymode/_abi.py": "class FileFormat(",
    "querymode/format/registry.py": "FORMATS: tuple[Format, ...] = (",
}
#: Named to be read, not to be changed.
MODELS = {"wasm/src/format/toy_rows.zig", "querymode/format/format.py"}

STEPS = dict(re.findall(r"^- \*\*(.+?)\*\*: ((?:.+\n)(?:  .+\n)*)", TEXT, re.MULTILINE))


def named_in(text: str) -> set[str]:
    """Paths from the root on."""
    return {name for name in re.findall(r"`([^` ]+)`", text) if "/" in name}


def changed_by(step: str) -> set[str]:
    """Files of the sources that are there already."""
    return {
        name for name in named_in(STEPS[step]) if name.startswith(("querymode/", "wasm/")) and "." in name
    } - MODELS


def test_every_path_exists() -> None:
    found = named_in(TEXT)
    assert len(found) > 20
    assert not [name for name in found if not list(ROOT.glob(name))]


def test_every_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = set(re.findall(r"`make ([\w-]+)`", TEXT))
    assert found and found <= targets


def test_steps_are_those_that_are_tested() -> None:
    assert changed_by("An operator") == set(OPERATOR_FILES)
    assert changed_by("An aggregate") == set(AGGREGATE_FILES) | GENERATED
    assert changed_by("A format") == set(FORMAT_FILES)


@pytest.mark.parametrize("name", FORMAT_FILES)
def test_a_format_has_its_place(name: str) -> None:
    assert FORMAT_FILES[name] in (ROOT / name).read_text(encoding="utf-8")
