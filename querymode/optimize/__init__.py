"""Plans → better plans with the same rows, and answers that need no run."""
