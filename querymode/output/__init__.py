"""What becomes of an answer: rows, Arrow, files, text tables; and what a query says of itself."""
