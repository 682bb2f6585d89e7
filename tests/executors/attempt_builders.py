"""Small builders for the tests of executors: DAG files, attempts, a place for reports."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from aiosched.core.values.messages import (
    Attempt,
    AttemptKey,
    CallbackCall,
    Deferral,
    Outcome,
    Report,
    Resume,
    RunInfo,
    XComRef,
)
from aiosched.errors import Refused
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from aiosched.executors.local.executor import LocalExecutor

StartLocal = Callable[..., Awaitable["LocalExecutor"]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = """
import asyncio, logging, os, signal, subprocess, sys, time, warnings
from datetime import datetime, timezone
from aiosched import DAG, BaseOperator, PythonOperator
from aiosched.errors import FailTask, RescheduleTask, SkipTask

def task(function, **kwargs):
    return PythonOperator(task_id=function.__name__, python_callable=function, **kwargs)
"""


def write_dag(folder: Path, tasks: str, *, name: str = "d") -> str:
    """A DAG file whose DAG `name` has the functions of `tasks` as tasks; returns its relative path."""
    folder.mkdir(parents=True, exist_ok=True)
    body = textwrap.indent(textwrap.dedent(tasks), "    ")
    (folder / f"{name}.py").write_text(f"{HEADER}\nwith DAG({name!r}, schedule=None):\n{body}\n")
    return f"{name}.py"


def attempt(
    task_id: str,
    *,
    is_async: bool = False,
    number: int = 0,
    file: str | None = "d.py",
    dag_id: str = "d",
    try_number: int = 1,
    max_tries: int = 0,
    timeout: float | None = None,
    source_hash: str = "h",
    map_index: int = -1,
    **run: Any,
) -> Attempt:
    """The first try of `task_id`, in run 1; `number` tells attempts of one task apart (its run)."""
    info = RunInfo(
        key=number, dag_id=dag_id, run_id=f"manual__{number}", run_type="manual", run_after=NOW, logical_date=NOW,
        file=file, source_hash=source_hash, **run,
    )  # fmt: skip
    key = AttemptKey(number, 0, map_index, try_number)
    return Attempt(
        key=key, run=info, task_id=task_id, is_async=is_async, max_tries=max_tries, execution_timeout=timeout
    )


def trigger_attempt(classpath: str, kwargs: str = "{}", *, number: int = 0, **options: Any) -> Attempt:
    """The trigger of a task that deferred, as the scheduler submits it: the try's key with the number negated."""
    one = attempt("t", number=number, **options)
    deferral = Deferral(classpath=classpath, kwargs=kwargs, next_method="go_on")
    return msgspec.structs.replace(one, key=one.key._replace(try_number=-1), trigger=deferral)


def resumed(one: Attempt, method: str, **facts: Any) -> Attempt:
    """The same try, going on after a deferral."""
    return msgspec.structs.replace(one, resume=Resume(next_method=method, **facts))


def callback_attempt(kind: str, *, number: int = 7, **facts: Any) -> Attempt:
    """A callback that the scheduler asks for."""
    one = attempt("", number=0)
    call = CallbackCall(id=number, kind=kind, **facts)
    return msgspec.structs.replace(one, key=AttemptKey(0, -1, -1, number), callback=call)


@dataclass
class FakeServices:
    """XComs from a dict: (task id, key) to (map index, JSON text) pairs."""

    xcoms: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    elsewhere: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)  # of other runs and DAGs
    calls: list[Sequence[XComRef]] = field(default_factory=list)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[list[tuple[int, str]]]:
        self.calls.append(refs)
        await asyncio.sleep(0)
        return [self.xcoms.get((ref.task_id, ref.key), []) for ref in refs]

    async def call(self, run: int, name: str, args: str) -> str:
        """`echo` says what it was asked; `refuse` and `break` raise."""
        await asyncio.sleep(0)
        if name == "refuse":
            raise Refused("not now: ask later")
        if name == "break":
            raise ValueError("broken")
        if name == "xcoms":
            refs = json.loads(args)["refs"]
            return json.dumps({"pairs": [self.elsewhere.get((task_id, key), []) for task_id, key, _ in refs]})
        return json.dumps({"run": run, "name": name, "args": json.loads(args)})


class Reports:
    """Collects reports and lets a test wait for them."""

    def __init__(self) -> None:
        self.all: list[Report] = []
        self._news = asyncio.Event()

    def __call__(self, report: Report) -> None:
        self.all.append(report)
        self._news.set()

    @property
    def final(self) -> list[Report]:
        return [report for report in self.all if report.outcome is not Outcome.STARTED]

    async def of(self, wanted: Attempt, *, outcome: Outcome | None = None) -> Report:
        """The final report of an attempt (or the one with `outcome`); waits for it."""
        while True:
            self._news.clear()
            for report in self.all:
                matches = report.outcome is not Outcome.STARTED if outcome is None else report.outcome is outcome
                if report.key == wanted.key and matches:
                    return report
            async with asyncio.timeout(PATIENCE):
                await self._news.wait()

    async def count(self, wanted: int) -> list[Report]:
        """The final reports, once there are `wanted` of them."""
        while len(self.final) < wanted:
            self._news.clear()
            async with asyncio.timeout(PATIENCE):
                await self._news.wait()
        return self.final


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
