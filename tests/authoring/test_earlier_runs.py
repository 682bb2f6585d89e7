"""What a task asks about the run before its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, EmptyOperator
from aiosched.airflow.dialect import DIALECTS
from aiosched.core.values.states import RunState, TaskState
from aiosched.executors.attempt.runner import drive
from tests.authoring.authoring_builders import FakeServices, context_of

START, END = "2026-01-01T06:00:00+00:00", "2026-01-01T06:00:05+00:00"
RUN = {
    "run_id": "before", "state": "failed", "run_type": "scheduled", "logical_date": "2026-01-01T00:00:00Z",
    "run_after": "2026-01-02T00:00:00Z", "data_interval_start": None, "data_interval_end": None,
    "start_date": START, "end_date": END,
}  # fmt: skip


@dataclass
class Scheduler(FakeServices):
    """Answers with one run and one task."""

    run: dict[str, Any] | None = field(default_factory=lambda: RUN)
    task: dict[str, Any] | None = field(
        default_factory=lambda: {"state": "success", "try_number": 2, "start_date": START, "end_date": END}
    )
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, run: int, name: str, args: str) -> str:
        self.asked.append((name, json.loads(args)))
        if name == "task_states":
            return json.dumps({"dag_exists": True, "run": {}, "tasks": [["other", -1, "skipped"]]})
        return json.dumps({"run": self.run, "task": self.task})


def ti_of(scheduler: Scheduler, **dag: Any) -> Any:
    with DAG("d", **{"schedule": None, **dag}):
        task: BaseOperator = EmptyOperator(task_id="t")
    return context_of(task, services=scheduler, blocking=drive)["ti"]


def test_the_run_before_and_the_same_task_in_it() -> None:
    scheduler = Scheduler()
    ti = ti_of(scheduler)

    run, before = ti.get_previous_dagrun(RunState.FAILED), ti.get_previous_ti()

    assert (run.dag_id, run.run_id, run.get_state(), run.run_type) == ("d", "before", "failed", "scheduled")
    assert run.execution_date == run.logical_date == datetime(2026, 1, 1, tzinfo=UTC)
    assert run.get_task_instance("other").state == "skipped"
    assert (before.task_id, before.dag_id, before.run_id, before.state) == ("t", "d", "before", "success")
    assert (before.try_number, before.duration) == (2, 5.0)
    assert before.execution_date == run.logical_date
    states = [asked.get("state") for name, asked in scheduler.asked if name == "previous_run"]
    assert states == ["failed", None]


def test_its_dates_and_the_names_of_airflow_1() -> None:
    ti, started = ti_of(Scheduler()), datetime.fromisoformat(START)

    assert ti.get_previous_execution_date() == ti.previous_execution_date_success == datetime(2026, 1, 1, tzinfo=UTC)
    assert ti.get_previous_start_date() == ti.previous_start_date_success == started
    assert ti.previous_ti.start_date == ti.previous_ti_success.start_date == started


def test_there_may_be_none() -> None:
    ti = ti_of(Scheduler(run=None, task=None))

    assert [ti.get_previous_dagrun(), ti.get_previous_ti(), ti.get_previous_execution_date()] == [None] * 3
    assert ti.get_previous_start_date() is None
    assert ti_of(Scheduler(task=None)).get_previous_ti() is None


def of_generation(ti: Any, generation: int | None) -> Any:
    ti.task._dialect = DIALECTS[generation]
    return ti


def test_the_state_of_an_instance_is_its_own_as_in_airflow_3_or_that_of_its_run_as_in_airflow_2() -> None:
    scheduler = Scheduler()
    ti, date = ti_of(scheduler), datetime(2026, 2, 1, tzinfo=UTC)

    ti.get_previous_ti("success", logical_date=date, map_index=4)
    of_generation(ti, 3).get_previous_ti(TaskState.SUCCESS)
    of_generation(ti, 2).get_previous_ti("success")

    asked = [(args["state"], args["task_state"], args["before"], args["map_index"]) for _, args in scheduler.asked]
    assert asked == [
        (None, "success", "2026-02-01T00:00:00+00:00", 4), (None, "success", None, -1), ("success", None, None, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("generation", "catchup", "schedule", "state", "planned_only"),
    [
        (2, True, "@daily", None, True),
        (2, False, "@daily", None, False),
        (2, True, None, None, False),
        (2, True, "@daily", "success", False),
        (3, True, "@daily", None, False),
        (None, True, "@daily", None, False),
    ],
)
def test_runs_by_hand_count_unless_an_airflow_2_dag_catches_up(
    generation: int | None, catchup: bool, schedule: str | None, state: str | None, planned_only: bool
) -> None:
    scheduler = Scheduler()
    dag = {"catchup": catchup, "schedule": schedule, "start_date": datetime(2026, 1, 1, tzinfo=UTC)}

    of_generation(ti_of(scheduler, **dag), generation).get_previous_dagrun(state)

    assert scheduler.asked[0][1]["planned_only"] is planned_only
