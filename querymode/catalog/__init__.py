"""What a table is made of: a path, folder, pattern or list → files, their schema, their partition values.

    where → listing (local.py, s3.py) → footers → union.py, hive.py → FileTable

Nothing here reads a row. Listing a folder asks the same permission as opening what lies in it.
"""

from __future__ import annotations

from querymode.catalog.files import open_table

__all__ = ["open_table"]
