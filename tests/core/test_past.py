"""Waiting for the run before.

Source: the semantics reference, sections 6.2 to 6.5, and section 34 decisions 9 and 12. Which run is the one
before (6.1): tests/semantics/test_which_run_is_previous.py.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.previous_run import EarlierRuns, StoredRun, previous_types, waits_for_past
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome, SkipDecision
from aiosched.core.values.states import RunState, RunType, TaskState
from tests.core.board_player import NOW, board_of, new_run
from tests.core.graph_builders import mapped, over, task
from tests.core.mapping_builders import at, begin, begun, clear, finish, seen

S = TaskState
DAY_1, DAY_2 = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
FAILED, SKIPPED = Outcome.FAILED, Outcome.SKIPPED


def before(*states: tuple[str, TaskState], at: datetime = DAY_1, **fields: Any) -> EarlierRuns:
    return EarlierRuns(StoredRun(states), at, **fields)


def patient(name: str, *upstream: str, **fields: Any) -> TaskSpec:
    return task(name, *upstream, depends_on_past=True, **fields)


def test_the_previous_run_may_be_manual_without_catchup_only() -> None:
    assert RunType.MANUAL in previous_types(catchup=False)
    assert previous_types(catchup=True) == {RunType.SCHEDULED, RunType.BACKFILL, RunType.ASSET_TRIGGERED}


@pytest.mark.parametrize(
    ("past", "options", "catchup", "passes"),
    [
        (before(("a", S.FAILED), opens=True), {}, True, True),  # 2. first run of its backfill
        (EarlierRuns(), {}, True, True),  # 3. no run before
        (before(("a", S.FAILED)), {"start_date": DAY_2}, True, True),  # 4. the task began later
        (before(("a", S.FAILED)), {"start_date": DAY_2}, False, False),
        (before(("a", S.FAILED)), {"start_date": DAY_1}, True, False),
        (before(), {}, True, True),  # 5. not in that run, nor in any before
        (before(), {"ignore_first_depends_on_past": False}, True, False),
        (before(seen_before=frozenset({"a"})), {}, True, False),
        (before(("a", S.SUCCESS)), {}, True, True),  # 6.
        (before(("a", S.SKIPPED)), {}, True, True),
        *((before(("a", state)), {}, True, False) for state in set(S) - {S.SUCCESS, S.SKIPPED, S.REMOVED}),
        (before(("a", S.SUCCESS), ("a", S.FAILED)), {}, True, False),  # all map indexes
        (before(("a", S.SUCCESS), ("a", S.REMOVED)), {}, True, True),  # but those that were removed
        (before(("a", S.REMOVED)), {}, True, True),
        (before(("a", S.SUCCESS), ("down", S.RUNNING)), {}, True, True),  # 7.
        (before(("a", S.SUCCESS), ("down", S.RUNNING)), {"wait_for_downstream": True}, True, False),
        (before(("a", S.SUCCESS), ("down", S.REMOVED)), {"wait_for_downstream": True}, True, True),
        (before(("a", S.SUCCESS), ("down", S.SKIPPED)), {"wait_for_downstream": True}, True, True),
        (before(("a", S.SUCCESS), ("far", S.FAILED)), {"wait_for_downstream": True}, True, True),
        (before(("a", S.SUCCESS)), {"wait_for_downstream": True}, True, True),
    ],
)
def test_a_task_passes_when_the_run_before_is_no_obstacle(
    past: EarlierRuns, options: dict[str, Any], catchup: bool, passes: bool
) -> None:
    """Section 6.2, by its numbers; number 1 is for tasks that are run by hand, which look at no run at all."""
    reason = waits_for_past(patient("a", **options), ["down"], past, catchup=catchup)

    assert (reason is None) is passes


def test_waiting_for_downstream_is_waiting_for_the_past() -> None:
    """Section 6.3."""
    one = task("a", wait_for_downstream=True)

    assert waits_for_past(one, [], before(("a", S.FAILED)), catchup=False) is not None
    assert waits_for_past(task("b"), [], before(("b", S.FAILED)), catchup=False) is None


class TestOnABoard:
    def test_a_task_waits_until_its_past_is_known_and_good(self) -> None:
        board = begun(patient("a"))
        assert seen(board) == {"a": "none"}
        assert board.run.state is RunState.RUNNING  # no deadlock (6.5)

        board.set_past(before(("a", S.RUNNING)))
        board.evaluate(NOW)
        assert seen(board) == {"a": "none"}
        assert board.waits_for_past(0) == "has not succeeded in the previous run (depends_on_past)"

        board.set_past(before(("a", S.SUCCESS)))
        board.evaluate(NOW)
        assert seen(board) == {"a": "scheduled"}

    def test_a_previous_run_in_memory_is_followed(self) -> None:
        earlier = begun(patient("a"), patient("b", "a"))
        earlier.set_past(EarlierRuns())
        earlier.evaluate(NOW)
        later = begun(patient("a"), patient("b", "a"))
        later.set_past(EarlierRuns(earlier, DAY_1))
        later.evaluate(NOW)
        assert seen(later)["a"] == "none"

        finish(earlier, "a")
        later.past_changed(["a"])
        later.evaluate(NOW)
        assert seen(later) == {"a": "scheduled", "b": "none"}
        finish(later, "a")
        assert seen(later)["b"] == "none"
        finish(earlier, "b", ending=SKIPPED)
        later.past_changed(["b"])
        later.evaluate(NOW)

        assert seen(later)["b"] == "scheduled"

    def test_downstreams_of_the_previous_run_wake_who_waits_for_them(self) -> None:
        tasks = (task("a", wait_for_downstream=True), task("b", "a"))
        earlier, later = begun(*tasks), begun(*tasks)
        earlier.set_past(EarlierRuns())
        earlier.evaluate(NOW)
        later.set_past(EarlierRuns(earlier, DAY_1))
        finish(earlier, "a")
        later.past_changed(["a"])
        later.evaluate(NOW)
        assert seen(later)["a"] == "none"

        finish(earlier, "b")
        later.past_changed(["b"])
        later.evaluate(NOW)

        assert seen(later)["a"] == "scheduled"

    def test_failures_upstream_settle_a_task_that_waits_for_the_past(self) -> None:
        board = begun(task("up"), patient("a", "up"))
        board.set_past(before(("a", S.FAILED)))

        finish(board, "up", ending=FAILED)

        assert seen(board)["a"] == "upstream_failed"

    @pytest.mark.parametrize("ending", [SKIPPED, SkipDecision(followed=())])
    @pytest.mark.parametrize(
        ("waits", "then"),
        [(False, ["skipped", "skipped"]), (True, ["none", "skipped"])],
    )
    def test_a_skip_waits_for_the_past_where_the_task_says_so(
        self, ending: Outcome | SkipDecision, waits: bool, then: list[str]
    ) -> None:
        """Section 6.4."""
        board = begun(task("up"), patient("a", "up", wait_for_past_depends_before_skipping=waits))
        board.set_past(before(("a", S.RUNNING)))
        found = []

        finish(board, "up", ending=ending)
        found.append(seen(board)["a"])
        board.set_past(before(("a", S.SUCCESS)))
        board.evaluate(NOW)
        found.append(seen(board)["a"])

        assert found == then

    @pytest.mark.parametrize("mid_waits", [True, False])
    @pytest.mark.parametrize("read_back", [True, False])
    def test_a_short_circuit_is_remembered_for_what_waits_further_down(self, mid_waits: bool, read_back: bool) -> None:
        waiting: dict[str, Any] = {"depends_on_past": True, "wait_for_past_depends_before_skipping": True}
        mid = task("mid", "cond", **waiting if mid_waits else {})
        board = begun(task("cond"), mid, task("far", "mid", trigger_rule="all_done", **waiting))
        board.set_past(before(("mid", S.RUNNING), ("far", S.RUNNING)))

        finish(board, "cond", ending=SkipDecision(skipped=("mid", "far")))
        assert seen(board) == {"cond": "success", "mid": "none" if mid_waits else "skipped", "far": "none"}
        if read_back:
            ((branch, value),) = board.effects.rows.xcoms
            again = board_of(board.graph, board.run, [*board])
            again.recall(branch, msgspec.json.decode(value.value))
            board = again
        board.set_past(before(("mid", S.SUCCESS), ("far", S.SUCCESS)))
        board.evaluate(NOW)

        assert seen(board) == {"cond": "success", "mid": "skipped", "far": "skipped"}  # and far does not run

    def test_a_mapped_task_waits_unexpanded_and_for_all_indexes(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p"), depends_on_past=True))
        board.set_past(before(("m", S.SUCCESS), ("m", S.FAILED)))

        finish(board, "p", value=2)
        assert seen(board)["m"] == "none"
        board.set_past(before(("m", S.SUCCESS), ("m", S.SUCCESS)))
        board.evaluate(NOW)

        assert (seen(board)["m[0]"], seen(board)["m[1]"]) == ("scheduled", "scheduled")

    def test_a_run_answers_for_the_next_one(self) -> None:
        board = begun(mapped("m", inputs=over(2)), task("x"))
        assert board.all_succeeded("m") is False
        finish(board, "m[0]")
        finish(board, "m[1]", ending=SKIPPED)

        assert board.all_succeeded("m") is True
        assert board.all_succeeded("nowhere") is None
        assert at(board, "x").state is TaskState.SCHEDULED

    @pytest.mark.parametrize("length", [1, 0])
    def test_a_run_that_was_cleared_and_has_fewer_values_now_answers_without_those_that_were_removed(
        self, length: int
    ) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))
        finish(board, "p", value=2)
        finish(board, "m[0]", "m[1]")
        clear(board, "p", "m[0]", "m[1]")
        finish(board, "p", value=length)
        if length:
            assert board.all_succeeded("m") is False
            finish(board, "m[0]")
        stored = StoredRun((board.graph.task_ids[i.task], i.state) for i in board)

        assert seen(board)["m[1]"] == "removed"
        assert board.all_succeeded("m") is True
        assert stored.all_succeeded("m") is True


def test_a_task_without_a_row_is_none_for_the_next_run() -> None:
    compiled = Graph(DagSpec(dag_id="sales", tasks=(task("a"), task("b"))))
    board: Board = board_of(compiled, new_run(), new_instances(compiled, [0]))

    assert (board.all_succeeded("a"), board.all_succeeded("b")) == (False, None)
    assert begin(compiled).all_succeeded("b") is False
