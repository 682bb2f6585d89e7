"""Faults with real processes: schedulers, workers and PostgreSQL are killed, paused and cut off under load.

    python -m tests.faults.campaign kills --faults 1000        (`make faults` runs them all)

    wire.py, proxy.py       a TCP proxy that knows where PostgreSQL's messages and commits end
    workload.py, recorder.py  the DAG files, and what their tasks write down themselves
    asking.py               what tasks ask of their scheduler, and change
    leaving.py              the processes that tasks start and leave behind
    postgres.py, fleet.py   the processes: the database server, N times `aiosched serve`
    watching.py, history.py triggers that keep every change of a row; reading it all back
    measures.py             how long take-overs took
    stage.py, campaigns.py  a whole campaign; which ones there are
    poison.py, poison_round.py  wrong content beside healthy DAGs, which must not notice
    results.py              figures, verdict, and the command that repeats it

What was found is judged by tests/faults/checker.py, which shares no code with the scheduler.
"""
