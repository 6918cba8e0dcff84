"""A text that was asked before is not parsed again, and never answered from tables that have changed."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from querymode import QueryMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_text_is_the_same_plan(qm: QueryMode) -> None:
    assert qm.sql("SELECT a FROM t")._node is qm.sql("SELECT a FROM t")._node
    assert qm.sql("SELECT a FROM t")._node is not qm.sql("SELECT b FROM t")._node


def test_parameters_are_part_of_the_key(qm: QueryMode) -> None:
    sql = "SELECT ? AS x"
    assert qm.sql(sql, [1])._node is qm.sql(sql, [1])._node
    for value in (True, 1.0, "1", None, -0.0, 0.0):
        (row,) = qm.sql(sql, [value]).rows
        assert repr(row["x"]) == repr(value)


def test_another_table_of_the_name_is_another_plan(qm: QueryMode) -> None:
    before = qm.sql("SELECT * FROM u")
    qm.register("u", pa.table({"other": [1]}))
    assert qm.sql("SELECT * FROM u").columns == ["other"]
    assert before.columns == ["a", "c"]


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    session = QueryMode.local(root=tmp_path)
    pq.write_table(pa.table({"x": [1]}), path)
    assert session.sql("SELECT * FROM 'f.parquet'").rows == [{"x": 1}]
    first = session.sql("SELECT * FROM 'f.parquet'")._node
    assert session.sql("SELECT * FROM 'f.parquet'")._node is first
    pq.write_table(pa.table({"y": [2, 3]}), path)
    os.utime(path, ns=(1, 1))
    assert session.sql("SELECT * FROM 'f.parquet'").rows == [{"y": 2}, {"y": 3}]


def test_a_new_file_of_a_pattern_is_seen(tmp_path: Path) -> None:
    session = QueryMode.local(root=tmp_path)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    assert session.sql("SELECT count(*) AS n FROM '*.parquet'").rows == [{"n": 1}]
    pq.write_table(pa.table({"x": [2]}), tmp_path / "b.parquet")
    assert session.sql("SELECT count(*) AS n FROM '*.parquet'").rows == [{"n": 2}]


def test_the_time_is_not_kept(qm: QueryMode) -> None:
    assert qm.sql("SELECT now() AS x")._node is not qm.sql("SELECT now() AS x")._node


def test_importing_the_package_does_not_import_sqlglot() -> None:
    code = "import sys, querymode; querymode.QueryMode.local(); print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
