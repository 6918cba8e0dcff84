"""A server without ranges, such as `python -m http.server`: the file comes as a whole, once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from querymode.cli import main
from querymode.store.fetch import IoGate
from querymode.store.options import StoreOptions
from tests.parquet_tables import open_table
from tests.raises import raises_code

ROWS = 50_000

pytestmark = pytest.mark.filterwarnings("ignore:.*does not answer range requests")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    asked: list[str]

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that refuses a file hangs up


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    table = pa.table({"id": range(ROWS), "name": [f"n{i % 7}" for i in range(ROWS)]})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10_000, write_page_index=True)
    made = Server(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    made.asked = []
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/a.parquet"


def test_all_of_a_table_is_asked_for_once(server: Server, url: str, tmp_path: Path) -> None:
    frame = QueryMode.local().table(url)
    assert frame.count() == ROWS
    assert frame.head(3).rows == [{"id": i, "name": f"n{i}"} for i in range(3)]
    assert frame.filter("id", "gte", ROWS - 2).rows[-1] == {"id": ROWS - 1, "name": f"n{(ROWS - 1) % 7}"}
    assert sum(batch.num_rows for batch in frame.stream()) == ROWS
    assert frame.join(frame, on="id").count() == ROWS
    assert "scan http" in frame.filter("id", "lt", 5).explain()
    assert frame.describe()[0]["max"] == ROWS - 1
    assert frame.write_parquet(tmp_path / "copy.parquet") == ROWS
    assert server.asked == ["/a.parquet"]


def test_in_sql_and_registered(server: Server, url: str) -> None:
    qm = QueryMode.local()
    assert qm.sql(f"SELECT max(id) AS m, count(*) AS n FROM '{url}' WHERE id > 10").rows == [
        {"m": ROWS - 1, "n": ROWS - 11}
    ]
    assert server.asked == ["/a.parquet"]
    qm.register("t", url)
    assert [row["name"] for row in qm.sql("SELECT name FROM t WHERE id < 2 ORDER BY id").rows] == ["n0", "n1"]
    assert server.asked == ["/a.parquet"] * 2


def test_several_files(server: Server, url: str) -> None:
    frame = QueryMode.local().table([url, url.replace("a.par", "b.par")])
    assert frame.filter("id", "lt", 3).count() == 6
    assert sorted(server.asked) == ["/a.parquet", "/b.parquet"]


@pytest.mark.parametrize(
    "words",
    [["head"], ["count"], ["inspect"], ["inspect", "--pages", "--row-group", "0", "--column", "id"]],
    ids=" ".join,
)
def test_command_line(server: Server, url: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([words[0], url, *words[1:]]) == 0
    captured = capsys.readouterr()
    assert captured.out and "TABLE_NOT_FOUND" not in captured.err
    assert server.asked == ["/a.parquet"]


def test_it_is_counted(server: Server, url: str, tmp_path: Path) -> None:
    size = (tmp_path / "a.parquet").stat().st_size
    gate = IoGate()
    open_table(url, gate=gate)
    assert gate.byte_count >= size
    with raises_code("BUDGET_EXCEEDED"):
        open_table(url, gate=IoGate(max_bytes=size - 1))
    with raises_code("QUERY_FAILED", match="whole_file_limit"):
        open_table(url, StoreOptions({"whole_file_limit": size - 1}))


def test_it_is_memory(tmp_path: Path, server: Server, url: str) -> None:
    (tmp_path / "large.parquet").write_bytes(b"PAR1" + bytes(40 << 20))
    with raises_code("MEMORY_EXCEEDED"):
        QueryMode.local(memory="32MiB").table(url.replace("a.par", "large.par"))


def test_a_file_that_changed_within_a_second(server: Server, url: str, tmp_path: Path) -> None:
    """Its date does not say so: dates of HTTP are seconds."""
    qm = QueryMode.local()
    assert qm.table(url).filter("id", "lt", 5).count() == 5
    path = tmp_path / "a.parquet"
    before = path.stat()
    other = pa.table({"id": range(1, ROWS + 1), "name": [f"n{i % 7}" for i in range(ROWS)]})
    pq.write_table(other, path, row_group_size=10_000, write_page_index=True)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert qm.table(url).filter("id", "lt", 5).count() == 4
