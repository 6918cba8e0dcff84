"""All functions by name, gathered from their families, each of which has a file with its rules."""

from __future__ import annotations

from querymode.plan.functions.number import NUMBER_FUNCTIONS
from querymode.plan.functions.rules import GENERAL_FUNCTIONS, TEXT_FUNCTIONS
from querymode.plan.functions.time import TIME_FUNCTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.plan.functions.rules import FunctionRule

FAMILIES = (TEXT_FUNCTIONS, GENERAL_FUNCTIONS, NUMBER_FUNCTIONS, TIME_FUNCTIONS)

#: Every name, in lower case.
FUNCTIONS: dict[str, FunctionRule] = {
    name: rule for family in FAMILIES for names, rule in family.items() for name in names
}
