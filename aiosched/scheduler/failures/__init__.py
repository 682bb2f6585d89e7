"""Which DAG, report, request or row an error concerns, how often it has failed, and what is left alone for it."""
