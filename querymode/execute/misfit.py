"""What is wrong with a text, told with its place: the line, where it can be counted, or else the row."""

from __future__ import annotations

from querymode._abi import TextCompression
from querymode._call import check
from querymode.errors import QueryModeError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.execute.batch import LaneFailure
    from querymode.store.source import ByteSource
    from querymode.table.text import TextTable

_BLOCK_SIZE = 1 << 20


def located(table: TextTable, failure: LaneFailure, rows_before: int) -> QueryModeError:
    """`rows_before`: of the failure's file, in the lanes before the one that failed. Rows are not lines: one
    may go on over several, and a line may be blank."""
    wrong = failure.error
    if wrong.table is None:  # nothing that the text is to blame for
        return wrong
    line = _line(table, failure.file, wrong.offset)
    if line is not None:
        place = f"line {line:,}: "
    else:
        place = "" if failure.row is None else f"row {rows_before + failure.row + 1:,}: "
    where = "" if wrong.offset is None else f" (byte {wrong.offset:,})"
    remedy = ""
    if wrong.column is not None:
        remedy = f'; types come from the first rows, so give types={{"{wrong.column}": "utf8"}} or what it is'
    return error(
        wrong.code,
        f"{wrong.table}: {place}{wrong.message}{where}{remedy}",
        table=wrong.table,
        column=wrong.column,
        offset=wrong.offset,
    )


def _line(table: TextTable, number: int, offset: int | None) -> int | None:
    """What lies before `offset` is read once more for it, if that is on this machine and not packed."""
    file = table.files[number]
    if offset is None or file.head.compression != TextCompression.NONE:
        return None
    try:
        source = file.files[0].open()
    except QueryModeError:
        return None
    with source:
        return 1 + _line_ends(source, offset) if source.local and offset <= source.size else None


def _line_ends(source: ByteSource, end: int) -> int:
    """LF, CR LF and CR are one each."""
    count, last = 0, b""
    for start in range(0, end, _BLOCK_SIZE):
        check()
        block = last + source.read(start, min(_BLOCK_SIZE, end - start))
        count += block.count(b"\n")
        if b"\r" in block:
            count += block.count(b"\r") - block.count(b"\r\n")
        # Half of a CR LF was counted already; both halves together are one.
        last = b"\r" if block.endswith(b"\r") else b""
        count -= len(last)
    return count + len(last)
