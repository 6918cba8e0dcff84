"""Types of partition columns: found out in SQL as DuckDB does, text in frames unless asked for."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode
from tests.raises import raises_code

NAMES = {"int64": "BIGINT", "utf8": "VARCHAR", "date": "DATE", "timestamp(us)": "TIMESTAMP"}


def lay(root: Path, *values: str) -> QueryMode:
    for number, value in enumerate(values):
        folder = root / "t" / f"k={value}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [number]}), folder / "a.parquet")
    return QueryMode.local(root=root)


@pytest.mark.parametrize(
    "values",
    [
        ["2019", "2020"],
        ["0", "-5", "-01"],
        ["01", "02"],
        ["00"],
        ["1", "a"],
        ["+1"],
        ["1.5"],
        ["1_000"],
        ["1e3"],
        ["", "1"],
        ["9223372036854775807"],
        ["9223372036854775808"],
        ["2020-01-01", "2020-02-29"],
        ["2020-02-30"],
        ["2020-01"],
        ["2020-01-01", "7"],
        ["2020-01-01", "__HIVE_DEFAULT_PARTITION__"],
        ["__HIVE_DEFAULT_PARTITION__"],
        ["NULL", "1"],
        ["null", "2020-01-01"],
        ["NULL", "a"],
        ["2020-01-01 10:00:00", "2020-01-01 10:00:00.123"],
        ["2020-01-01T10:00:00"],
        ["2020-01-01 10:00:00", "2020-01-02"],
        ["12:00:00"],
        ["true"],
        ["a%2Fb"],
    ],
)
def test_types_are_those_of_duckdb(tmp_path: Path, values: list[str]) -> None:
    qm = lay(tmp_path, *values)
    theirs = duckdb.execute(f"SELECT k, x, typeof(k) FROM '{tmp_path}/t/*/*.parquet' ORDER BY x").fetchall()
    frame = qm.sql("SELECT k, x FROM 't/*/*.parquet' ORDER BY x")
    assert {NAMES[str(frame.dtypes()["k"])]} == {kind for _, _, kind in theirs}
    assert [row["k"] for row in frame.rows] == [value for value, _, _ in theirs]


@pytest.mark.parametrize(
    ("values", "condition", "kept"),
    [
        (["2019", "2020", "2021"], "k = 2019", 1),
        (["2019", "2020", "2021"], "k = '2019'", 1),
        (["2019", "2020", "2021"], "k >= 2020", 2),
        (["2019", "2020", "2021"], "k IN (2019, 2021)", 2),
        (["2019", "2020", "2021"], "k BETWEEN 2018 AND 2019", 1),
        (["9", "10", "11"], "k > 9", 2),
        (["2024-01-31", "2024-02-01"], "k >= DATE '2024-02-01'", 1),
        (["2024-01-31", "2024-02-01"], "k < '2024-02-01'", 1),
        (["01", "02"], "k = '01'", 1),
    ],
)
def test_conditions_leave_folders_out(tmp_path: Path, values: list[str], condition: str, kept: int) -> None:
    qm = lay(tmp_path, *values)
    result = qm.sql(f"SELECT x FROM 't' WHERE {condition}").collect()
    theirs = duckdb.execute(f"SELECT x FROM '{tmp_path}/t/*/*.parquet' WHERE {condition}").fetchall()
    assert sorted((row["x"],) for row in result.rows) == sorted(theirs)
    assert result.row_count == kept
    assert result.stats["row_groups_skipped"] == len(values) - kept


def test_frames_have_text_unless_asked(tmp_path: Path) -> None:
    qm = lay(tmp_path, "2019", "2020")
    assert str(qm.table("t").dtypes()["k"]) == "utf8"
    assert str(qm.table("t", hive_types={"k": "int16"}).dtypes()["k"]) == "int16"
    frame = qm.table("t", hive_types="infer")
    assert frame.filter("k", "eq", 2019).rows == [{"x": 0, "k": 2019}]
    assert qm.register("named", "t").filter("k", "gt", 2019).rows == [{"x": 1, "k": 2020}]
    assert qm.sql("SELECT x FROM named WHERE k = 2019").rows == [{"x": 0}]
    assert qm.register("texts", qm.table("t")).filter("k", "eq", "2019").count() == 1
    again = qm.from_descriptor(frame.to_descriptor())
    assert str(again.dtypes()["k"]) == "int64"
    with raises_code("QUERY_FAILED", match="hive_types"):
        qm.table("t", hive_types="guess")


def test_escapes_are_resolved_first(tmp_path: Path) -> None:
    frame = lay(tmp_path, "2020-01-01%2010%3A00%3A00").sql(
        "SELECT k FROM 't' WHERE k > '2020-01-01 09:59:59'"
    )
    assert [str(row["k"]) for row in frame.rows] == ["2020-01-01 10:00:00"]


def test_what_the_path_says_wins(tmp_path: Path) -> None:
    (tmp_path / "t" / "k=2019").mkdir(parents=True)
    pq.write_table(pa.table({"k": ["other"], "x": [1]}), tmp_path / "t" / "k=2019" / "a.parquet")
    assert QueryMode.local(root=tmp_path).sql("SELECT * FROM 't'").rows == [{"k": 2019, "x": 1}]
