"""Setups and teardowns in a run. Source: the semantics reference, sections 8.2 to 8.5.

How they are marked and connected (8.1, 8.6): tests/authoring/test_setup_teardown.py and test_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.graph.trigger_rules import StateCounts, TriggerVerdict, judge_setups
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import Outcome, SkipDecision
from aiosched.core.values.states import RunState, TaskState
from tests.semantics.boards import NOW, begin, board_of, of, report, states, task

S = TaskState


def setup(task_id: str, *upstream: str) -> TaskSpec:
    return task(task_id, *upstream, is_setup=True)


def teardown(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return task(task_id, *upstream, is_teardown=True, trigger_rule="all_done_setup_success", **fields)


# -- 8.2 relevant setups ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "relevant"),
    [
        pytest.param((setup("s"), task("near", "s"), task("a", "near")), {"s"}, id="no teardown at all"),
        pytest.param(
            (setup("s"), task("near", "s"), task("a", "near"), teardown("t", "s", "a")), {"s"}, id="one behind the task"
        ),
        pytest.param(
            (setup("s"), task("near", "s"), teardown("t", "s", "near"), task("a", "near", "t")), set(), id="before it"
        ),
        pytest.param(
            (setup("s"), task("near", "s"), task("a", "near"), teardown("t", "s", "near")), set(), id="beside it"
        ),
        pytest.param(
            (setup("s"), task("near", "s"), teardown("t", "s"), task("a", "near"), teardown("u", "s", "a")),
            {"s"},
            id="one beside it and one behind it",
        ),
        pytest.param((setup("s"), setup("r", "s"), task("n", "r"), task("a", "n")), {"s", "r"}, id="indirect setups"),
        pytest.param((task("s"), task("near", "s"), task("a", "near")), set(), id="no setup"),
        pytest.param((setup("s"), task("near"), task("a", "near")), set(), id="not upstream"),
        pytest.param((setup("s"), task("a", "s")), set(), id="direct ones are a matter of the trigger rule"),
    ],
)
def test_which_setups_a_task_needs(tasks: tuple[TaskSpec, ...], relevant: set[str]) -> None:
    compiled = Graph(DagSpec(dag_id="d", tasks=tasks))

    assert {compiled.task_ids[index] for index in compiled.indirect_setups[compiled.index["a"]]} == relevant


# -- 8.3 the extra constraint for normal tasks ----------------------------------------------------


@pytest.mark.parametrize(
    ("setups", "verdict"),
    [
        ("success success", TriggerVerdict.RUN),
        ("success none", TriggerVerdict.WAIT),
        ("none none", TriggerVerdict.WAIT),
        ("running success", TriggerVerdict.WAIT),
        ("failed none", TriggerVerdict.UPSTREAM_FAILED),  # at once, without waiting for the other
        ("upstream_failed none", TriggerVerdict.UPSTREAM_FAILED),
        ("skipped none", TriggerVerdict.SKIPPED),
        ("skipped failed", TriggerVerdict.UPSTREAM_FAILED),  # a failure first
    ],
)
@pytest.mark.parametrize("rule", ["all_success", "all_done", "always", "one_failed"])
def test_setups_further_up_are_asked_before_the_rule(setups: str, verdict: TriggerVerdict, rule: str) -> None:
    given = dict(zip(("s", "r"), setups.split(), strict=True))
    tasks = (setup("s"), setup("r"), task("near", "s", "r"), task("a", "near", trigger_rule=rule))
    states_of_near = {"one_failed": S.FAILED}.get(rule, S.SUCCESS)
    board = board_of(*tasks, states=given | {"near": states_of_near})

    assert board.upstream_counts.judge(of(board, "a")) is verdict


@pytest.mark.parametrize("states_of_setups", ["success removed", "removed", "success success"])
def test_setups_that_were_removed_are_not_waited_for(states_of_setups: str) -> None:
    counts, found = StateCounts(), states_of_setups.split()
    for state in found:
        counts.add(TaskState(state), is_setup=True)

    assert judge_setups(counts, len(found)) is TriggerVerdict.RUN


# -- 8.4 teardowns --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setups", "work", "then"),
    [
        ("success", "success", "scheduled"),
        ("success", "failed", "scheduled"),
        ("success", "skipped", "scheduled"),
        ("success", "running", "none"),
        ("success failed", "success", "scheduled"),  # at least one succeeded
        ("success skipped", "success", "scheduled"),
        ("success running", "success", "none"),
        ("skipped", "skipped", "skipped"),
        ("skipped skipped", "success", "skipped"),
        ("failed", "upstream_failed", "upstream_failed"),
        ("skipped failed", "success", "upstream_failed"),
        ("removed", "success", "upstream_failed"),
    ],
)
def test_when_a_teardown_runs(setups: str, work: str, then: str) -> None:
    given = dict(zip(("s", "r"), setups.split(), strict=False))
    tasks = (*(setup(name) for name in given), task("work"), teardown("t", *given, "work"))

    board = begin(board_of(*tasks, states=given | {"work": work}))

    assert states(board)["t"] == then


@pytest.mark.parametrize(("inner", "then"), [("running", "none"), ("up_for_retry", "none"), ("failed", "scheduled")])
def test_a_teardown_waits_for_all_that_lies_between_its_setups_and_it(inner: str, then: str) -> None:
    """The last task of the scope did not wait for `inner`, and the teardown stands after the last one only."""
    tasks = (setup("s"), task("inner", "s"), task("last", "inner", trigger_rule="always"), teardown("t", "s", "last"))
    board = board_of(*tasks, states={"s": "success", "inner": inner, "last": "success"})
    of(board, "inner").next_at = NOW.replace(year=2027) if inner == "up_for_retry" else None

    assert states(begin(board))["t"] == then


ENDS: dict[str, Callable[[Board], object]] = {
    "a short circuit": lambda board: report(board, "work", Outcome.SUCCESS, skip=SkipDecision(skipped=("more", "t"))),
    "mark run success": lambda board: board.mark_run(RunState.SUCCESS, NOW),
    "mark run failed": lambda board: board.mark_run(RunState.FAILED, NOW),
    "fail_fast": lambda board: report(board, "work", Outcome.FAILED),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_what_skips_everything_else_leaves_teardowns_alone(end: Callable[[Board], object]) -> None:
    tasks = (setup("s"), task("work", "s"), task("more", "work"), teardown("t", "s", "more"))
    board = board_of(*tasks, states={"s": "success", "work": "running"}, fail_fast=True)

    end(board)
    board.evaluate(NOW)

    assert (states(board)["more"], states(board)["t"]) == ("skipped", "scheduled")


# -- 8.5 the result of the run ----------------------------------------------------------------------

SCOPE = (setup("s"), task("work", "s"), teardown("t", "s", "work"))
COUNTS = (*SCOPE[:2], teardown("t", "s", "work", on_failure_fail_dagrun=True))
ALONE = (teardown("first"), teardown("last", "first"))


@pytest.mark.parametrize(
    ("tasks", "given", "result"),
    [
        pytest.param(SCOPE, {"s": "success", "work": "success", "t": "failed"}, "success", id="it fails"),
        pytest.param(SCOPE, {"s": "success", "work": "failed", "t": "success"}, "failed", id="what is before decides"),
        pytest.param(COUNTS, {"s": "success", "work": "success", "t": "failed"}, "failed", id="it counts"),
        pytest.param(COUNTS, {"s": "success", "work": "failed", "t": "success"}, "success", id="then it alone does"),
        pytest.param(ALONE, {"first": "failed", "last": "success"}, "success", id="teardowns alone: the last"),
        pytest.param(ALONE, {"first": "success", "last": "failed"}, "failed", id="teardowns alone: it fails"),
        pytest.param(SCOPE, {"s": "success", "work": "success", "t": "running"}, "running", id="not finished yet"),
    ],
)
def test_a_teardown_decides_a_run_only_where_it_says_so(
    tasks: tuple[TaskSpec, ...], given: Mapping[str, str], result: str
) -> None:
    assert begin(board_of(*tasks, states=given)).run.state == result


def test_a_teardown_of_a_mapped_setup_counts_all_its_instances() -> None:
    graph = Graph(DagSpec(dag_id="d", tasks=SCOPE))
    rows = [Instance(0, 0, S.FAILED), Instance(0, 1, S.SUCCESS), Instance(1, state=S.SUCCESS), Instance(2)]
    one = board_of(*SCOPE)
    board = begin(Board(graph, one.run, rows, info=one.info))

    assert rows[3].state is S.SCHEDULED
    assert board.run.state is RunState.RUNNING
