"""Setups and teardowns, and runs that end from outside: fail-fast, cancelled, timed out.

Source: the semantics reference, sections 8.4, 8.5, 21.1, 22.5 and 28.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiosched.core.run.board import Board, Instance
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_builders import FAILED, SUCCESS, end, grant, of, run, seconds, started, states
from tests.core.board_player import NOW, board_of, new_run, report_of
from tests.core.graph_builders import graph, setup, task, teardown


class TestTeardowns:
    """Sections 8.3 to 8.5."""

    def test_a_failed_setup_further_up_settles_at_once(self) -> None:
        board = started(setup("s"), task("near", "s"), task("far", "near", trigger_rule="always"), running=["s"])

        end(board, "s", FAILED)

        assert states(board)["far"] == "upstream_failed"
        assert of(board, "far").reason == "a setup that it needs did not succeed"


class TestFailFast:
    """Section 22.5, decision 13."""

    def test_everything_else_ends_and_the_run_fails(self) -> None:
        board = started(
            *(task(name) for name in ("bad", "running", "queued", "scheduled", "done")),
            task("retried", retries=1),
            task("later", "bad", "running"),
            running=["bad", "running", "done", "retried"],
            fail_fast=True,
        )
        grant(board, "queued")
        end(board, "done")
        end(board, "retried", FAILED)
        assert not board.effects.cancelled  # a try that is repeated sets nothing off

        end(board, "bad", FAILED)

        assert states(board) == {
            "bad": "failed", "running": "failed", "queued": "skipped", "scheduled": "skipped",
            "done": "success", "retried": "skipped", "later": "skipped",
        }  # fmt: skip
        assert [*board.effects.cancelled] == [board.key(of(board, "running")), board.key(of(board, "queued"))]
        assert of(board, "later").reason == "bad failed (fail_fast)"
        assert (board.run.state, board.run.reason) == (RunState.FAILED, "task_failure")

    @pytest.mark.parametrize("rebuilt", [False, True])
    def test_teardowns_are_spared_and_the_run_goes_on_until_they_are_done(self, rebuilt: bool) -> None:
        tasks = (setup("s"), task("bad", "s"), task("leaf", "bad"), teardown("t", "s", "leaf"))
        board = started(*tasks, running=["s"], fail_fast=True)
        end(board, "s")
        run(board, "bad")
        board.effects.rows.run_changed = False

        end(board, "bad", FAILED)

        assert (states(board)["t"], board.run.state) == ("scheduled", RunState.RUNNING)
        assert (board.run.reason, board.effects.rows.run_changed) == ("task_failure", True)  # kept in the row
        if rebuilt:
            board = board_of(board.graph, board.run, list(board))
            board.resume()
        run(board, "t")
        end(board, "t")
        assert (board.run.state, board.run.reason) == (RunState.FAILED, "task_failure")

    def test_dates_that_are_there_are_kept(self) -> None:
        board = started(task("bad"), task("a", retries=1), running=["bad", "a"], fail_fast=True)
        end(board, "a", FAILED)
        later = NOW + seconds(5)

        assert board.apply(report_of(board.key(of(board, "bad")), FAILED, later), later)

        skipped = of(board, "a")
        assert (skipped.state, skipped.start_date, skipped.end_date) == (TaskState.SKIPPED, NOW, NOW)


class TestCancelling:
    """Section 28.5: marking a run failed."""

    @pytest.mark.parametrize(
        ("state", "after"),
        [
            ("running", "failed"), ("deferred", "failed"), ("up_for_reschedule", "failed"),
            ("none", "skipped"), ("scheduled", "skipped"), ("queued", "skipped"), ("up_for_retry", "skipped"),
            ("restarting", "skipped"), ("shutdown", "skipped"),
            ("success", "success"), ("skipped", "skipped"), ("failed", "failed"),
            ("upstream_failed", "upstream_failed"), ("removed", "removed"),
        ],
    )  # fmt: skip
    def test_what_becomes_of_a_task(self, state: str, after: str) -> None:
        row = Instance(0, state=TaskState(state), try_number=1)
        board = board_of(graph(task("a")), new_run(), [row])

        board.cancel(NOW)

        assert (row.state.value, board.run.state, board.run.reason) == (after, RunState.FAILED, "cancelled")
        assert bool(board.effects.cancelled) is (state in {"queued", "running"})

    def test_an_unfinished_teardown_still_runs_and_the_run_ends_failed_after_it(self) -> None:
        board = started(setup("s"), task("work", "s"), teardown("t", "s", "work"), running=["s"])
        end(board, "s")
        working = board.key(run(board, "work"))

        board.cancel(NOW)
        assert states(board) == {"s": "success", "work": "failed", "t": "scheduled"}
        assert board.run.state is RunState.RUNNING
        assert not board.apply(report_of(working, SUCCESS, NOW), NOW)  # the stopped attempt, late

        run(board, "t")
        end(board, "t")
        assert (board.run.state, board.run.reason) == (RunState.FAILED, "cancelled")

    def test_a_teardown_whose_setup_never_ran_is_skipped_with_it(self) -> None:
        board = started(setup("s"), task("work", "s"), teardown("t", "s", "work"))

        board.cancel(NOW)

        assert set(states(board).values()) == {"skipped"}
        assert (board.run.state, board.run.reason) == (RunState.FAILED, "cancelled")


def test_a_run_that_times_out_fails_and_skips_everything_unfinished_teardowns_too() -> None:
    board = started(
        setup("s"), task("done"), task("work", "s"), teardown("t", "s", "work"), task("b"), running=["done", "b"]
    )
    end(board, "done")

    board.time_out(NOW + seconds(9))

    assert states(board) == {"s": "skipped", "done": "success", "work": "skipped", "t": "skipped", "b": "skipped"}
    assert (board.run.state, board.run.reason, board.run.end_date) == (
        RunState.FAILED,
        "timed_out",
        NOW + seconds(9),
    )
    assert [*board.effects.cancelled] == [board.key(of(board, "b"))]
    assert (of(board, "b").start_date, of(board, "b").end_date) == (NOW, NOW + seconds(9))
    assert of(board, "b").reason == "the run timed out"


@pytest.mark.parametrize("interrupt", [Board.cancel, Board.time_out])
def test_a_run_that_is_over_is_left_alone(interrupt: Callable[[Board, Any], None]) -> None:
    board = started(task("a", is_empty=True))
    assert board.run.state is RunState.SUCCESS

    interrupt(board, NOW + seconds(1))

    assert (board.run.state, board.run.reason, board.run.end_date) == (RunState.SUCCESS, None, NOW)
