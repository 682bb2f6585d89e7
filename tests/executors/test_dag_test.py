"""`dag.test()`: one run without a database and without waiting. Source: the semantics reference, section 33.3."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, BranchPythonOperator, EmptyOperator, Param, PythonOperator
from aiosched.clock import FakeClock
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import FailTask, NotFound, ParamError, Refused, RescheduleTask
from aiosched.executors.dag_test import TestRun, run_dag_test
from tests.patience import PATIENCE

S = TaskState


def task(function: Any, **options: Any) -> PythonOperator:
    return PythonOperator(task_id=function.__name__, python_callable=function, **options)


def states(run: TestRun) -> dict[str, TaskState]:
    return {one.task_id: one.state for one in run.tasks}


async def test_a_run_gives_states_and_xcoms() -> None:
    def one() -> int:
        return 1

    async def two(number: int) -> int:
        return number + 1

    with DAG("d", schedule=None) as dag:
        first = task(one)
        task(two, op_args=[first.output]) >> EmptyOperator(task_id="end")

    run = await dag.test()

    assert run.state is RunState.SUCCESS
    assert states(run) == {"one": S.SUCCESS, "two": S.SUCCESS, "end": S.SUCCESS}
    assert run.xcoms == {"one": {"return_value": 1}, "two": {"return_value": 2}}


async def test_nothing_is_found_of_other_runs_and_dags_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def one() -> int:
        return 1

    def pulls(ti: Any) -> Any:
        own, far = {"include_prior_dates": True}, {"dag_id": "other", "include_prior_dates": True}
        return [ti.xcom_pull("one", **own), ti.xcom_pull("nobody", **own), ti.xcom_pull("x", default="d", **far)]

    with DAG("d", schedule=None) as dag:
        task(one) >> task(pulls)

    run = await dag.test()

    assert run.xcoms["pulls"] == {"return_value": [1, None, "d"]}
    assert "nothing is found of the DAG 'other'" in caplog.text


async def test_a_retry_is_due_at_once_and_starts_without_the_old_values() -> None:
    tries: list[Any] = []

    def flaky(ti: Any, try_number: int) -> None:
        tries.append(try_number)
        ti.xcom_push("half", try_number)
        if try_number < 3:
            raise ValueError("not yet")

    with DAG("d", schedule=None) as dag:
        task(flaky, retries=2, retry_delay=timedelta(days=1))

    began = time.monotonic()
    run = await dag.test()

    assert (run.state, tries, run.task("flaky").try_number) == (RunState.SUCCESS, [1, 2, 3], 3)
    assert run.xcoms == {"flaky": {"half": 3}}
    assert time.monotonic() - began < 60


async def test_a_failure_is_told_and_what_comes_after_it_does_not_run() -> None:
    def bad() -> None:
        raise FailTask("no use")

    with DAG("d", schedule=None) as dag:
        (
            task(bad, retries=5)
            >> EmptyOperator(task_id="after")
            >> EmptyOperator(task_id="always", trigger_rule="all_done")
        )

    run = await dag.test()

    assert states(run) == {"bad": S.FAILED, "after": S.UPSTREAM_FAILED, "always": S.SUCCESS}
    assert (run.task("bad").reason, run.task("bad").try_number) == ("no use", 1)
    assert "FailTask: no use" in (run.task("bad").details or "")
    assert run.state is RunState.SUCCESS  # the leaf succeeded


async def test_a_task_that_asks_for_later_is_called_again_after_a_short_pause() -> None:
    calls: list[datetime] = []

    def sensor(ti: Any) -> str:
        calls.append(ti.first_started)
        if len(calls) < 3:
            raise RescheduleTask(datetime.now(UTC) + timedelta(hours=1))
        return "there"

    with DAG("d", schedule=None) as dag:
        task(sensor)

    run = await run_dag_test(dag, pause=0.01)

    assert (run.state, run.task("sensor").try_number) == (RunState.SUCCESS, 1)
    assert calls[1] == calls[2] <= calls[0]


async def test_mocked_tasks_do_not_run_and_return_the_given_value() -> None:
    def never() -> None:
        raise AssertionError

    with DAG("d", schedule=None) as dag:
        fetch = task(never)
        after = PythonOperator(task_id="after", python_callable=lambda value: value * 2, op_args=[fetch.output])
        branch = BranchPythonOperator(task_id="branch", python_callable=never)
        after >> branch >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]

    run = await dag.test(mocks={"never": 21, "branch": "right"})

    assert run.xcoms["after"]["return_value"] == 42
    assert (run.task("left").state, run.task("right").state) == (S.SKIPPED, S.SUCCESS)


async def test_a_mocked_value_that_a_task_could_not_return_fails_it() -> None:
    with DAG("d", schedule=None) as dag:
        task(int)

    run = await dag.test(mocks={"int": object()})

    assert run.task("int").state is S.FAILED
    assert (run.task("int").reason or "").startswith("mocked: UnusableResult: return_value is an object")


async def test_a_date_before_the_start_is_refused_unless_one_task_is_asked_for() -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 2, tzinfo=UTC)) as dag:
        EmptyOperator(task_id="a")
    before = datetime(2026, 1, 1, tzinfo=UTC)

    with pytest.raises(Refused, match="No task of DAG 'd' can run with the logical date 2026-01-01 00:00:00 UTC"):
        await run_dag_test(dag, logical_date=before)

    assert states(await run_dag_test(dag, logical_date=before, only_task="a")) == {"a": S.SUCCESS}


async def test_one_task_runs_alone() -> None:
    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="up", python_callable=lambda: 1 / 0) >> task(int)

    run = await dag.test(only_task="int")
    failing = await dag.test(only_task="up")

    assert (run.state, states(run)) == (RunState.SUCCESS, {"int": S.SUCCESS})
    assert (failing.state, states(failing)) == (RunState.FAILED, {"up": S.FAILED})


@pytest.mark.parametrize("options", [{"only_task": "nosuch"}, {"mocks": {"nosuch": 1}}])
async def test_an_unknown_task_is_named(options: dict[str, Any]) -> None:
    with DAG("d", schedule=None) as dag:
        task(int)

    with pytest.raises(NotFound, match="has no task 'nosuch'; it has int"):
        await dag.test(**options)


async def test_params_are_checked_and_reach_the_task() -> None:
    with DAG("d", schedule=None, params={"n": Param(1, type="integer")}) as dag:
        PythonOperator(task_id="t", python_callable=lambda params: params["n"])

    assert (await dag.test(conf={"n": 5})).xcoms["t"]["return_value"] == 5
    with pytest.raises(ParamError):
        await dag.test(conf={"n": "five"})


async def test_the_logical_date_is_the_given_one_or_now() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with DAG("d", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        PythonOperator(task_id="t", python_callable=lambda ds: ds)

    assert (await run_dag_test(dag, clock=FakeClock(now))).xcoms["t"]["return_value"] == "2026-03-01"
    given = await dag.test(logical_date=datetime(2026, 2, 3, tzinfo=UTC))
    assert (given.run_id, given.xcoms["t"]["return_value"]) == ("manual__2026-02-03T00:00:00+00:00", "2026-02-03")


async def test_async_tasks_run_at_the_same_time() -> None:
    met = asyncio.Barrier(3)

    async def meet() -> None:
        await met.wait()

    with DAG("d", schedule=None) as dag:
        for number in range(3):
            PythonOperator(task_id=f"t{number}", python_callable=meet)

    async with asyncio.timeout(PATIENCE):
        assert (await dag.test()).state is RunState.SUCCESS


async def test_a_function_may_start_a_loop_of_its_own() -> None:
    async def inner() -> int:
        return 3

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=lambda: asyncio.run(inner()))

    assert (await dag.test()).xcoms["t"]["return_value"] == 3


async def test_fail_fast_stops_what_still_runs() -> None:
    async def bad() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("bad")

    async def endless() -> None:
        await asyncio.Event().wait()

    with DAG("d", schedule=None, fail_fast=True) as dag:
        task(bad)
        task(endless)

    async with asyncio.timeout(PATIENCE):
        run = await dag.test()

    assert run.state is RunState.FAILED
    assert run.task("endless").state is S.FAILED
