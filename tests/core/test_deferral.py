"""Deferral on a board.

Source: the semantics reference, sections 25.1, 25.2, 25.4 and 25.5; who may end it: 2.3, 28.2 and 28.4.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.board import Board
from aiosched.core.run.deferral import Deferred, trigger_key
from aiosched.core.values.messages import AttemptKey, Deferral, Outcome, Report
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_builders import end, of, run, seconds, started, states
from tests.core.board_player import NOW

WAIT = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on", timeout=60.0)
A, B = TaskSpec(task_id="a", operator="T"), TaskSpec(task_id="b", operator="T")


def deferring(*others: TaskSpec, running: tuple[str, ...] = ("a",), fail_fast: bool = False) -> Board:
    """A board whose task `a` has deferred, with all effects of that taken."""
    board = started(A, *others, running=running, fail_fast=fail_fast)
    end(board, "a", Outcome.DEFERRED, deferral=WAIT)
    forget(board)
    return board


def forget(board: Board) -> None:
    """As after a commit."""
    effects = board.effects
    for each in (effects.rows.changed, effects.rows.lazy, effects.rows.deferrals):
        each.clear()
    for taken in (
        effects.slots.released,
        effects.slots.inactive,
        effects.triggers,
        effects.slots.timers,
        effects.cancelled,
    ):
        taken.clear()


def fire(board: Board, outcome: Outcome = Outcome.TRIGGERED, key: AttemptKey | None = None) -> bool:
    key = key or trigger_key(board.key(of(board, "a")))
    applied = board.apply(Report(key=key, outcome=outcome, at=NOW, event="1"), NOW)
    board.evaluate(NOW)
    return applied


def test_a_task_that_defers_gives_its_slot_back_and_stays_active_for_its_own_limits() -> None:
    board = started(A, running=("a",))
    a = of(board, "a")

    end(board, "a", Outcome.DEFERRED, deferral=WAIT)

    effects = board.effects
    assert a.state is TaskState.DEFERRED
    assert (effects.slots.released, effects.slots.inactive) == ([a], [])
    assert (effects.triggers, list(effects.rows.deferrals)) == ([a], [a])
    assert effects.slots.timers == []  # it is set when the deferral is stored
    assert board.deferrals.timer_of(a) == NOW + seconds(60.000001)
    assert board.run.state is RunState.RUNNING


def test_its_event_lets_it_line_up_again_with_what_it_goes_on_with() -> None:
    board = deferring()
    a = of(board, "a")

    assert fire(board)

    effects = board.effects
    assert (a.state, a.try_number) == (TaskState.SCHEDULED, 1)
    assert (effects.slots.ready, effects.slots.inactive, effects.slots.released) == ([a], [a], [])
    assert not effects.cancelled
    resume = board.attempt(a).resume
    assert resume is not None
    assert (resume.next_method, resume.event, resume.error) == ("go_on", "1", None)


@pytest.mark.parametrize("outcome", [Outcome.TRIGGERED, Outcome.FAILED, Outcome.LOST, Outcome.STARTED])
def test_news_of_a_trigger_that_nobody_waits_for_is_stale(outcome: Outcome) -> None:
    board = deferring()
    key = trigger_key(board.key(of(board, "a")))

    assert not fire(board, outcome, key._replace(try_number=-2))
    assert not fire(board, outcome, key._replace(task_index=7))
    fire(board)
    assert not fire(board, outcome, key)


def clear(board: Board) -> None:
    board.clear([of(board, "a")], NOW)


def mark(board: Board) -> None:
    board.mark([of(board, "a")], TaskState.SUCCESS, NOW)


def cancel(board: Board) -> None:
    board.cancel(NOW)


def time_out(board: Board) -> None:
    board.time_out(NOW)


def fail_another(board: Board) -> None:
    end(board, "b", Outcome.FAILED)


ENDINGS: list[tuple[Callable[[Board], None], str]] = [
    (clear, "none"),
    (mark, "success"),
    (cancel, "failed"),
    (time_out, "skipped"),
    (fail_another, "skipped"),
]


@pytest.mark.parametrize(("ending", "state"), ENDINGS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("moment", ["it waits", "it lines up"])
def test_whatever_else_ends_it_stops_its_trigger_and_forgets_the_deferral(
    ending: Callable[[Board], None], state: str, moment: str
) -> None:
    board = deferring(B, running=("a", "b"), fail_fast=ending is fail_another)
    a = of(board, "a")
    key = trigger_key(board.key(a))
    if moment == "it lines up":
        fire(board)
        if ending in (cancel, time_out, fail_another):
            state = "skipped"
    forget(board)

    ending(board)

    assert states(board)["a"] == state
    assert a not in board.deferrals
    assert a in board.effects.rows.deferrals, "its row is to be deleted"
    assert (key in board.effects.cancelled) == (moment == "it waits")
    assert (a in board.effects.slots.inactive) == (moment == "it waits")


def test_a_resumed_attempt_that_ends_forgets_the_deferral_and_one_that_defers_again_replaces_it() -> None:
    board = deferring()
    a = of(board, "a")
    fire(board)
    run(board, "a")
    again = Deferral(classpath="triggers.Other", kwargs="{}", next_method="finish")
    end(board, "a", Outcome.DEFERRED, deferral=again)

    waited = board.deferrals.get(a)
    assert waited is not None
    assert (waited.deferral, waited.resume) == (again, None)
    fire(board)
    run(board, "a")
    assert end(board, "a")
    assert a not in board.deferrals
    assert board.run.state is RunState.SUCCESS


def test_a_lost_attempt_forgets_what_it_went_on_with() -> None:
    board = deferring()
    fire(board)
    run(board, "a")

    end(board, "a", Outcome.LOST)

    a = of(board, "a")
    assert (a.try_number, board.attempt(a).resume) == (2, None)


@pytest.mark.parametrize(("late", "fires"), [(60.0, False), (60.000001, True)])
def test_a_timeout_is_strict_and_stops_the_trigger(late: float, fires: bool) -> None:
    board = deferring()
    a = of(board, "a")
    key = trigger_key(board.key(a))

    board.time_out_trigger(a, NOW + seconds(late))

    assert (a.state is TaskState.SCHEDULED) == fires
    assert [*board.effects.cancelled] == ([key] if fires else [])


def test_reading_back_asks_for_the_trigger_again_and_for_nothing_that_has_fired() -> None:
    board = deferring(B, running=("a", "b"))
    a, b = of(board, "a"), of(board, "b")
    end(board, "b", Outcome.DEFERRED, deferral=WAIT)
    board.apply(Report(key=trigger_key(board.key(b)), outcome=Outcome.TRIGGERED, at=NOW, event="2"), NOW)
    board.effects.slots.ready.clear()
    forget(board)

    board.resume()

    assert board.effects.triggers == [a]
    assert board.effects.slots.ready == [b]
    resume = board.attempt(b).resume
    assert resume is not None
    assert resume.event == "2"


def test_a_deferral_that_was_read_back_times_out_by_its_stored_instant() -> None:
    board = deferring()
    a = of(board, "a")
    board.deferrals.recall(a, Deferred(Deferral(classpath="t.W", kwargs="{}", next_method="go_on"), NOW))

    board.time_out_trigger(a, NOW + seconds(1))

    resume = board.attempt(a).resume
    assert resume is not None
    assert (resume.timed_out, resume.error) == (True, "Trigger timeout")
