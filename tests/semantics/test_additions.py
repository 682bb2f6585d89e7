"""What is expected beside the body text, each row of the table. Source: the semantics reference, section 36.

The row on clock changes is also the property tests of tests/core/test_timetables_interval.py, for every zone and
many schedules; the row on deltas without catchup is decision 10 in test_decisions.py. What a pull gives by default:
tests/authoring/test_task_instance.py; what `partial` and the rule `always` refuse: test_mapping_refusals.py there;
`**kwargs` of task functions and default_args of nested groups: test_taskflow.py and test_default_args.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from aiosched import DAG, BashOperator, EmptyOperator, PythonOperator, task, task_group
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.errors import SkipTask
from aiosched.executors.dag_test import TestRun, run_dag_test
from aiosched.testing import World


async def played(build: Callable[[], object], **options: Any) -> TestRun:
    with DAG("d", schedule=None, **options) as dag:
        build()
    return await run_dag_test(dag)


@task
def same(x: Any) -> Any:
    return x


def states(run: TestRun, task_id: str) -> list[str]:
    return [one.state.value for one in run.tasks if one.task_id == task_id]


# ---- mapping ----


@task_group
def branching(x: Any) -> None:
    @task.branch
    def choose(x: Any) -> str | None:
        return f"branching.{x}" if x else None

    choose(x) >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]


@task_group
def circuited(x: Any) -> None:
    @task.short_circuit
    def check(x: Any) -> Any:
        return x

    check(x) >> EmptyOperator(task_id="left") >> EmptyOperator(task_id="right", trigger_rule="all_done")


@pytest.mark.parametrize(
    ("group", "name", "left", "right"),
    [
        pytest.param(
            branching, "branching", ["success", "skipped", "skipped"], ["skipped", "skipped", "success"], id="branch"
        ),
        pytest.param(
            circuited, "circuited", ["success", "skipped", "success"], ["success", "skipped", "success"], id="circuit"
        ),
    ],
)
async def test_a_branch_or_short_circuit_in_a_mapped_group_decides_for_its_own_index(
    group: Any, name: str, left: list[str], right: list[str]
) -> None:
    """What a closed short circuit skips of its index is all that comes behind it, whatever the rules (7.3)."""
    run = await played(lambda: group.expand(x=["left", "", "right"]))

    found = (states(run, f"{name}.left"), states(run, f"{name}.right"))
    assert found == (left, right)


async def test_mapping_over_the_output_of_a_mapped_group_is_mapping_over_one_element_per_index() -> None:
    @task_group
    def double(x: Any) -> Any:
        return same.override(task_id="result")([x, x])

    run = await played(lambda: same.override(task_id="over").expand(x=double.expand(x=[1, 2, 3])))

    assert run.xcoms["over"]["return_value"] == [[1, 1], [2, 2], [3, 3]]


async def test_an_all_done_consumer_of_an_empty_mapping_receives_an_empty_list() -> None:
    def build() -> None:
        nothing = same.override(task_id="mapped").expand(x=[])
        same.override(task_id="consumer", trigger_rule="all_done")(nothing)

    run = await played(build)

    assert states(run, "mapped") == ["skipped"]
    assert run.xcoms["consumer"]["return_value"] == []


# ---- clock changes ----


@pytest.mark.parametrize("catchup", [True, False])
@pytest.mark.parametrize(
    ("zone", "cron", "change"),
    [
        pytest.param("Europe/Amsterdam", "30 2 * * *", (3, 29), id="forward"),
        pytest.param("Europe/Amsterdam", "30 2 * * *", (10, 25), id="back"),
        pytest.param("Australia/Lord_Howe", "15 2 * * *", (10, 4), id="half an hour forward"),
        pytest.param("Australia/Lord_Howe", "45 1 * * *", (4, 5), id="half an hour back"),
    ],
)
async def test_over_a_clock_change_every_day_has_its_tick_and_intervals_are_contiguous(
    catchup: bool, zone: str, cron: str, change: tuple[int, int]
) -> None:
    """A week of days around the change; the tick of the skipped hour is that day's."""
    day = datetime(2026, *change, tzinfo=ZoneInfo(zone))
    first, final = day - timedelta(days=4), day + timedelta(days=4)
    spec = DagSpec(
        dag_id="d",
        timetable=parse_schedule(cron, timezone=zone),
        tasks=(TaskSpec(task_id="a", operator="X"),),
        start_date=first.astimezone(UTC),
        catchup=catchup,
    )
    async with World(now=first.astimezone(UTC)) as world:
        world.add(spec)
        await world.run_until(final.astimezone(UTC))
        manual = world.trigger("d", logical_date=(day + timedelta(hours=12)).astimezone(UTC))

        intervals = [
            (run.interval_start, run.interval_end)
            for run in world.runs("d")
            if run.run_id != manual and run.interval_start and run.interval_end
        ]
        assert [end for _, end in intervals[:-1]] == [start for start, _ in intervals[1:]]
        assert all(start < end for start, end in intervals)
        days = [start.astimezone(ZoneInfo(zone)).date() for start, _ in intervals]
        assert [later - earlier for earlier, later in pairwise(days)] == [timedelta(days=1)] * 6
        by_hand = world.run("d", manual)
        assert (by_hand.interval_start, by_hand.interval_end) in intervals, "the whole day before it"


# ---- what callbacks, tasks and templates see ----


async def test_the_success_callback_of_a_run_without_a_successful_task_gets_the_usual_context() -> None:
    seen: list[dict[str, Any]] = []

    def skip() -> None:
        raise SkipTask("nothing to do")

    def notice(context: Any) -> None:
        seen.append({"run": context["dag_run"].run_type, "dag": context["dag"].dag_id, "id": context["run_id"]})

    run = await played(lambda: PythonOperator(task_id="a", python_callable=skip), on_success_callback=notice)

    assert states(run, "a") == ["skipped"]
    assert seen == [{"run": "manual", "dag": "d", "id": run.run_id}]


async def test_an_undefined_name_in_a_template_fails_its_task_naming_template_and_name() -> None:
    run = await played(lambda: BashOperator(task_id="a", bash_command="echo {{ no_such_name }}"))

    assert states(run, "a") == ["failed"]
    reason = str(run.task("a").reason)
    assert "no_such_name" in reason
    assert "echo {{ no_such_name }}" in reason


async def test_the_run_type_renders_as_the_plain_value() -> None:
    run = await played(lambda: same("{{ dag_run.run_type }}"))

    assert run.xcoms["same"]["return_value"] == "manual"
