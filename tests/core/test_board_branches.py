"""How a board carries out what branches and short circuits decide."""

from __future__ import annotations

import pytest

from aiosched.core.run.board import SKIPPED_DOWNSTREAM, Instance
from aiosched.core.values.messages import Outcome, SkipDecision, XComValue
from aiosched.core.values.states import TaskState
from tests.core.board_builders import FAILED, LOST, RESCHEDULED, end, of, seconds, started, states
from tests.core.board_player import NOW, board_of, counts_of, new_run, play, report_of
from tests.core.graph_builders import graph, in_a_mapped_group, task

TO_A = SkipDecision(followed=("a",))
STOP = SkipDecision(skipped=("a", "b", "join"))


class TestBranches:
    """Sections 7.2 to 7.4."""

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

        assert board.effects.rows.xcoms == [(of(board, "branch"), XComValue(SKIPPED_DOWNSTREAM, '["a","b"]'))]
        assert (of(board, "a").reason, of(board, "a").start_date) == ("skipped by branch", NOW)

    def test_a_branch_that_skips_nothing_keeps_nothing(self) -> None:
        board = started(*self.TASKS, running=["branch"])

        end(board, "branch", SkipDecision(followed=("a", "b")))

        assert (states(board)["a"], states(board)["b"], board.effects.rows.xcoms) == ("scheduled", "scheduled", [])

    def test_an_unknown_id_fails_the_branch(self) -> None:
        board = started(*self.TASKS, running=["branch"])

        end(board, "branch", SkipDecision(followed=("aa",)), xcoms=(XComValue("rows", "3"),))

        assert states(board)["branch"] == "failed"
        assert "chose 'aa'" in str(of(board, "branch").reason)
        assert board.effects.rows.xcoms == []

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

        dates = (None, None) if after == state else (NOW, NOW)
        assert (rows[1].state, rows[1].start_date, rows[1].end_date) == (after, *dates)
        assert [*board.effects.cancelled] == ([board.key(rows[1])] if state is TaskState.QUEUED else [])
        assert (rows[1] in board.effects.slots.released) is (state in {"queued", "restarting"})
        assert (rows[1] in board.effects.slots.withdrawn) is (state is TaskState.SCHEDULED)

    def test_downstreams_see_the_new_state_of_one_that_was_overwritten(self) -> None:
        board = started(
            task("branch"),
            task("bad"),
            task("a", "branch", "bad"),
            task("b", "a", "slow", trigger_rule="none_failed"),
            task("c", "a", "slow", trigger_rule="one_failed"),
            task("slow"),
            running=["branch", "bad", "slow"],
        )
        end(board, "bad", FAILED, started_at=NOW)
        assert (states(board)["a"], states(board)["b"], states(board)["c"]) == (
            "upstream_failed", "upstream_failed", "scheduled",
        )  # fmt: skip
        later = NOW + seconds(5)

        assert board.apply(report_of(board.key(of(board, "branch")), SkipDecision(followed=()), later), later)

        overwritten = of(board, "a")
        assert (overwritten.state, overwritten.start_date, overwritten.end_date) == (TaskState.SKIPPED, later, later)
        counts, _ = counts_of(board, board.graph.index["b"])
        assert (counts.skipped, counts.upstream_failed, counts.done) == (1, 0, 1)

    def test_one_that_was_ready_and_not_yet_in_line_is_not_lined_up(self) -> None:
        board = started(task("branch"), task("a", "branch", trigger_rule="always"), running=["branch"])
        assert board.effects.slots.ready == [of(board, "a")]

        end(board, "branch", SkipDecision(followed=()))

        assert (board.effects.slots.ready, board.effects.slots.withdrawn) == ([], [])

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
        compiled = in_a_mapped_group(2, task("branch"), task("a", "branch", trigger_rule="always"))
        branches = [Instance(0, n, TaskState.RUNNING, 1) for n in (0, 1)]
        board = board_of(compiled, new_run(), [*branches, *(Instance(1, n) for n in (0, 1))])

        for branch, decision in zip(branches, (SkipDecision(followed=()), TO_A), strict=True):
            assert board.apply(report_of(board.key(branch), decision, NOW), NOW)
        board.start(NOW)
        board.evaluate(NOW)

        assert [i.state for i in board if i.task == 1] == [TaskState.SKIPPED, TaskState.SCHEDULED]

    def test_a_mapped_branch_keeps_only_its_own_index_from_coming_back(self) -> None:
        compiled = in_a_mapped_group(2, task("branch"), task("a", "branch", trigger_rule="always"))
        rows = [Instance(0, 0, TaskState.SUCCESS, 1), *(Instance(1, n, TaskState.RUNNING, 1) for n in (0, 1))]
        board = board_of(compiled, new_run(), rows)
        board.recall(rows[0], ["a"])

        for instance in rows[1:]:
            board.lose(instance, NOW, "its worker died")
        board.evaluate(NOW)

        assert [i.state for i in rows[1:]] == [TaskState.SKIPPED, TaskState.SCHEDULED]
