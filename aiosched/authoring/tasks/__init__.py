"""Tasks: `BaseOperator`, `@task`, their outputs, setups and teardowns."""
