"""All functions by name, gathered from their families, each of which has a file with its rules."""

from __future__ import annotations

from querymode.functions import TEXT_FUNCTIONS
from querymode.functions_number import NUMBER_FUNCTIONS
from querymode.functions_time import TIME_FUNCTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from querymode.functions import FunctionRule

FAMILIES = (TEXT_FUNCTIONS, NUMBER_FUNCTIONS, TIME_FUNCTIONS)

#: Every name, in lower case.
FUNCTIONS: dict[str, FunctionRule] = {
    name: rule for family in FAMILIES for names, rule in family.items() for name in names
}
