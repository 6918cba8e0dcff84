"""Races against other engines; `python -m benchmarks`."""
