"""Plans → stages: plain data that an executor runs."""
