"""Logical plans: nodes, binding to columns and types, functions, aggregates; plans as JSON and Python."""
