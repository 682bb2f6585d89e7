"""Templates of `async def` tasks may ask for things that are not at hand: they are rendered in a thread then."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from aiosched import DAG, BashOperator, PythonOperator
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import Execution
from aiosched.executors.inline.executor import RegisteredDags
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt

COMPUTED = "{{ ti.xcom_pull(task_ids=params.source) }}"  # what it asks for is known only when it is rendered
XCOMS = {("up", "return_value"): [(-1, '"value of up"')]}


async def run(dag: DAG, one: Attempt) -> Report:
    blocking = blocking_on(asyncio.get_running_loop())
    execution = Execution(one, FakeServices(XCOMS), AttemptEnvironment(), blocking=blocking)
    return await execution.run(RegisteredDags({"d": dag}))


async def test_a_bash_command_may_pull_what_only_rendering_tells() -> None:
    with DAG("d", schedule=None, params={"source": "up"}) as dag:
        BashOperator(task_id="t", bash_command=f"echo '{COMPUTED}'")

    report = await run(dag, attempt("t", is_async=True))

    assert report.outcome is Outcome.SUCCESS, report.details
    assert json.loads(report.xcoms[0].value) == "value of up"


async def test_arguments_of_a_coroutine_function_likewise_and_it_runs_on_the_loop() -> None:
    async def said(text: str) -> Any:
        return [text, threading.current_thread() is threading.main_thread()]

    with DAG("d", schedule=None, params={"source": "up"}) as dag:
        PythonOperator(task_id="t", python_callable=said, op_args=[COMPUTED])

    report = await run(dag, attempt("t", is_async=True))

    assert json.loads(report.xcoms[0].value) == ["value of up", True]


async def test_a_template_of_a_coroutine_reads_values_of_another_dag() -> None:
    async def said(text: str) -> Any:
        return text

    with DAG("d", schedule=None) as dag:
        far = "{{ ti.xcom_pull('up', dag_id='other', include_prior_dates=True) }} {{ ti.xcom_pull('up') }}"
        PythonOperator(task_id="t", python_callable=said, op_args=[far])
    services = FakeServices(XCOMS, {("up", "return_value"): [(-1, '"of the other DAG"')]})
    execution = Execution(
        attempt("t", is_async=True), services, AttemptEnvironment(), blocking=blocking_on(asyncio.get_running_loop())
    )

    report = await execution.run(RegisteredDags({"d": dag}))

    assert json.loads(report.xcoms[0].value) == "of the other DAG value of up"


async def test_a_template_that_is_wrong_still_fails_with_its_own_error() -> None:
    with DAG("d", schedule=None) as dag:
        BashOperator(task_id="t", bash_command="{{ nobody }}")

    report = await run(dag, attempt("t", is_async=True))

    assert report.outcome is Outcome.FAILED
    assert "'nobody' is undefined" in (report.reason or "")


async def test_workers_build_dags_with_the_defaults_of_the_installation(
    start_local: StartLocal, dags_folder: Any, reports: Reports
) -> None:
    from aiosched.authoring.base.settings import AuthoringDefaults

    dags_folder.mkdir()
    (dags_folder / "d.py").write_text(
        "from aiosched import DAG, PythonOperator\n"
        "def said(task): return [task.retries, task.dag.timezone.name]\n"
        "async def waits(task): return said(task)\n"
        "with DAG('d', schedule=None):\n"
        "    PythonOperator(task_id='plain', python_callable=said)\n"
        "    PythonOperator(task_id='on_loop', python_callable=waits)\n"
    )
    executor = await start_local(defaults=AuthoringDefaults(retries=7, timezone="Europe/Amsterdam"))
    attempts = [attempt("plain", number=1), attempt("on_loop", is_async=True, number=2)]

    executor.submit(attempts)

    for one in attempts:
        assert json.loads((await reports.of(one)).xcoms[0].value) == [7, "Europe/Amsterdam"]
