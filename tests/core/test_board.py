"""What a board decides, rule by rule. The rules in all their combinations: test_board_properties.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from board_player import FAIL_NOW, NOW, Ending, board_of, new_run, play, report_of
from graph_builders import graph, setup, task, teardown

from aiosched.core.board import SKIPPED_DOWNSTREAM, Board, Instance, new_instances
from aiosched.core.graph import Graph
from aiosched.core.messages import Outcome, Report, SkipDecision, XComValue
from aiosched.core.spec import DagSpec, TaskSpec
from aiosched.core.states import RunState, TaskState

SUCCESS, FAILED, SKIPPED, RESCHEDULED, LOST = (
    Outcome.SUCCESS,
    Outcome.FAILED,
    Outcome.SKIPPED,
    Outcome.RESCHEDULED,
    Outcome.LOST,
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def started(*tasks: TaskSpec, running: Sequence[str] = (), fail_fast: bool = False) -> Board:
    """A board whose run has just begun; `running` tasks have been handed out, in that order, and started."""
    compiled = Graph(DagSpec(dag_id="sales", tasks=tasks, fail_fast=fail_fast))
    board = board_of(compiled, new_run(), new_instances(compiled, range(len(compiled))))
    board.start(NOW)
    board.evaluate(NOW)
    for name in running:
        run(board, name)
    return board


def of(board: Board, name: str) -> Instance:
    found = board.find(board.graph.index[name])
    assert found is not None
    return found


def grant(board: Board, name: str) -> Instance:
    instance = of(board, name)
    board.effects.ready.remove(instance)
    board.grant(instance, NOW, incarnation=7)
    return instance


def run(board: Board, name: str) -> Instance:
    instance = grant(board, name)
    assert board.apply(Report(key=board.key(instance), outcome=Outcome.STARTED, at=NOW), NOW)
    return instance


def end(board: Board, name: str, ending: Ending = SUCCESS, **fields: Any) -> bool:
    """Report how the current attempt of a task ended, and decide what follows."""
    applied = board.apply(report_of(board.key(of(board, name)), ending, NOW, **fields), NOW)
    board.evaluate(NOW)
    return applied


def states(board: Board) -> dict[str, str]:
    return {board.graph.task_ids[i.task]: i.state.value for i in board}


# -- a run's way through its tasks ----------------------------------------------------------


def test_a_chain_runs_in_order_and_the_run_succeeds() -> None:
    played = play(graph(task("a"), task("b", "a"), task("c", "b")))

    assert [key.task_index for key in played.submitted] == [0, 1, 2]
    assert played.states == {"a": "success", "b": "success", "c": "success"}
    assert played.result == ("success", None)


def test_a_ready_task_waits_for_a_slot_and_its_attempt_is_what_the_executor_needs() -> None:
    board = started(task("a", retries=2, priority_weight=5), task("b", "a"))
    assert board.effects.ready == [of(board, "a")]
    assert of(board, "a").scheduled_at == NOW

    instance = grant(board, "a")

    assert (instance.state, instance.queued_at, instance.queued_by) == (TaskState.QUEUED, NOW, 7)
    attempt = board.attempt(instance)
    assert (attempt.key, attempt.task_id) == ((1, 0, -1, 1), "a")
    assert (attempt.max_tries, attempt.priority_weight) == (2, 6)


def test_a_run_that_was_queued_starts() -> None:
    compiled = graph(task("a"))
    run_row = new_run(RunState.QUEUED)
    run_row.reason, run_row.end_date = "task_failure", NOW  # of an earlier end, before it was cleared
    board = board_of(compiled, run_row, new_instances(compiled, [0]))

    board.start(NOW)

    assert (run_row.state, run_row.start_date, run_row.end_date, run_row.reason) == (RunState.RUNNING, NOW, None, None)
    assert board.effects.run_changed


def test_a_run_without_tasks_succeeds_at_once() -> None:
    assert started().run.state is RunState.SUCCESS


def test_trivial_empty_tasks_succeed_without_a_slot() -> None:
    board = started(task("a", is_empty=True), task("b", "a", is_empty=True), task("c", "b"))

    assert states(board) == {"a": "success", "b": "success", "c": "scheduled"}
    empty = of(board, "b")
    assert (empty.try_number, empty.start_date, empty.end_date) == (1, NOW, NOW)


def test_a_task_without_a_row_keeps_nobody_waiting() -> None:
    compiled = graph(task("a"), task("b"), task("c", "a", "b"), setup("s"), teardown("t", "s", "a"))
    board = board_of(compiled, new_run(), new_instances(compiled, [1, 2, 4]))  # a and s take no part

    board.start(NOW)
    board.evaluate(NOW)

    assert states(board) == {"b": "scheduled", "c": "none", "t": "scheduled"}


def test_a_start_may_be_stored_with_the_next_commit_and_its_end_may_come_first() -> None:
    board = started(task("a"))
    instance = grant(board, "a")
    board.effects.changed.clear()

    assert board.apply(Report(key=board.key(instance), outcome=Outcome.STARTED, at=NOW), NOW)
    assert (instance.state, instance.start_date) == (TaskState.RUNNING, NOW)
    assert (list(board.effects.lazy), list(board.effects.changed)) == ([instance], [])

    quick = started(task("a"))
    grant(quick, "a")
    assert end(quick, "a", started_at=NOW - seconds(1))
    assert (of(quick, "a").state, of(quick, "a").start_date) == (TaskState.SUCCESS, NOW - seconds(1))


def test_a_refused_task_keeps_its_reason_until_it_gets_its_slot() -> None:
    board = started(task("a"))
    instance = of(board, "a")
    board.effects.changed.clear()

    board.keep_waiting(instance, "pool 'etl' is full")
    assert (instance.reason, instance in board.effects.changed) == ("pool 'etl' is full", True)
    instance.stored_state = TaskState.SCHEDULED
    board.effects.changed.clear()
    board.keep_waiting(instance, "pool 'etl' is full")
    assert not board.effects.changed

    assert grant(board, "a").reason is None


@pytest.mark.parametrize(
    ("endings", "result"),
    [
        ({}, ("success", None)),
        ({"inner": [FAILED]}, ("success", None)),  # only leaves decide
        ({"leaf": [FAILED]}, ("failed", "task_failure")),
        ({"leaf": [SKIPPED]}, ("success", None)),
    ],
)
def test_the_leaves_decide_the_runs_result(
    endings: Mapping[str, Sequence[Ending]], result: tuple[str, str | None]
) -> None:
    played = play(graph(task("inner"), task("leaf", "inner", trigger_rule="all_done")), endings)

    assert played.result == result


def test_a_rule_that_can_never_hold_ends_the_run_as_a_deadlock() -> None:
    played = play(graph(task("gone"), task("b", "gone", trigger_rule="all_skipped")), removed=["gone"])

    assert played.states == {"gone": "removed", "b": "none"}
    assert played.result == ("failed", "all_tasks_deadlocked")


def test_waiting_for_other_runs_is_no_deadlock() -> None:
    compiled = graph(task("gone"), task("b", "gone", trigger_rule="all_skipped", depends_on_past=True))
    board = board_of(compiled, new_run(), [Instance(0, state=TaskState.REMOVED), Instance(1)])

    board.start(NOW)
    board.evaluate(NOW)

    assert board.run.state is RunState.RUNNING


def test_what_is_settled_says_why_and_has_no_duration() -> None:
    board = started(task("a"), task("b", "a"), task("c", "b"), running=["a"])

    end(board, "a", FAILED)

    assert states(board) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}
    settled = of(board, "b")
    assert (settled.start_date, settled.end_date, settled.try_number) == (NOW, NOW, 0)
    assert settled.reason == "0 of 1 upstream succeeded (all_success); 1 failed"


# -- tries ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retries", "endings", "tries", "state"),
    [
        (0, [FAILED], 1, "failed"),
        (2, [FAILED, FAILED], 3, "success"),
        (2, [FAILED, FAILED, FAILED], 3, "failed"),
        (2, [FAIL_NOW], 1, "failed"),
        (2, [FAILED, SKIPPED], 2, "skipped"),
        (0, [RESCHEDULED, RESCHEDULED], 1, "success"),
        (1, [RESCHEDULED, FAILED, RESCHEDULED], 2, "success"),
    ],
)
def test_tries_are_spent_by_failures_alone(retries: int, endings: list[Ending], tries: int, state: str) -> None:
    played = play(graph(task("a", retries=retries)), {"a": endings})

    assert (played.states["a"], played.of("a").try_number) == (state, tries)


def test_a_retry_waits_until_its_delay_is_strictly_over() -> None:
    board = started(task("a", retries=1, retry_delay=60.0), running=["a"])
    end(board, "a", FAILED)
    instance = of(board, "a")
    due = NOW + seconds(60)
    assert (instance.state, instance.next_at, instance.end_date) == (TaskState.UP_FOR_RETRY, due, NOW)
    assert board.effects.timers == [(due + timedelta(microseconds=1), instance)]

    for now, state in ((due, TaskState.UP_FOR_RETRY), (due + timedelta(microseconds=1), TaskState.SCHEDULED)):
        board.wake(instance)
        board.evaluate(now)
        assert instance.state is state

    assert (instance.try_number, instance.start_date, instance.end_date, instance.next_at) == (2, None, None, None)


def test_a_rescheduled_task_goes_on_at_its_instant_with_the_same_try() -> None:
    board = started(task("a"), running=["a"])
    end(board, "a", RESCHEDULED)
    instance = of(board, "a")
    assert (instance.state, instance.next_at) == (TaskState.UP_FOR_RESCHEDULE, NOW + seconds(60))
    assert board.effects.released == [instance]

    board.wake(instance)
    board.evaluate(NOW + seconds(60))

    assert (instance.state, instance.try_number, instance.start_date) == (TaskState.SCHEDULED, 1, NOW)


def test_a_new_try_forgets_what_the_one_before_pushed() -> None:
    board = started(task("a", retries=1, retry_delay=0.0), running=["a"])
    end(board, "a", FAILED, xcoms=(XComValue("rows", "3"),))
    instance = of(board, "a")
    assert board.effects.xcoms == [(instance, XComValue("rows", "3"))]

    board.wake(instance)
    board.evaluate(NOW + seconds(1))

    assert (board.effects.xcoms, board.effects.forget_xcoms) == ([], [instance])


def test_failed_tries_are_remembered() -> None:
    board = started(task("a"), running=["a"])

    end(board, "a", FAILED, details="Traceback …", hostname="etl-1", pid=42)

    (remembered,) = board.effects.tries
    assert (remembered.key, remembered.state, remembered.queued_by) == ((1, 0, -1, 1), "failed", 7)
    assert (remembered.reason, remembered.details) == ("boom", "Traceback …")
    assert (remembered.start_date, remembered.end_date, remembered.hostname, remembered.pid) == (NOW, NOW, "etl-1", 42)


class TestLosses:
    """Decision 17."""

    @pytest.mark.parametrize(
        ("losses", "endings", "tries", "state"),
        [
            ([1], [], 2, "success"),
            ([2], [], 3, "success"),
            ([3], [], 3, "failed"),
            ([2, 2], [FAILED], 6, "success"),  # not in a row: a failure stands between
            ([2, 2], [RESCHEDULED], 5, "success"),
            ([2, 0], [FAILED, FAILED], 4, "failed"),
        ],
    )
    def test_lost_attempts_do_not_spend_retries_but_the_third_in_a_row_fails(
        self, losses: list[int], endings: list[Ending], tries: int, state: str
    ) -> None:
        played = play(graph(task("a", retries=1)), {"a": endings}, losses={"a": losses})

        assert (played.states["a"], played.of("a").try_number) == (state, tries)

    def test_the_third_loss_says_so(self) -> None:
        played = play(graph(task("a", retries=5)), losses={"a": [3]})

        assert played.of("a").reason == "lost 3 times in a row: its worker died"
        assert [state for _, state in played.rows.tries] == ["lost", "lost", "failed"]

    def test_an_attempt_that_died_with_its_scheduler_is_tried_again_at_once(self) -> None:
        board = started(task("a"), running=["a"])
        instance = of(board, "a")

        board.lose(instance, NOW, "its scheduler ended")
        board.evaluate(NOW)

        assert (instance.state, instance.try_number, instance.losses) == (TaskState.SCHEDULED, 2, 1)
        assert board.effects.released == [instance]


def test_reports_of_attempts_that_are_over_are_stale() -> None:
    board = started(task("a"), task("b"), running=["a", "b"])
    first = board.key(of(board, "a"))
    board.lose(of(board, "a"), NOW, "its worker died")
    stale = [report_of(first, SUCCESS, NOW), report_of(first._replace(task_index=0, map_index=3), SUCCESS, NOW)]
    assert [board.apply(report, NOW) for report in stale] == [False, False]  # lost, not yet scheduled again
    board.evaluate(NOW)
    run(board, "a")

    assert not board.apply(report_of(first, SUCCESS, NOW), NOW)  # an earlier try
    assert end(board, "a")
    assert not end(board, "a", FAILED)  # twice
    assert end(board, "b")
    assert board.run.state is RunState.SUCCESS
    assert not end(board, "b")


# -- branches -------------------------------------------------------------------------------

TO_A = SkipDecision(followed=("a",))
STOP = SkipDecision(skipped=("a", "b", "join"))


class TestBranches:
    """Section 7."""

    TASKS = (task("branch"), task("a", "branch"), task("b", "branch"), task("join", "a", "b"))

    @pytest.mark.parametrize(
        ("decision", "join_rule", "expected"),
        [
            (TO_A, "all_success", ("success", "skipped", "skipped")),
            (TO_A, "none_failed", ("success", "skipped", "success")),
            (SkipDecision(followed=()), "none_failed", ("skipped", "skipped", "success")),
            (SkipDecision(followed=()), "none_failed_min_one_success", ("skipped", "skipped", "skipped")),
            (STOP, "all_done", ("skipped", "skipped", "skipped")),  # whatever the rules say
            (SkipDecision(skipped=("a", "b")), "all_done", ("skipped", "skipped", "success")),
        ],
    )
    def test_skips_are_applied_with_the_branchs_success(
        self, decision: SkipDecision, join_rule: str, expected: tuple[str, str, str]
    ) -> None:
        played = play(graph(*self.TASKS[:3], task("join", "a", "b", trigger_rule=join_rule)), {"branch": [decision]})

        assert (played.states["a"], played.states["b"], played.states["join"]) == expected
        assert played.states["branch"] == "success"

    def test_the_decision_is_kept_with_the_branch(self) -> None:
        board = started(*self.TASKS, running=["branch"])

        end(board, "branch", STOP)

        assert board.effects.xcoms == [(of(board, "branch"), XComValue(SKIPPED_DOWNSTREAM, '["a","b"]'))]
        assert (of(board, "a").reason, of(board, "a").start_date) == ("skipped by branch", NOW)

    def test_a_branch_that_skips_nothing_keeps_nothing(self) -> None:
        board = started(*self.TASKS, running=["branch"])

        end(board, "branch", SkipDecision(followed=("a", "b")))

        assert (states(board)["a"], states(board)["b"], board.effects.xcoms) == ("scheduled", "scheduled", [])

    def test_an_unknown_id_fails_the_branch(self) -> None:
        board = started(*self.TASKS, running=["branch"])

        end(board, "branch", SkipDecision(followed=("aa",)), xcoms=(XComValue("rows", "3"),))

        assert states(board)["branch"] == "failed"
        assert "chose 'aa'" in str(of(board, "branch").reason)
        assert board.effects.xcoms == []

    @pytest.mark.parametrize(
        ("state", "after"),
        [
            (state, state if state in {"running", "shutdown", "success", "failed", "skipped"} else "skipped")
            for state in TaskState
        ],
    )
    def test_every_state_but_running_success_and_failed_is_overwritten(self, state: TaskState, after: str) -> None:
        compiled = graph(task("branch"), task("a", "branch"))
        rows = [Instance(0, state=TaskState.RUNNING, try_number=1), Instance(1, state=state, try_number=1)]
        board = board_of(compiled, new_run(), rows)

        assert board.apply(report_of(board.key(rows[0]), SkipDecision(followed=()), NOW), NOW)

        assert rows[1].state == after
        assert board.effects.cancelled == ([board.key(rows[1])] if state is TaskState.QUEUED else [])
        assert (rows[1] in board.effects.released) is (state in {"queued", "restarting"})
        assert (rows[1] in board.effects.withdrawn) is (state is TaskState.SCHEDULED)

    def test_one_that_was_ready_and_not_yet_in_line_is_not_lined_up(self) -> None:
        board = started(task("branch"), task("a", "branch", trigger_rule="always"), running=["branch"])
        assert board.effects.ready == [of(board, "a")]

        end(board, "branch", SkipDecision(followed=()))

        assert (board.effects.ready, board.effects.withdrawn) == ([], [])

    @pytest.mark.parametrize("rebuilt", [False, True])
    @pytest.mark.parametrize("ending", [FAILED, RESCHEDULED, LOST])
    def test_a_running_downstream_is_skipped_when_it_becomes_schedulable_again(
        self, ending: Outcome, rebuilt: bool
    ) -> None:
        tasks = (task("branch"), task("a", "branch", trigger_rule="always", retries=3), task("b", "a"))
        board = started(*tasks, running=["branch", "a"])
        end(board, "branch", SkipDecision(followed=()))
        assert states(board)["a"] == "running"
        if rebuilt:
            board = board_of(board.graph, board.run, list(board))
            board.recall(of(board, "branch"), ["a", "no such task"])

        end(board, "a", ending)

        assert states(board) == {"branch": "success", "a": "skipped", "b": "skipped"}
        assert of(board, "a").try_number == 1

    def test_a_branch_that_runs_again_decides_again(self) -> None:
        tasks = (task("branch"), task("a", "branch", trigger_rule="always", retries=3))
        board = started(*tasks, running=["a"])
        branch = of(board, "branch")
        board.recall(branch, ["a"])  # of a try before it was cleared

        end(board, "a", RESCHEDULED)  # an unfinished branch has no say

        assert states(board)["a"] == "up_for_reschedule"

    def test_a_mapped_branch_decides_for_its_own_map_index(self) -> None:
        compiled = graph(task("branch"), task("a", "branch", trigger_rule="always"))
        branches = [Instance(0, n, TaskState.RUNNING, 1) for n in (0, 1)]
        board = board_of(compiled, new_run(), [*branches, *(Instance(1, n) for n in (0, 1))])

        for branch, decision in zip(branches, (SkipDecision(followed=()), TO_A), strict=True):
            assert board.apply(report_of(board.key(branch), decision, NOW), NOW)
        board.start(NOW)
        board.evaluate(NOW)

        assert [i.state for i in board if i.task == 1] == [TaskState.SKIPPED, TaskState.SCHEDULED]

    def test_a_mapped_branch_keeps_only_its_own_index_from_coming_back(self) -> None:
        compiled = graph(task("branch"), task("a", "branch", trigger_rule="always"))
        rows = [Instance(0, 0, TaskState.SUCCESS, 1), *(Instance(1, n, TaskState.RUNNING, 1) for n in (0, 1))]
        board = board_of(compiled, new_run(), rows)
        board.recall(rows[0], ["a"])

        for instance in rows[1:]:
            board.lose(instance, NOW, "its worker died")
        board.evaluate(NOW)

        assert [i.state for i in rows[1:]] == [TaskState.SKIPPED, TaskState.SCHEDULED]


# -- setups and teardowns -------------------------------------------------------------------


class TestTeardowns:
    """Section 8."""

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


# -- ends from outside ----------------------------------------------------------------------


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
        assert board.effects.cancelled == []  # a try that is repeated sets nothing off

        end(board, "bad", FAILED)

        assert states(board) == {
            "bad": "failed", "running": "failed", "queued": "skipped", "scheduled": "skipped",
            "done": "success", "retried": "skipped", "later": "skipped",
        }  # fmt: skip
        assert board.effects.cancelled == [board.key(of(board, "running")), board.key(of(board, "queued"))]
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
        board.effects.run_changed = False

        end(board, "bad", FAILED)

        assert (states(board)["t"], board.run.state) == ("scheduled", RunState.RUNNING)
        assert (board.run.reason, board.effects.run_changed) == ("task_failure", True)  # kept in the row
        if rebuilt:
            board = board_of(board.graph, board.run, list(board))
            board.resume()
        run(board, "t")
        end(board, "t")
        assert (board.run.state, board.run.reason) == (RunState.FAILED, "task_failure")

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
    assert board.effects.cancelled == [board.key(of(board, "b"))]
    assert (of(board, "b").start_date, of(board, "b").end_date) == (NOW, NOW + seconds(9))
    assert of(board, "b").reason == "the run timed out"


@pytest.mark.parametrize("interrupt", [Board.cancel, Board.time_out])
def test_a_run_that_is_over_is_left_alone(interrupt: Callable[[Board, Any], None]) -> None:
    board = started(task("a", is_empty=True))
    assert board.run.state is RunState.SUCCESS

    interrupt(board, NOW + seconds(1))

    assert (board.run.state, board.run.reason, board.run.end_date) == (RunState.SUCCESS, None, NOW)


# -- reading back ---------------------------------------------------------------------------


def test_a_board_that_is_read_back_asks_again_for_slots_and_timers() -> None:
    due = NOW + seconds(30)
    rows = [
        Instance(0, state=TaskState.SCHEDULED, try_number=1),
        Instance(1, state=TaskState.UP_FOR_RETRY, try_number=1, next_at=due),
        Instance(2, state=TaskState.UP_FOR_RESCHEDULE, try_number=1, next_at=due),
        Instance(3, state=TaskState.SUCCESS, try_number=1),
        Instance(4),
    ]
    compiled = graph(task("a"), task("b"), task("c"), task("d"), task("e", "d"))
    board = board_of(compiled, new_run(), rows)

    board.resume()
    board.evaluate(NOW)

    assert board.effects.ready == [rows[0], rows[4]]
    assert board.effects.timers == [(due + timedelta(microseconds=1), row) for row in rows[1:3]]
    assert (board.total, board.unfinished) == (5, 4)
    counts, total = board.counts_of(4)
    assert (counts.success, counts.done, total) == (1, 1, 1)
