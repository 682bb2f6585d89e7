"""Tasks: `BaseOperator`, its arguments, outputs and context, setups and teardowns."""
