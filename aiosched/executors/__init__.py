"""Runs attempts: in this process, or in worker processes of this machine.

    inline.py    in the scheduler's process       local.py     in warm worker processes
    runner.py    the steps of one attempt         worker.py    a process for plain functions
    results.py   what becomes an XCom             async_worker.py  one for async def tasks
    logs.py      what goes into a log file        forkserver.py    where workers come from
    log_files.py where it lies, reading it        dag_test.py  one run without a database
    attempts.py  triggers and callbacks           trigger_tasks.py, trigger_desk.py  where triggers wait
    blocking.py  plain code that waits for a loop  team.py    several executors as one
    answers.py   what tasks in workers ask        queueing.py, affinity.py, tickets.py  which worker gets what
    running.py   one attempt, for executors of other packages: docs/executors.md
    process_state.py, process_parts.py  what attempts change in a worker's process, and putting it back
    loop_sign.py, loop_health.py, loop_watch.py, blocked_loops.py  coroutines that block their worker's loop

Names are looked up when they are first used: reading a log does not import a runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.core.values.messages import Attempt, AttemptKey, Executor, Outcome, Report, TaskServices
    from aiosched.executors.attempt.dag_cache import FileDags
    from aiosched.executors.attempt.runner import Surroundings
    from aiosched.executors.dag_test.dag_test import TestRun, run_dag_test
    from aiosched.executors.inline.executor import InlineExecutor
    from aiosched.executors.inline.running import run_attempt
    from aiosched.executors.local.executor import LocalExecutor
    from aiosched.executors.local.options import LocalOptions

__all__ = [
    "Attempt",
    "AttemptKey",
    "Executor",
    "FileDags",
    "InlineExecutor",
    "LocalExecutor",
    "LocalOptions",
    "Outcome",
    "Report",
    "Surroundings",
    "TaskServices",
    "TestRun",
    "run_attempt",
    "run_dag_test",
]

_HOMES = {
    "Attempt": ".core.values.messages",
    "AttemptKey": ".core.values.messages",
    "Executor": ".core.values.messages",
    "Outcome": ".core.values.messages",
    "Report": ".core.values.messages",
    "TaskServices": ".core.values.messages",
    "FileDags": "attempt.dag_cache",
    "InlineExecutor": "inline.executor",
    "LocalExecutor": "local.executor",
    "LocalOptions": "local.options",
    "TestRun": "dag_test.dag_test",
    "run_dag_test": "dag_test.dag_test",
    "Surroundings": "attempt.runner",
    "run_attempt": "inline.running",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)
