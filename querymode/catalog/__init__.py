"""What a table is made of: a path, folder, pattern or list → files, their schema, their partition values.

    reference.py   what somebody named; every query asks it for what that stands for now
    where → listing (disk.py, s3.py) → marks: unchanged → the table of before
                                            otherwise  → format.resolve → one_schema.py, hive.py → a table

Nothing here reads a row. Listing a folder asks the same permission as opening what lies in it.
"""
