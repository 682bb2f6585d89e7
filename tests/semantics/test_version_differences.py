"""Where Airflow's versions differ, what holds here. Source: the semantics reference, sections 33.1 and 33.2.

A row of the table that a decision of section 34 settles is in test_decisions.py: cron strings, catchup, null logical
dates, run ids, `max_active_tasks`, asset runs, a sensor's timeout, what a branch pushes, fail-fast. The others are
here, or where it is said.

- several schedulers, their leases: tests/scheduler/test_fleet.py
- backfills by the scheduler: test_backfill_dates.py; `dagrun_timeout`: test_time_limits.py
- SLAs (1.10, 2.x) and deadlines (3.x), both: tests/core/test_slas.py, tests/scheduler/test_deadlines_stored.py
- setup and teardown: tests/core/test_board_ends.py, tests/authoring/test_setup_teardown.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.retries import retry_delay
from aiosched.core.values.states import TaskState
from aiosched.errors import DagError
from aiosched.testing import World

NOW = datetime(2026, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def dag(*tasks: TaskSpec, schedule: object = None, **options: Any) -> DagSpec:
    return DagSpec(dag_id="d", tasks=tasks, timetable=parse_schedule(schedule), **options)


A = TaskSpec(task_id="a", operator="X")


@pytest.mark.parametrize("schedule", [None, "@daily"])
async def test_a_manual_run_in_the_future_waits_for_its_run_after(schedule: object) -> None:
    """As in 3.x; 1.10 and 2.x waited for the logical date."""
    async with World(now=NOW) as world:
        world.add(dag(A, schedule=schedule, start_date=NOW, catchup=False))
        later = world.trigger("d", run_after=NOW + HOUR)
        dated = world.trigger("d", logical_date=NOW + 24 * HOUR, run_after=NOW)

        await world.run_until(NOW + HOUR - timedelta(seconds=1))
        before = (world.run("d", later).state, world.run("d", dated).state)
        await world.run_until(NOW + 2 * HOUR)

        assert before == ("queued", "success")
        assert world.run("d", later).start_date == NOW + HOUR


async def test_what_follows_a_task_lines_up_in_the_scheduler_at_once() -> None:
    """2.x had a mini scheduler for it in the worker; a step of a chain costs one pass here."""
    async with World(now=NOW) as world:
        world.add(dag(A, TaskSpec(task_id="b", operator="X", upstream=("a",))))
        run = world.trigger("d")

        await world.run_until_idle()

        assert world.task("d", run, "b").start_date == world.task("d", run, "a").end_date


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        *(
            (rule, rule)
            for rule in ("all_success", "all_failed", "all_done", "one_success", "one_failed", "none_failed")
        ),
        *((rule, rule) for rule in ("none_failed_min_one_success", "none_skipped", "always")),
        *((rule, rule) for rule in ("all_skipped", "one_done", "all_done_setup_success")),  # since 2.x
        ("all_done_min_one_success", "all_done_min_one_success"),  # since 3.x
        ("dummy", "always"),  # gone in 3.x: taken as what they became
        ("none_failed_or_skipped", "none_failed_min_one_success"),
    ],
)
def test_trigger_rules_are_those_of_3_x_and_older_spellings_are_understood(word: str, rule: str) -> None:
    assert TriggerRule(rule) in set(TriggerRule)
    if rule != TriggerRule.ALL_DONE_SETUP_SUCCESS:
        with DAG("d", schedule=None) as made:
            EmptyOperator(task_id="a", trigger_rule=word)
        assert made.to_spec().tasks[0].trigger_rule == rule


@pytest.mark.parametrize(
    ("given", "multiplier"), [(False, 0.0), (True, 2.0), (0, 0.0), (1, 1.0), (2, 2.0), (1.5, 1.5)], ids=repr
)
def test_the_backoff_of_retries_is_a_bool_or_a_multiplier(given: Any, multiplier: float) -> None:
    with DAG("d", schedule=None) as made:
        EmptyOperator(task_id="a", retry_exponential_backoff=given)

    assert made.to_spec().tasks[0].retry_exponential_backoff == multiplier
    delay = retry_delay(30, failed_try=3, multiplier=multiplier)
    assert delay == 30 if multiplier in (0.0, 1.0) else 30 * multiplier**2 <= delay < 2 * 30 * multiplier**2 + 1


def test_the_state_shutdown_is_there() -> None:
    """Gone in 3.x; here a task that is stopped from outside has it until its process has ended (2.1)."""
    assert TaskState.SHUTDOWN.value == "shutdown"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schedule_interval", "schedule"),
        ("timetable", "schedule"),
        ("concurrency", "max_active_tasks"),
        ("fail_stop", "fail_fast"),
    ],
)
def test_old_names_of_a_dags_parameters_are_refused_with_the_new_one(old: str, new: str) -> None:
    options: dict[str, Any] = {old: 1}
    with pytest.raises(DagError, match=f"Use '{new}' instead"):
        DAG("d", **options)


def test_the_old_name_of_a_tasks_limit_is_refused_with_the_new_one() -> None:
    options: dict[str, Any] = {"task_id": "a", "task_concurrency": 1}
    with DAG("d", schedule=None), pytest.raises(DagError, match="Use 'max_active_tis_per_dag' instead"):
        EmptyOperator(**options)
