"""`prev_data_interval_start_success` and its kin. The semantics reference, section 33; Airflow's list of variables."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched import DAG, BaseOperator, PythonOperator, get_current_context
from aiosched.authoring.operators.bash import BashOperator
from aiosched.core.values.messages import Attempt, Outcome
from aiosched.executors.inline.executor import InlineExecutor
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag

INTERVAL_START = "2025-12-30T00:00:00+00:00"
FOUND = {
    "data_interval_start": INTERVAL_START,
    "data_interval_end": "2025-12-31T00:00:00+00:00",
    "start_date": "2025-12-31T00:00:01+00:00",
    "end_date": None,
}


class Before(FakeServices):
    """Knows a successful run before, and counts how often it is asked."""

    asked: int = 0
    found: dict[str, str | None] | None = FOUND

    async def call(self, run: int, name: str, args: str) -> str:
        assert (name, args) == ("previous_success", "{}")
        self.asked += 1
        return json.dumps(self.found)


async def run(
    reports: Reports, task: Callable[[], BaseOperator], one: Attempt | None = None, *, services: Before | None = None
) -> Any:
    """What the task returns, as JSON."""
    with DAG("d", schedule=None) as dag:
        made = task()
    executor = InlineExecutor({"d": dag})
    await executor.start(reports, services or Before())
    one = one or attempt("t", is_async=made.is_async)
    try:
        executor.submit([one])
        report = await reports.of(one)
    finally:
        await executor.stop(0)
    assert report.outcome is Outcome.SUCCESS, report.details
    return json.loads(report.xcoms[0].value) if report.xcoms else None


def python(function: Callable[..., Any], **options: Any) -> Callable[[], BaseOperator]:
    return functools.partial(PythonOperator, task_id="t", python_callable=function, **options)


def parameter(prev_data_interval_start_success: Any) -> str:
    return str(prev_data_interval_start_success.isoformat())


async def parameter_async(prev_data_interval_start_success: Any) -> str:
    return parameter(prev_data_interval_start_success)


def everything(**context: Any) -> str:
    return parameter(context["prev_data_interval_start_success"])


async def everything_async(**context: Any) -> str:
    return parameter(context["prev_data_interval_start_success"])


def looked_up() -> str:
    return parameter(get_current_context()["prev_data_interval_start_success"])


async def looked_up_async() -> str:
    return parameter(get_current_context()["prev_data_interval_start_success"])


class Plain(BaseOperator):
    def execute(self, context: Any) -> Any:
        return parameter(context["prev_data_interval_start_success"])


class Waiting(BaseOperator):
    async def execute(self, context: Any) -> Any:
        return self.read(context)

    def read(self, context: Any) -> Any:
        return parameter(context["prev_data_interval_start_success"])


WAYS = [
    pytest.param(python(parameter), id="parameter"),
    pytest.param(python(parameter_async), id="parameter of a coroutine"),
    pytest.param(python(everything), id="kwargs"),
    pytest.param(python(everything_async), id="kwargs of a coroutine"),
    pytest.param(python(looked_up), id="current context"),
    pytest.param(python(looked_up_async), id="current context of a coroutine"),
    pytest.param(python(functools.partial(looked_up_async)), id="partial"),
    pytest.param(functools.partial(Plain, task_id="t"), id="operator"),
    pytest.param(functools.partial(Waiting, task_id="t"), id="operator with a coroutine"),
]


@pytest.mark.parametrize("task", WAYS)
async def test_every_kind_of_task_reads_the_run_before(reports: Reports, task: Callable[[], BaseOperator]) -> None:
    services = Before()

    assert await run(reports, task, services=services) == INTERVAL_START
    assert services.asked == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "coroutine"])
async def test_templates_read_it(reports: Reports, is_async: bool) -> None:
    async def wait(x: Any) -> Any:
        return x

    template = "{{ prev_start_date_success | ts }} {{ prev_data_interval_end_success.day }} {{ prev_end_date_success }}"
    task = python(wait if is_async else lambda x: x, op_args=[template])

    assert await run(reports, task) == "2025-12-31T00:00:01+00:00 31 None"


async def test_a_mapped_task_reads_it(reports: Reports) -> None:
    async def work(n: int, prev_start_date_success: Any) -> list[Any]:
        return [n, prev_start_date_success.isoformat()]

    def build() -> Any:
        return PythonOperator.partial(task_id="t", python_callable=work).expand(op_kwargs=[{"n": 5}])

    one = attempt("t", is_async=True, map_index=0)
    assert await run(reports, build, one) == [5, "2025-12-31T00:00:01+00:00"]


def ds_only(ds: str) -> str:
    return ds


async def all_of_it(**context: Any) -> str:
    return str(sorted(context)[0])


def iterating() -> int:
    return len(dict(get_current_context().items()))


@pytest.mark.parametrize("function", [ds_only, all_of_it, iterating])
async def test_a_task_that_does_not_read_it_costs_no_question(reports: Reports, function: Callable[..., Any]) -> None:
    services = Before()

    await run(reports, python(function), services=services)

    assert services.asked == 0


async def test_without_a_run_before_they_are_none(reports: Reports) -> None:
    services = Before()
    services.found = None

    assert await run(reports, python(lambda prev_end_date_success: [prev_end_date_success]), services=services) == [
        None
    ]


async def test_a_run_without_logical_date_has_none_and_does_not_ask(reports: Reports) -> None:
    services, one = Before(), attempt("t")
    one = msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, logical_date=None))

    def read(prev_start_date_success: Any) -> list[Any]:
        return [prev_start_date_success]

    assert await run(reports, python(read), one, services=services) == [None]
    assert services.asked == 0


async def test_callbacks_of_a_coroutine_read_it(reports: Reports) -> None:
    seen: list[str] = []

    async def work() -> None: ...

    def note(context: Any) -> None:
        seen.append(context["prev_data_interval_start_success"].isoformat())

    await run(reports, python(work, on_success_callback=note))

    assert seen == [INTERVAL_START]


@pytest.fixture
def services() -> Before:
    """What workers of `start_local` ask."""
    return Before()


TASKS = """
    def plain(prev_start_date_success):
        return str(prev_start_date_success)

    async def waiting(prev_start_date_success):
        return str(prev_start_date_success)

    for function in (plain, waiting):
        task(function)
"""


@pytest.mark.parametrize(("name", "is_async"), [("plain", False), ("waiting", True)])
async def test_workers_ask_their_scheduler(
    start_local: StartLocal, dags_folder: Path, reports: Reports, name: str, is_async: bool
) -> None:
    write_dag(dags_folder, TASKS)
    executor = await start_local()
    one = attempt(name, is_async=is_async)
    executor.submit([one])
    report = await reports.of(one)

    assert report.outcome is Outcome.SUCCESS, report.details
    assert json.loads(report.xcoms[0].value) == "2025-12-31 00:00:01+00:00"


async def test_in_dag_test_they_are_none() -> None:
    with DAG("d", schedule=None) as dag:

        def read(prev_start_date_success: Any) -> list[Any]:
            return [prev_start_date_success]

        PythonOperator(task_id="t", python_callable=read)
        BashOperator(task_id="b", bash_command="echo {{ prev_end_date_success }}")

    result = await dag.test("2026-01-01")

    assert result.state == "success"
    assert (result.xcoms["t"]["return_value"], result.xcoms["b"]["return_value"]) == ([None], "None")
