"""Shared by all tests: the engine is built first, `soak` waits for its option, `alone` for the others."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.alone import Turns
from tests.frozen import freeze
from tests.sql.tpch import write_tables

if TYPE_CHECKING:
    from tests.crashes import FilesOnce

ROOT = Path(__file__).resolve().parent.parent
#: What eight threads do to each other is tried on machines with fewer cores too, in child processes as well.
os.environ.setdefault("QUERYMODE_WORKERS_MAX", "64")
TURNS = pytest.StashKey[Turns | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="also run the long tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    skip = pytest.mark.skip(reason="long: runs with `make soak`")
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(skip)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesOnce | None:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.crashes import FilesOnce

    return FilesOnce(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The limit of pyproject.toml is for tests that do not take long."""
    if "soak" in item.keywords:
        faulthandler.cancel_dump_traceback_later()


def build(*arguments: str) -> None:
    """Runs `zig build`: 0.1 s when nothing changed."""
    zig = [sys.executable, "-m", "ziglang", "build", *arguments]
    subprocess.run(zig, cwd=ROOT, check=True, env={"ZIG_DEBUG_CMD": "1", **os.environ}, capture_output=True)


def pytest_configure(config: pytest.Config) -> None:
    """An edited Zig source is never tested with yesterday's module, and no test changes a node."""
    # A test that runs tests has its turn already: these would wait for those who wait for it.
    is_inner = "PYTEST_CURRENT_TEST" in os.environ
    config.stash[TURNS] = None if is_inner else Turns(ROOT / "zig-out")
    freeze()
    if hasattr(config, "workerinput"):
        return  # the process that started this one has built it
    build("wasm", "wasm-safe", "test-wasm", "fuzz-parquet")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    turns = item.config.stash[TURNS]
    if turns is None:
        return (yield)
    next_alone = nextitem is not None and "alone" in nextitem.keywords
    with turns.turn(alone="alone" in item.keywords, next_alone=next_alone):
        return (yield)


@pytest.fixture(scope="session")
def safe_wasm() -> Path:
    """The engine with every safety check on."""
    return ROOT / "zig-out" / "bin" / "querymode_safe.wasm"


@pytest.fixture(scope="session")
def s3_endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server that all tests share, those of other processes too."""
    from tests.s3_server import shared_server

    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # of all processes of this run
    (folder / "s3_server").mkdir(exist_ok=True)
    with shared_server(folder / "s3_server") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def tpch_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with TPC-H's tables, each a Parquet file."""
    folder = tmp_path_factory.mktemp("tpch")
    write_tables(folder)
    return folder
