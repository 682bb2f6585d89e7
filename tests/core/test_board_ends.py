"""Setups and teardowns, and runs that end from outside: fail-fast, cancelled, timed out.

Source: the semantics reference, sections 8.4, 8.5, 21.1, 22.5 and 28.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import SkipDecision
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_builders import FAILED, SKIPPED, SUCCESS, end, grant, of, run, seconds, started, states
from tests.core.board_player import NOW, Ending, board_of, new_run, play, report_of
from tests.core.graph_builders import graph, setup, task, teardown


class TestTeardowns:
    """Sections 8.3 to 8.5."""

    TASKS = (setup("s"), task("work", "s"), teardown("t", "s", "work"))

    @pytest.mark.parametrize(
        ("endings", "expected", "result"),
        [
            ({}, ("success", "success", "success"), "success"),
            ({"work": [FAILED]}, ("success", "failed", "success"), "failed"),
            ({"s": [FAILED]}, ("failed", "upstream_failed", "upstream_failed"), "failed"),
            ({"s": [SKIPPED]}, ("skipped", "skipped", "skipped"), "success"),
            ({"t": [FAILED]}, ("success", "success", "failed"), "success"),
        ],
    )
    def test_a_teardown_runs_when_a_setup_succeeded_and_does_not_decide_the_run(
        self, endings: Mapping[str, Sequence[Ending]], expected: tuple[str, ...], result: str
    ) -> None:
        played = play(graph(*self.TASKS), endings)

        assert tuple(played.states.values()) == expected
        assert played.result[0] == result

    def test_a_teardown_waits_for_everything_between_its_setups_and_itself(self) -> None:
        board = started(
            setup("s"),
            task("slow", "s"),
            task("quick", "slow", trigger_rule="always"),
            teardown("t", "s", "quick"),
            running=["s"],
        )
        end(board, "s")
        run(board, "slow")
        run(board, "quick")
        end(board, "quick")
        assert states(board)["t"] == "none"

        end(board, "slow", FAILED)

        assert states(board)["t"] == "scheduled"

    def test_a_setup_further_up_holds_back_every_rule(self) -> None:
        board = started(setup("s"), task("near", "s"), task("far", "near", trigger_rule="always"), running=["s"])
        assert states(board)["far"] == "none"

        end(board, "s")

        assert states(board)["far"] == "scheduled"  # without waiting for near

    def test_a_failed_setup_further_up_settles_at_once(self) -> None:
        board = started(setup("s"), task("near", "s"), task("far", "near", trigger_rule="always"), running=["s"])

        end(board, "s", FAILED)

        assert states(board)["far"] == "upstream_failed"
        assert of(board, "far").reason == "a setup that it needs did not succeed"

    def test_a_short_circuit_leaves_teardowns_alone(self) -> None:
        compiled = graph(setup("s"), task("check", "s"), task("a", "check"), teardown("t", "s", "a"))

        played = play(compiled, {"check": [SkipDecision(skipped=("a", "t"))]})

        assert played.states == {"s": "success", "check": "success", "a": "skipped", "t": "success"}


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

    def test_a_failed_inner_task_fails_the_run_even_if_all_leaves_are_skipped(self) -> None:
        board = started(task("bad"), task("leaf", "bad", trigger_rule="all_done"), running=["bad"], fail_fast=True)

        end(board, "bad", FAILED)

        assert (states(board)["leaf"], board.run.state) == ("skipped", RunState.FAILED)

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

    def test_mapped_siblings_are_spared(self) -> None:
        compiled = Graph(DagSpec(dag_id="sales", tasks=(task("a"), task("b")), fail_fast=True))
        rows = [Instance(0, 0, TaskState.RUNNING, 1), Instance(0, 1, TaskState.RUNNING, 1), Instance(1)]
        board = board_of(compiled, new_run(), rows)

        assert board.apply(report_of(board.key(rows[0]), FAILED, NOW), NOW)

        assert [row.state.value for row in rows] == ["failed", "running", "skipped"]


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
