"""Arrow at the border: foreign data is checked in full before anything computes with it."""
