"""`python -m benchmarks [part …]` prints tables; `python -m benchmarks --smoke` also fails on a slip."""

from __future__ import annotations

import argparse
import importlib
import sys
import time

PARTS = (
    "host",
    "startup",
    "planning",
    "kernels",
    "arrow",
    "codecs",
    "parquet",
    "lance",
    "text",
    "queries",
    "operators",
    "smoke",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if none is named"
    )
    parser.add_argument("--smoke", action="store_true", help="the race with DuckDB only; its limits count")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    started = time.monotonic()
    passed = True
    for part in ("smoke",) if options.smoke else options.parts or PARTS:
        # Imported one by one: what a part needs is its own affair.
        outcome = importlib.import_module(f"benchmarks.{part}").run()
        passed = passed and outcome is not False
    print(f"\n{time.monotonic() - started:.0f} s in all; ratio = our time / the peer's, lower is better")
    return 1 if options.smoke and not passed else 0


if __name__ == "__main__":
    sys.exit(main())
