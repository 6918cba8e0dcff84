"""Keys of a GROUP BY that its other keys determine: computed once for every group, not for every row.

`GROUP BY ip, ip - 1` has the groups of `GROUP BY ip`, and a constant has one value in all of them.
"""

from __future__ import annotations

from querymode._abi import TypeTag
from querymode.expr.nodes import Column, Expr
from querymode.expr.trees import identity, map_children, once
from querymode.plan.nodes import GroupBy, Project
from querymode.types import is_nested, is_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.trees import Identities
    from querymode.types import DataType

#: Equal values of these may differ in what is computed from them: 0.0 and -0.0, a month and 30 days.
_AMBIGUOUS = frozenset((TypeTag.F64, TypeTag.F32, TypeTag.F16, TypeTag.INTERVAL))


def fewer_keys(node: GroupBy) -> Project | None:
    """The same groups by fewer keys; None when it has no key too many."""
    if len(node.keys) < 2:
        return None
    kept: dict[str, Expr] = {}
    computed: dict[str, Expr] = {}
    known = _Known()
    # Columns first: others may be made of them, wherever they stand.
    for (name, key), data_type in sorted(
        zip(node.keys, node.schema.types, strict=False), key=lambda pair: not isinstance(pair[0][1], Column)
    ):
        found = known.above(key)
        if found is None or (not kept and name == node.keys[-1][0]):
            kept[name] = key
            known.add(name, key, data_type)
        else:
            computed[name] = found
    if not computed:
        return None
    keys = [(name, key) for name, key in node.keys if name in kept]
    names = [name for name, _ in (*node.keys, *node.calls)]
    return Project(
        GroupBy(node.input, keys, node.calls), [(name, computed.get(name, Column(name))) for name in names]
    )


class _Known:
    """What the keys so far say of other expressions over the rows of a group."""

    def __init__(self) -> None:
        self._whole: dict[object, str] = {}
        self._exact: dict[object, str] = {}

    def add(self, name: str, key: Expr, data_type: DataType) -> None:
        self._whole[identity(key)] = name
        if data_type.tag not in _AMBIGUOUS and not is_nested(data_type) and not is_vector(data_type):
            self._exact[identity(key)] = name

    def above(self, key: Expr) -> Expr | None:
        """The same as an expression over groups, if they determine it."""
        name = self._whole.get(identity(key))
        return self._made_of_keys(key) if name is None else Column(name)

    def _made_of_keys(self, expression: Expr) -> Expr | None:
        determined = True
        known: Identities = {}

        def made(part: Expr) -> Expr:
            nonlocal determined
            name = self._exact.get(identity(part, known))
            if name is not None:
                return Column(name)
            determined = determined and not isinstance(part, Column)
            return map_children(part, of) if determined else part

        of = once(made)
        changed = of(expression)
        return changed if determined else None
