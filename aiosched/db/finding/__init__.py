"""Finding things across DAGs: names for the search, figures for the first page."""
