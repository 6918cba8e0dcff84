"""DataFrames: the lazy API, whose every method makes a plan node."""
