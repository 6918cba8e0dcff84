"""Logical plans: nodes, binding to columns and types, functions and aggregates, and plans as JSON and Python."""
