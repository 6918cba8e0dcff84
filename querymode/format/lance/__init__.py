"""Lance: tables with versions, and data files alone."""
