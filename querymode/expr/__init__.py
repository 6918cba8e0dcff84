"""Expressions as users write them: nodes, the walker over them, and constants. Nothing here knows a schema."""
