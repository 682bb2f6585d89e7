"""When a task instance may run: the checks and the switches of section 4 of the semantics reference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from aiosched.core.graph.previous_run import EarlierRuns, StoredRun
from aiosched.core.graph.spec import DagSpec, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerVerdict
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome, SkipDecision
from aiosched.core.values.states import TaskState
from aiosched.testing import World
from tests.semantics.boards import NOW, begin, board_of, of, report, states, task

S = TaskState
TICK = timedelta(microseconds=1)
FAILED_BEFORE = EarlierRuns(StoredRun([("a", S.FAILED)]), NOW)


def evaluated(board: Board, now: datetime = NOW) -> str:
    begin(board, now)
    return states(board)["a"]


def waits_until(state: TaskState, instant: datetime) -> Board:
    board = board_of(task("a", retries=3), states={"a": state})
    of(board, "a").next_at = instant
    return board


# Each check alone: what stands in the way, what the task comes to with it, and just without it.
Row = tuple[Callable[[], str], str, Callable[[], str]]
CHECKS: dict[str, Row] = {
    "not in retry period: strictly later": (
        lambda: evaluated(waits_until(S.UP_FOR_RETRY, NOW)),
        "up_for_retry",
        lambda: evaluated(waits_until(S.UP_FOR_RETRY, NOW - TICK)),
    ),
    "ready to reschedule: from that instant on": (
        lambda: evaluated(waits_until(S.UP_FOR_RESCHEDULE, NOW + TICK)),
        "up_for_reschedule",
        lambda: evaluated(waits_until(S.UP_FOR_RESCHEDULE, NOW)),
    ),
    "previous run": (lambda: with_past(depends_on_past=True), "none", lambda: with_past(depends_on_past=False)),
    "trigger rule": (
        lambda: evaluated(board_of(task("up"), task("a", "up"), states={"up": S.RUNNING})),
        "none",
        lambda: evaluated(board_of(task("up"), task("a", "up", trigger_rule="always"), states={"up": S.RUNNING})),
    ),
    "not previously skipped": (lambda: after_a_branch("b"), "skipped", lambda: after_a_branch("a")),
    "mapped upstreams": (lambda: mapped_over(S.FAILED), "upstream_failed", lambda: mapped_over(S.SUCCESS)),
}


def with_past(**fields: Any) -> str:
    board = board_of(task("a", **fields))
    board.set_past(FAILED_BEFORE)
    return evaluated(board)


def after_a_branch(followed: str) -> str:
    board = board_of(
        task("branch", can_skip_downstream=True),
        task("a", "branch", trigger_rule="always"),
        task("b", "branch"),
        states={"branch": S.RUNNING, "a": S.RUNNING},  # too busy to be skipped by the branch itself (7.4)
    )
    report(board, "branch", Outcome.SUCCESS, skip=SkipDecision(followed=(followed,)))
    report(board, "a", Outcome.RESCHEDULED, reschedule_at=NOW)
    return evaluated(board)


def mapped_over(producer: TaskState) -> str:
    """`a` does not care how `p` ends by its rule, and is mapped over the two values that `p` returns."""
    over = MappingSpec(inputs=(TaskOutput("p"),))
    board = board_of(task("p"), task("a", "p", mapping=over, trigger_rule="all_done"), states={"p": producer})
    if producer is S.SUCCESS:
        board.learn_length(0, -1, 2)
    begin(board)
    (found,) = {one.state.value for one in board if one.task == 1}
    return found


@pytest.mark.parametrize(("with_it", "then", "without"), CHECKS.values(), ids=CHECKS.keys())
def test_one_check_alone_keeps_a_task_from_running(
    with_it: Callable[[], str], then: str, without: Callable[[], str]
) -> None:
    assert (with_it(), without()) == (then, "scheduled")


# -- every check is right by itself, whatever the others say ----------------------------------

OBSTACLES: dict[str, tuple[dict[str, Any], Callable[[Board], None]]] = {
    "retry period": ({"retries": 3}, lambda board: set_next(board, NOW)),
    "past": ({"depends_on_past": True}, lambda board: board.set_past(FAILED_BEFORE)),
    "rule": ({}, lambda board: None),
}


def set_next(board: Board, instant: datetime) -> None:
    of(board, "a").state, of(board, "a").next_at = S.UP_FOR_RETRY, instant


@pytest.mark.parametrize("obstacles", [c for n in range(4) for c in combinations(OBSTACLES, n)], ids=" + ".join)
def test_a_task_runs_only_when_no_check_fails(obstacles: tuple[str, ...]) -> None:
    fields = {key: value for name in obstacles for key, value in OBSTACLES[name][0].items()}
    up = S.RUNNING if "rule" in obstacles else S.SUCCESS
    board = board_of(task("up"), task("a", "up", **fields), states={"up": up})
    for name in obstacles:
        OBSTACLES[name][1](board)

    begin(board)

    assert (of(board, "a").state is S.SCHEDULED) is (not obstacles)


# -- what belongs to the start of a task, not to its evaluation -------------------------------


@pytest.mark.parametrize(
    "limited",
    [
        {"pool": "full"},
        {"max_active_tis_per_dag": 0},
        {"max_active_tis_per_dagrun": 0},
        {"executor": "unknown"},
    ],
    ids=str,
)
async def test_what_only_limits_block_is_scheduled_and_waits_for_its_slot(limited: dict[str, Any]) -> None:
    """The critical section is the only gate: nothing goes back to None, and a worker does not check again."""
    async with World(now=NOW) as world:
        world.pool("full", slots=0)
        world.pool("etl", slots=1)
        world.add(DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", **{"pool": "etl"} | limited),)))

        run = world.trigger("d")
        await world.run_for(timedelta(hours=1))

        assert world.states("d", run) == {"a": "scheduled"}
        assert len(world.waiting()) == 1


# -- switches ---------------------------------------------------------------------------------


def test_looking_writes_no_states() -> None:
    board = board_of(task("up"), task("a", "up"), states={"up": S.FAILED})

    verdict = board.upstream_counts.judge(of(board, "a"))

    assert (verdict, of(board, "a").state, bool(board.effects.rows)) == (TriggerVerdict.UPSTREAM_FAILED, S.NONE, False)
