"""What pylance writes, we read: every kind of column × version × NULLs × sizes, and every way to ask.

A case is a dataset of one column and the numbers of its rows. Its answers have to be those that the same
queries give over the rows as pylance reads them, held in memory: to the last bit, errors included. By default
every kind meets every version, and settings take turns; `--soak` reads the whole product.

    python -m tests.formats.lance_sweep [--kind TEXT] [--version 2.2] …    says which kinds fail, and how
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from querymode import QueryMode
from tests.formats import lance_cases
from tests.formats.lance_cases import ALL_NULLS, QUERIES, SIZES, Case, all_cases, few_cases
from tests.formats.lance_sweep import Kind, by_name, kinds
from tests.lance_tables import VERSIONS, needs_reader, ours, pylance


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYMODE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield QueryMode.local(threads=1)
