"""Runs plans: lanes over worker threads, one engine instance each, within a memory budget."""
