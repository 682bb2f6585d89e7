"""Finding things across DAGs: the search, and the activity on the first page."""
