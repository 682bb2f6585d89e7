"""The rules of scheduling, as pure functions and plain data: no I/O, no clock, no SQL.

    states.py         task and run states, legal changes      spec.py        the serialized DAG
    ids.py            partitions, run ids                     messages.py    attempts and reports
    graph.py          a DAG compiled for the scheduler        weights.py     who goes first
    trigger_rules.py  may a task run after its upstreams      branching.py   what a branch skips
    board.py          one unfinished run in memory            run_result.py  how a run ended
    instances.py      its rows, and what it asks for          ledger.py      how a row changes
    tally.py          who of a run is finished                marks.py       what people do to a run
    mapping.py        how many instances a task has           expansion.py   how they come to be
    past.py           what the run before says                clearing.py    what "clear this" means
    deferral.py       who waits for a trigger                 callbacks.py   which callbacks are asked for
    slots.py          who gets a slot, under every limit      waiting.py     those who wait for one
    retries.py        how long a failure waits                params.py      which values a run gets
    run_creation.py   which runs should exist                 backfills.py   the dates of a backfill
    assets.py         runs by events                          deadlines.py   when a run is late
    slas.py           when a task is late
    connections.py    where services are                      masking.py     secrets become ***
    timetables/       when runs happen                        instants.py    dates inside the calendar

Import from the modules: this file imports nothing, so that one of them costs only itself.
"""
