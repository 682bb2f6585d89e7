"""The local executor: the scheduler's side of warm worker processes."""
