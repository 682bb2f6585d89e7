"""Commands about DAGs, their runs and their tasks."""
