"""Which waiting task instances get a slot."""
