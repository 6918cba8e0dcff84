"""Names of text files and of their formats."""

from __future__ import annotations

from querymode._abi import FileFormat

#: Endings of names, without those of compression.
SUFFIXES = {
    "csv": FileFormat.CSV,
    "tsv": FileFormat.CSV,
    "tab": FileFormat.CSV,
    "psv": FileFormat.CSV,
    "ndjson": FileFormat.NDJSON,
    "jsonl": FileFormat.NDJSON,
}
PACKED_SUFFIXES = ("gz", "gzip", "zst", "zstd")
#: What `table(format=)` calls them.
NAMES = {"csv": FileFormat.CSV, "ndjson": FileFormat.NDJSON, "jsonl": FileFormat.NDJSON}
OPTIONS = frozenset(("delimiter", "header", "quote", "escape", "null_strings", "types", "infer_types"))


def format_of_name(name: str) -> FileFormat | None:
    """By its ending: `x.csv`, `x.ndjson.gz`."""
    head, _, suffix = name.lower().rpartition(".")
    if suffix in PACKED_SUFFIXES:
        suffix = head.rpartition(".")[2]
        return SUFFIXES.get(suffix) if "." in head else None
    return SUFFIXES.get(suffix) if head or name.startswith(".") else None
