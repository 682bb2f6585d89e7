"""The instants that a direct change of state leaves. Source: the semantics reference, section 2.4."""

from __future__ import annotations

from datetime import datetime

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import TaskState
from tests.semantics.boards import LATER, NOW, begin, board_of, of, report, task

S = TaskState
MUCH_LATER = LATER + (LATER - NOW)


@pytest.mark.parametrize("mark", [S.SUCCESS, S.FAILED, S.SKIPPED])
def test_nothing_happens_where_the_state_is_equal_and_nothing_is_reported_as_changed(mark: TaskState) -> None:
    board = board_of(task("a"), task("b"), states={"a": mark, "b": S.RUNNING})
    one = of(board, "a")

    changed = board.mark([one], mark, LATER)

    assert (changed, one.start_date, one.end_date, bool(board.effects.rows)) == ([], None, None, False)


@pytest.mark.parametrize("mark", [S.SUCCESS, S.FAILED, S.SKIPPED])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((None, None), (MUCH_LATER, MUCH_LATER)),  # both become now, so it took no time
        ((NOW, None), (NOW, MUCH_LATER)),
        ((NOW, LATER), (NOW, LATER)),  # what is there is kept
    ],
)
def test_dates_that_are_empty_become_now(
    mark: TaskState, before: tuple[datetime | None, ...], after: tuple[datetime | None, ...]
) -> None:
    board = board_of(task("a"), states={"a": S.UP_FOR_RETRY})
    one = of(board, "a")
    one.start_date, one.end_date = before

    assert board.mark([one], mark, MUCH_LATER) == [one]

    assert (one.state, one.start_date, one.end_date) == (mark, *after)


@pytest.mark.parametrize(("up", "state"), [(S.FAILED, S.UPSTREAM_FAILED), (S.SKIPPED, S.SKIPPED)])
def test_one_that_never_ran_is_settled_without_a_duration(up: TaskState, state: TaskState) -> None:
    board = begin(board_of(task("up"), task("a", "up"), states={"up": up}), LATER)

    one = of(board, "a")
    assert (one.state, one.start_date, one.end_date, one.try_number) == (state, LATER, LATER, 0)


@pytest.mark.parametrize(
    ("outcome", "retries", "state"),
    [(Outcome.SUCCESS, 0, S.SUCCESS), (Outcome.FAILED, 0, S.FAILED), (Outcome.FAILED, 1, S.UP_FOR_RETRY)],
)
def test_a_try_that_ran_ends_at_its_end_as_does_one_that_is_to_be_repeated(
    outcome: Outcome, retries: int, state: TaskState
) -> None:
    board = board_of(task("a", retries=retries), task("b"), states={"a": S.RUNNING, "b": S.RUNNING})
    one = of(board, "a")
    one.start_date = NOW

    report(board, "a", outcome, at=LATER)

    assert (one.state, one.start_date, one.end_date) == (state, NOW, LATER)
