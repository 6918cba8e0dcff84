"""Parquet: footers, what they say of row groups, and reports for people."""
