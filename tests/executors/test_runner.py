"""One attempt in this process: its steps, its callbacks, and how each way to end is reported.

Source: the semantics reference, sections 22.2, 23.1 and 27.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, PythonOperator
from aiosched.authoring.runtime.context import get_current_context
from aiosched.core.values.messages import Attempt, Outcome, Report, SkipDecision, XComValue
from aiosched.errors import AttemptStopped, FailTask, RescheduleTask, SkipTask, TaskTimeout
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.inline.executor import RegisteredDags
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, attempt

LATER = datetime(2026, 1, 2, tzinfo=UTC)


def a_dag(function: Callable[..., Any], **options: Any) -> DAG:
    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=function, **options)
    return dag


def run(dag: DAG, one: Attempt | None = None, *, services: Any = None, **environment: Any) -> Report:
    """Run a plain function's attempt."""
    execution = Execution(
        one or attempt("t"), services or FakeServices(), AttemptEnvironment(**environment), blocking=drive
    )
    return drive(execution.run(RegisteredDags({"d": dag})))


async def run_async(dag: DAG, one: Attempt | None = None, *, services: Any = None) -> Report:
    one = one or attempt("t", is_async=True)
    execution = Execution(
        one, services or FakeServices(), AttemptEnvironment(), blocking=blocking_on(asyncio.get_running_loop())
    )
    return await execution.run(RegisteredDags({"d": dag}))


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def calls(log: list[str], name: str) -> Callable[[Any], None]:
    return lambda context: log.append(name)


def watched(log: list[str]) -> dict[str, Any]:
    names = ("execute", "success", "failure", "retry", "skipped")
    return {f"on_{name}_callback": calls(log, name) for name in names}


def test_a_result_becomes_the_xcom_return_value() -> None:
    report = run(a_dag(lambda: {"a": [1, None]}))

    assert report.outcome is Outcome.SUCCESS
    assert report.xcoms == (XComValue("return_value", '{"a":[1,null]}'),)
    assert report.started_at is not None
    assert report.started_at <= report.at
    assert report.hostname
    assert report.pid


@pytest.mark.parametrize(
    ("function", "options", "keys"),
    [
        (lambda: None, {}, []),
        (lambda: 1, {"do_xcom_push": False}, []),
        (lambda: 0, {}, ["return_value"]),
        (lambda: {"a": 1, "b": 2}, {"multiple_outputs": True}, ["return_value", "a", "b"]),
        (lambda ti: ti.xcom_push("k", 1), {}, ["k"]),
        (lambda ti: ti.xcom_push("k", 1), {"do_xcom_push": False}, ["k"]),
    ],
)
def test_what_is_pushed(function: Callable[..., Any], options: dict[str, Any], keys: list[str]) -> None:
    """Section 27."""
    assert [xcom.key for xcom in run(a_dag(function, **options)).xcoms] == keys


@pytest.mark.parametrize(
    ("error", "max_tries", "outcome", "called", "reason"),
    [
        (ValueError("bad"), 0, Outcome.FAILED, ["execute", "failure"], "ValueError: bad"),
        (ValueError("bad"), 1, Outcome.FAILED, ["execute", "retry"], "ValueError: bad"),
        (SystemExit(0), 1, Outcome.FAILED, ["execute", "retry"], "SystemExit: 0"),
        (TaskTimeout("too long"), 1, Outcome.FAILED, ["execute", "retry"], "too long"),
        (FailTask("never"), 1, Outcome.FAILED, ["execute", "failure"], "never"),
        (SkipTask("not today"), 1, Outcome.SKIPPED, ["execute", "skipped"], "not today"),
        (RescheduleTask(LATER), 1, Outcome.RESCHEDULED, ["execute"], None),
        (AttemptStopped("was told to stop"), 1, Outcome.LOST, ["execute"], "was told to stop"),
        (KeyboardInterrupt(), 0, Outcome.FAILED, ["execute", "failure"], "KeyboardInterrupt"),
    ],
)
def test_how_each_way_to_end_is_reported(
    error: BaseException, max_tries: int, outcome: Outcome, called: list[str], reason: str | None
) -> None:
    log: list[str] = []
    dag = a_dag(raising(error), **watched(log))

    report = run(dag, attempt("t", max_tries=max_tries))

    assert (report.outcome, report.reason, log) == (outcome, reason, called)
    assert report.fail_now is isinstance(error, FailTask)
    assert report.reschedule_at == (LATER if outcome is Outcome.RESCHEDULED else None)


def test_the_last_try_runs_the_failure_callback() -> None:
    log: list[str] = []
    dag = a_dag(raising(ValueError()), **watched(log))

    run(dag, attempt("t", try_number=3, max_tries=2))

    assert log == ["execute", "failure"]


def test_callbacks_get_the_exception_and_one_that_raises_does_not_stop_the_others(tmp_path: Path) -> None:
    seen: list[Any] = []

    def broken(context: Any) -> None:
        raise RuntimeError("callback broke")

    async def later(context: Any) -> None:
        await asyncio.sleep(0)
        seen.append(context["exception"])

    error = ValueError("bad")
    dag = a_dag(raising(error), on_failure_callback=[broken, lambda context: seen.append(context["exception"]), later])

    report = run(dag, logs_folder=tmp_path)

    assert seen == [error, error]
    assert report.reason == "ValueError: bad"
    assert "callback broken raised RuntimeError: callback broke" in log_path(tmp_path, attempt("t")).read_text()


@pytest.mark.parametrize(
    ("function", "max_tries", "callback"),
    [
        (int, 0, "on_execute_callback"),
        (int, 0, "on_success_callback"),
        (raising(ValueError()), 0, "on_failure_callback"),
        (raising(ValueError()), 1, "on_retry_callback"),
        (raising(SkipTask()), 0, "on_skipped_callback"),
    ],
)
def test_while_a_callback_runs_the_log_names_it(
    tmp_path: Path, function: Callable[..., Any], max_tries: int, callback: str
) -> None:
    seen: list[str] = []
    one = attempt("t", max_tries=max_tries)

    def look(context: Any) -> None:
        seen.append(log_path(tmp_path, one).read_text().splitlines()[-1])

    async def look_later(context: Any) -> None:
        look(context)

    run(a_dag(function, **{callback: [look, look_later]}), one, logs_folder=tmp_path)

    assert [line.partition("Z ")[2] for line in seen] == [
        f"INFO  aiosched  running {callback} look",
        f"INFO  aiosched  running {callback} look_later",
    ]


def test_callbacks_see_the_context_and_the_reason() -> None:
    seen: list[Any] = []

    def look(context: Any) -> None:
        seen.append((context["reason"], get_current_context() is context))

    run(a_dag(raising(ValueError("bad")), on_failure_callback=look))
    run(a_dag(int, on_success_callback=look))

    assert seen == [("ValueError: bad", True), (None, True)]


@pytest.mark.parametrize("error", [ValueError("bad"), SkipTask("no"), RescheduleTask(LATER)])
def test_what_was_pushed_before_the_end_is_kept_whatever_the_end(error: BaseException) -> None:
    def push(ti: Any) -> None:
        ti.xcom_push("k", 1)
        raise error

    assert run(a_dag(push)).xcoms == (XComValue("k", "1"),)


def test_a_naive_instant_to_be_called_again_at_is_a_failure() -> None:
    report = run(a_dag(raising(RescheduleTask(datetime(2026, 1, 1)))))  # noqa: DTZ001

    assert report.outcome is Outcome.FAILED
    assert "needs an aware datetime" in (report.reason or "")


def test_what_an_exception_says_can_be_stored() -> None:
    report = run(a_dag(raising(ValueError("\0 \ud800"))))

    assert report.reason == r"ValueError: \x00 \ud800"
    assert "\0" not in (report.details or "\0")
    (report.details or "").encode()


def test_a_success_callback_that_raises_leaves_the_success() -> None:
    assert run(a_dag(lambda: 1, on_success_callback=raising(ValueError()))).outcome is Outcome.SUCCESS


def test_hooks_run_around_execute() -> None:
    log: list[Any] = []

    def before(context: Any) -> None:
        log.append("before")

    def after(context: Any, result: Any) -> None:
        log.append(("after", result))

    run(a_dag(lambda: log.append("execute") or 5, pre_execute=before, post_execute=after))  # type: ignore[func-returns-value]

    assert log == ["before", "execute", ("after", 5)]


def test_outputs_of_other_tasks_are_fetched_in_one_call_and_templates_are_rendered() -> None:
    with DAG("d", schedule=None) as dag:
        up = PythonOperator(task_id="up", python_callable=int)
        too = PythonOperator(task_id="too", python_callable=int)
        PythonOperator(task_id="t", python_callable=lambda *a: list(a), op_args=[up.output, too.output, "{{ ds }}"])
    services = FakeServices({("up", "return_value"): [(-1, "1")], ("too", "return_value"): [(-1, "2")]})
    services.get_xcoms = _at_once(services)  # type: ignore[method-assign]

    report = run(dag, services=services)

    assert report.xcoms == (XComValue("return_value", '[1,2,"2026-01-01"]'),)
    assert len(services.calls) == 1


def _at_once(services: FakeServices) -> Any:
    async def get_xcoms(run: int, refs: Any) -> list[list[tuple[int, str]]]:
        services.calls.append(refs)
        return [services.xcoms.get((ref.task_id, ref.key), []) for ref in refs]

    return get_xcoms


def test_a_branch_reports_its_decision_and_pushes_nothing() -> None:
    from aiosched import BranchPythonOperator

    with DAG("d", schedule=None) as dag:
        branch = BranchPythonOperator(task_id="t", python_callable=lambda: "a")
        branch >> [PythonOperator(task_id=name, python_callable=int) for name in ("a", "b")]

    report = run(dag)

    assert (report.outcome, report.skip, report.xcoms) == (Outcome.SUCCESS, SkipDecision(followed=("a",)), ())


@pytest.mark.parametrize("size", [10, 11])
def test_an_xcom_may_be_as_large_as_the_cap_and_no_larger(size: int) -> None:
    report = run(a_dag(lambda: "x" * (size - 2)), max_xcom_bytes=10)

    assert (report.outcome is Outcome.SUCCESS) is (size == 10)
    if size > 10:
        assert report.reason == (
            "UnusableResult: The XCom 'return_value' has 11 bytes, the limit is 10. "
            "Store the data elsewhere and push a reference, set xcom.remote, or raise core.max_xcom_bytes."
        )


async def test_a_timeout_cancels_a_coroutine_and_calls_on_kill() -> None:
    killed: list[str] = []

    class Slow(BaseOperator):
        async def execute(self, context: Any) -> None:
            await asyncio.Event().wait()

        def on_kill(self) -> None:
            killed.append(self.task_id)

    with DAG("d", schedule=None) as dag:
        Slow(task_id="t")

    report = await run_async(dag, attempt("t", is_async=True, timeout=0.01))

    assert (report.outcome, report.reason) == (Outcome.FAILED, "ran longer than its execution_timeout of 0.01 s")
    assert killed == ["t"]


async def test_a_coroutine_that_swallows_its_timeout_is_late_all_the_same() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    report = await run_async(a_dag(stubborn), attempt("t", is_async=True, timeout=0.01))

    assert report.reason == "ran longer than its execution_timeout of 0.01 s"


async def test_a_timeout_error_of_the_task_itself_is_an_ordinary_failure() -> None:
    async def own() -> None:
        raise TimeoutError("mine")

    report = await run_async(a_dag(own), attempt("t", is_async=True, timeout=100))

    assert report.reason == "TimeoutError: mine"


async def test_an_attempt_cancelled_by_the_host_is_lost() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    work = asyncio.create_task(run_async(a_dag(wait)))
    await asyncio.sleep(0)
    work.cancel()

    report = await work

    assert report.outcome is Outcome.LOST
    assert report.reason == "its asyncio task was cancelled by the program it runs in"


async def test_a_task_that_became_plain_or_async_since_its_run_began_still_runs() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    assert (await run_async(a_dag(lambda: "plain"))).xcoms[0].value == '"plain"'
    report = await asyncio.to_thread(run, a_dag(later))
    assert report.xcoms[0].value == '"later"'


def test_a_silent_attempt_leaves_no_file_and_one_that_logs_has_its_lines(tmp_path: Path) -> None:
    def speak() -> None:
        logging.getLogger("aiosched.task").warning("spoken")

    from aiosched.executors.attempt.logs import TaskLoggerCapture

    TaskLoggerCapture.begin()
    try:
        run(a_dag(lambda: 1), attempt("t", number=1), logs_folder=tmp_path)
        run(a_dag(speak), attempt("t", number=2), logs_folder=tmp_path)
    finally:
        TaskLoggerCapture.end()

    assert not log_path(tmp_path, attempt("t", number=1)).exists()
    assert "WARNING aiosched.task  spoken" in log_path(tmp_path, attempt("t", number=2)).read_text()


def test_a_dag_that_this_process_does_not_know_fails_the_attempt_and_says_what_is_known() -> None:
    execution = Execution(attempt("t", dag_id="other"), FakeServices(), AttemptEnvironment(), blocking=drive)

    report = drive(execution.run(RegisteredDags({"d": a_dag(int)})))

    assert report.outcome is Outcome.FAILED
    assert "does not know the DAG 'other' (it knows d)" in (report.reason or "")


async def test_xcom_pull_in_a_coroutine_says_what_to_write_instead() -> None:
    async def pull(ti: Any) -> Any:
        return ti.xcom_pull("up")

    report = await run_async(a_dag(pull))

    assert "(`await ti.axcom_pull(...)`" in (report.reason or "")


def test_drive_refuses_a_coroutine_that_suspends() -> None:
    with pytest.raises(RuntimeError, match="bug in aiosched"):
        drive(asyncio.sleep(0))


def test_a_function_sees_its_run_in_the_context() -> None:
    assert run(a_dag(lambda run_id, ds: [run_id, ds])).xcoms[0].value == '["manual__0","2026-01-01"]'
