"""What a table is made of: a path, folder, pattern or list → files, their schema, their partition values.

    where → listing (disk.py, s3.py) → footers → one_schema.py, hive.py → FileTable

Nothing here reads a row. Listing a folder asks the same permission as opening what lies in it.
"""
