"""How one run is evaluated. Source: the semantics reference, sections 9.1 to 9.5.

Ours goes on until nothing more follows (9.3, "Expected here"), and looks at what has news only. The version that a run
is read by (step 1): test_instances_of_a_run.py; timeouts: test_time_limits.py; empty tasks: tests/core/test_board.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.previous_run import EarlierRuns, StoredRun
from aiosched.core.graph.spec import DagSpec, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.values.messages import Outcome, XComValue
from aiosched.core.values.states import RunState, TaskState
from aiosched.testing import World, defers, fails, never_ends, reschedules, succeeds
from tests.semantics.boards import LATER, NOW, begin, board_of, of, report, states, task

S = TaskState
MINUTE = timedelta(minutes=1)
START = datetime(2026, 1, 10, tzinfo=UTC)


def dag(*tasks: TaskSpec, **fields: Any) -> DagSpec:
    return DagSpec(dag_id="d", tasks=tasks, **fields)


# -- 9.1 before -----------------------------------------------------------------------------------


async def test_a_run_with_a_logical_date_to_come_waits_for_its_run_after_alone() -> None:
    """In place of step 3: whoever wants a run later says so by `run_after` (13.4)."""
    async with World(now=START) as world:
        world.add(dag(task("a")))
        at_once = world.trigger("d", logical_date=START + timedelta(days=30))
        later = world.trigger("d", logical_date=START + timedelta(days=31), run_after=START + timedelta(days=31))

        await world.run_for(MINUTE)

        assert [world.run("d", run).state for run in (at_once, later)] == ["success", "queued"]


# -- 9.2 the decision pass ------------------------------------------------------------------------


def test_settling_reaches_the_end_of_a_chain_in_one_pass() -> None:
    chain = (task("a"), *(task(f"t{n}", "a" if n == 0 else f"t{n - 1}") for n in range(5)))

    board = begin(board_of(*chain, states={"a": S.FAILED}))

    assert set(states(board).values()) == {"failed", "upstream_failed"}
    assert board.run.state == "failed"


def test_a_mapped_task_is_expanded_and_its_instances_are_checked_in_the_same_pass() -> None:
    over = MappingSpec(inputs=(TaskOutput("p"),))
    board = board_of(task("p"), task("m", "p", mapping=over), states={"p": S.SUCCESS})
    board.learn_length(0, -1, 3)

    begin(board)

    assert [(one.map_index, one.state) for one in board if one.task == 1] == [(n, S.SCHEDULED) for n in range(3)]


def test_evaluating_again_without_news_changes_nothing() -> None:
    board = begin(board_of(task("a"), task("b", "a")))
    before = (states(board), list(board.effects.slots.ready), list(board.effects.rows.changed))

    board.evaluate(LATER)

    assert (states(board), list(board.effects.slots.ready), list(board.effects.rows.changed)) == before


# -- 9.3 the result of the run --------------------------------------------------------------------

STUCK = {"trigger_rule": "all_skipped"}  # behind `gone`, which is removed: never runs, and is never settled


@pytest.mark.parametrize(
    ("tasks", "given", "result"),
    [
        pytest.param((task("a"), task("b", "a")), {"a": "success", "b": "failed"}, ("failed", "task_failure"), id="1"),
        pytest.param((task("a"),), {"a": "upstream_failed"}, ("failed", "task_failure"), id="1, upstream"),
        pytest.param((task("a"), task("b")), {"a": "failed", "b": "removed"}, ("failed", "task_failure"), id="1, rest"),
        pytest.param((task("a"), task("b")), {"a": "success", "b": "skipped"}, ("success", None), id="2"),
        pytest.param((task("a"), task("b")), {"a": "success", "b": "removed"}, ("success", None), id="2, removed"),
        pytest.param((), {}, ("success", None), id="2, no leaves at all"),
        pytest.param((task("a"),), {"a": "removed"}, ("success", None), id="2, none that counts"),
        pytest.param(
            (task("a"), task("b", "a", trigger_rule="all_done")), {"a": "failed", "b": "success"}, ("success", None),
            id="2, only leaves decide",
        ),
        pytest.param(
            (task("gone"), task("b", "gone", **STUCK)), {"gone": "removed"}, ("failed", "all_tasks_deadlocked"), id="3"
        ),
        pytest.param((task("a"), task("b")), {"a": "failed", "b": "running"}, ("running", None), id="4"),
        pytest.param((task("a"),), {"a": "restarting"}, ("running", None), id="4, restarting"),
    ],
)  # fmt: skip
def test_how_a_run_ends(tasks: tuple[TaskSpec, ...], given: Mapping[str, str], result: tuple[str, str | None]) -> None:
    board = begin(board_of(*tasks, states=given))

    assert (board.run.state.value, board.run.reason) == result


@pytest.mark.parametrize(
    ("another", "state", "fails"),
    [
        ({}, None, True),
        ({"depends_on_past": True}, S.NONE, False),
        ({"max_active_tis_per_dag": 1}, S.NONE, False),
        ({"max_active_tis_per_dagrun": 1}, S.NONE, False),
        ({}, S.DEFERRED, False),
        ({}, S.RUNNING, False),
        ({}, S.SCHEDULED, False),
        ({"retries": 1}, S.UP_FOR_RETRY, False),
        ({}, S.UP_FOR_RESCHEDULE, False),
    ],
)
def test_a_run_is_deadlocked_only_when_nothing_can_happen(
    another: Mapping[str, Any], state: TaskState | None, fails: bool
) -> None:
    """One task is stuck for good; `another` one is as said (waits for the past, or is under way), or is not there."""
    others = () if state is None else (task("another", "gone", **{**STUCK, **another}),)
    board = board_of(task("gone"), task("b", "gone", **STUCK), *others, states={"gone": S.REMOVED})
    if state is not None:
        of(board, "another").state = state
        of(board, "another").next_at = LATER
        board = type(board)(board.graph, board.run, list(board), info=board.info)
    board.set_past(EarlierRuns(StoredRun([("another", S.FAILED)]), NOW))

    begin(board)

    assert (board.run.state == "failed") is fails
    assert of(board, "b").state is S.NONE  # the unfinished ones keep their states


@pytest.mark.parametrize(
    ("limit", "results", "paused"),
    [(2, "FF", True), (2, "FSF", False), (2, "SFF", True), (3, "FF", False), (0, "FFFF", False)],
)
async def test_a_dag_is_paused_when_its_newest_runs_have_all_failed(limit: int, results: str, paused: bool) -> None:
    endings = iter([fails() if result == "F" else succeeds() for result in results])
    async with World(now=START) as world:
        world.add(dag(task("a"), max_consecutive_failed_dag_runs=limit))
        world.script("d", "a", lambda attempt: next(endings))

        for number in range(len(results)):
            world.trigger("d", run_after=START + number * MINUTE)
            await world.run_for(MINUTE)

        assert world.rows.dags["d"].is_paused is paused


# -- 9.4 making ready instances scheduled -----------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "tries", "number"),
    [(S.NONE, 0, 1), (S.NONE, 3, 4), (S.UP_FOR_RETRY, 1, 2), (S.UP_FOR_RESCHEDULE, 1, 1)],
)
def test_a_ready_instance_is_scheduled_now_and_counts_its_try(state: TaskState, tries: int, number: int) -> None:
    board = board_of(task("a", retries=9), states={"a": state}, tries=tries)

    begin(board, LATER)

    one = of(board, "a")
    assert (one.state, one.scheduled_at, one.try_number) == (S.SCHEDULED, LATER, number)
    assert board.effects.slots.ready == [one]


@pytest.mark.parametrize("state", sorted(set(S) - {S.NONE, S.UP_FOR_RETRY, S.UP_FOR_RESCHEDULE}))
def test_nothing_else_becomes_scheduled_by_an_evaluation(state: TaskState) -> None:
    board = begin(board_of(task("a"), task("b"), states={"a": state, "b": S.RUNNING}))

    assert of(board, "a").state is state


# -- 9.5 paused DAGs --------------------------------------------------------------------------------


async def test_what_runs_in_a_paused_dag_goes_on_and_nothing_new_begins() -> None:
    async with World(now=START) as world:
        world.add(dag(task("a"), task("b", "a"), max_active_runs=1))
        world.script("d", "a", takes=MINUTE)
        run, waits = world.trigger("d"), world.trigger("d")
        await world.run_for(MINUTE / 2)

        world.pause("d")
        await world.run_for(10 * MINUTE)
        paused = (world.states("d", run)["a"], world.states("d", run)["b"], world.run("d", waits).state)
        world.unpause("d")
        await world.run_until_idle()

        assert paused[0] == "success"
        assert paused[1] is None
        assert paused[2] == "queued"
        assert [world.run("d", one).state for one in (run, waits)] == ["success", "success"]


@pytest.mark.parametrize(("ending", "end"), [("success", "success"), ("failed", "failed")])
async def test_the_last_task_of_a_paused_dag_ends_its_run(ending: str, end: str) -> None:
    async with World(now=START) as world:
        world.add(dag(task("a")))
        world.script("d", "a", lambda attempt: never_ends())
        run = world.trigger("d")
        await world.run_for(MINUTE)

        world.pause("d")
        await world.events("d", run, {"a": ending})
        await world.run_for(MINUTE)

        assert world.run("d", run).state == end


def waits_for_a_retry(world: World) -> None:
    world.script("d", "a", fails=1)


def waits_for_its_next_look(world: World) -> None:
    looks = iter([True])
    world.script("d", "a", lambda attempt: reschedules(5 * MINUTE) if next(looks, False) else succeeds())


@pytest.mark.parametrize(
    ("scripted", "waits", "tries"),
    [(waits_for_a_retry, "up_for_retry", 2), (waits_for_its_next_look, "up_for_reschedule", 1)],
    ids=["a retry", "a reschedule"],
)
async def test_a_timer_that_passes_in_a_paused_dag_acts_when_it_is_unpaused(
    scripted: Callable[[World], None], waits: str, tries: int
) -> None:
    async with World(now=START) as world:
        world.add(dag(task("a", retries=1, retry_delay=300.0)))
        scripted(world)
        run = world.trigger("d")
        await world.run_for(MINUTE)

        world.pause("d")
        await world.run_for(60 * MINUTE)
        paused = world.states("d", run)["a"], world.task("d", run, "a").try_number
        world.unpause("d")
        await world.run_until_idle()

        assert paused == (waits, 1)
        assert (world.run("d", run).state, world.task("d", run, "a").try_number) == ("success", tries)
        assert world.run("d", run).end_date < START + 62 * MINUTE  # at the unpause, without another delay


@pytest.mark.parametrize("times_out", [False, True], ids=["an event", "its timeout"])
async def test_a_deferral_of_a_paused_dag_ends_like_what_runs(times_out: bool) -> None:
    async with World(now=START) as world:
        world.add(dag(task("a")))
        timeout = 2 * MINUTE if times_out else None
        world.script("d", "a", lambda attempt: succeeds() if attempt.resume else defers(5 * MINUTE, timeout=timeout))
        run = world.trigger("d")
        await world.run_for(MINUTE)

        world.pause("d")
        await world.run_for(60 * MINUTE)
        paused = world.states("d", run)["a"]
        world.unpause("d")
        await world.run_until_idle()

        assert paused == "scheduled"  # it waits for a slot, which a paused DAG does not get
        assert world.states("d", run)["a"] == "success"


async def test_a_failure_in_a_paused_dag_settles_what_is_behind_it() -> None:
    async with World(now=START) as world:
        world.add(dag(task("a"), task("b", "a"), task("c", "b")))
        world.script("d", "a", takes=MINUTE, fails=1)
        run = world.trigger("d")
        await world.run_for(MINUTE / 2)

        world.pause("d")
        await world.run_for(10 * MINUTE)

        assert world.states("d", run) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}
        assert world.run("d", run).state == "failed"


def test_a_paused_run_neither_begins_nor_expands_nor_deadlocks() -> None:
    mapping = MappingSpec(inputs=(TaskOutput("a"),))
    tasks = (
        task("a"),
        task("b", "a", is_empty=True),
        task("m", "a", mapping=mapping),
        task("r", "a", "s"),
        task("s", "a"),
    )
    board = board_of(*tasks, states={"a": "running"})
    begin(board)

    board.pause()
    report(board, "a", Outcome.SUCCESS, map_length=2, xcoms=(XComValue("return_value", "[1, 2]"),))
    board.evaluate(NOW)
    paused = [(board.graph.task_ids[one.task], one.map_index, one.state.value) for one in board]
    run_state = board.run.state
    board.unpause()
    board.evaluate(NOW)

    assert paused == [("a", -1, "success"), *((name, -1, "none") for name in "bmrs")]
    assert run_state is RunState.RUNNING  # nothing is alive, and nothing is stuck either
    assert [(board.graph.task_ids[one.task], one.map_index, one.state.value) for one in board] == [
        ("a", -1, "success"), ("b", -1, "success"), ("m", 0, "scheduled"), ("m", 1, "scheduled"), ("r", -1, "none"),
        ("s", -1, "scheduled"),
    ]  # fmt: skip
