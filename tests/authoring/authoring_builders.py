"""Small builders for the tests of authoring: attempts, contexts, XComs, and files with DAGs."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from aiosched.authoring.runtime.context import Context, current_context
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.task_context import build_context
from aiosched.core.values.messages import Attempt, AttemptKey, FoundXComs, RunInfo, XComRef, XComSearch

LOGICAL_DATE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class FakeServices:
    """XComs of run 1 by (task id, key): {map index: value}; those of other runs and DAGs in `prior`."""

    xcoms: Mapping[tuple[str, str], Mapping[int, Any]] = field(default_factory=dict)
    prior: Mapping[tuple[str, str], Mapping[int, Any]] = field(default_factory=dict)
    calls: list[list[XComRef]] = field(default_factory=list)
    searches: list[XComSearch] = field(default_factory=list)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[list[tuple[int, str]]]:
        self.calls.append(list(refs))
        return [_found(self.xcoms, ref) for ref in refs]

    async def call(self, run: int, name: str, args: str) -> str:
        assert name == "xcoms"
        search = msgspec.json.decode(args, type=XComSearch)
        self.searches.append(search)
        found = FoundXComs(pairs=[_found(self.prior, ref) for ref in search.refs])
        return msgspec.json.encode(found).decode()


def _found(xcoms: Mapping[tuple[str, str], Mapping[int, Any]], ref: XComRef) -> list[tuple[int, str]]:
    values = xcoms.get((ref.task_id, ref.key), {})
    return [(i, json.dumps(value)) for i, value in sorted(values.items()) if ref.map_index in (None, i)]


def attempt_of(
    task_id: str = "t",
    *,
    dag_id: str = "d",
    logical_date: datetime | None = LOGICAL_DATE,
    conf: Mapping[str, Any] | None = None,
    map_index: int = -1,
    first_started: datetime | None = None,
) -> Attempt:
    """The second try of a task in a manual run at LOGICAL_DATE."""
    run = RunInfo(
        key=1,
        dag_id=dag_id,
        run_id="manual__1",
        run_type="manual",
        run_after=LOGICAL_DATE,
        logical_date=logical_date,
        interval_start=logical_date,
        interval_end=logical_date,
        conf=dict(conf or {}),
    )
    key = AttemptKey(1, 0, map_index, 2)
    return Attempt(key=key, run=run, task_id=task_id, is_async=False, max_tries=3, first_started=first_started)


def without_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine from plain code, as a worker does."""
    return asyncio.run(work)


def not_allowed(work: Coroutine[Any, Any, Any]) -> Any:
    """For tasks that must not wait in plain code."""
    work.close()
    raise AssertionError("nothing should be fetched here")


def context_of(
    task: BaseOperator, attempt: Attempt | None = None, *, services: FakeServices | None = None, blocking: Any = None
) -> Context:
    """The context of an attempt of `task`."""
    attempt = attempt or attempt_of(task.task_id, dag_id=task.dag_id or "d")
    ti = TaskInstance(attempt, task, services or FakeServices(), blocking or not_allowed, start_date=LOGICAL_DATE)
    return build_context(task, ti, attempt, task.dag)


async def run_task(
    task: BaseOperator,
    attempt: Attempt | None = None,
    *,
    xcoms: Mapping[tuple[str, str], Mapping[int, Any]] | None = None,
) -> tuple[Any, TaskInstance]:
    """Run `task` as the runner does; its result and its `ti`."""
    context = context_of(task, attempt, services=FakeServices(xcoms or {}))
    ti: TaskInstance = context["ti"]
    with current_context(context):
        await ti.prefetch(task.xcom_references(ti.map_index))
        result = task.render(context).execute(context)
        if inspect.isawaitable(result):
            result = await result
    return result, ti


def edges(dag: Any) -> set[str]:
    """All arrows of a DAG, as `a>b`."""
    return {f"{up}>{task.task_id}" for task in dag.tasks for up in task.upstream_task_ids}
