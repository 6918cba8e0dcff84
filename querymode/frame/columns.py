"""DataFrame methods that change columns and leave rows as they are."""

from __future__ import annotations

from querymode.errors import error
from querymode.expr.nodes import Cast, Coalesce, Column, Expr, Literal
from querymode.frame.arguments import (
    FrameBase,
    all_columns,
    column_name,
    column_names,
    column_type,
    flat,
    named,
    new_name,
)
from querymode.plan.nodes import MapBatches, Project
from querymode.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import pyarrow

    from querymode.frame.frame import DataFrame
    from querymode.types import DataType


class ColumnMethods(FrameBase):
    """Columns: fewer, others, more."""

    def drop(self, *columns: str | Expr | Sequence[str | Expr]) -> DataFrame:
        """Without these columns."""
        schema = self._node.schema
        gone = set(column_names("drop", columns, schema))
        kept = [item for item in all_columns(schema) if item[0] not in gone]
        if not kept:
            raise error("QUERY_FAILED", "drop would leave no column; keep at least one")
        return self._with(Project(self._node, kept)) if gone else self._with(self._node)

    def rename(self, names: Mapping[str, str] | Callable[[str], str]) -> DataFrame:
        """Columns under other names: `rename({"old": "new"})`, or a function such as `str.lower`."""
        schema = self._node.schema
        if isinstance(names, dict):
            for old in names:
                column_name("rename", old, schema)
            new = [names.get(name, name) for name in schema.names]
        elif callable(names):
            new = [names(name) for name in schema.names]
        else:
            kind = type(names).__name__
            raise error("QUERY_FAILED", f"rename takes a dict of names or a function, not {kind}")
        items = [(new_name("rename", name), Column(old)) for name, old in zip(new, schema.names, strict=True)]
        return self._with(Project(self._node, items))

    def with_columns(self, *items: Expr | Sequence[Expr], **named_items: object) -> DataFrame:
        """These expressions beside the columns there are; one that has a column's name takes its place.

        `with_columns((col("a") * 2).alias("b"))` or `with_columns(b=col("a") * 2)`. All of them see the
        columns as they were.
        """
        found = [named(item) for item in flat(items)]
        found += [
            (name, item if isinstance(item, Expr) else Literal(item)) for name, item in named_items.items()
        ]
        if not found:
            raise error("QUERY_FAILED", "with_columns takes at least one expression")
        return self._with(Project(self._node, _replaced(self._node.schema, found, "with_columns")))

    def cast(self, types: DataType | str | Mapping[str, DataType | str], *, strict: bool = True) -> DataFrame:
        """Columns as other types: `cast({"id": "int32"})`, or all of them as one.

        With `strict=False` what does not fit becomes NULL instead of an error.
        """
        schema = self._node.schema
        if isinstance(types, dict):
            wanted = {
                column_name("cast", name, schema): column_type("cast", one) for name, one in types.items()
            }
        else:
            wanted = dict.fromkeys(schema.names, column_type("cast", types))
        items = [
            (name, Cast(Column(name), wanted[name], not strict) if name in wanted else Column(name))
            for name in schema.names
        ]
        return self._with(Project(self._node, items))

    def fill_null(self, value: object) -> DataFrame:
        """A value where there is none: `fill_null({"amount": 0})`, or one for all columns that can hold it.

        One value for all fills columns of its own kind (numbers, texts, …) and leaves the others alone.
        """
        schema = self._node.schema
        if isinstance(value, dict):
            values = {column_name("fill_null", name, schema): one for name, one in value.items()}
        else:
            values = {name: value for name, data_type in schema if _is_of_kind(value, data_type)}
        if value is None or any(one is None for one in values.values()):
            raise error("INVALID_FILTER", "fill_null takes values that are not NULL")
        if not values:
            raise error("INVALID_FILTER", f"no column can hold {value!r}; give a dict of columns and values")
        items: list[tuple[str, Expr]] = []
        for name in schema.names:
            column: Expr = Column(name)
            items.append((name, _filled(column, values[name]) if name in values else column))
        return self._with(Project(self._node, items))

    # ---- Python functions ----

    def computed(
        self, name: str, function: Callable[[pyarrow.RecordBatch], Any], dtype: DataType | str
    ) -> DataFrame:
        """A column that a Python function computes from Arrow batches: one value for every row of a batch.

        The function gets a pyarrow.RecordBatch and returns an Arrow array, or what makes one (a list, a
        numpy array). A column of that name is replaced.
        """
        if not callable(function):
            raise error("QUERY_FAILED", f"computed takes a function, not {type(function).__name__}")
        data_type = column_type("computed", dtype)
        fields = dict(self._node.schema)
        fields[new_name("computed", name)] = data_type
        from querymode.frame.computed import ComputedColumn

        return self._with(
            MapBatches(self._node, ComputedColumn(name, function, data_type), Schema(fields.items()))
        )

    def map_batches(
        self,
        function: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch],
        schema: Mapping[str, DataType | str] | pyarrow.Schema | Schema | None = None,
    ) -> DataFrame:
        """What a Python function makes of Arrow batches, one after the other.

        `schema`: the columns that it returns, as {name: type} or a pyarrow.Schema; those that it gets
        unless given.
        """
        if not callable(function):
            raise error("QUERY_FAILED", f"map_batches takes a function, not {type(function).__name__}")
        return self._with(MapBatches(self._node, function, self._schema_of(schema)))

    def _schema_of(self, given: object) -> Schema:
        if given is None:
            return Schema(self._node.schema)
        if isinstance(given, Schema):
            return given
        if isinstance(given, dict):
            return Schema(
                (new_name("map_batches", name), column_type("map_batches", one))
                for name, one in given.items()
            )
        if hasattr(given, "empty_table"):  # pyarrow's
            from querymode.table.from_arrow import from_arrow

            return from_arrow(given.empty_table()).schema
        raise error(
            "QUERY_FAILED", f"schema= is a dict of types or a pyarrow.Schema, not {type(given).__name__}"
        )


def _replaced(schema: Schema, items: list[tuple[str, Expr]], what: str) -> list[tuple[str, Expr]]:
    """All columns, some of them replaced, and new ones behind them."""
    new: dict[str, Expr] = {}
    for name, item in items:
        if name in new:
            raise error("SCHEMA_MISMATCH", f"{what} has two columns of the name {name!r}", column=name)
        new[name] = item
    kept = [(name, new.pop(name, Column(name))) for name in schema.names]
    return [*kept, *new.items()]


def _filled(column: Expr, value: object) -> Expr:
    return Coalesce((column, value if isinstance(value, Expr) else Literal(value)))


def _is_of_kind(value: object, data_type: DataType) -> bool:
    """Whether a constant is of a column's own kind, and fits it as it is."""
    if value is None or isinstance(value, Expr):
        return False
    from querymode.expr import literals
    from querymode.types import is_numeric

    plain = literals.plain(value)
    natural = literals.natural_type(plain)
    alike = natural.tag == data_type.tag or (is_numeric(natural) and is_numeric(data_type))
    return alike and literals.fit(plain, data_type) is not None
