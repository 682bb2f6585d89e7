"""What a board decides on a run's way through its tasks and tries. All rules together: test_board_properties.py.

Source: the semantics reference, sections 2.5, 4, 9.2 to 9.4, 22.2 and 22.3.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.new_instances import new_instances
from aiosched.core.run.board import Board, Instance
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.instants import LATEST
from aiosched.core.values.messages import Outcome, Report, XComValue
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_builders import (
    FAILED,
    RESCHEDULED,
    SKIPPED,
    SUCCESS,
    end,
    grant,
    of,
    run,
    seconds,
    started,
    states,
)
from tests.core.board_player import FAIL_NOW, NOW, Ending, board_of, counts_of, new_run, play, report_of
from tests.core.graph_builders import graph, setup, task, teardown

# -- a run's way through its tasks ----------------------------------------------------------


def test_a_chain_runs_in_order_and_the_run_succeeds() -> None:
    played = play(graph(task("a"), task("b", "a"), task("c", "b")))

    assert [key.task_index for key in played.submitted] == [0, 1, 2]
    assert played.states == {"a": "success", "b": "success", "c": "success"}
    assert played.result == ("success", None)


def test_a_ready_task_waits_for_a_slot_and_its_attempt_is_what_the_executor_needs() -> None:
    board = started(task("a", retries=2, priority_weight=5), task("b", "a"))
    assert board.effects.slots.ready == [of(board, "a")]
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
    assert board.effects.rows.run_changed


def test_trivial_empty_tasks_succeed_without_a_slot() -> None:
    board = started(task("a", is_empty=True), task("b", "a", is_empty=True), task("c", "b"))

    assert states(board) == {"a": "success", "b": "success", "c": "scheduled"}
    empty = of(board, "b")
    assert (empty.try_number, empty.start_date, empty.end_date) == (1, NOW, NOW)


def test_a_task_without_a_row_keeps_nobody_waiting() -> None:
    compiled = graph(task("a"), task("b"), task("c", "a", "b"), setup("s"), teardown("t", "s", "b"))
    board = board_of(compiled, new_run(), new_instances(compiled, [1, 2, 4]))  # a and s take no part
    board.start(NOW)
    board.evaluate(NOW)
    assert states(board) == {"b": "scheduled", "c": "none", "t": "none"}

    run(board, "b")
    end(board, "b")

    assert states(board) == {"b": "success", "c": "scheduled", "t": "scheduled"}


def test_a_start_may_be_stored_with_the_next_commit_and_its_end_may_come_first() -> None:
    board = started(task("a"))
    instance = grant(board, "a")
    board.effects.rows.changed.clear()

    assert board.apply(Report(key=board.key(instance), outcome=Outcome.STARTED, at=NOW), NOW)
    assert (instance.state, instance.start_date) == (TaskState.RUNNING, NOW)
    assert (list(board.effects.rows.lazy), list(board.effects.rows.changed)) == ([instance], [])

    quick = started(task("a"))
    grant(quick, "a")
    assert end(quick, "a", started_at=NOW - seconds(1))
    assert (of(quick, "a").state, of(quick, "a").start_date) == (TaskState.SUCCESS, NOW - seconds(1))


def test_a_task_does_not_end_before_it_starts_although_its_start_was_noticed_late() -> None:
    """The executor notices the start on its own loop, which may lag; the attempt itself knows when it began."""
    board = started(task("a"))
    instance = grant(board, "a")
    board.apply(Report(key=board.key(instance), outcome=Outcome.STARTED, at=NOW), NOW)

    report = Report(key=board.key(instance), outcome=Outcome.SUCCESS, at=NOW - seconds(1), started_at=NOW - seconds(2))
    assert board.apply(report, NOW)

    assert (instance.start_date, instance.end_date) == (NOW - seconds(2), NOW - seconds(1))


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
    assert board.effects.slots.timers == [(due + timedelta(microseconds=1), instance)]

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
    assert board.effects.slots.released == [instance]

    board.wake(instance)
    board.evaluate(NOW + seconds(60))

    assert (instance.state, instance.try_number, instance.start_date) == (TaskState.SCHEDULED, 1, NOW)


def test_a_new_try_forgets_what_the_one_before_pushed() -> None:
    board = started(task("a", retries=1, retry_delay=0.0), running=["a"])
    end(board, "a", FAILED, xcoms=(XComValue("rows", "3"),))
    instance = of(board, "a")
    assert board.effects.rows.xcoms == [(instance, XComValue("rows", "3"))]

    board.wake(instance)
    board.evaluate(NOW + seconds(1))

    assert (board.effects.rows.xcoms, board.effects.rows.forget_xcoms) == ([], [instance])


def test_failed_tries_are_remembered() -> None:
    board = started(task("a"), running=["a"])

    end(board, "a", FAILED, details="Traceback …", hostname="etl-1", pid=42)

    (remembered,) = board.effects.rows.tries
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
        assert board.effects.slots.released == [instance]


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

    assert board.effects.slots.ready == [rows[0], rows[4]]
    assert board.effects.slots.timers == [
        (due + timedelta(microseconds=1), rows[1]),
        (due, rows[2]),
    ]  # a retry: strictly later
    assert (board.total, board.unfinished) == (5, 4)
    counts, total = counts_of(board, 4)
    assert (counts.success, counts.done, total) == (1, 1, 1)


def test_a_retry_at_the_end_of_the_calendar_is_read_back() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    row = Instance(0, state=TaskState.UP_FOR_RETRY, try_number=1, next_at=last)
    board = board_of(graph(task("a")), new_run(), [row])

    board.resume()
    board.evaluate(NOW)

    assert board.effects.slots.timers == [(LATEST + timedelta(microseconds=1), row)]
    assert row.next_at == last  # the row stays as it is


def test_a_report_costs_what_it_changes_however_large_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    board = started(task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, 1_000)))
    looked_at: list[int] = []
    judge = UpstreamCounts.judge
    monkeypatch.setattr(
        UpstreamCounts, "judge", lambda upstream_counts, one: looked_at.append(one.task) or judge(upstream_counts, one)
    )

    for n in range(999):
        grant(board, f"t{n}")
        end(board, f"t{n}")

    assert looked_at == list(range(1, 1_000))  # the next one each time, and nobody else


# -- very large runs ------------------------------------------------------------------------


def wide_board() -> Board:
    """A run of seven tasks, of which four are empty, and one behind them; nothing is decided yet."""
    compiled = graph(*(task(f"t{n}", is_empty=n < 4) for n in range(7)), task("last", *(f"t{n}" for n in range(7))))
    board = board_of(compiled, new_run(RunState.QUEUED), new_instances(compiled, range(8)))
    board.start(NOW)
    return board


def test_a_run_that_is_decided_in_parts_ends_up_as_one_that_is_decided_at_once() -> None:
    parts, whole = wide_board(), wide_board()

    rounds = 1
    while not parts.evaluate(NOW, 3):
        rounds += 1
    assert whole.evaluate(NOW)

    assert rounds > 1
    assert states(parts) == states(whole)


def test_a_run_that_is_cancelled_while_decisions_are_postponed_ends() -> None:
    board = wide_board()
    assert not board.evaluate(NOW, 3)

    board.cancel(NOW)

    assert board.finished


def test_what_one_task_releases_is_decided_in_parts() -> None:
    compiled = graph(task("root"), *(task(f"t{n}", "root") for n in range(7)))
    board = board_of(compiled, new_run(RunState.QUEUED), new_instances(compiled, range(8)))
    board.start(NOW)
    board.evaluate(NOW)
    run(board, "root")
    board.apply(report_of(board.key(of(board, "root")), SUCCESS, NOW), NOW)

    ready = []
    while not board.evaluate(NOW, 3):
        ready.append(len(board.effects.slots.ready))

    assert ready == [3, 6]
    assert len(board.effects.slots.ready) == 7


def test_a_run_says_how_many_more_decisions_it_leaves() -> None:
    compiled = graph(*(task(f"t{n}") for n in range(5)))
    board = board_of(compiled, new_run(RunState.QUEUED), new_instances(compiled, range(5)))
    board.start(NOW)

    assert [board.evaluate(NOW, most) for most in (3, 10, 10)] == [0, 8, 10]
