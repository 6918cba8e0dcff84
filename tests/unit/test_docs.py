"""The README's example and the docstrings' examples run."""

from __future__ import annotations

import doctest
import importlib
import re
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MODULES = (
    "querymode",
    "querymode.types",
    "querymode.expr.nodes",
    "querymode.frame.frame",
    "querymode.session",
)


def test_readme_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order: the later ones use names of the earlier ones."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(examples) == 4
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_readme_names_the_two_commands_first() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.index("make demo") < text.index("make test") < text.index("```python")


@pytest.mark.parametrize("folder", ["wasm", "querymode", "tests", "fixtures", "benchmarks"])
def test_main_folders_have_a_readme(folder: str) -> None:
    assert (ROOT / folder / "README.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("folder", ["wasm", "querymode", "benchmarks"])
def test_folders_of_sources_are_introduced_in_one_paragraph(folder: str) -> None:
    """Those of tests may say more: how a case is added."""
    assert "\n\n" not in (ROOT / folder / "README.md").read_text(encoding="utf-8").strip()
