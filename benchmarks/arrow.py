"""What it costs to take Arrow data in: `from_arrow` with its checks, beside the same without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow

from benchmarks.harness import Table, race
from querymode.table.from_arrow import from_arrow, from_checked

ROW_COUNT = 10_000_000
#: Of data that is not copied on its way in.
GB_PER_SECOND_MIN = 2.0


def run() -> None:
    table = Table(f"Arrow data of {ROW_COUNT:,} rows, checked and trusted")
    for name, data in _tables():
        best = race(
            {"checked": lambda data=data: from_arrow(data), "trusted": lambda data=data: from_checked(data)},  # type: ignore[misc]
            rounds=5,
        )
        table.compare(name, best["checked"], best["trusted"], "unchecked")
        speed = data.nbytes / max(best["checked"] - best["trusted"], 1e-9) / 1e9
        shown = f"{speed:.3g} GB/s" if speed < 1000 else "> 1000 GB/s"
        table.measure("  its checks alone", shown, bar="≥ 2 GB/s", met=speed >= GB_PER_SECOND_MIN)


def _tables() -> list[tuple[str, Any]]:
    random = np.random.default_rng(7)
    whole = pyarrow.array(random.integers(0, 1 << 40, ROW_COUNT))
    numbers = {
        "a": whole,
        "b": pyarrow.array(random.random(ROW_COUNT)),
        "c": whole.cast(pyarrow.timestamp("us")),
    }
    few = pyarrow.array([f"name {index} of some" for index in range(100_000)])
    texts: Any = pyarrow.concat_arrays([few] * (ROW_COUNT // len(few)))
    spans: Any = pyarrow.array(np.arange(0, ROW_COUNT + 1, 4, dtype=np.int32))
    nested = pyarrow.StructArray.from_arrays([whole, texts], ["number", "text"])
    return [
        ("numbers", pyarrow.table(numbers)),
        ("text", pyarrow.table({"a": texts})),
        ("views of text", pyarrow.table({"a": texts.cast(pyarrow.string_view())})),
        ("lists of structs", pyarrow.table({"a": pyarrow.ListArray.from_arrays(spans, nested)})),
    ]
