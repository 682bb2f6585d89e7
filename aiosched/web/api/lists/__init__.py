"""Lists across DAGs: runs, task instances, and what is done to many of them at once."""
