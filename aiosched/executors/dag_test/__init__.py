"""`dag.test()`: one run of a DAG in this process, without a database."""
