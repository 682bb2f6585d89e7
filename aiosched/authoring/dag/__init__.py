"""`DAG` and its groups; loading a DAG file; serializing a DAG to a `DagSpec`."""
