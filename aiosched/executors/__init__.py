"""Runs attempts: in this process, or in worker processes of this machine.

    inline.py    in the scheduler's process       local.py     in warm worker processes
    runner.py    the steps of one attempt         worker.py    a process for plain functions
    results.py   what becomes an XCom             async_worker.py  one for async def tasks
    logs.py      what goes into a log file        forkserver.py    where workers come from
    log_files.py where it lies, reading it        dag_test.py  one run without a database
    attempts.py  triggers and callbacks           trigger_tasks.py, trigger_desk.py  where triggers wait
    blocking.py  plain code that waits for a loop  team.py    several executors as one
    answers.py   what tasks in workers ask
    running.py   one attempt, for executors of other packages: docs/executors.md

Names are looked up when they are first used: reading a log does not import a runner.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiosched.core.messages import Attempt, AttemptKey, Executor, Outcome, Report, TaskServices
    from aiosched.executors.dag_cache import FileDags
    from aiosched.executors.dag_test import TestRun, run_dag_test
    from aiosched.executors.inline import InlineExecutor
    from aiosched.executors.local import LocalExecutor
    from aiosched.executors.options import LocalOptions
    from aiosched.executors.runner import Surroundings
    from aiosched.executors.running import run_attempt

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
    "FileDags": "dag_cache",
    "InlineExecutor": "inline",
    "LocalExecutor": "local",
    "LocalOptions": "options",
    "TestRun": "dag_test",
    "run_dag_test": "dag_test",
    "Surroundings": "runner",
    "run_attempt": "running",
}
_MESSAGES = {"Attempt", "AttemptKey", "Executor", "Outcome", "Report", "TaskServices"}


def __getattr__(name: str) -> Any:
    if name in _MESSAGES:
        return getattr(importlib.import_module("aiosched.core.messages"), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
