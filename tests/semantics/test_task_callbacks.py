"""Which callbacks of a task run, for everything that may become of it. Source: the semantics reference, section 23.1.

Failures that the scheduler decides, and where callbacks run: tests/scheduler/test_outbox.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, BranchPythonOperator, EmptyOperator, PythonOperator, PythonSensor
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.errors import FailTask, RescheduleTask, SkipTask
from aiosched.executors.dag_test import run_dag_test
from aiosched.testing import World, never_ends
from aiosched.triggers import TimeDeltaTrigger

NAMES = ("execute", "success", "failure", "retry", "skipped")


def watched(seen: list[str]) -> dict[str, Any]:
    """Every callback of a task, one of them in a list with one that raises."""

    def note(name: str) -> Callable[[Any], None]:
        return lambda context: seen.append(name)

    def broken(context: Any) -> None:
        raise RuntimeError("a callback broke")

    return {f"on_{name}_callback": [broken, note(name)] for name in NAMES}


def doing(*steps: BaseException | None) -> Callable[[], None]:
    """What the calls of a task do, one after the other."""
    left = list(steps)

    def call() -> None:
        if (step := left.pop(0)) is not None:
            raise step

    return call


def upstream(state: str) -> PythonOperator:
    errors = {"failed": FailTask("x"), "skipped": SkipTask("x"), "success": None}
    return PythonOperator(task_id="up", python_callable=doing(errors[state]))


LATER = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("steps", "state", "expected"),
    [
        pytest.param([None], "success", ["execute", "success"], id="it returns"),
        pytest.param(
            [ValueError(), None], "success", ["execute", "retry", "execute", "success"], id="a retry succeeds"
        ),
        pytest.param(
            [ValueError(), ValueError()], "failed", ["execute", "retry", "execute", "failure"], id="the last try fails"
        ),
        pytest.param([FailTask()], "failed", ["execute", "failure"], id="it fails at once"),
        pytest.param([SkipTask()], "skipped", ["execute", "skipped"], id="it skips itself"),
        pytest.param([ValueError(), SkipTask()], "skipped", ["execute", "retry", "execute", "skipped"], id="later"),
        pytest.param(
            [RescheduleTask(LATER), None], "success", ["execute", "execute", "success"], id="it is called again"
        ),
    ],
)
async def test_callbacks_of_what_a_task_does(
    steps: list[BaseException | None], state: str, expected: list[str]
) -> None:
    seen: list[str] = []
    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=doing(*steps), retries=1, retry_delay=timedelta(0), **watched(seen))

    run = await run_dag_test(dag, pause=0)

    assert (run.task("t").state, seen) == (state, expected)


@pytest.mark.parametrize("of_upstream", ["failed", "skipped"])
async def test_what_a_trigger_rule_settles_runs_no_callback(of_upstream: str) -> None:
    seen: list[str] = []
    with DAG("d", schedule=None) as dag:
        upstream(of_upstream) >> PythonOperator(task_id="t", python_callable=doing(None), **watched(seen))

    await run_dag_test(dag)

    assert seen == []


async def test_what_a_branch_skips_runs_no_callback() -> None:
    seen: list[str] = []
    with DAG("d", schedule=None) as dag:
        branch = BranchPythonOperator(task_id="branch", python_callable=lambda: "other")
        branch >> [EmptyOperator(task_id="other"), PythonOperator(task_id="t", python_callable=print, **watched(seen))]

    run = await run_dag_test(dag)

    assert (run.task("t").state, seen) == ("skipped", [])


async def test_the_soft_fail_of_a_sensor_is_a_skip_of_its_own() -> None:
    seen: list[str] = []
    with DAG("d", schedule=None) as dag:
        PythonSensor(task_id="t", python_callable=lambda: False, timeout=0, soft_fail=True, **watched(seen))

    await run_dag_test(dag)

    assert seen == ["execute", "skipped"]


async def test_a_task_that_goes_on_after_a_deferral_is_executed_again() -> None:
    seen: list[str] = []

    class Waits(BaseOperator):
        def execute(self, context: Any) -> None:
            self.defer(trigger=TimeDeltaTrigger(timedelta(0)), method_name="go_on")

        def go_on(self, context: Any, event: Any) -> None: ...

    with DAG("d", schedule=None) as dag:
        Waits(task_id="t", **watched(seen))

    await run_dag_test(dag)

    assert seen == ["execute", "execute", "success"]


def marked(state: str) -> Callable[[World, str], None]:
    return lambda world, run: world.mark_task("d", run, "t", state)


@pytest.mark.parametrize(
    ("interrupt", "state"),
    [
        pytest.param(lambda world, run: None, "skipped", id="the run times out"),
        pytest.param(lambda world, run: world.cancel("d", run), "failed", id="the run is cancelled"),
        pytest.param(lambda world, run: world.mark_run("d", run, "success"), "success", id="the run is marked"),
        pytest.param(lambda world, run: world.clear("d", [run]), "skipped", id="cleared, and then times out"),
        *(pytest.param(marked(state), state, id=f"marked {state}") for state in ("success", "failed", "skipped")),
    ],
)
async def test_what_ends_a_task_from_outside_runs_none_of_its_callbacks(
    interrupt: Callable[[World, str], None], state: str
) -> None:
    async with World(now=LATER) as world:
        every = TaskSpec(
            task_id="t",
            operator="X",
            has_retry_callback=True,
            has_failure_callback=True,
            has_success_callback=True,
            has_skipped_callback=True,
        )
        tasks = (every, TaskSpec(task_id="other", operator="X"))
        world.add(DagSpec(dag_id="d", tasks=tasks, dagrun_timeout=3600.0))
        world.script("d", "*", lambda attempt: never_ends())
        run = world.trigger("d")
        await world.run_for(timedelta(minutes=1))

        interrupt(world, run)
        await world.run_for(timedelta(hours=2))

        assert (world.states("d", run)["t"], world.callbacks) == (state, [])
