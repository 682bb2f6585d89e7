"""A task that starts a run of another DAG, and waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import DAG
from aiosched.authoring.operators.trigger_dagrun import TriggerDagRunOperator, TriggeredRunFailed
from aiosched.authoring.runtime.context import Context, current_context
from aiosched.authoring.triggers import DagStateTrigger
from aiosched.errors import DagError, NotFound, Refused, SkipTask, TaskDeferred
from tests.authoring.authoring_builders import FakeServices, context_of

DATE = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass
class Scheduler(FakeServices):
    """Runs by id: their states, one after the other; the last one stays."""

    runs: dict[str, list[str]] = field(default_factory=dict)
    paused: bool = False
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, run: int, name: str, args: str) -> str:
        given = json.loads(args)
        self.asked.append((name, given))
        answer: Any = {"run_id": given.get("run_id")}
        if name == "trigger_dag":
            run_id = given["run_id"] or "manual__1"
            if given["dag_id"] == "nobody":
                raise NotFound("There is no DAG 'nobody' to trigger.")
            if run_id in self.runs and run_id != "manual__1":
                raise Refused("exists already")
            answer = {"run_id": run_id, "is_paused": self.paused}
        elif name == "run_state":
            found = self.runs.get(given.get("run_id") or "")
            state = None if not found else found.pop(0) if len(found) > 1 else found[0]
            answer = {"dag_exists": True, "run": state and {"run_id": given["run_id"], "state": state}}
        return json.dumps(answer)


def context_for(operator: TriggerDagRunOperator, scheduler: Scheduler) -> Context:
    return context_of(operator, services=scheduler)


async def execute(scheduler: Scheduler, **options: Any) -> Any:
    operator = TriggerDagRunOperator(task_id="t", **{"trigger_dag_id": "other", **options})
    context = context_for(operator, scheduler)
    with current_context(context):
        await operator.render(context).execute(context)
    return context["ti"].pushed.get("trigger_run_id")


async def test_a_run_may_get_a_note_and_a_later_start() -> None:
    scheduler = Scheduler()

    await execute(scheduler, note="for {{ ds }}", run_after="{{ ds }}T06:00:00+00:00")

    ((_, asked),) = scheduler.asked
    assert (asked["note"], asked["run_after"]) == ("for 2026-01-02", "2026-01-02T06:00:00+00:00")


async def test_a_run_may_be_about_a_partition() -> None:
    scheduler = Scheduler()

    await execute(scheduler, partition_key="{{ ds }}|eu")

    ((_, asked),) = scheduler.asked
    assert asked["partition_key"] == "2026-01-02|eu"


async def test_a_run_is_asked_for_with_its_conf_and_its_id_is_pushed() -> None:
    scheduler = Scheduler()

    run_id = await execute(scheduler, conf={"day": "{{ ds }}", "at": DATE}, logical_date="2026-01-05T00:00:00+01:00")

    assert run_id == "manual__1"
    assert scheduler.asked == [
        (
            "trigger_dag",
            {
                "dag_id": "other",
                "run_id": None,
                "logical_date": "2026-01-05T00:00:00+01:00",
                "conf": {"day": "2026-01-02", "at": {"$aiosched": "datetime", "value": "2026-01-05T00:00:00+00:00"}},
                "fail_when_paused": False,
            },
        )
    ]


async def test_waiting_ends_with_an_allowed_state() -> None:
    scheduler = Scheduler(runs={"manual__1": ["queued", "running", "success"]})

    assert await execute(scheduler, wait_for_completion=True, poke_interval=0) == "manual__1"
    assert [name for name, _ in scheduler.asked] == ["trigger_dag", "run_state", "run_state", "run_state"]


@pytest.mark.parametrize(
    ("states", "options", "words"),
    [
        (["running", "failed"], {}, "Run 'manual__1' of DAG 'other' is failed"),
        (["success"], {"failed_states": ["success"], "allowed_states": ["failed"]}, "is success"),
        ([], {}, "does not exist any more"),
    ],
)
async def test_a_run_that_failed_fails_the_task(states: list[str], options: Any, words: str) -> None:
    scheduler = Scheduler(runs={"manual__1": states})

    with pytest.raises(TriggeredRunFailed, match=words):
        await execute(scheduler, wait_for_completion=True, poke_interval=0, **options)


async def test_a_deferrable_task_waits_without_a_worker() -> None:
    scheduler = Scheduler(runs={"manual__1": ["running", "failed"]})
    operator = TriggerDagRunOperator(
        task_id="t", trigger_dag_id="other", wait_for_completion=True, deferrable=True, poke_interval=0
    )
    context = context_for(operator, scheduler)
    with current_context(context):
        with pytest.raises(TaskDeferred) as deferred:
            await operator.execute(context)
        trigger = DagStateTrigger(**deferred.value.trigger.serialize()[1])
        (event,) = [event async for event in trigger.run()]

    with pytest.raises(TriggeredRunFailed):
        operator.execute_complete(context, event.payload)


async def test_an_existing_run_fails_the_task_unless_it_says_what_to_do() -> None:
    runs = {"mine": ["success"]}

    with pytest.raises(Refused, match="Run 'mine' of DAG 'other' exists already"):
        await execute(Scheduler(runs=runs), trigger_run_id="mine")
    with pytest.raises(SkipTask):
        await execute(Scheduler(runs=runs), trigger_run_id="mine", skip_when_already_exists=True)
    scheduler = Scheduler(runs=runs)
    assert await execute(scheduler, trigger_run_id="mine", reset_dag_run=True) == "mine"
    assert scheduler.asked[-1] == ("clear_run", {"dag_id": "other", "run_id": "mine"})


async def test_a_dag_that_is_not_there_fails_the_task() -> None:
    with pytest.raises(NotFound, match="nobody"):
        await execute(Scheduler(), trigger_dag_id="nobody")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allowed_states": ["done"]}, "allowed_states='done'"),
        ({"failed_states": ["skipped"]}, "failed_states='skipped'"),
        ({"poke_interval": -1}, "poke_interval=-1 is wrong"),
    ],
)
def test_a_wrong_operator_is_an_error_of_its_author(options: Any, words: str) -> None:
    make: Callable[..., Any] = TriggerDagRunOperator

    with pytest.raises(DagError, match=words):
        make(task_id="t", trigger_dag_id="other", **options)


def test_it_waits_on_the_loop() -> None:
    with DAG("d", schedule=None) as dag:
        TriggerDagRunOperator(task_id="t", trigger_dag_id="other")

    assert dag.to_spec().tasks[0].is_async
