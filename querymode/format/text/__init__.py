"""Text files: CSV, and JSON with an object a line."""
