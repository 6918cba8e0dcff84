"""Functions by name, a module for each family."""
