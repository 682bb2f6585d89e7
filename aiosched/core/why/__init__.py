"""Why something does not run: the gates of DAGs, runs and task instances."""
