"""Lists across DAGs: runs and task instances, filtered, in order, and counted for each value of a filter."""
