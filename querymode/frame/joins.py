"""DataFrame methods over two frames and more: joins, set operations, membership in another frame.

Names are unique in a join's schema, so columns of the right side that collide get other names first; which
ones are left in the end, and under which names, are Polars' rules.
"""

from __future__ import annotations

from querymode._abi import AggregateOp, ArithmeticOp, CompareOp
from querymode.errors import error
from querymode.expr.nodes import (
    Aggregate,
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Expr,
    IsNull,
    Literal,
    Not,
    Or,
    joined,
)
from querymode.expr.trees import in_type, rename
from querymode.frame.arguments import (
    FrameBase,
    all_columns,
    column_name,
    column_names,
    flat,
    other_frame,
    unused_name,
)
from querymode.plan.bind import bind, common_type
from querymode.plan.nodes import Filter, GroupBy, Join, Node, Project, Repeat, Union
from querymode.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.frame.frame import DataFrame
    from querymode.types import DataType

    Columns = str | Expr | Sequence[str | Expr]

HOWS = ("inner", "left", "right", "full", "cross", "semi", "anti", "mark", "single")
#: Joins that only say something of the left side's rows.
_LEFT_ONLY = ("semi", "anti", "mark")


class JoinMethods(FrameBase):
    """Two frames and more."""

    def join(
        self,
        other: DataFrame,
        on: Columns | None = None,
        how: str = "inner",
        *,
        left_on: Columns | None = None,
        right_on: Columns | None = None,
        where: Expr | None = None,
        suffix: str = "_right",
        coalesce: bool | None = None,
        nulls_equal: bool = False,
        mark: str | None = None,
    ) -> DataFrame:
        """Pairs of rows whose keys are equal: `join(other, on="id")`, or by `left_on` and `right_on`.

        `how`: inner, left, right, full, cross (every row with every row), semi and anti (rows that have, or
        have not, a match). `where`: a further condition for a pair, over the columns of both sides. Columns
        of the other side whose names are taken get the `suffix`. `coalesce`: one key column instead of two,
        which is the rule but for full joins. `nulls_equal`: NULL keys match each other.

        Two more ways are for what subqueries of SQL do: `how="mark"` gives every row of the left side a
        column, named by `mark`, that is true, false or NULL as `IN (SELECT …)` is; `how="single"` is a left
        join that fails where a row has several matches.
        """
        right = other_frame("join", other)._node
        keys = _keys(self._node.schema, right.schema, on, left_on, right_on)
        _check_join(how, keys, where, suffix, mark)
        joining = _Joining(self._node, right, keys, how, suffix, coalesce)
        return self._with(joining.joined(where, nulls_equal=bool(nulls_equal), mark=mark))

    # ---- set operations ----

    def union(self, *others: DataFrame, all: bool = False) -> DataFrame:
        """Rows of these frames, each once; with `all=True`, as often as they are there.

        Columns go by their places, as in SQL, and the first frame names them; `concat` goes by names.
        """
        parts = _aligned("union", self._node, others)
        whole = Union(parts)
        return self._with(whole if all else _distinct(whole))

    def union_all(self, *others: DataFrame) -> DataFrame:
        """All rows of this frame, then those of the others, by places of columns."""
        return self._with(Union(_aligned("union_all", self._node, others)))

    def intersect(self, other: DataFrame, all: bool = False) -> DataFrame:
        """Rows that both frames have, each once; with `all=True`, as often as both have them.

        NULLs are equal here.
        """
        left, right, keys = _sides("intersect", self._node, other)
        if not all:
            return self._with(Join(_distinct(left), right, "semi", keys, null_equal=True))
        return self._with(_repeated(left, right, keys, "inner"))

    def except_(self, other: DataFrame, all: bool = False) -> DataFrame:
        """Rows that the other frame has not, each once; with `all=True`, as often as they are more here.

        NULLs are equal here. The name ends in `_` because Python keeps `except` for itself.
        """
        left, right, keys = _sides("except_", self._node, other)
        if not all:
            return self._with(Join(_distinct(left), right, "anti", keys, null_equal=True))
        return self._with(_repeated(left, right, keys, "left"))

    def concat(self, *others: DataFrame) -> DataFrame:
        """All rows of this frame, then those of the others, by names of columns.

        A column that a frame lacks is NULL there; where types differ, a common one is taken.
        """
        nodes = [self._node, *(other_frame("concat", other)._node for other in others)]
        types: dict[str, DataType] = {}
        for node in nodes:
            for name, data_type in node.schema:
                types[name] = _common("concat", name, types.get(name, data_type), data_type)
        parts = [
            _projected(node, [(name, _of_type(node, name, types[name])) for name in types]) for node in nodes
        ]
        return self._with(Union(parts))

    def distinct(self) -> DataFrame:
        """Every row once. NULLs are equal here."""
        return self._with(_distinct(self._node))

    def unique(self, subset: Columns | None = None) -> DataFrame:
        """Every row once; with `subset`, the first row of those that are equal in these columns."""
        if subset is None:
            return self.distinct()
        names = column_names("unique", (subset,), self._node.schema)
        if not names:
            raise error("QUERY_FAILED", "unique takes at least one column")
        others = [name for name in self._node.schema.names if name not in names]
        calls = [(name, Aggregate(AggregateOp.FIRST, Column(name))) for name in others]
        groups = GroupBy(self._node, [(name, Column(name)) for name in names], calls)
        return self._with(_projected(groups, all_columns(self._node.schema)))

    # ---- membership ----

    def filter_in(
        self,
        columns: str | Sequence[str],
        other: DataFrame,
        other_columns: str | Sequence[str] | None = None,
    ) -> DataFrame:
        """Rows whose values another frame has too: SQL's `IN (SELECT …)`.

        `filter_in("user_id", users, "id")`. Without `other_columns` those of the same names are meant, or
        the only ones that there are.
        """
        keys, right = self._membership("filter_in", columns, other, other_columns)
        return self._with(Join(self._node, right, "semi", keys))

    def filter_not_in(
        self,
        columns: str | Sequence[str],
        other: DataFrame,
        other_columns: str | Sequence[str] | None = None,
    ) -> DataFrame:
        """Rows whose values another frame has not: SQL's `NOT IN (SELECT …)`.

        As in SQL, a NULL in the other frame might be any value, so that nothing is left; `join(how="anti")`
        takes NULLs for values that match nothing.
        """
        keys, right = self._membership("filter_not_in", columns, other, other_columns)
        if len(keys) > 1:  # a mark knows NULLs of one column only
            maybe = [_equal_or_unknown(ours, theirs) for ours, theirs in keys]
            return self._with(Join(self._node, right, "anti", (), joined(And, maybe)))
        mark = unused_name("is in", {*self._node.schema.names, *right.schema.names})
        marked = Join(self._node, right, "mark", keys, mark=mark)
        kept = Filter(marked, Not(Column(mark)))
        return self._with(Project(kept, all_columns(self._node.schema)))

    def _membership(
        self, what: str, columns: object, other: object, other_columns: object
    ) -> tuple[list[tuple[Expr, Expr]], Node]:
        right = other_frame(what, other)._node
        ours = column_names(what, (columns,), self._node.schema)
        if not ours:
            raise error("QUERY_FAILED", f"{what} takes at least one column")
        if other_columns is not None:
            theirs = column_names(what, (other_columns,), right.schema)
        elif len(right.schema) == len(ours) == 1:
            theirs = list(right.schema.names)
        else:
            theirs = [column_name(what, name, right.schema) for name in ours]
        if len(ours) != len(theirs):
            raise error("QUERY_FAILED", f"{what} compares {len(ours)} columns with {len(theirs)}")
        fresh = _unused_names(theirs, self._node.schema.names)
        node = _projected(right, [(new, Column(old)) for new, old in zip(fresh, theirs, strict=True)])
        return [(Column(a), Column(b)) for a, b in zip(ours, fresh, strict=True)], node


# ---- joins ----


def _keys(
    left: Schema, right: Schema, on: object, left_on: object, right_on: object
) -> list[tuple[Expr, Expr]]:
    if on is not None and (left_on is not None or right_on is not None):
        raise error("QUERY_FAILED", "join takes on=, or left_on= and right_on=, not all of them")
    if (left_on is None) != (right_on is None):
        raise error("QUERY_FAILED", "left_on= and right_on= come together")
    ours = _key_list(on if on is not None else left_on, left)
    theirs = _key_list(on if on is not None else right_on, right)
    if len(ours) != len(theirs):
        raise error("QUERY_FAILED", f"join has {len(ours)} keys on the left and {len(theirs)} on the right")
    return list(zip(ours, theirs, strict=True))


def _key_list(given: object, schema: Schema) -> list[Expr]:
    if given is None:
        return []
    keys: list[Expr] = []
    for item in flat((given,)):
        if isinstance(item, Expr):
            bind(item, schema)
            keys.append(item)
        else:
            keys.append(Column(column_name("join", item, schema)))
    return keys


def _check_join(
    how: object, keys: list[tuple[Expr, Expr]], where: object, suffix: object, mark: object
) -> None:
    if how not in HOWS:
        raise error("QUERY_FAILED", f"how={how!r} is no join; there are {', '.join(HOWS)}")
    if not isinstance(suffix, str):
        raise error("QUERY_FAILED", f"suffix= is a text, not {type(suffix).__name__}")
    if where is not None and not isinstance(where, Expr):
        raise error("INVALID_FILTER", f"where= is an expression such as col('a') < col('b'), not {where!r}")
    if (mark is None) == (how == "mark") or not isinstance(mark, (str, type(None))):
        raise error("QUERY_FAILED", "mark= names the column of a join with how='mark', and of no other")
    if how == "cross" and (keys or where is not None):
        raise error(
            "QUERY_FAILED", "a cross join takes every row with every row: it has neither keys nor where="
        )
    if how not in ("cross", "single") and not keys and where is None:
        raise error(
            "QUERY_FAILED", "join takes on=, left_on= and right_on=, or where=; how='cross' takes none"
        )


class _Joining:
    """One join: which columns there are, and what they are called."""

    def __init__(
        self,
        left: Node,
        right: Node,
        keys: Sequence[tuple[Expr, Expr]],
        how: str,
        suffix: str,
        coalesce: bool | None,
    ) -> None:
        self._left = left
        self._right = right
        self._keys = keys
        self._how = how
        self._suffix = suffix
        plain = all(isinstance(side, Column) for pair in keys for side in pair)
        wanted = how != "full" if coalesce is None else bool(coalesce)
        self._coalesces = plain and wanted and bool(keys) and how not in _LEFT_ONLY
        #: The right side's columns, and what they are called in the join.
        self._names = self._right_names()

    def _dropped(self) -> tuple[set[str], set[str]]:
        """Key columns that are left out in the end, of both sides."""
        if not self._coalesces:
            return set(), set()
        ours = {key.name for key, _ in self._keys if isinstance(key, Column)}
        theirs = {key.name for _, key in self._keys if isinstance(key, Column)}
        return (ours, set()) if self._how == "right" else (set(), theirs)

    def _right_names(self) -> dict[str, str]:
        ours_gone, theirs_gone = self._dropped()
        left = set(self._left.schema.names)
        shown = left - ours_gone
        self._shown: dict[str, str] = {}
        for name in self._right.schema.names:
            if name not in theirs_gone:
                self._shown[name] = name + self._suffix if name in shown else name
        self._check_shown(shown)
        taken = left | set(self._shown.values())
        names: dict[str, str] = {}
        for name in self._right.schema.names:
            wish = self._shown.get(name, name)
            is_free = wish not in left and (name in self._shown or wish not in taken)
            names[name] = wish if is_free else unused_name(f"{name}{self._suffix}", taken)
            taken.add(names[name])
        return names

    def _check_shown(self, left: set[str]) -> None:
        if self._how in _LEFT_ONLY:
            return
        seen = set(left)
        for name in self._shown.values():
            if name in seen:
                raise error(
                    "SCHEMA_MISMATCH",
                    f"join would give two columns the name {name!r}; choose another suffix=, or rename one",
                    column=name,
                )
            seen.add(name)

    def joined(self, where: Expr | None, *, nulls_equal: bool, mark: str | None) -> Node:
        right = self._right
        if any(new != old for old, new in self._names.items()):
            right = Project(right, [(new, Column(old)) for old, new in self._names.items()])
        keys = [(ours, self._renamed(theirs)) for ours, theirs in self._keys]
        node = Join(self._left, right, self._how, keys, where, null_equal=nulls_equal, mark=mark)
        return _projected(node, self._outputs(node))

    def _renamed(self, key: Expr) -> Expr:
        return rename(key, self._names)

    def _outputs(self, node: Join) -> list[tuple[str, Expr]]:
        if self._how in _LEFT_ONLY:
            return all_columns(node.schema)
        ours_gone, _ = self._dropped()
        merged: dict[str, Expr] = {}
        if self._coalesces and self._how == "full":
            for ours, theirs in self._keys:
                assert isinstance(ours, Column)
                merged[ours.name] = Coalesce((ours, self._renamed(theirs)))
        items = [
            (name, merged.get(name, Column(name)))
            for name in self._left.schema.names
            if name not in ours_gone
        ]
        return items + [(shown, Column(self._names[name])) for name, shown in self._shown.items()]


def _projected(node: Node, items: list[tuple[str, Expr]]) -> Node:
    """These columns; the node itself where that is what it has."""
    same = len(items) == len(node.schema) and all(
        isinstance(item, Column) and item.name == name == there
        for (name, item), there in zip(items, node.schema.names, strict=True)
    )
    return node if same else Project(node, items)


# ---- set operations ----


def _distinct(node: Node) -> Node:
    return GroupBy(node, all_columns(node.schema), ())


def _common(what: str, name: str, a: DataType, b: DataType) -> DataType:
    found = common_type(a, b)
    if found is None:
        raise error(
            "SCHEMA_MISMATCH", f"{what}: column {name!r} is {a} and {b}, which have no common type; cast one"
        )
    return found


def _of_type(node: Node, name: str, data_type: DataType) -> Expr:
    if name not in node.schema.names:
        return Cast(Literal(None), data_type, False)
    column = Column(name)
    return in_type(column, node.schema.type_of(name), data_type)


def _aligned(what: str, first: Node, others: Sequence[object]) -> list[Node]:
    """Nodes with the same number of columns and the same types."""
    nodes = [first, *(other_frame(what, other)._node for other in others)]
    if not others:
        raise error("QUERY_FAILED", f"{what} takes at least one other frame")
    types = list(first.schema.types)
    for node in nodes[1:]:
        if len(node.schema) != len(types):
            raise error(
                "SCHEMA_MISMATCH",
                f"{what} goes by places, but the frames have {len(types)} and {len(node.schema)} columns",
            )
        names = first.schema.names
        types = [_common(what, *parts) for parts in zip(names, types, node.schema.types, strict=True)]
    return [
        _projected(
            node,
            [(name, _of_type(node, name, one)) for name, one in zip(node.schema.names, types, strict=True)],
        )
        for node in nodes
    ]


def _sides(what: str, first: Node, other: object) -> tuple[Node, Node, list[tuple[Expr, Expr]]]:
    """Both nodes with unlike names, and what is compared."""
    left, right = _aligned(what, first, (other,))
    names = left.schema.names
    fresh = _unused_names(right.schema.names, names)
    right = _projected(
        right, [(new, Column(old)) for new, old in zip(fresh, right.schema.names, strict=True)]
    )
    return left, right, [(Column(a), Column(b)) for a, b in zip(names, fresh, strict=True)]


def _repeated(left: Node, right: Node, keys: list[tuple[Expr, Expr]], kind: str) -> Node:
    """How often a row is there on either side says how often it is in the result."""
    taken = {*left.schema.names, *right.schema.names}
    ours = unused_name("count", taken)
    theirs = unused_name("count", {*taken, ours})
    rows = Aggregate(AggregateOp.COUNT_ROWS, None)
    first = GroupBy(left, all_columns(left.schema), [(ours, rows)])
    second = GroupBy(right, all_columns(right.schema), [(theirs, rows)])
    both = Join(first, second, kind, keys, null_equal=True)
    count: Expr
    if kind == "inner":
        fewer = Compare(CompareOp.LT, Column(ours), Column(theirs))
        count = Case((fewer,), (Column(ours), Column(theirs)))
    else:
        count = Arithmetic(ArithmeticOp.SUBTRACT, Column(ours), Coalesce((Column(theirs), Literal(0))))
    return Project(Repeat(both, count), all_columns(left.schema))


def _unused_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    used = set(taken)
    found = []
    for name in names:
        found.append(unused_name(name, used))
        used.add(found[-1])
    return found


def _equal_or_unknown(ours: Expr, theirs: Expr) -> Expr:
    return Or((Compare(CompareOp.EQ, ours, theirs), IsNull(ours, False), IsNull(theirs, False)))
