"""Runs attempts: in this process, or in worker processes of this machine.

    attempt/     one attempt in its process: runner, results, logs   inline/   in the scheduler's process
    worker/      worker processes, and how they are forked           local/    the scheduler's side of them
    dag_test.py  one run without a database                     engines/  other machines
    executor_router.py  several executors as one                     throughput.py  attempts beyond the slots

Names are imported on first use: reading a log does not import a runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.core.values.messages import Attempt, AttemptKey, Executor, Outcome, Report, TaskServices
    from aiosched.executors.attempt.dag_cache import FileDags
    from aiosched.executors.attempt.environment import AttemptEnvironment
    from aiosched.executors.dag_test import TestRun, run_dag_test
    from aiosched.executors.inline.executor import InlineExecutor
    from aiosched.executors.inline.running import ELSEWHERE, run_attempt
    from aiosched.executors.local.executor import LocalExecutor
    from aiosched.executors.local.options import LocalOptions

__all__ = [
    "ELSEWHERE",
    "Attempt",
    "AttemptEnvironment",
    "AttemptKey",
    "Executor",
    "FileDags",
    "InlineExecutor",
    "LocalExecutor",
    "LocalOptions",
    "Outcome",
    "Report",
    "TaskServices",
    "TestRun",
    "run_attempt",
    "run_dag_test",
]

_MODULES = {
    ".core.values.messages": "Attempt AttemptKey Executor Outcome Report TaskServices",
    "attempt.dag_cache": "FileDags",
    "attempt.environment": "AttemptEnvironment",
    "dag_test": "TestRun run_dag_test",
    "inline.executor": "InlineExecutor",
    "inline.running": "ELSEWHERE run_attempt",
    "local.executor": "LocalExecutor",
    "local.options": "LocalOptions",
}

__getattr__, __dir__ = imported_on_demand(__name__, _MODULES)
