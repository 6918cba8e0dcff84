"""The command line, as a user calls it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import duckdb
import pytest

from querymode import __version__
from querymode.cli import main
from querymode.engine.program import load_wasm
from querymode.session import QueryMode
from querymode.table.demo import ORDER_COUNT, QUERIES, orders


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "querymode", *words], capture_output=True, text=True)


def test_version_names_package_and_engine() -> None:
    done = run("--version")
    digest = hashlib.sha256(load_wasm()).hexdigest()
    assert (done.returncode, done.stdout) == (0, f"querymode {__version__} (engine {digest})\n")


def test_demo_prints_five_tables_with_times() -> None:
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert f"{ORDER_COUNT:,} orders" in done.stdout
    assert len(re.findall(r"rows in [\d.,]+ ms", done.stdout)) == len(QUERIES) == 5


def test_wrong_words_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-thing"]) == 2
    captured = capsys.readouterr()
    assert "no-such-thing" in captured.err and "usage" in captured.err
    assert main([]) == 2
    assert main(["--help"]) == 0


def test_demo_answers_are_right() -> None:
    table = orders()
    frame = QueryMode.demo()
    answers = [build(frame).collect().rows for _, build in QUERIES]
    connection = duckdb.connect()
    connection.register("orders", table)

    by_region = connection.sql(
        "SELECT region, count(*), sum(amount), avg(amount), max(discount) "
        "FROM orders GROUP BY 1 ORDER BY 3 DESC"
    ).fetchall()
    for row, expected in zip(answers[0], by_region, strict=True):
        assert tuple(row.values())[:2] == expected[:2]
        assert tuple(row.values())[2:] == pytest.approx(expected[2:])

    top = connection.sql(
        "SELECT order_id FROM orders WHERE region = 'eu' AND quantity >= 35 ORDER BY amount DESC LIMIT 5"
    ).fetchall()
    assert [row["order_id"] for row in answers[1]] == [order for (order,) in top]

    either = connection.sql(
        "SELECT count(*), sum(amount) FROM orders "
        "WHERE (region = 'us' AND amount > 10000) OR product = 'jack'"
    ).fetchall()
    assert (answers[2][0]["orders"], answers[2][0]["revenue"]) == (either[0][0], pytest.approx(either[0][1]))

    products = connection.sql(
        "SELECT product, sum(quantity) FROM orders WHERE customer LIKE 'customer-000%' "
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
    ).fetchall()
    assert [tuple(row.values()) for row in answers[3]] == products

    late = connection.sql(
        "SELECT order_id, ordered_at, amount * 1.19::DOUBLE FROM orders "
        "WHERE discount IS NULL AND ordered_at >= '2025-12-30' ORDER BY ordered_at DESC LIMIT 3"
    ).fetchall()
    assert [tuple(row.values())[:2] for row in answers[4]] == [row[:2] for row in late]
    assert len(late) == 3
