"""Skipping and branching, from the author's words to the states. Source: the semantics reference, sections 7.1 to 7.5.

The row of 7.3 about latest only: tests/authoring/test_clock_operators.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, BranchPythonOperator, EmptyOperator, PythonOperator, ShortCircuitOperator, TaskGroup
from aiosched.core.values.messages import Outcome, SkipDecision
from aiosched.core.values.states import TaskState
from aiosched.errors import SkipTask
from aiosched.executors.dag_test import TestRun, run_dag_test
from tests.semantics.boards import LATER, NOW, begin, board_of, of, report, states, task

S = TaskState


def states_of(run: TestRun) -> dict[str, str]:
    return {one.task_id: one.state.value for one in run.tasks}


def empty(task_id: str, **options: Any) -> EmptyOperator:
    operator: EmptyOperator = EmptyOperator(task_id=task_id, **options)
    return operator


# -- 7.1 a task skips itself --------------------------------------------------------------------


async def test_a_task_that_skips_itself_is_not_repeated_and_returns_nothing() -> None:
    seen: list[str] = []

    def skip(ti: Any) -> None:
        seen.append("called")
        ti.xcom_push("before", 1)
        raise SkipTask

    with DAG("d", schedule=None) as dag:
        PythonOperator(
            task_id="a",
            python_callable=skip,
            retries=3,
            on_skipped_callback=lambda context: seen.append("skipped"),
            on_success_callback=lambda context: seen.append("success"),
        )

    run = await run_dag_test(dag)

    assert (states_of(run), seen) == ({"a": "skipped"}, ["called", "skipped"])
    assert "return_value" not in run.xcoms.get("a", {})


# -- 7.2 branching ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "state", "skipped"),
    [
        pytest.param("a", "success", {"b", "g.x", "g.y", "g.z", "far"}, id="one id"),
        pytest.param(["a", "b"], "success", {"g.x", "g.y", "g.z"}, id="several ids"),
        pytest.param("g", "success", {"a", "b", "far", "join"}, id="a group: all its roots"),
        pytest.param("far", "success", {"a", "b", "g.x", "g.y", "g.z", "join"}, id="no direct downstream"),
        pytest.param(None, "success", {"a", "b", "g.x", "g.y", "g.z", "far", "join"}, id="nothing"),
        pytest.param([], "success", {"a", "b", "g.x", "g.y", "g.z", "far", "join"}, id="an empty list"),
        pytest.param("nobody", "failed", set(), id="an id that the DAG does not have"),
        pytest.param(["a", 5], "failed", set(), id="no string"),
    ],
)
async def test_a_branch_skips_its_direct_downstreams_that_it_does_not_follow(
    returned: Any, state: str, skipped: set[str]
) -> None:
    """`join` is downstream of `a`, too; `far` stands behind `b`; `g.y` and `g.z` go where `g.x` goes."""
    with DAG("d", schedule=None) as dag:
        branch = BranchPythonOperator(task_id="branch", python_callable=lambda: returned)
        a, b, join = empty("a"), empty("b"), empty("join", trigger_rule="none_failed_min_one_success")
        with TaskGroup("g"):
            x = empty("x")
            x >> [empty("y"), empty("z")]
        branch >> [a, b, x, join]
        a >> join
        b >> empty("far", trigger_rule="none_failed" if returned == "far" else "all_success")

    run = await run_dag_test(dag)

    found = states_of(run)
    assert found["branch"] == state
    expected = "upstream_failed" if state == "failed" else "success"
    # an id that is followed may itself wait for something that is skipped, and goes by its own rule
    assert found == {"branch": state} | {
        name: "skipped" if name in skipped else expected for name in found if name != "branch"
    }
    assert "return_value" not in run.xcoms.get("branch", {})  # decision 7


# -- 7.3 short circuit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ignore_rules", "passes", "direct", "further", "patient"),
    [
        (True, True, "success", "success", "success"),
        (True, False, "skipped", "skipped", "skipped"),  # all descendants, whatever their rules
        (False, True, "success", "success", "success"),
        (False, False, "skipped", "skipped", "success"),  # the rest goes by its rules
    ],
)
async def test_what_a_short_circuit_skips(
    ignore_rules: bool, passes: bool, direct: str, further: str, patient: str
) -> None:
    with DAG("d", schedule=None) as dag:
        check = ShortCircuitOperator(
            task_id="check", python_callable=lambda: passes, ignore_downstream_trigger_rules=ignore_rules
        )
        set_up = empty("set_up").as_setup()
        first, down = empty("direct"), empty("teardown").as_teardown(setups=set_up)
        set_up >> check >> first >> [empty("further"), empty("patient", trigger_rule="all_done")] >> down
        check >> down

    assert states_of(await run_dag_test(dag)) == {
        "check": "success",
        "set_up": "success",
        "direct": direct,
        "further": further,
        "patient": patient,
        "teardown": "success",  # never skipped
    }


# -- 7.4 how the skip is applied ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "skipped"),
    [
        (SkipDecision(followed=("a",)), {"b"}),
        (SkipDecision(followed=()), {"a", "b"}),
        (SkipDecision(skipped=("a",)), {"a"}),
        (SkipDecision(skipped=("a", "b", "far")), {"a", "b"}),
    ],
    ids=["follows-a", "follows-none", "skips-a", "skips-all"],
)
@pytest.mark.parametrize("cleared", ["a", "b", "far"])
def test_what_was_skipped_stays_skipped_when_it_alone_is_cleared(
    decision: SkipDecision, skipped: set[str], cleared: str
) -> None:
    """The check "not previously skipped": about direct downstreams; others go by their rules."""
    rule = {"trigger_rule": "always"}
    tasks = (task("branch"), task("a", "branch", **rule), task("b", "branch", **rule), task("far", "a", **rule))
    board = begin(board_of(*tasks, task("open"), states={"branch": S.RUNNING, "open": S.RUNNING}))
    report(board, "branch", Outcome.SUCCESS, skip=decision)
    board.evaluate(NOW)

    board.clear([of(board, cleared)], LATER)
    board.evaluate(LATER)

    assert states(board)[cleared] == ("skipped" if cleared in skipped else "scheduled")


def test_a_branch_that_is_cleared_decides_anew() -> None:
    board = board_of(task("branch"), task("a", "branch"), task("b", "branch"), states={"branch": S.RUNNING})
    report(board, "branch", Outcome.SUCCESS, skip=SkipDecision(followed=("a",)))

    board.clear(list(board), LATER)
    begin(board, LATER)
    board.grant(of(board, "branch"), LATER, 1)
    report(board, "branch", Outcome.SUCCESS, at=LATER, skip=SkipDecision(followed=("b",)))
    board.evaluate(LATER)

    assert states(board) == {"branch": "success", "a": "skipped", "b": "scheduled"}


# -- 7.5 propagation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("up", "rule", "then", "run"),
    [
        (S.SKIPPED, "all_success", "skipped", "success"),
        (S.SKIPPED, "all_done", "scheduled", "running"),
        (S.SKIPPED, "none_failed", "scheduled", "running"),
        (S.UPSTREAM_FAILED, "all_success", "upstream_failed", "failed"),
        (S.UPSTREAM_FAILED, "none_failed", "upstream_failed", "failed"),
        (S.UPSTREAM_FAILED, "one_failed", "scheduled", "running"),
        (S.UPSTREAM_FAILED, "all_done", "scheduled", "running"),
    ],
)
def test_skips_and_failures_travel_by_trigger_rules_only(up: TaskState, rule: str, then: str, run: str) -> None:
    board = begin(board_of(task("up"), task("a", "up", trigger_rule=rule), states={"up": up}))

    assert (states(board)["a"], board.run.state) == (then, run)
