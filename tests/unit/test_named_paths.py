"""Files that documents and comments name exist: a module that moves takes what is said of it along."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from fnmatch import fnmatchcase
from pathlib import Path

from tests.conftest import ROOT

#: A name, with as many of its folders as are told; `*` for several files. Not a part of an address or of an
#: attribute such as `module.pyi`.
NAMED = re.compile(r"(?<![\w./*{}<>$:-])((?:[\w.*-]+/)*[\w*-]+\.(?:py|zig))(?![\w/*(]|\.\w)")

FOLDERS_LEFT_OUT = {".git", ".venv", ".zig-cache", "zig-out", "__pycache__"}


def files() -> list[Path]:
    """All that are ours. Not by git, which an unpacked source distribution has not."""
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if not FOLDERS_LEFT_OUT.intersection(parts) and path.is_file():
            found.append(path)
    return found


FILES = files()
PATHS = ["/" + path.relative_to(ROOT).as_posix() for path in FILES]
SPEAKING = [
    path
    for path in FILES
    if path.suffix in (".py", ".zig", ".md", ".toml") or path.name in ("Makefile", "run")
]


def exists(name: str) -> bool:
    """Folders in front may be left out, as sentences do."""
    return any(fnmatchcase(path, f"*/{name}") for path in PATHS)


def said(path: Path) -> str:
    """What a file says to people."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return said_in_python(text)
    if path.suffix == ".zig":
        return "\n".join(re.findall(r"//(.*)", text))
    return text


def said_in_python(text: str) -> str:
    """Comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, holders):
            found.append(ast.get_docstring(node) or "")
    return "\n".join(found)


def test_files_that_are_named_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SPEAKING
        for name in NAMED.findall(said(path))
        if not exists(name)
    ]
    assert not wrong
