"""Expressions as users write them: nodes, the walker over them, constants. Nothing here knows a schema."""
