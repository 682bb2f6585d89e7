"""Clearing, marking and stopping. Source: the semantics reference, sections 2.3, 2.5, 28.1 to 28.5 and 35 (16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.requests.instance_changes import choose
from aiosched.core.requests.requests import Clear
from aiosched.core.requests.selection import select_tasks
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import Deferral, Outcome, Report
from aiosched.core.values.retries import MOST_TRIES
from aiosched.core.values.states import FINISHED, RUN_FINISHED, RunState, TaskState
from aiosched.errors import DagError, Refused
from tests.core.board_builders import (
    FAILED,
    LOST,
    RESCHEDULED,
    SUCCESS,
    end,
    of,
    run,
    seconds,
    shut_down,
    started,
    states,
)
from tests.core.board_player import NOW, Ending, board_of, new_run
from tests.core.graph_builders import dags, graph, setup, task, teardown

S = TaskState
LATER = NOW + seconds(3600)


def over_with(rows: Mapping[str, TaskState], *tasks: TaskSpec, run_state: RunState = RunState.FAILED) -> Board:
    """A board of a run that is over (or not), with these states; what ever ran has had one try."""
    compiled = graph(*tasks)
    ran = {S.SUCCESS, S.FAILED, S.RUNNING, S.QUEUED, S.UP_FOR_RETRY, S.UP_FOR_RESCHEDULE, S.SCHEDULED, S.DEFERRED}
    instances = [
        Instance(compiled.index[name], state=state, try_number=int(state in ran), stored_state=state)
        for name, state in rows.items()
    ]
    row = new_run(run_state)
    row.start_date, row.end_date = NOW, NOW if run_state in RUN_FINISHED else None
    row.reason = "task_failure" if run_state is RunState.FAILED else None
    return board_of(compiled, row, instances)


class TestSelecting:
    """Section 28.1."""

    SALES = (task("extract"), task("load_a", "extract"), task("load_b", "extract"), task("report", "load_a", "load_b"))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, "extract load_a load_b report"),
            ({"task_ids": ["load_a"]}, "load_a"),
            ({"task_ids": []}, ""),
            ({"pattern": "^load"}, "load_a load_b"),
            ({"pattern": "^load", "task_ids": ["report"]}, "load_a load_b report"),
            ({"task_ids": ["load_a"], "upstream": True}, "extract load_a"),
            ({"task_ids": ["load_a"], "downstream": True}, "load_a report"),
            ({"task_ids": ["load_a"], "upstream": True, "downstream": True}, "extract load_a report"),
        ],
    )
    def test_tasks_are_named_or_matched(self, options: dict[str, Any], expected: str) -> None:
        compiled = graph(*self.SALES)

        assert {compiled.task_ids[index] for index in select_tasks(compiled, **options)} == set(expected.split())

    def test_a_group_means_all_its_tasks(self) -> None:
        compiled = graph(task("g.a", group_id="g"), task("g.b", "g.a", group_id="g"), task("c"), groups=("g",))

        assert select_tasks(compiled, task_ids=["g"]) == {0, 1}

    def test_what_does_not_exist_is_named(self) -> None:
        with pytest.raises(DagError, match="did you mean 'load_a'"):
            select_tasks(graph(*self.SALES), task_ids=["laod_a"])
        with pytest.raises(DagError, match="cannot be used"):
            select_tasks(graph(*self.SALES), pattern="(")

    def test_instances_are_chosen_by_state_and_index(self) -> None:
        rows = [Instance(0, n, state) for n, state in enumerate((S.FAILED, S.RUNNING, S.UPSTREAM_FAILED, S.SUCCESS))]
        one, tasks = graph(task("a")), frozenset({0})

        assert choose(one, rows, tasks, Clear()) == rows
        assert choose(one, rows, frozenset(), Clear()) == []
        assert choose(one, rows, tasks, Clear(only_failed=True)) == [rows[0], rows[2]]
        assert choose(one, rows, tasks, Clear(only_running=True)) == [rows[1]]
        assert choose(one, rows, tasks, Clear(only_failed=True, only_running=True)) == rows[:3]
        assert choose(one, rows, tasks, Clear(), map_index=2) == [rows[2]]


class TestScopes:
    """Section 28.1: the setups and teardowns that belong to what is cleared, whatever their state."""

    #       s >> work >> more >> t      beside it: below an `open` setup without a teardown
    ONE = (
        setup("s"), task("work", "s"), task("more", "work"), teardown("t", "s", "more"), task("outside", "s"),
        setup("open"), task("below", "open"),
    )  # fmt: skip
    #       outer >> inner >> work >> close_inner >> close_outer
    NESTED = (
        setup("outer"), setup("inner", "outer"), task("work", "inner"), teardown("close_inner", "inner", "work"),
        teardown("close_outer", "outer", "close_inner"),
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("tasks", "named", "expected"),
        [
            (ONE, "work", "s work t"),
            (ONE, "s", "s t"),
            (ONE, "t", "t"),
            (ONE, "outside", "outside"),
            (ONE, "below", "open below"),
            (ONE, "open", "open"),
            (NESTED, "work", "outer inner work close_inner close_outer"),
            (NESTED, "inner", "outer inner close_inner close_outer"),
            (NESTED, "close_inner", "outer close_inner close_outer"),
            (NESTED, "outer", "outer close_outer"),
        ],
    )
    def test_setups_and_teardowns_are_cleared_with_their_tasks(
        self, tasks: tuple[TaskSpec, ...], named: str, expected: str
    ) -> None:
        compiled = graph(*tasks)
        rows = [Instance(index, state=S.SUCCESS) for index in range(len(tasks))]

        chosen = choose(compiled, rows, select_tasks(compiled, task_ids=[named]), Clear())
        marked = choose(compiled, rows, select_tasks(compiled, task_ids=[named]), Clear(), to_rerun=False)

        assert [compiled.task_ids[one.task] for one in chosen] == expected.split()
        assert [compiled.task_ids[one.task] for one in marked] == [named]

    @pytest.mark.parametrize("option", ["only_failed", "only_running"])
    def test_a_filter_by_state_is_about_the_tasks_and_not_about_what_belongs_to_them(self, option: str) -> None:
        compiled = graph(*self.ONE)
        given = {"work": S.FAILED if option == "only_failed" else S.RUNNING}
        rows = [Instance(index, state=given.get(name, S.SUCCESS)) for index, name in enumerate(compiled.task_ids)]

        chosen = choose(compiled, rows, select_tasks(compiled), Clear(**{option: True}))

        assert [compiled.task_ids[one.task] for one in chosen] == ["s", "work", "t"]

    def test_teardowns_pull_in_the_scopes_around_them(self) -> None:
        """The work's teardown stands in another scope, which the work itself is outside of."""
        tasks = (
            setup("s"), task("work", "s"), setup("session"), teardown("t", "s", "work", "session"),
            teardown("logout", "session", "t"),
        )  # fmt: skip
        compiled = graph(*tasks)
        rows = [Instance(index, state=S.SUCCESS) for index in range(len(tasks))]

        chosen = choose(compiled, rows, frozenset({compiled.index["work"]}), Clear())

        assert [compiled.task_ids[one.task] for one in chosen] == ["s", "work", "session", "t", "logout"]

    def test_in_a_mapped_group_they_are_those_of_the_same_index(self) -> None:
        inside = {"group_id": "g"}
        tasks = (
            setup("s"), task("g.s", "s", is_setup=True, **inside), task("g.work", "g.s", **inside),
            task("g.t", "g.s", "g.work", is_teardown=True, trigger_rule="all_done_setup_success", **inside),
            teardown("t", "s", "g.t"),
        )  # fmt: skip
        mapping = MappingSpec(inputs=(LiteralLength(3),))
        compiled = Graph(DagSpec(dag_id="d", tasks=tasks, groups=(GroupSpec(group_id="g", mapping=mapping),)))
        rows = [Instance(0, state=S.SUCCESS), Instance(4, state=S.SUCCESS)]
        rows[1:1] = [Instance(place, index, S.SUCCESS) for place in (1, 2, 3) for index in range(3)]
        next(one for one in rows if (one.task, one.map_index) == (2, 1)).state = S.FAILED

        failed = choose(compiled, rows, select_tasks(compiled), Clear(only_failed=True))
        first = choose(compiled, rows, select_tasks(compiled, task_ids=["g.work"]), Clear(), map_index=0)

        assert [(one.task, one.map_index) for one in failed] == [(0, -1), (1, 1), (2, 1), (3, 1), (4, -1)]
        assert [(one.task, one.map_index) for one in first] == [(0, -1), (1, 0), (2, 0), (3, 0), (4, -1)]


class TestClearing:
    """Section 28.2, and 28.3 for the run."""

    @pytest.mark.parametrize(
        ("state", "history"),
        [
            (S.SUCCESS, "success"), (S.FAILED, "failed"), (S.UP_FOR_RETRY, "failed"), (S.UP_FOR_RESCHEDULE, "failed"),
            (S.SCHEDULED, "failed"), (S.QUEUED, "failed"), (S.DEFERRED, "failed"),
            (S.NONE, None), (S.SKIPPED, None), (S.UPSTREAM_FAILED, None), (S.REMOVED, None),
        ],
    )  # fmt: skip
    def test_an_instance_waits_again_and_its_try_becomes_history(self, state: TaskState, history: str | None) -> None:
        running = RunState.RUNNING
        board = over_with({"a": state, "b": S.QUEUED}, task("a", retries=2), task("b"), run_state=running)
        instance = of(board, "a")
        instance.losses, instance.start_date, instance.next_at, instance.reason = 2, NOW, LATER, "why"

        board.clear([instance], LATER)

        assert (instance.state, instance.max_tries) == (S.NONE, instance.try_number + 2)
        assert (instance.losses, instance.start_date, instance.next_at, instance.reason) == (0, None, None, None)
        assert [one.state for one in board.effects.rows.tries] == ([] if history is None else [history])
        assert [*board.effects.cancelled] == ([board.key(instance)] if state is S.QUEUED else [])
        assert (board.run.state, board.run.start_date) == (RunState.RUNNING, NOW)
        assert (board.run.clear_number, board.run.queued_at) == (1, LATER)

    def test_a_new_try_follows_the_old_one(self) -> None:
        board = started(task("a"), running=["a"])
        end(board, "a", FAILED)
        assert board.run.state is RunState.FAILED

        board.clear([of(board, "a")], LATER)
        assert (board.run.state, board.run.start_date, board.run.reason) == (RunState.QUEUED, None, None)
        board.start(LATER)
        board.evaluate(LATER)

        assert (of(board, "a").try_number, of(board, "a").max_tries) == (2, 1)
        assert board.run.start_date == LATER

    @pytest.mark.parametrize(
        ("ending", "state"),
        [
            (SUCCESS, S.NONE),
            (Outcome.SKIPPED, S.NONE),
            (RESCHEDULED, S.NONE),
            (LOST, S.NONE),
            (FAILED, S.UP_FOR_RETRY),
        ],
    )
    def test_a_running_one_restarts_when_its_attempt_has_ended(self, ending: Ending, state: TaskState) -> None:
        board = started(task("a", retries=1, retry_delay=600.0), task("b"), running=["a", "b"])
        instance = of(board, "a")

        board.clear([instance], NOW)
        assert (instance.state, [*board.effects.cancelled]) == (S.RESTARTING, [board.key(instance)])
        assert board.effects.slots.released == []  # it holds its slot until then
        board.clear([instance], NOW)  # once more changes nothing
        assert instance.state is S.RESTARTING
        key = board.key(instance)
        assert board.apply(Report(key=key, outcome=Outcome.STARTED, at=NOW), NOW)
        assert board.apply(Report(key=key, outcome=Outcome(str(ending)), at=NOW, reason="ended"), NOW)

        assert (instance.state, instance.max_tries, instance.try_number) == (state, 2, 1)
        assert board.effects.slots.released == [instance]
        board.evaluate(NOW + seconds(1))
        assert (instance.state, instance.try_number) == (S.SCHEDULED, 2)  # at once, without the delay of a failure

    def test_an_attempt_that_is_restarting_may_die_with_its_scheduler(self) -> None:
        board = started(task("a"), task("b"), running=["a", "b"])
        board.clear([of(board, "a")], NOW)

        board.lose(of(board, "a"), NOW, "its scheduler ended")

        assert (of(board, "a").state, of(board, "a").losses) == (S.NONE, 0)

    def test_a_cleared_deferral_is_forgotten(self) -> None:
        board = started(task("a"), task("b"), running=["a", "b"])
        waits = Deferral(classpath="triggers.Moment", kwargs="{}", next_method="resume")
        instance = of(board, "a")
        assert board.apply(Report(key=board.key(instance), outcome=Outcome.DEFERRED, at=NOW, deferral=waits), NOW)

        board.clear([instance], NOW)

        assert (instance.state, board.deferrals.get(instance)) == (S.NONE, None)

    def test_nothing_to_clear_leaves_the_run_alone(self) -> None:
        board = over_with({"a": S.SUCCESS}, task("a"), run_state=RunState.SUCCESS)

        board.clear([], LATER)

        assert (board.run.state, board.run.clear_number, bool(board.effects.rows)) == (RunState.SUCCESS, 0, False)


class TestMarking:
    """Section 28.4, with its example."""

    FIVE = (task("t1"), *(task(f"t{n}", "t1") for n in (2, 3, 4, 5)))
    ROWS: Mapping[str, TaskState] = {
        "t1": S.FAILED, "t2": S.SUCCESS, "t3": S.UPSTREAM_FAILED, "t4": S.FAILED, "t5": S.SKIPPED
    }  # fmt: skip

    def test_what_failed_behind_it_is_cleared_and_the_run_goes_on(self) -> None:
        board = over_with(self.ROWS, *self.FIVE)

        board.mark([of(board, "t1")], S.SUCCESS, LATER)

        assert states(board) == {"t1": "success", "t2": "success", "t3": "none", "t4": "none", "t5": "skipped"}
        assert board.run.state is RunState.QUEUED

    @pytest.mark.parametrize("torn_down", [True, False])
    def test_what_is_cleared_behind_it_gets_its_setup_again_once_that_was_torn_down(self, torn_down: bool) -> None:
        tasks = (setup("s"), task("a", "s"), task("b", "a"), task("c", "s"), teardown("t", "s", "b", "c"))
        rest = {"c": S.SUCCESS, "t": S.SUCCESS} if torn_down else {"c": S.RUNNING, "t": S.NONE}
        rows = {"s": S.SUCCESS, "a": S.FAILED, "b": S.UPSTREAM_FAILED, **rest}
        board = over_with(rows, *tasks, run_state=RunState.FAILED if torn_down else RunState.RUNNING)

        board.mark([of(board, "a")], S.SUCCESS, LATER)

        again = {"s": "none", "t": "none"} if torn_down else {}
        assert (
            states(board) == {name: state.value for name, state in rows.items()} | {"a": "success", "b": "none"} | again
        )

    def test_a_setup_that_is_marked_stays_so(self) -> None:
        tasks = (setup("s"), task("a", "s"), teardown("t", "s", "a"))
        board = over_with({"s": S.FAILED, "a": S.UPSTREAM_FAILED, "t": S.UPSTREAM_FAILED}, *tasks)

        board.mark([of(board, "s")], S.SUCCESS, LATER)

        assert states(board) == {"s": "success", "a": "none", "t": "none"}

    def test_marking_the_last_task_leaves_the_run_failed(self) -> None:
        board = over_with({"a": S.SUCCESS, "b": S.FAILED}, task("a"), task("b", "a"))

        marked = board.mark(list(board), S.SUCCESS, LATER)

        assert marked == [of(board, "b")]  # the other one is success already
        assert (states(board), board.run.state) == ({"a": "success", "b": "success"}, RunState.FAILED)
        assert (board.run.clear_number, board.run.end_date) == (0, NOW)

    @pytest.mark.parametrize("mark", [S.SUCCESS, S.FAILED, S.SKIPPED])
    @pytest.mark.parametrize("state", list(S))
    def test_any_state_can_be_marked(self, mark: TaskState, state: TaskState) -> None:
        rows = {"a": state, "b": S.RUNNING}
        board = over_with(rows, task("a"), task("b"), run_state=RunState.RUNNING)
        instance = of(board, "a")

        marked = board.mark([instance], mark, LATER)

        assert instance.state is mark
        assert (marked == []) is (state is mark)
        if state is not mark:
            assert (instance.start_date, instance.end_date) == (LATER, LATER)
            assert (board.key(instance) in board.effects.cancelled) is (state in (S.QUEUED, S.RUNNING))

    def test_a_marked_attempt_reports_in_vain(self) -> None:
        board = started(task("a"), task("b", "a"), running=["a"])

        board.mark([of(board, "a")], S.SUCCESS, NOW)
        board.evaluate(NOW)

        assert not end(board, "a", FAILED)
        assert states(board) == {"a": "success", "b": "scheduled"}

    def test_a_deadlocked_run_goes_on_when_something_of_it_is_marked(self) -> None:
        board = over_with({"a": S.REMOVED, "b": S.NONE}, task("a"), task("b", "a", trigger_rule="all_skipped"))

        board.mark([of(board, "a")], S.SKIPPED, LATER)

        assert board.run.state is RunState.QUEUED


class TestMarkingARun:
    """Section 28.5."""

    BUSY = (S.RUNNING, S.DEFERRED, S.UP_FOR_RESCHEDULE)

    @pytest.mark.parametrize("mark", [RunState.SUCCESS, RunState.FAILED])
    @pytest.mark.parametrize("state", list(S))
    def test_instances_follow_their_run(self, mark: RunState, state: TaskState) -> None:
        board = over_with({"a": state}, task("a"), run_state=RunState.RUNNING)

        board.mark_run(mark, LATER)

        expected = state if state in FINISHED else S(mark.value) if state in self.BUSY else S.SKIPPED
        assert (of(board, "a").state, board.run.state, board.run.end_date) == (expected, mark, LATER)
        assert not board.effects.rows.callbacks

    @pytest.mark.parametrize(("mark", "reason"), [(RunState.SUCCESS, None), (RunState.FAILED, "marked")])
    @pytest.mark.parametrize("rebuilt", [False, True])
    def test_unfinished_teardowns_still_run(self, mark: RunState, reason: str | None, rebuilt: bool) -> None:
        board = started(setup("s"), task("w", "s"), teardown("t", "s", "w"), running=["s"])
        end(board, "s")
        run(board, "w")
        end(board, "w", FAILED)
        assert states(board)["t"] == "scheduled"

        board.mark_run(mark, NOW)
        assert board.run.state is RunState.RUNNING
        if rebuilt:
            board = board_of(board.graph, board.run, list(board))
            board.resume()
        run(board, "t")
        end(board, "t")

        assert (board.run.state, board.run.reason) == (mark, reason)

    def test_a_queued_run_keeps_what_was_decided_until_its_teardowns_have_run(self) -> None:
        tasks = (setup("s"), task("w", "s"), teardown("t", "s", "w"))
        board = over_with({"s": S.SUCCESS, "w": S.NONE, "t": S.NONE}, *tasks, run_state=RunState.QUEUED)
        board.mark_run(RunState.SUCCESS, NOW)
        assert (states(board), board.run.state) == ({"s": "success", "w": "skipped", "t": "none"}, RunState.QUEUED)

        board.start(NOW)
        board.evaluate(NOW)
        run(board, "t")
        end(board, "t")

        assert board.run.state is RunState.SUCCESS

    def test_a_finished_run_keeps_its_times(self) -> None:
        board = over_with({"a": S.FAILED}, task("a"))

        board.mark_run(RunState.SUCCESS, LATER)
        assert (board.run.state, board.run.end_date, board.run.reason) == (RunState.SUCCESS, NOW, None)
        board.mark_run(RunState.FAILED, LATER)
        assert (board.run.state, board.run.end_date, board.run.reason) == (RunState.FAILED, NOW, "marked")

    def test_marked_queued_it_starts_again_with_what_is_left(self) -> None:
        board = over_with({"a": S.FAILED}, task("a"))

        board.mark_run(RunState.QUEUED, LATER)

        assert (board.run.state, board.run.queued_at, board.run.start_date) == (RunState.QUEUED, LATER, None)
        assert (states(board), board.run.clear_number) == ({"a": "failed"}, 0)

    def test_an_unfinished_run_that_is_marked_queued_goes_on(self) -> None:
        board = started(task("a"), running=["a"])

        board.mark_run(RunState.QUEUED, LATER)

        assert (board.run.state, states(board)) == (RunState.RUNNING, {"a": "running"})


class TestShuttingDown:
    @pytest.mark.parametrize("ending", [SUCCESS, FAILED, LOST, RESCHEDULED, Outcome.SKIPPED])
    def test_however_a_stopped_attempt_ends_the_task_has_failed(self, ending: Outcome) -> None:
        board = started(task("a", retries=3), task("b", "a"), running=["a"])

        instance = shut_down(board, "a")
        assert (instance.state, [*board.effects.cancelled]) == (S.SHUTDOWN, [board.key(instance)])
        assert end(board, "a", ending)

        assert (states(board), board.run.state) == ({"a": "failed", "b": "upstream_failed"}, RunState.FAILED)
        assert instance.reason == "stopped on request"

    def test_what_has_no_attempt_is_not_stopped(self) -> None:
        board = started(task("a"), task("b", "a"))

        shut_down(board, "b")

        assert states(board)["b"] == "none"


@given(dags(largest=6), st.data())
def test_no_run_is_over_while_something_of_it_waits(tasks: list[TaskSpec], data: st.DataObject) -> None:
    """Invariant 16, for any row of any run that is over, and any clearing or marking of it."""
    compiled = Graph(DagSpec(dag_id="sales", tasks=tuple(tasks)))
    finished = st.sampled_from(sorted(FINISHED))
    rows = [Instance(n, state=data.draw(finished), try_number=1) for n in range(len(compiled))]
    row = new_run(data.draw(st.sampled_from([RunState.SUCCESS, RunState.FAILED])))
    board = board_of(compiled, row, rows)

    chosen = [i for i in rows if data.draw(st.booleans())]
    match data.draw(st.sampled_from(["clear", "mark", "mark run"])):
        case "clear":
            board.clear(chosen, LATER)
        case "mark":
            board.mark(chosen, data.draw(st.sampled_from([S.SUCCESS, S.FAILED, S.SKIPPED])), LATER)
        case "mark run":
            board.mark_run(data.draw(st.sampled_from(sorted(RunState))), LATER)

    if board.run.state in RUN_FINISHED:
        assert all(i.state in FINISHED for i in board)


class TestTheMostTries:
    """What a row has room for (2.5)."""

    @staticmethod
    def after(tries: int, *, retries: int = 0, state: TaskState = S.FAILED, also: TaskState = S.FAILED) -> Board:
        run_state = RunState.FAILED if state is S.FAILED else RunState.RUNNING
        board = over_with({"a": state, "b": also}, task("a", retries=retries), task("b"), run_state=run_state)
        of(board, "a").try_number = of(board, "a").max_tries = tries
        return board

    def test_one_that_had_them_all_is_not_cleared_and_nothing_else_is_either(self) -> None:
        board = self.after(MOST_TRIES)

        with pytest.raises(Refused, match=r"a of run '.*' has had 32,000 tries, the maximum: trigger a new run"):
            board.clear([of(board, "b"), of(board, "a")], LATER)
        assert states(board) == {"a": S.FAILED, "b": S.FAILED}
        assert board.run.state is RunState.FAILED
        assert not board.effects.rows

    def test_the_one_before_is_and_gets_no_more_retries_than_there_is_room_for(self) -> None:
        board = self.after(MOST_TRIES - 1, retries=5)

        board.clear([of(board, "a")], LATER)

        assert of(board, "a").max_tries == MOST_TRIES

    @pytest.mark.parametrize(("tries", "state"), [(MOST_TRIES - 1, S.SCHEDULED), (MOST_TRIES, S.FAILED)])
    def test_a_loss_in_the_last_of_them_is_final(self, tries: int, state: TaskState) -> None:
        board = self.after(tries, state=S.RUNNING, also=S.SUCCESS)

        end(board, "a", LOST)

        assert (of(board, "a").state, of(board, "a").max_tries) == (state, MOST_TRIES)
