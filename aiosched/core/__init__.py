"""The rules of scheduling, as pure functions and plain data: no I/O, no clock, no SQL.

    values/      small values and tables: states, ids, retries, messages   assets/   runs by events
    timetables/  when runs happen                                          graph/    a DAG as written, compiled
    run/         one unfinished run, and what changes it                   slots/    who gets a slot, under every limit
    creation/    which runs should exist, and which start                  why/      why something does not run
    fleet/       which scheduler has how much to do

Import from the modules: this file imports nothing, so that each import costs only the module itself.
"""
