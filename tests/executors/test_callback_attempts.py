"""Callbacks that the scheduler asks for. Source: the semantics reference, sections 23.1 and 23.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, PythonOperator
from aiosched.authoring.dag.deadlines import DeadlineAlert, DeadlineReference
from aiosched.authoring.runtime.context import get_current_context
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.executors.attempt.attempts import execution_of
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import drive
from aiosched.executors.inline.executor import RegisteredDags
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, callback_attempt, write_dag


def run(dag: DAG, one: Attempt, **environment: Any) -> Report:
    execution = execution_of(one, FakeServices(), AttemptEnvironment(**environment), blocking=drive)
    return drive(execution.run(RegisteredDags({"d": dag})))


def dag_with(seen: list[Any], **callbacks: Any) -> DAG:
    def note(kind: str) -> Any:
        def callback(context: Any) -> None:
            ti = context["ti"]
            who = None if ti is None else (ti.task_id, ti.map_index, ti.try_number)
            seen.append((kind, context["reason"], context["dag_run"].run_id, context["ds"], who))

        return callback

    kinds = {f"on_{kind}_callback": note(f"dag {kind}") for kind in ("success", "failure")}
    with DAG("d", schedule=None, **{**kinds, **callbacks}) as dag:
        PythonOperator(
            task_id="t", python_callable=print,
            on_failure_callback=note("task failure"), on_retry_callback=note("task retry"),
        )  # fmt: skip
    return dag


@pytest.mark.parametrize(
    ("kind", "facts", "expected"),
    [
        ("dag_success", {"reason": "success"}, ("dag success", "success", None)),
        ("dag_failure", {"reason": "timed_out", "task_id": "t", "try_number": 2}, ("dag failure", "timed_out", 2)),
        ("task_failure", {"reason": "lost", "task_id": "t", "try_number": 3}, ("task failure", "lost", 3)),
        ("task_retry", {"reason": "lost", "task_id": "t", "try_number": 1}, ("task retry", "lost", 1)),
    ],
)
def test_a_callback_gets_the_reason_the_run_and_the_task_instance(kind: str, facts: Any, expected: Any) -> None:
    seen: list[Any] = []
    name, reason, number = expected

    report = run(dag_with(seen), callback_attempt(kind, **facts))

    assert report.outcome is Outcome.SUCCESS
    assert seen == [(name, reason, "manual__0", "2026-01-01", None if number is None else ("t", -1, number))]


@pytest.mark.parametrize(
    ("kind", "of_run", "of_task"),
    [
        ("dag_success", "success", None),
        ("dag_failure", "failed", "failed"),
        ("task_failure", "running", "failed"),
        ("task_retry", "running", "up_for_retry"),
        ("task_skipped", "running", "skipped"),
        ("task_success", "running", "success"),
    ],
)
def test_a_callback_sees_what_has_ended_as_ended(kind: str, of_run: str, of_task: str | None) -> None:
    seen: list[Any] = []

    def note(context: Any) -> None:
        for one in (context["dag_run"], context["ti"]):
            seen.append(None if one is None else one.state)
            assert one is None or (one.end_date is None) == (one.state == "running")

    names = ("success", "failure", "retry", "skipped")
    with DAG("d", schedule=None, on_success_callback=note, on_failure_callback=note) as dag:
        PythonOperator(task_id="t", python_callable=print, **{f"on_{name}_callback": note for name in names})
    run(dag, callback_attempt(kind, **({} if of_task is None else {"task_id": "t", "try_number": 1})))

    assert seen == [of_run, of_task]


def test_a_deadlines_callback_is_found_by_its_place() -> None:
    seen: list[Any] = []
    reference = DeadlineReference.DAGRUN_QUEUED_AT
    alerts = [DeadlineAlert(reference=reference, interval=1, callback=lambda c, n=n: seen.append(n)) for n in (0, 1)]

    run(dag_with([], deadline=alerts), callback_attempt("deadline", index=1))

    assert seen == [1]


async def _async_callback(context: Any) -> None:
    _called.append(context["run_id"])


_called: list[str] = []


def test_a_callback_may_be_a_coroutine_function() -> None:
    report = run(dag_with([], on_success_callback=_async_callback), callback_attempt("dag_success"))

    assert report.outcome is Outcome.SUCCESS
    assert _called == ["manual__0"]


def test_all_callbacks_run_and_those_that_raised_are_named_and_logged(tmp_path: Path) -> None:
    seen: list[str] = []

    def bad(context: Any) -> None:
        raise ValueError("no mail server")

    callbacks = [bad, lambda context: seen.append("second")]
    one = callback_attempt("dag_failure", number=12, reason="task_failure")

    report = run(dag_with([], on_failure_callback=callbacks), one, logs_folder=tmp_path)

    assert seen == ["second"]
    assert report.outcome is Outcome.FAILED
    assert report.reason == "callback bad raised ValueError: no mail server"
    log = log_path(tmp_path, one)
    assert log.parts[-2:] == ("callback=dag_failure", "attempt=12.log")
    assert "ValueError: no mail server" in log.read_text()
    assert "INFO  aiosched  running callback bad\n" in log.read_text()


def test_a_task_callback_sees_the_current_context_and_the_exception() -> None:
    seen: list[Any] = []

    def callback(context: Any) -> None:
        seen.append((get_current_context() is context, str(context["exception"]), context["task"].task_id))

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=print, on_failure_callback=callback)

    run(dag, callback_attempt("task_failure", reason="lost 3 times", task_id="t", try_number=1))

    assert seen == [(True, "lost 3 times", "t")]


@pytest.mark.parametrize(
    ("kind", "facts", "reason"),
    [
        ("task_failure", {"task_id": "gone"}, "has no task 'gone' any more"),
        ("deadline", {"index": 1}, "has no deadline 1 any more"),
        ("invented", {}, "no callback of the kind 'invented'"),
    ],
)
def test_a_callback_that_cannot_be_found_is_a_failure_that_says_so(kind: str, facts: Any, reason: str) -> None:
    report = run(dag_with([]), callback_attempt(kind, **facts))

    assert report.outcome is Outcome.FAILED
    assert reason in (report.reason or "")


async def test_a_worker_process_runs_callbacks_and_reports_no_start(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    file = write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    path, marker = dags_folder / file, dags_folder / "called"
    called = f"on_success_callback=lambda context: (time.sleep(0.05), open({str(marker)!r}, 'w'))"
    path.write_text(path.read_text().replace("schedule=None", f"schedule=None, {called}"))
    executor, one = await start_local(), callback_attempt("dag_success")

    executor.submit([one])
    report = await reports.of(one)

    assert report.outcome is Outcome.SUCCESS, report.details
    assert marker.is_file()
    assert reports.all == [report]
