"""A new operator and a new aggregate: they work with what they say of themselves, and touch few files.

The toys are one step of the engine each that there is already, so that all of Python is asked and nothing has
to be built: one that looks at every row alone, one that looks at all rows, one with columns of its own.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querymode
from querymode import DataFrame, QueryMode, col, lit
from querymode._abi import NodeTag
from querymode.engine.plan_bytes import encode_limit, encode_name
from querymode.plan.bind import bind, bind_predicate
from querymode.plan.nodes import Node, Part, Passing, Step
from querymode.schema import Schema
from querymode.stage.lower import lower
from querymode.types import INT64
from tests.unit.test_descriptor import run_code

if TYPE_CHECKING:
    from querymode.expr.nodes import Expr

ROWS = 300_000
PACKAGE = Path(querymode.__file__).parent
ROOT = PACKAGE.parent


class EveryNth(Passing):
    """Every n-th row, by their numbers."""

    __slots__ = ("n", "number")
    PARTS = (Part("number", "expression"), Part("n", "rows"))
    ROW_BY_ROW = True

    def __init__(self, source: Node, number: Expr, n: int) -> None:
        self.input = source
        self.number = number
        self.n = n
        self.schema = source.schema
        bind(number, source.schema)

    def encoded(self, schema: Schema) -> bytes:
        return bytes((NodeTag.FILTER,)) + bind_predicate(self.number % lit(self.n) == 0, schema).wire


class Skip(Passing):
    """All rows but the first."""

    __slots__ = ("rows",)
    PARTS = (Part("rows", "rows", default=1),)

    def __init__(self, source: Node, rows: int = 1) -> None:
        self.input = source
        self.rows = rows
        self.schema = source.schema

    def encoded(self, schema: Schema) -> bytes:
        return encode_limit(self.rows, None)


class Doubled(Step):
    """A number twice as large, and no other column."""

    __slots__ = ("name",)
    PARTS = (Part("name", "text", "column"),)
    ROW_BY_ROW = True

    def __init__(self, source: Node, name: str) -> None:
        self.input = source
        self.name = name
        self.schema = Schema([(name, INT64)])

    def encoded(self, schema: Schema) -> bytes:
        twice = bind(col(self.name) * 2, schema).wire
        return bytes((NodeTag.PROJECT,)) + b"\x01\x00" + encode_name(self.name) + twice


@pytest.fixture(scope="module", params=["memory", "files"])
def frame(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows in several lanes."""
    table = pa.table({"id": range(ROWS), "name": [f"n{i % 7}" for i in range(ROWS)]})
    root = tmp_path_factory.mktemp("toy")
    qm = QueryMode.local(root=root, threads=2)
    if request.param == "memory":
        qm.register("t", table)
        return qm.table("t")
    pq.write_table(table, root / "t.parquet", row_group_size=40_000)
    return qm.table("t.parquet")


def every_nth(frame: DataFrame, number: Expr, n: int) -> DataFrame:
    return frame._with(EveryNth(frame._node, number, n))


def skip(frame: DataFrame, rows: int = 1) -> DataFrame:
    return frame._with(Skip(frame._node, rows))


def doubled(frame: DataFrame, name: str) -> DataFrame:
    return frame._with(Doubled(frame._node, name))


def ids(frame: DataFrame) -> list[int]:
    return [row["id"] for row in frame.rows]


def test_answers(frame: DataFrame) -> None:
    assert len(lower(frame._node).last.branches) == 1
    assert ids(every_nth(frame, col("id"), 1000)) == list(range(0, ROWS, 1000))
    assert ids(skip(frame, ROWS - 3)) == [ROWS - 3, ROWS - 2, ROWS - 1]
    assert ids(doubled(frame, "id").limit(3)) == [0, 2, 4]


def test_other_steps_around_them(frame: DataFrame) -> None:
    """Filters, joins, groups, sorts, limits, and a node that two others read."""
    thin = every_nth(frame, col("id"), 1000)
    assert ids(thin.filter(col("id") > ROWS - 1500)) == [ROWS - 1000]
    assert ids(skip(frame, 10).filter(col("id") < 13)) == [10, 11, 12]
    assert ids(doubled(frame.filter(col("id") < 5), "id").filter(col("id") > 4)) == [6, 8]
    assert ids(skip(frame.sort("id", descending=True), ROWS - 2)) == [1, 0]
    assert ids(skip(thin, 3).sort("id", descending=True).limit(2)) == [ROWS - 1000, ROWS - 2000]
    groups = skip(thin).group_by("name").agg(col("id").count().alias("n")).sort("name")
    assert groups.to_arrow()["n"].to_pylist() == [42, 42, 43, 43, 43, 43, 43]
    both = thin.join(doubled(thin, "id").rename({"id": "twice"}), left_on="id", right_on="twice")
    assert sorted(ids(both)) == list(range(0, ROWS, 2000))
    assert len(ids(thin.union_all(thin))) == 2 * ROWS // 1000


def test_filters_go_below_what_looks_at_rows_alone(frame: DataFrame) -> None:
    wanted = col("id") < 10
    below = every_nth(frame, col("id"), 5).filter(wanted).explain()
    assert below.index("every_nth by col('id'), 5") < below.index("filter")
    for step in (skip(frame, 5), doubled(frame, "id")):
        above = step.filter(wanted).explain()
        assert above.index("filter") < above.index(step._node.KIND)


def test_only_columns_that_are_used_are_read(frame: DataFrame) -> None:
    (branch,) = lower(every_nth(frame, col("id"), 5).select("name")._node).last.branches
    assert branch.columns == (0, 1)
    (branch,) = lower(every_nth(frame, col("id"), 5).select("id")._node).last.branches
    assert branch.columns == (0,)


def test_streams_and_profiles(frame: DataFrame) -> None:
    found = [batch["id"].to_pylist() for batch in skip(frame, ROWS - 3).stream()]
    assert [number for batch in found for number in batch] == [ROWS - 3, ROWS - 2, ROWS - 1]
    assert "skip by 5  (299,995 rows" in skip(frame, 5).explain(analyze=True)


TOYS = [
    lambda frame: every_nth(frame, col("id") + 1, 1000),
    lambda frame: skip(frame),
    lambda frame: skip(frame, ROWS - 3),
    lambda frame: doubled(frame, "id").limit(3),
]


@pytest.mark.parametrize("toy", TOYS)
def test_they_are_written_down(frame: DataFrame, toy, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    made: DataFrame = toy(frame)
    session = made._session
    again = session.from_descriptor(made.to_descriptor())
    assert again.to_descriptor() == made.to_descriptor()
    assert ids(again) == ids(made) == ids(pickle.loads(pickle.dumps(made)))
    for method in (every_nth, skip, doubled):
        monkeypatch.setattr(DataFrame, method.__name__, method, raising=False)
    assert run_code(made.to_code(), session).to_descriptor() == made.to_descriptor()


# ---- what a new one touches ----

#: Existing files that an operator with a step of its own adds to, and where. The last two only if its bytes
#: are more than an expression, and if frames have a method for it.
OPERATOR_FILES = {
    "wasm/src/abi.zig": "pub const NodeTag = enum",
    "wasm/src/operator/registry.zig": "pub const Operator = union",
    "wasm/src/tests.zig": "operator/",
    "querymode/_abi.py": "class NodeTag(",
    "querymode/plan/nodes.py": "class Step(Node)",
    "querymode/engine/plan_bytes.py": "def encode_",
    "querymode/frame/frame.py": "class DataFrame",
}
#: The same for an aggregate. Nobody edits querymode/_abi.py: `zig build abi` writes it.
AGGREGATE_FILES = {
    "wasm/src/abi.zig": "pub const AggregateOp = enum",
    "wasm/src/operator/accumulator.zig": "pub const rules",
    "querymode/expr/aggregate_rules.py": "RULES = {",
}
GENERATED = {"querymode/_abi.py"}
ENGINE = ROOT / "wasm" / "src"


def test_the_lists_are_short_and_true() -> None:
    assert len(OPERATOR_FILES) <= 7
    assert len(AGGREGATE_FILES) <= 3
    for name, seam in (*OPERATOR_FILES.items(), *AGGREGATE_FILES.items()):
        assert seam in (ROOT / name).read_text(encoding="utf-8"), name


def naming(pattern: str, root: Path, ending: str) -> set[str]:
    """Files whose text has it."""
    sought = re.compile(pattern)
    paths = [path for path in root.rglob(f"*{ending}") if sought.search(path.read_text(encoding="utf-8"))]
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_an_operator_is_named_in_these_files_alone() -> None:
    """Repeat, which has nothing that others would have to know of. Queries made of it name it too."""
    users = {"querymode/frame/joins.py", "querymode/sql/set_operations.py"}
    python = naming(r"\bRepeat\b|NodeTag\.REPEAT|encode_repeat|    REPEAT = ", PACKAGE, ".py")
    zig = naming(r"repeat\.zig|\n    repeat = \d|NodeTag\.repeat", ENGINE, ".zig")
    assert (python | zig) - users == set(OPERATOR_FILES)


def test_an_aggregate_is_named_in_these_files_alone() -> None:
    """Those with nothing special but a method of expressions, and the accumulators that compute them."""
    methods = {"querymode/expr/nodes.py"}
    python = naming(r"AggregateOp\.(LAST|MEDIAN|STDDEV_POP|VAR_SAMP)\b", PACKAGE, ".py")
    assert python - GENERATED - methods <= set(AGGREGATE_FILES)
    zig = naming(r"\.(any_value|bool_or|stddev_pop|var_samp)\b", ENGINE, ".zig")
    own = {name for name in zig if name.startswith("wasm/src/operator/accumulate/")}
    assert zig - own <= set(AGGREGATE_FILES)


TOY_AGGREGATE = """
import pickle
from querymode._abi import AggregateOp
from querymode.expr import aggregate_rules as rows

old = rows.RULES[AggregateOp.LAST]
new = rows.Rule("latest", old.takes, old.gives, old.states, counts_repeats=False, shows_order=True)
for table in (rows.WORDS, rows.SQL_NAMES):
    del table["last"]
    table["latest"] = AggregateOp.LAST
rows.RULES[AggregateOp.LAST] = new

from querymode import QueryMode, QueryModeError

qm = QueryMode.local()
t = qm.register("t", qm.from_json([{"k": 1, "x": 2}, {"k": 1, "x": 3}, {"k": 2, "x": 4}]))
asked = qm.sql("select k, latest(x) as x from t group by k order by k")
told = t.group_by("k").aggregate("latest", "x").sort("k")
for frame in (asked, qm.from_descriptor(asked.to_descriptor()), pickle.loads(pickle.dumps(asked)), told):
    assert [tuple(row.values()) for row in frame.rows] == [(1, 3), (2, 4)], frame.rows
assert list(told.rows[0]) == ["k", "latest_x"], told.rows
assert ".latest()" in told.to_code(), told.to_code()
try:
    qm.sql("select last(x) from t").rows
except QueryModeError:
    print("done")
"""


def test_a_row_is_all_that_an_aggregate_is() -> None:
    """The engine's `last` under another row: nobody else knows what it is or what it is called."""
    ran = subprocess.run(
        [sys.executable, "-c", TOY_AGGREGATE], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert ran.stdout == "done\n", ran.stderr
