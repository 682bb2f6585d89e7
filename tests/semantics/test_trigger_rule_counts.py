"""What a trigger rule counts: section 5.1 of the semantics reference. The rules: tests/core/test_trigger_rules.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.messages import RunInfo
from aiosched.core.values.states import FINISHED, RunState, TaskState
from tests.semantics.boards import NOW, begin, board_of, of, states, task

S = TaskState


@pytest.mark.parametrize("state", sorted(S))
@pytest.mark.parametrize("is_setup", [False, True])
def test_the_finished_upstreams_are_counted_by_their_states(state: TaskState, is_setup: bool) -> None:
    board = board_of(task("up", is_setup=is_setup), task("a", "up"), states={"up": state})

    counts, total, setups = board.upstream_counts.upstreams(of(board, "a"))

    by_state = (counts.success, counts.skipped, counts.failed, counts.upstream_failed, counts.removed)
    kinds = (S.SUCCESS, S.SKIPPED, S.FAILED, S.UPSTREAM_FAILED, S.REMOVED)
    assert by_state == tuple(int(state is kind) for kind in kinds)
    assert counts.done == sum(by_state) == int(state in FINISHED)
    assert counts.success_setup == int(is_setup and state is S.SUCCESS)
    assert counts.skipped_setup == int(is_setup and state is S.SKIPPED)
    assert (total, setups) == (1, int(is_setup))


def test_only_direct_upstreams_count() -> None:
    board = board_of(task("far"), task("near", "far"), task("a", "near"), states={"far": S.SUCCESS})

    counts, total, _ = board.upstream_counts.upstreams(of(board, "a"))

    assert (counts.done, total) == (0, 1)


def board_with(spec: DagSpec, rows: Sequence[Instance]) -> Board:
    run = Run(1, "d", "r", 1, "manual", RunState.RUNNING, NOW, start_date=NOW)
    return Board(Graph(spec), run, rows, info=RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOW))


OVER_P = MappingSpec(inputs=(TaskOutput("p"),))
FOUR = MappingSpec(inputs=(LiteralLength(4),))


@pytest.mark.parametrize(
    ("indexes", "total"),
    [((-1,), 2), ((0,), 2), ((0, 1), 3), ((0, 1, 2, 3), 5)],
    ids=["unexpanded counts as one", "one", "two", "four"],
)
@pytest.mark.parametrize("is_setup", [False, True])
def test_the_rows_of_mapped_upstreams_are_what_must_be_looked_at(
    indexes: Sequence[int], total: int, is_setup: bool
) -> None:
    tasks = (task("p"), task("m", "p", mapping=OVER_P, is_setup=is_setup), task("a", "m", "p"))
    rows = [Instance(0), *(Instance(1, index) for index in indexes), Instance(2)]
    board = board_with(DagSpec(dag_id="d", tasks=tasks), rows)

    _, found, setups = board.upstream_counts.upstreams(of(board, "a"))

    assert (found, setups) == (total, len(indexes) if is_setup else 0)


def test_inside_a_mapped_group_only_the_instances_of_the_same_index_count() -> None:
    group = GroupSpec(group_id="g", mapping=FOUR)
    tasks = (
        TaskSpec(task_id="x", operator="X", group_id="g"),
        TaskSpec(task_id="y", operator="X", group_id="g", upstream=("x",)),
    )
    rows = [*(Instance(0, n, S.FAILED if n == 2 else S.SUCCESS) for n in range(4)), *(Instance(1, n) for n in range(4))]
    board = board_with(DagSpec(dag_id="d", tasks=tasks, groups=(group,)), rows)

    found = [board.upstream_counts.upstreams(one) for one in rows[4:]]

    assert [(c.success, c.failed, total) for c, total, _ in found] == [(1, 0, 1), (1, 0, 1), (0, 1, 1), (1, 0, 1)]


@pytest.mark.parametrize("rule", list(TriggerRule))
def test_a_task_without_upstreams_is_runnable_by_every_rule(rule: TriggerRule) -> None:
    fields = {"is_teardown": True} if rule is TriggerRule.ALL_DONE_SETUP_SUCCESS else {}

    assert states(begin(board_of(task("a", trigger_rule=rule, **fields))))["a"] == "scheduled"
