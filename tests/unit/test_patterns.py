"""No pattern of the package backtracks: texts come from users, and a pattern holds the GIL while it runs."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import re
import time
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]

import pytest

import querymode
from querymode.catalog.pattern import NamePattern, matches, split_pattern
from querymode.expr.literals import _ISO

PACKAGE = Path(querymode.__file__).parent
FUNCTIONS = {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}
#: Patterns that are made when they are needed, by the text of the argument: what they can be.
MADE = {
    "translate(text)": (),  # names of files: tested below
    "_ISO[target.tag]": tuple(_ISO.values()),
}


def _calls() -> list[tuple[str, str, ast.expr]]:
    """Every call into `re`: its module, the function, and the pattern."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE).with_suffix("")
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in FUNCTIONS
            ):
                found.append((".".join(("querymode", *relative.parts)), node.func.attr, node.args[0]))
    return found


@functools.cache
def _patterns() -> list[tuple[str, str, str | bytes]]:
    found: list[tuple[str, str, str | bytes]] = []
    for module, function, argument in _calls():
        source = ast.unparse(argument)
        if source in MADE:
            found += [(module, function, pattern) for pattern in MADE[source]]
            continue
        code = compile(ast.Expression(argument), module, "eval")
        found.append((module, function, eval(code, vars(importlib.import_module(module)))))
    return found


def _greedy(parsed: object) -> bool:
    """Whether some repeat could give back what it took."""
    if isinstance(parsed, sre_parser.SubPattern | list | tuple):
        for item in parsed:
            is_greedy = isinstance(item, tuple) and item and item[0] in (sre.MAX_REPEAT, sre.MIN_REPEAT)
            if (is_greedy and item[1][1] > 1) or _greedy(item):
                return True
    return False


def test_the_rule_tells_patterns_apart() -> None:
    for bad in ("a*b", "(?:a|b)*?c", r"(\s|x)*y", "a{2,9}b", "(?>a*a)*+b", "(?=a+b)"):
        assert _greedy(sre_parser.parse(bad)), bad
    for good in ("a*+b", r"(?:\s++|x)*+y", "a{2,9}+b", "a?b?", "[a-z]"):
        assert not _greedy(sre_parser.parse(good)), good


def test_there_are_patterns() -> None:
    assert len(_patterns()) > 15


@pytest.mark.parametrize(("module", "function", "pattern"), _patterns())
def test_no_repeat_gives_back_what_it_took(module: str, function: str, pattern: str | bytes) -> None:
    assert not _greedy(sre_parser.parse(pattern)), f"{module}: {pattern!r} needs *+, ++ or {{m,n}}+"


PUMPS = (
    "1",
    ".",
    " ",
    "a",
    "1.",
    "1e",
    " 1",
    "1 a",
    "'",
    "''",
    "/**/",
    "/*",
    "--\n",
    "-- ",
    "$a$",
    "\\",
    "e'\\",
    ":",
)


@pytest.mark.parametrize(("module", "function", "pattern"), _patterns())
def test_time_grows_with_the_text(module: str, function: str, pattern: str | bytes) -> None:
    compiled = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    ask = getattr(compiled, "fullmatch" if function == "compile" else function)
    started = time.perf_counter()
    for pump in PUMPS:
        for text in (pump * 50_000, pump * 50_000 + "\0", "-" + pump * 50_000 + "!"):
            ask(text.encode() if isinstance(pattern, bytes) else text)
    # 54 texts of some 100 kB: a square would take minutes.
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "*" * 200 + "b", "[a]*" * 30 + "b", "?*" * 30 + "b"])
def test_names_of_files_are_matched_in_linear_time(pattern: str) -> None:
    started = time.perf_counter()
    assert not NamePattern(pattern, is_last=True).matches("a" * 5000)
    assert time.perf_counter() - started < 1


def test_folders_of_any_depth_are_matched_in_linear_time() -> None:
    _, parts = split_pattern("**/a/" * 12 + "b")
    started = time.perf_counter()
    assert not matches(parts, ["a"] * 300)
    assert matches(parts, [*["a"] * 300, "b"])
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "/**/ " * 20_000 + "select 1",
        "/**/" * 20_000 + "explain select 1",
        "/* /* */ */ --\n" * 5_000 + "select 1",
        "select '" + "1" * 100_000 + "x'::double",
        "select interval '" + "1" * 100_000 + "' day",
        "select interval '" + " " * 100_000 + "1' day",
        "select " + "$a" * 20_000,
        "select '" + "''" * 100_000,
        "select " + "/* " * 10_000,
    ],
)
def test_texts_that_took_long(text: str) -> None:
    from querymode.errors import QueryModeError
    from querymode.sql.parse import parse

    started = time.perf_counter()
    with contextlib.suppress(QueryModeError):
        parse(text)
    assert time.perf_counter() - started < 3
