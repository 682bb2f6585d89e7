"""How fast is it, measured through the real service on a real, durable PostgreSQL.

shapes.py    the DAGs of each benchmark, as pure descriptions and as DAG files
record.py    what each task body wrote down about itself
verify.py    did every attempt run exactly once, and none before its upstreams ended
lag.py       how long tasks waited after their last dependency was met
measure.py   processor time, memory, statements, WAL, the cost of a durable commit
run.py       one benchmark from an empty database to a result
report.py    the result for people and for machines
counting.py  calls of our functions, and memory left; gates.py: their bounds in CI
instructions.py  instructions of the scheduler's process, counted by valgrind
peers/       other systems beside aiosched

python -m benchmarks chain-200 --executor inline --callable async
"""
