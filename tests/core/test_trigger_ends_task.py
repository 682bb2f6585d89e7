"""A trigger that ends its task, and a task that begins in its trigger: the semantics reference, section 25.6."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.board import Board
from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import Deferral, Outcome, Report, XComValue
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_builders import end, of, seconds, started, states
from tests.core.board_player import NOW

WAIT = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on", timeout=60.0)
CALLS: dict[str, Any] = {f"has_{kind}_callback": True for kind in ("success", "skipped", "failure", "retry")}
A = TaskSpec(task_id="a", operator="T", **CALLS)
B = TaskSpec(task_id="b", operator="T", upstream=("a",))


def deferring(*others: TaskSpec, task: TaskSpec = A) -> Board:
    board = started(task, *others, running=("a",))
    end(board, "a", Outcome.DEFERRED, deferral=WAIT)
    board.effects.rows.deferrals.clear()
    board.effects.slots.released.clear()
    return board


def ended_by_trigger(board: Board, outcome: Outcome, *, at: datetime = NOW, **facts: Any) -> bool:
    key = trigger_key(board.key(of(board, "a")))
    applied = board.apply(Report(key=key, outcome=outcome, at=at, ends=True, **facts), at)
    board.evaluate(at)
    return applied


@pytest.mark.parametrize(
    ("outcome", "state", "callback", "after"),
    [
        (Outcome.SUCCESS, TaskState.SUCCESS, "task_success", "scheduled"),
        (Outcome.SKIPPED, TaskState.SKIPPED, "task_skipped", "skipped"),
        (Outcome.FAILED, TaskState.FAILED, "task_failure", "upstream_failed"),
    ],
)
def test_it_ends_the_try_as_a_worker_would_have_and_asks_for_the_callbacks(
    outcome: Outcome, state: TaskState, callback: str, after: str
) -> None:
    board = deferring(B)
    a = of(board, "a")
    began = a.start_date

    assert ended_by_trigger(board, outcome, at=NOW + seconds(5), reason="so it is")

    assert states(board) == {"a": state, "b": after}
    assert (a.start_date, a.end_date, a.try_number, a.reason) == (began, NOW + seconds(5), 1, "so it is")
    assert (callback, "so it is", 0, -1, 1) in [tuple(request) for request in board.effects.rows.callbacks]
    assert a not in board.deferrals
    assert a in board.effects.rows.deferrals, "its row is to be deleted"
    assert board.effects.slots.inactive == [a], "it does not count for the limits of its task any more"
    assert a not in board.effects.slots.released, "it had given its slot back before"


def test_its_values_are_pushed_with_the_success() -> None:
    board = deferring()

    ended_by_trigger(board, Outcome.SUCCESS, xcoms=(XComValue("return_value", "7"), XComValue("k", "1")))

    assert [(i.task, *value) for i, value in board.effects.rows.xcoms] == [(0, "return_value", "7"), (0, "k", "1")]
    assert board.run.state is RunState.SUCCESS


def test_a_failure_by_the_trigger_retries_as_any_other() -> None:
    board = deferring(task=TaskSpec(task_id="a", operator="T", retries=1, retry_delay=10.0, has_retry_callback=True))
    a = of(board, "a")

    ended_by_trigger(board, Outcome.FAILED, reason="refused")

    assert (a.state, a.next_at) == (TaskState.UP_FOR_RETRY, NOW + seconds(10))
    assert [request.kind for request in board.effects.rows.callbacks] == ["task_retry"]
    assert [(t.key.try_number, t.state, t.reason) for t in board.effects.rows.tries] == [(1, "failed", "refused")]
    assert a not in board.deferrals


def test_an_end_that_nobody_waits_for_is_stale() -> None:
    board = deferring()
    assert ended_by_trigger(board, Outcome.SKIPPED)

    assert not ended_by_trigger(board, Outcome.SUCCESS)
    assert states(board) == {"a": "skipped"}


# -- a task that begins in its trigger --------------------------------------------------------


def beginning(**options: Any) -> Board:
    board = started(TaskSpec(task_id="a", operator="T", starts_deferred=WAIT, **options))
    assert board.begins_deferred(of(board, "a"))
    return board


def test_it_defers_as_its_first_try_without_a_worker() -> None:
    board = beginning()
    a = of(board, "a")
    assert (a.state, a.try_number) == (TaskState.SCHEDULED, 1)

    board.defer(a, NOW + seconds(2))

    assert (a.state, a.try_number, a.start_date) == (TaskState.DEFERRED, 1, NOW + seconds(2))
    assert board.effects.triggers == [a]
    assert a not in board.effects.slots.ready
    waited = board.deferrals.get(a)
    assert waited is not None
    assert (waited.deferral, waited.timeout_at) == (WAIT, NOW + seconds(62))


def test_after_its_event_it_goes_on_in_a_worker() -> None:
    board = beginning()
    a = of(board, "a")
    board.defer(a, NOW)

    board.apply(Report(key=trigger_key(board.key(a)), outcome=Outcome.TRIGGERED, at=NOW, event="3"), NOW)

    assert (a.state, a.try_number) == (TaskState.SCHEDULED, 1)
    assert not board.begins_deferred(a)
    resume = board.attempt(a).resume
    assert resume is not None
    assert (resume.next_method, resume.event) == ("go_on", "3")


def test_a_retry_begins_in_the_trigger_again() -> None:
    board = beginning(retries=1, retry_delay=1.0)
    a = of(board, "a")
    board.defer(a, NOW)

    ended_by_trigger(board, Outcome.FAILED)
    board.wake(a)
    board.evaluate(NOW + seconds(2))

    assert (a.state, a.try_number, a.start_date) == (TaskState.SCHEDULED, 2, None)
    assert board.begins_deferred(a)


@pytest.mark.parametrize(
    ("timeout", "limit", "waits"), [(60.0, None, 60), (60.0, 5.0, 5), (60.0, 90.0, 60), (None, 5.0, 5)]
)
def test_its_execution_timeout_bounds_the_wait(timeout: float | None, limit: float | None, waits: float) -> None:
    wait = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on", timeout=timeout)
    board = started(TaskSpec(task_id="a", operator="T", starts_deferred=wait, execution_timeout=limit))
    a = of(board, "a")

    board.defer(a, NOW)

    waited = board.deferrals.get(a)
    assert waited is not None
    assert waited.timeout_at == NOW + seconds(waits)
