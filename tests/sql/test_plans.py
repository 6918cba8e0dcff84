"""What SQL becomes: the nodes a DataFrame would have built, and joins for subqueries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querymode import QueryMode, col
from querymode.optimize.pushdown import optimize
from querymode.plan.nodes import Filter, GroupBy, Limit, Node, Project, Scan, Sort
from querymode.sql import plan_sql
from querymode.stage.lower import lower
from tests.raises import raises_code
from tests.sql.shapes import joins, kinds, shape


def test_a_select_is_the_frame_of_the_same_steps(qm: QueryMode) -> None:
    plan = plan_sql(qm, "SELECT a, b + 1 AS z FROM t WHERE a > 1 ORDER BY z DESC LIMIT 2")
    assert isinstance(plan, Limit) and (plan.offset, plan.count) == (0, 2)
    sort = plan.input
    assert isinstance(sort, Sort) and str(sort.keys[0][0]) == "col('z')" and sort.keys[0][1:] == (True, False)
    project = sort.input
    assert isinstance(project, Project) and [name for name, _ in project.items] == ["a", "z"]
    assert isinstance(project.input, Filter) and str(project.input.predicate) == str(col("a") > 1)
    assert isinstance(project.input.input, Scan)


def test_columns_of_two_instances_have_names_of_their_own(qm: QueryMode) -> None:
    plan = plan_sql(qm, "SELECT x.a, y.a FROM t x JOIN t y ON x.a = y.b")
    assert plan.schema.names == ("a", "a_1")
    (join,) = joins(plan)
    assert join.left.schema.names[0] == "a"
    assert join.right.schema.names[0] == "a#2"
    assert [tuple(map(str, pair)) for pair in join.keys] == [("col('a')", "col('b#2')")]


def test_a_query_of_with_is_one_node_however_often_it_is_used(qm: QueryMode) -> None:
    plan = plan_sql(
        qm, "WITH q AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT * FROM q x, q y WHERE x.a = y.n"
    )
    found: set[int] = set()

    def visit(node: Node) -> None:
        if isinstance(node, GroupBy):
            found.add(id(node))
        for child in node.children:
            visit(child)

    visit(plan)
    assert shape(plan).count("groupby") == 2
    assert len(found) == 1


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a)", ["semi"]),
        ("SELECT a FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.a = t.a)", ["anti"]),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u)", ["semi"]),
        ("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)", ["mark"]),
        ("SELECT a FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.a = t.b)", ["anti"] * 3),
        ("SELECT a, a IN (SELECT a FROM u) FROM t", ["mark"]),
        ("SELECT a FROM t WHERE b > (SELECT max(c) FROM u)", ["cross"]),
        ("SELECT a FROM t WHERE b > (SELECT c FROM u)", ["single"]),
        ("SELECT a FROM t WHERE b > (SELECT max(c) FROM u WHERE u.a = t.a)", ["left"]),
        ("SELECT (SELECT c FROM u WHERE u.a = t.a) FROM t", ["single"]),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u GROUP BY a HAVING count(*) > 1)", ["semi"]),
    ],
)
def test_subqueries_are_joins(qm: QueryMode, sql: str, expected: list[str]) -> None:
    assert kinds(plan_sql(qm, sql)) == expected


def test_a_term_that_is_no_equality_is_the_residual(qm: QueryMode) -> None:
    """TPC-H's Q21."""
    plan = plan_sql(qm, "SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a AND u.c <> t.b)")
    (join,) = joins(plan)
    assert join.kind == "semi" and len(join.keys) == 1
    assert str(join.residual) == "(col('c') != col('b'))"


def test_count_of_no_rows_is_zero(qm: QueryMode) -> None:
    rows = qm.sql("SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t ORDER BY a").rows
    assert [row["n"] for row in rows] == [2, 0, 0]


def test_what_does_not_fit_keys_is_computed_for_the_outer_values(qm: QueryMode) -> None:
    plan = plan_sql(qm, "SELECT a, (SELECT max(c) FROM u WHERE u.a < t.a) AS m FROM t")
    assert any(join.null_equal for join in joins(plan))
    assert qm.sql("SELECT a, (SELECT max(c) FROM u WHERE u.a < t.a) AS m FROM t ORDER BY a").rows == [
        {"a": 1, "m": None},
        {"a": 2, "m": 101},
        {"a": 3, "m": 101},
    ]


def test_aggregates_that_come_twice_are_computed_once(qm: QueryMode) -> None:
    plan = plan_sql(qm, "SELECT sum(a) + 1, sum(a) * 2 FROM t HAVING sum(a) > 0")
    groups = plan
    while not isinstance(groups, GroupBy):
        (groups,) = groups.children
    assert len(groups.calls) == 1


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ("a, a - 1, a % 2, 7", ["a"]),
        ("a, b, a + b, a", ["a", "b"]),
        ("a + 1, a + 2", ["a + 1", "a + 2"]),
        ("a + 1, b, a + 1 + b", ["a + 1", "b"]),
        ("a + b, b, a", ["b", "a"]),
        ("1, 'x'", ["'x'"]),
        ("a::DOUBLE, a", ["a"]),
    ],
)
def test_keys_that_others_determine_are_computed_above(qm: QueryMode, keys: str, kept: list[str]) -> None:
    def grouped(node: Node) -> GroupBy:
        while not isinstance(node, GroupBy):
            (node,) = node.children
        return node

    found = grouped(optimize(plan_sql(qm, f"SELECT {keys}, count(*) FROM t GROUP BY ALL")))
    wanted = grouped(plan_sql(qm, f"SELECT {', '.join(kept)}, count(*) FROM t GROUP BY ALL"))
    assert [str(key) for _, key in found.keys] == [str(key) for _, key in wanted.keys]


def test_keys_are_looked_up_while_reading_where_a_build_lacks_many(tmp_path: Path) -> None:
    """A whole table from end to end of the keys is what they refer to: all of them will be found."""
    session = QueryMode.local(threads=1)
    numbers = range(0, 1_000_000, 500)
    for name, columns in {
        "facts": {"key": [*numbers, *numbers], "far": [number * 9 for number in [*numbers, *numbers]]},
        "items": {"id": [*numbers], "w": [*numbers]},
    }.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        session.register(name, str(tmp_path / f"{name}.parquet"))

    def is_sought(condition: str) -> bool:
        work = lower(plan_sql(session, f"SELECT sum(w) AS s FROM facts JOIN items ON {condition}"))
        return bool(work.last.branches[0].sought)

    assert not is_sought("key = id")
    assert is_sought("far = id")
    assert is_sought("key = id AND w < 50_000")


def test_explain_analyze_runs_the_query(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [i % 5 for i in range(1000)], "v": range(1000)}), tmp_path / "t.parquet")
    qm = QueryMode.local()
    qm.register("t", tmp_path / "t.parquet")
    sql = "SELECT k, sum(v) AS s FROM t WHERE v < 100 GROUP BY k"
    (plain,) = qm.sql(f"EXPLAIN {sql}").rows
    assert plain["explain_key"] == "plan" and "~" in plain["explain_value"]
    (row,) = qm.sql(f"EXPLAIN ANALYZE {sql}").rows
    assert row["explain_key"] == "analyzed_plan"
    first = row["explain_value"].splitlines()[0]
    assert "(5 rows, " in first and " ms)" in first
    asked = qm.sql(sql).explain(analyze=True)
    assert asked.splitlines()[0].split("(")[0] == first.split("(")[0]
    # Run anew each time, and what fails in it fails here.
    with raises_code("QUERY_FAILED"):
        qm.sql("EXPLAIN ANALYZE SELECT k // (v - v) FROM t")
    qm.sql("EXPLAIN SELECT k // (v - v) FROM t").collect()


@pytest.mark.parametrize(
    "front",
    [
        "EXPLAIN/**/ANALYZE/*x*/ ",
        "EXPLAIN -- c\n ANALYZE ",
        "explain (analyze) ",
        "EXPLAIN ( /* */ ANALYSE ) ",
        "EXPLAIN ANALYSE ",
        "EXPLAIN ANALYZE(",
    ],
)
def test_explain_analyze_as_it_may_be_written(qm: QueryMode, front: str) -> None:
    (row,) = qm.sql(f"{front}SELECT a FROM t{')' if front.endswith('ANALYZE(') else ''}").rows
    assert row["explain_key"] == "analyzed_plan"


def test_explain_of_what_is_no_query(qm: QueryMode) -> None:
    for front in ("EXPLAIN", "EXPLAIN ANALYZE"):
        for text in ("DESCRIBE SELECT 1", "SHOW TABLES"):
            with raises_code("NOT_SUPPORTED"):
                qm.sql(f"{front} {text}")
    (row,) = qm.sql("EXPLAIN (SELECT 1)").rows
    assert row["explain_key"] == "plan"


@pytest.mark.parametrize("sql", ["SELECT 1", "VALUES (1)"])
def test_explain_analyze_of_constants_has_rows_and_a_time(qm: QueryMode, sql: str) -> None:
    (row,) = qm.sql(f"EXPLAIN ANALYZE {sql}").rows
    first = row["explain_value"].splitlines()[0]
    assert "(1 rows, " in first and " ms)" in first
