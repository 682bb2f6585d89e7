"""The rules of scheduling, as pure functions and plain data: no I/O, no clock, no SQL.

    states.py         task and run states, legal changes      spec.py        the serialized DAG
    ids.py            partitions, run ids                     messages.py    attempts and reports
    graph.py          a DAG compiled for the scheduler        weights.py     who goes first
    trigger_rules.py  may a task run after its upstreams      branching.py   what a branch skips
    board.py          one unfinished run in memory            run_result.py  how a run ended
    instances.py      its rows, and what it asks for          tally.py       who of a run is finished
    slots.py          who gets a slot, under every limit      waiting.py     those who wait for one
    retries.py        how long a failure waits                params.py      which values a run gets
    run_creation.py   which runs should exist                 timetables/    when runs happen

Import from the modules: this file imports nothing, so that one of them costs only itself.
"""
