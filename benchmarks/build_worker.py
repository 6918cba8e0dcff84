"""One build of QueryMode, asked by builds.py through its standard input: a JSON object a line each way.

It is started as a script whose PYTHONPATH names the build to import, so it uses nothing of this folder.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pyarrow.parquet

from querymode import QueryMode


class Worker:
    def __init__(self) -> None:
        self._session = QueryMode.local(threads=2, memory="4GiB")
        self._texts = 0

    def answer(self, request: dict[str, Any]) -> float:
        """The seconds of one turn."""
        if "register" in request:
            path = request["path"]
            self._session.register(
                request["register"], pyarrow.parquet.read_table(path) if request["in_memory"] else path
            )
            return 0.0
        started = time.perf_counter()
        for _ in range(request["repeats"]):
            self._run(request["text"], request["how"])
        return (time.perf_counter() - started) / int(request["repeats"])

    def _run(self, text: str, how: str) -> None:
        if how == "arrow":
            self._session.sql(text).to_arrow()
        elif how == "rows":
            assert self._session.sql(text).rows
        elif how == "open":
            self._session.table(text).count()
        else:
            assert how == "plan"
            self._texts += 1  # or the plan would be kept
            assert self._session.sql(f"{text} -- {self._texts}").columns


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
