"""`DAG` and its groups: building one, loading its file, turning it into a `DagSpec`."""
