"""Values that come with a statement."""

from __future__ import annotations

from sqlglot import exp

from querymode.errors import error
from querymode.sql import constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.expr.nodes import Literal
    from querymode.sql.parse import Statement


class Parameters:
    """`?` in the order of the text, `$1` by number, `$name` by name. They are constants, never text."""

    def __init__(self, given: object, statement: Statement) -> None:
        self._text = statement.text
        self._positional: list[object] = []
        self._named: dict[str, object] = {}
        found = statement.tree.find_all(exp.Placeholder) if statement.may_have_parameters else ()
        wanted = {str(_name(node)) for node in found}
        marks = {name for name in wanted if name.startswith("?")}
        if marks and len(marks) != len(wanted):
            raise error("SQL_SYNTAX", "parameters are either ? or $name, not both in one text")
        if isinstance(given, dict):
            self._take_named(given, wanted, bool(marks))
        elif given is None or isinstance(given, (list, tuple)):
            self._take_positional(list(given or ()), wanted)
        else:
            raise error("QUERY_FAILED", f"parameters are a list or a dict, not {type(given).__name__}")

    def _take_named(self, given: dict[str, object], wanted: set[str], has_marks: bool) -> None:
        if has_marks:
            raise error(
                "QUERY_FAILED", "the text has parameters ?, whose values come as a list, not as a dict"
            )
        folded = {str(name).casefold(): value for name, value in given.items()}
        unknown = [
            str(name) for name in given if str(name).casefold() not in {one.casefold() for one in wanted}
        ]
        missing = sorted(name for name in wanted if name.casefold() not in folded)
        if missing or unknown:
            raise _mismatch([f"${name}" for name in missing], [f"${name}" for name in unknown])
        self._named = folded

    def _take_positional(self, given: list[object], wanted: set[str]) -> None:
        named = sorted(name for name in wanted if not name.lstrip("?").isdigit())
        if named:
            raise error(
                "QUERY_FAILED", f"the parameter ${named[0]} has no value; give a dict with {named[0]!r}"
            )
        count = max((int(name.lstrip("?")) for name in wanted), default=0)
        if count != len(given):
            raise error(
                "QUERY_FAILED", f"the text has {count} parameters, but {len(given)} values came with it"
            )
        self._positional = given

    def value(self, node: exp.Placeholder) -> Literal:
        name = _name(node).lstrip("?")
        if self._named:
            return constants.parameter(self._named[name.casefold()])
        return constants.parameter(self._positional[int(name) - 1])


def _name(node: exp.Placeholder) -> str:
    return node.this.name if isinstance(node.this, exp.Expr) else str(node.this)


def _mismatch(missing: list[str], unknown: list[str]) -> Exception:
    parts = [f"no value for {', '.join(missing)}"] if missing else []
    parts += [f"values for {', '.join(unknown)}, which the text does not have"] if unknown else []
    return error("QUERY_FAILED", f"parameters do not fit the text: {'; '.join(parts)}")
