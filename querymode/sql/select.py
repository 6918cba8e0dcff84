"""One SELECT → a block: its list, grouping, order and limits."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from sqlglot import exp

from querymode._abi import AggregateOp, ArithmeticOp
from querymode.errors import ColumnNotFoundError
from querymode.expr.nodes import Aggregate, Arithmetic, Cast, Column, Expr, Literal, Negate
from querymode.expr.trees import columns_in, conjuncts, identity, parts_once, transform
from querymode.sql.blocks import Grouping, SelectBlock, Tail
from querymode.sql.expressions import Translator
from querymode.sql.from_clause import FromBinder
from querymode.sql.output_names import expression_name, unique_names
from querymode.sql.scope import Ambiguous, Field, Relation, Scope
from querymode.sql.set_operations import selected_place
from querymode.types import INT64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from querymode.sql.binder import Binder
    from querymode.sql.sources import Source

_SELECT_ARGS = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "with_",
)


class Item:
    """A column of a SELECT list: its name, and the text or the column it comes from."""

    __slots__ = ("alias", "busy", "name", "node", "value")

    def __init__(
        self, name: str, node: exp.Expr | None, value: Expr | None = None, alias: str | None = None
    ) -> None:
        self.name = name
        self.node = node
        self.value = value
        self.alias = alias
        #: Being translated: an alias cannot mean itself.
        self.busy = False


class SelectBinder:
    def __init__(self, binder: Binder, node: exp.Select, parent: Scope | None) -> None:
        self.binder = binder
        self.text = binder.text
        self.names = binder.names
        self.node = node
        self.scope = Scope(parent)
        self.translator = Translator(binder, self.scope)
        self.items: list[Item] = []
        #: Aliases of so many items may be used: those in front of the one being translated.
        self._known_items: int | None = None
        self._keys: dict[object, tuple[str, Expr]] = {}
        #: Columns of FROM.
        self._columns: frozenset[str] | set[str] = frozenset()

    def bind(self) -> SelectBlock:
        node = self.node
        self.binder.refuse_others(node, _SELECT_ARGS, "SELECT")
        source = self._from()
        self._columns = source.columns if source is not None else frozenset()
        self.items = list(self._select_list())
        if not self.items:
            raise self.text.error("SQL_SYNTAX", "EXCLUDE leaves no column of *", node)
        self.translator.aliases = self._alias
        where = self._where()
        group = node.args.get("group")
        if group is not None:
            self._group_by(group)
        for place in range(len(self.items)):
            self._value(place)
        having = self._having()
        order = list(self._order())
        on = [self._distinct_key(key) for key in self._distinct_on()]
        grouped = group is not None or bool(having) or bool(self.translator.aggregates.calls)
        values = [self._settled(item.value, source, grouped) for item in self.items]
        having = [self._settled(term, source, grouped) for term in having]
        order = [(self._settled(key, source, grouped), down, first) for key, down, first in order]
        on = [self._settled(key, source, grouped) for key in on]
        outputs = self._outputs(values, source)
        tail = self._tail(outputs, order)
        visible = unique_names([item.name for item in self.items])
        grouping = self._grouping() if grouped else None
        self.translator.close()
        return SelectBlock(
            self.names,
            source,
            [Field(name, column) for name, (column, _) in zip(visible, outputs, strict=True)],
            outputs,
            subqueries=self.translator.subqueries,
            where=where,
            grouping=grouping,
            having=having,
            distinct=node.args.get("distinct") is not None and not on,
            distinct_on=on,
            tail=tail,
        )

    # ---- FROM and WHERE ----

    def _from(self) -> Source | None:
        first = self.node.args.get("from_")
        if first is None:
            return None
        return FromBinder(self.binder, self.translator).bind(first.this, self.node.args.get("joins") or ())

    def _where(self) -> list[Expr]:
        where = self.node.args.get("where")
        if where is None:
            return []
        condition = self.translator.in_clause("WHERE", lambda: self.translator.condition(where.this))
        return conjuncts(condition)

    # ---- the list ----

    def _select_list(self) -> Iterator[Item]:
        if not self.node.expressions:
            raise self.text.error("SQL_SYNTAX", "SELECT has no list of columns", self.node)
        for node in self.node.expressions:
            if isinstance(node, exp.Star):
                yield from self._star(node, self.scope.visible)
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                yield from self._star(node.this, self._relation_fields(node))
            elif isinstance(node, exp.Alias):
                yield Item(node.alias, node.this, alias=node.alias)
            elif isinstance(node, exp.Subquery) and node.args.get("alias") is not None:
                yield Item(node.alias, node, alias=node.alias)
            else:
                yield Item(self._own_name(node), node)

    def _own_name(self, node: exp.Expr) -> str:
        """A column keeps the spelling of its table."""
        if isinstance(node, exp.Column):
            try:
                if len(node.parts) == 1:
                    field = self.scope.own_column(node.name)
                else:
                    field = self.scope.own_qualified(node.parts[0].name, node.parts[1].name)
            except Ambiguous:
                field = None
            if field is not None and len(node.parts) <= 2:
                return field.name
        return expression_name(node)

    def _relation_fields(self, node: exp.Column) -> list[tuple[Relation | None, Field]]:
        name = node.parts[0].name
        for scope in self.scope.outward():
            relation = scope.relation(name)
            if relation is not None:
                return [(relation, field) for field in relation.fields]
        raise self.text.error("COLUMN_NOT_FOUND", f"there is no table {name!r} in this query", node)

    def _star(self, node: exp.Star, fields: Sequence[tuple[Relation | None, Field]]) -> Iterator[Item]:
        if not fields:
            raise self.text.error("SQL_SYNTAX", "* without a table in FROM", self.node)
        self.binder.refuse_others(node, ("except_", "replace", "rename"), "*")
        for part in (*(node.args.get("replace") or ()), *(node.args.get("rename") or ())):
            if not isinstance(part, exp.Alias):
                raise self.text.error("SQL_SYNTAX", "REPLACE and RENAME take a list of `… AS name`", part)
        excluded = self._excluded(node, fields)
        replaced = {part.alias.casefold(): part for part in node.args.get("replace") or ()}
        renamed = {part.this.name.casefold(): part for part in node.args.get("rename") or ()}
        names = {name for relation, field in fields for name in _spellings(relation, field)}
        for word, parts in (("EXCLUDE", excluded), ("REPLACE", replaced), ("RENAME", renamed)):
            for folded, part in parts.items():
                if folded not in names:
                    known = ", ".join(field.name for _, field in fields)
                    message = f"{word} names {part.alias_or_name!r}, which * does not have; it has: {known}"
                    raise self.text.error("COLUMN_NOT_FOUND", message, part)
        for relation, field in fields:
            folded = field.name.casefold()
            if not excluded.keys().isdisjoint(_spellings(relation, field)):
                continue
            if folded in replaced:
                yield Item(field.name, replaced[folded].this)
            else:
                name = renamed[folded].alias if folded in renamed else field.name
                yield Item(name, None, Column(field.column))

    def _excluded(
        self, node: exp.Star, fields: Sequence[tuple[Relation | None, Field]]
    ) -> dict[str, exp.Expr]:
        """What EXCLUDE names. A column of USING goes if all the columns that it stands for do."""
        given = {_dotted(part): part for part in node.args.get("except_") or ()}
        found: dict[str, exp.Expr] = {}
        shown_as = Counter(field.name.casefold() for _, field in fields) if given else Counter[str]()
        for spelling, part in given.items():
            table, _, name = spelling.rpartition(".")
            owners = {_spellings(one, one.find(name)[0])[1] for one in self.scope.relations if one.find(name)}
            if (
                not table
                or spelling not in owners
                or shown_as[name] == len(owners)
                or fields is not self.scope.visible
            ):
                found[spelling] = part
            elif owners <= given.keys():
                found[name] = part
            else:
                raise self.text.not_supported("EXCLUDE of one side of a column of USING", part)
        return found

    def _value(self, place: int) -> Expr:
        item = self.items[place]
        if item.value is None:
            assert item.node is not None
            before, self._known_items = self._known_items, place
            item.busy = True
            try:
                item.value = self.translator.expression(item.node)
            finally:
                self._known_items = before
                item.busy = False
        return item.value

    def _alias(self, name: str) -> Expr | None:
        folded = name.casefold()
        for place, item in enumerate(self.items[: self._known_items]):
            if item.alias is not None and item.alias.casefold() == folded and not item.busy:
                return self._value(place)
        return None

    # ---- GROUP BY and HAVING ----

    def _plain(self, clause: str, node: exp.Expr) -> Expr:
        return self.translator.in_clause(clause, lambda: self.translator.expression(node))

    def _group_by(self, group: exp.Group) -> None:
        self.binder.refuse_others(group, ("expressions", "all"), "GROUP BY")
        if group.args.get("all"):
            self._group_by_all()
        for node in _group_terms(group.expressions):
            if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets)):
                raise self.text.not_supported(f"{type(node).key.upper()} in GROUP BY", node)
            place = self._ordinal(node, "GROUP BY")
            if place is not None:
                value = self.translator.in_clause("GROUP BY", lambda place=place: self._value(place))  # type: ignore[misc]
            else:
                value = self._plain("GROUP BY", node)
            self._add_key(value)

    def _group_by_all(self) -> None:
        """Every item that holds no aggregate."""
        for place in range(len(self.items)):
            value = self._value(place)
            if not self.translator.reads(value) & self.translator.aggregates.columns:
                self._add_key(value)

    def _add_key(self, value: Expr) -> None:
        key = identity(value)
        if key in self._keys:
            return
        taken = {name for name, _ in self._keys.values()}
        if isinstance(value, Column) and value.name in self._columns and value.name not in taken:
            self._keys[key] = (value.name, value)
        else:
            self._keys[key] = (self.names.new("key", self.translator.check(value)), value)

    def _ordinal(self, node: exp.Expr, clause: str) -> int | None:
        """`GROUP BY 2`: the place in the list, from 0."""
        if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit():
            return None
        place = int(node.this)
        if not 1 <= place <= len(self.items):
            message = f"{clause} {place}: the list has {len(self.items)} columns, counted from 1"
            raise self.text.error("SQL_SYNTAX", message, node)
        return place - 1

    def _having(self) -> list[Expr]:
        having = self.node.args.get("having")
        if having is None:
            return []
        self.translator.aliases, before = self._alias_in_having, self.translator.aliases
        self.translator.aliases_first = True
        try:
            return conjuncts(self.translator.condition(having.this))
        finally:
            self.translator.aliases = before
            self.translator.aliases_first = False

    def _alias_in_having(self, name: str) -> Expr | None:
        """A column that is a key goes before an alias of its name, others behind it. Aggregates see rows,
        which have no aliases."""
        if self.translator.plain is not None:
            return None
        try:
            field = self.scope.own_column(name)
        except Ambiguous:
            field = None
        if field is not None and identity(Column(field.column)) in self._keys:
            return None
        return self._alias(name)

    def _grouping(self) -> Grouping:
        calls = self.translator.aggregates.calls
        if not calls and not self._keys:
            # One row whatever there is; something has to be counted for it.
            calls = [(self.names.new("count", INT64), Aggregate(AggregateOp.COUNT_ROWS, None))]
        return Grouping(list(self._keys.values()), calls, self.translator.aggregates.order)

    def _settled(self, value: Expr | None, source: Source | None, grouped: bool) -> Expr:
        """An expression over what is there behind GROUP BY: keys and aggregates."""
        assert value is not None
        if not grouped:
            return value
        keys = self._keys

        def change(part: Expr) -> Expr | None:
            found = keys.get(identity(part))
            return None if found is None else Column(found[0])

        settled = transform(value, change) if keys else value
        local = source.columns if source is not None else frozenset()
        there = {name for name, _ in keys.values()}
        lost: set[str] = set()
        for name in columns_in(settled) - there:
            lost |= (self.translator.reads(Column(name)) & local) - there
        if lost:
            raise self._not_grouped(settled, lost)
        return settled

    def _not_grouped(self, value: Expr, lost: set[str]) -> Exception:
        column = _find_column(value, lost)
        origin = None if column is None else self.binder.origins.get(id(column))
        name = column.name if column is not None else min(lost)
        return self.text.error(
            "INVALID_AGGREGATE",
            f"the column {name.partition('#')[0]!r} is neither in GROUP BY nor inside an aggregate",
            None if origin is None else origin[1],
            column=name.partition("#")[0],
        )

    # ---- the result ----

    def _outputs(self, values: Sequence[Expr], source: Source | None) -> list[tuple[str, Expr]]:
        """The result's columns. One that is a column already keeps its name in the plan."""
        own = set(source.columns) if source is not None else set()
        own |= set(self.translator.subqueries) | self.translator.aggregates.columns
        own |= {name for name, _ in self._keys.values()}
        taken: set[str] = set()
        outputs: list[tuple[str, Expr]] = []
        for item, value in zip(self.items, values, strict=True):
            if isinstance(value, Column) and value.name in own and value.name not in taken:
                name = value.name
            else:
                name = self.names.new(item.name, self.translator.check(value))
            taken.add(name)
            outputs.append((name, value))
        return outputs

    # ---- DISTINCT, ORDER BY, LIMIT ----

    def _distinct_on(self) -> list[exp.Expr]:
        distinct = self.node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return []
        return list(on.expressions) if isinstance(on, exp.Tuple) else [on]

    def _distinct_key(self, node: exp.Expr) -> Expr:
        place = self._ordinal(node, "DISTINCT ON")
        return self._plain("DISTINCT ON", node) if place is None else self._value(place)

    def _order(self) -> Iterator[tuple[Expr, bool, bool]]:
        order = self.node.args.get("order")
        for term in order.expressions if order is not None else ():
            down, nulls_first = directions(term)
            if _is_all(term.this):
                for place in range(len(self.items)):
                    yield self._value(place), down, nulls_first
                continue
            yield self._order_value(term.this), down, nulls_first

    def _order_value(self, node: exp.Expr) -> Expr:
        """A place, an alias or an expression; a bare alias goes before a column of its name."""
        place = self._ordinal(node, "ORDER BY")
        if place is not None:
            return self._value(place)
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            found = self._alias(node.name)
            found = self._selected(node.name) if found is None else found
            if found is not None:
                return found
        value = self.translator.expression(node)
        if isinstance(value, Literal):
            raise self.text.error("SQL_SYNTAX", "ORDER BY a constant orders nothing", node)
        return value

    def _selected(self, name: str) -> Expr | None:
        """Of columns that have the name, the one that the list has."""
        folded = name.casefold()
        found = {
            identity(item.value): item.value
            for item in self.items
            if isinstance(item.value, Column) and item.alias is None and item.name.casefold() == folded
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def _tail(self, outputs: Sequence[tuple[str, Expr]], order: Sequence[tuple[Expr, bool, bool]]) -> Tail:
        return make_tail(self.translator, self.node, outputs, order)


def bind_tail(
    binder: Binder, node: exp.Expr, scope: Scope, items: Sequence[tuple[str, Expr]]
) -> tuple[Translator, Tail]:
    """ORDER BY and LIMIT behind something that is no SELECT: over the columns of its result."""
    translator = Translator(binder, scope)
    translator.plain = "ORDER BY here"
    order = node.args.get("order")
    keys: list[tuple[Expr, bool, bool]] = []
    for term in order.expressions if order is not None else ():
        down, nulls_first = directions(term)
        if _is_all(term.this):
            keys += [(value, down, nulls_first) for _, value in items]
        elif isinstance(term.this, exp.Literal) and not term.this.is_string and term.this.this.isdigit():
            place = int(term.this.this)
            if not 1 <= place <= len(items):
                message = f"ORDER BY {place}: the result has {len(items)} columns, counted from 1"
                raise binder.text.error("SQL_SYNTAX", message, term)
            keys.append((items[place - 1][1], down, nulls_first))
        else:
            keys.append((_result_value(translator, node, term.this, items), down, nulls_first))
    return translator, make_tail(translator, node, items, keys)


def _result_value(
    translator: Translator, node: exp.Expr, term: exp.Expr, items: Sequence[tuple[str, Expr]]
) -> Expr:
    try:
        return translator.expression(term)
    except ColumnNotFoundError:
        place = selected_place(node, term)
        if place is None:
            raise
        return items[place][1]


def make_tail(
    translator: Translator,
    node: exp.Expr,
    outputs: Sequence[tuple[str, Expr]],
    order: Sequence[tuple[Expr, bool, bool]],
) -> Tail:
    """Sort keys that are no columns of the result become hidden ones."""
    known = {identity(value): name for name, value in outputs} if order else {}
    hidden: list[tuple[str, Expr]] = []
    keys: list[tuple[Expr, bool, bool]] = []
    for value, down, nulls_first in order:
        key = identity(value)
        if key not in known:
            known[key] = translator.names.new("order", translator.check(value))
            hidden.append((known[key], value))
        keys.append((Column(known[key]), down, nulls_first))
    offset = _row_count(translator, node.args.get("offset"), "OFFSET") or 0
    return Tail(keys, hidden, offset, _row_count(translator, node.args.get("limit"), "LIMIT"))


def directions(term: exp.Ordered) -> tuple[bool, bool]:
    """Whether it descends, and whether NULLs come first; they come last unless the text says otherwise."""
    return bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def _dotted(node: exp.Expr) -> str:
    """`a` or `t.a`, in lower case."""
    parts = node.parts if isinstance(node, exp.Column) else [node]
    return ".".join(part.name.casefold() for part in parts)


def _spellings(relation: Relation | None, field: Field) -> tuple[str, ...]:
    """How EXCLUDE may call a column of *."""
    folded = field.name.casefold()
    return (folded,) if relation is None else (folded, f"{relation.alias.casefold()}.{folded}")


def _is_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"


def _group_terms(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for node in nodes:
        if isinstance(node, exp.Tuple):
            yield from _group_terms(node.expressions)
        else:
            yield node.unnest()


def _find_column(value: Expr, names: set[str]) -> Column | None:
    return next((part for part in parts_once(value) if isinstance(part, Column) and part.name in names), None)


# ---- constant numbers of rows ----


def _row_count(translator: Translator, node: exp.Expr | None, word: str) -> int | None:
    if node is None:
        return None
    counted = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise translator.text.not_supported(f"{word} in percent or with ties", node)
    if counted is None:
        return 1
    value = _constant(translator.in_clause(word, lambda: translator.translate(counted)))
    if value is None:
        return None
    if isinstance(value, (float, Decimal, str)):
        try:
            value = int(Decimal(value).to_integral_value("ROUND_HALF_UP"))
        except (ArithmeticError, ValueError):
            value = ...
    if isinstance(value, bool) or not isinstance(value, int):
        raise translator.text.not_supported(f"{word} that is not a constant number", node)
    if value < 0:
        raise translator.text.error("SQL_SYNTAX", f"{word} is at least 0, not {value}", node)
    return min(value, 1 << 64)  # more rows than there can be, in as few digits as may be printed


_FOLDS: dict[ArithmeticOp, Callable[[int, int], object]] = {
    ArithmeticOp.ADD: lambda a, b: a + b,
    ArithmeticOp.SUBTRACT: lambda a, b: a - b,
    ArithmeticOp.MULTIPLY: lambda a, b: a * b,
    ArithmeticOp.DIVIDE_INTEGER: lambda a, b: a // b if b else ...,
    ArithmeticOp.MODULO: lambda a, b: a % b if b else ...,
}


def _constant(value: Expr) -> object:
    """The value of arithmetic over constant integers; … where it is anything else."""
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, Cast):
        return _constant(value.value)
    if isinstance(value, Negate):
        inner = _constant(value.value)
        return -inner if isinstance(inner, int) else ...
    if isinstance(value, Arithmetic) and value.op in _FOLDS:
        left, right = _constant(value.left), _constant(value.right)
        if isinstance(left, int) and isinstance(right, int) and left >= 0 and right >= 0:
            return _FOLDS[value.op](left, right)
    return ...
