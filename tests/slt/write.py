"""`python -m tests.slt.write [FILE ...]`: puts DuckDB's rows into the files, for a person to read the diff.

Records that differ get our own rows, whatever they are: there the diff is all that is checked.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.slt.oracle import ask_duckdb, connect, session_in_memory, spell_result
from tests.slt.runner import as_in_file, paths, read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from querymode import QueryMode
    from tests.slt.runner import Record


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]] or paths()
    connection, session = connect(), session_in_memory(threads=1)
    for path in given:
        write(path, [answered(record, connection, session) for record in read(path)])


def answered(record: Record, connection: Any, session: QueryMode) -> Record:
    if record.error is not None:
        return record
    if record.differs is not None:
        answer = spell_result(session.sql(record.sql).collect())
    else:
        answer = ask_duckdb(connection, record.sql)
    if record.answer is not None:  # no diff where only the last bits of a float have changed
        answer = as_in_file(answer, record)
    return record._replace(answer=answer if record.is_ordered else answer.sorted())


if __name__ == "__main__":
    main()
