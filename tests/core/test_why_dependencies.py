"""Why a task waits for the previous run or for its upstreams: what holds it back, and what lets it go on."""

from __future__ import annotations

import pytest

from aiosched.core.graph.human_input import WAITS_FOR_PERSON, InputRequest
from aiosched.core.graph.previous_run import EarlierRuns
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Deferral, Outcome, Report
from aiosched.core.values.states import RunState
from aiosched.core.why.dependencies import dependency_gates
from aiosched.core.why.explanation import Gate, Verdict
from aiosched.core.why.run import unknown_duration
from tests.core.board_builders import FAILED, end, of, run, started
from tests.core.board_player import NOW
from tests.core.graph_builders import mapped, over, setup, task, teardown
from tests.core.mapping_builders import at, begun

PAST = "has not succeeded in the previous run (depends_on_past)"
LOAD = task("load", depends_on_past=True)
CHAIN = (task("extract"), task("load", "extract", depends_on_past=True), task("report", "load"))


def begun_before(*tasks: TaskSpec) -> Board:
    board = started(*tasks)
    board.run.run_id = "earlier"
    board.set_past(EarlierRuns())
    board.evaluate(NOW)
    return board


def asked(previous: Board, *tasks: TaskSpec) -> Gate:
    """The gate of `load` in the next run."""
    board = started(*tasks)
    board.set_past(EarlierRuns(previous))
    gates = dependency_gates(board, of(board, "load"), NOW, unknown_duration, previous=previous)
    return next(gate for gate in gates if gate.name == "previous run")


def held(gate: Gate) -> list[tuple[str, str | None, str]]:
    return [(each.run_id, each.task_id, each.state) for each in gate.holders]


def test_a_task_that_failed_is_named_with_the_clear_that_helps() -> None:
    previous = begun_before(LOAD)
    run(previous, "load")
    end(previous, "load", FAILED)

    gate = asked(previous, LOAD)

    assert (gate.verdict, gate.detail) == (Verdict.NEVER, f"{PAST}: earlier (failed)")
    assert held(gate) == [("earlier", "load", "failed")]
    assert gate.commands == ("aiosched tasks clear sales --run earlier --task-id load --only-failed --downstream",)


def test_a_task_that_failed_because_of_its_upstreams_is_helped_by_clearing_these() -> None:
    previous = begun_before(*CHAIN)
    run(previous, "extract")
    end(previous, "extract", FAILED)

    gate = asked(previous, *CHAIN)

    assert held(gate) == [("earlier", "load", "upstream_failed")]
    assert gate.commands == ("aiosched tasks clear sales --run earlier --task-id extract --only-failed --downstream",)


def test_a_failure_does_not_pass_while_its_run_goes_on() -> None:
    previous = begun_before(LOAD, task("other"))
    run(previous, "load")
    end(previous, "load", FAILED)

    gate = asked(previous, LOAD)

    assert (gate.verdict, gate.detail) == (Verdict.NEVER, f"{PAST}: earlier (running)")


def test_what_still_runs_is_waited_for() -> None:
    previous = begun_before(LOAD)
    run(previous, "load")

    gate = asked(previous, LOAD)

    assert (gate.verdict, gate.detail, gate.commands) == (Verdict.WAIT, f"{PAST}: earlier (running)", ())
    assert held(gate) == [("earlier", "load", "running")]


def test_what_has_not_begun_either_is_explained_by_its_own_run() -> None:
    gate = asked(begun_before(*CHAIN), *CHAIN)

    assert (gate.verdict, gate.commands) == (Verdict.WAIT, ("aiosched why sales earlier load",))


def test_downstreams_count_if_the_task_waits_for_them() -> None:
    tasks = (task("load", wait_for_downstream=True, depends_on_past=True), task("report", "load"))
    previous = begun_before(*tasks)
    for name in ("load", "report"):
        run(previous, name)
        end(previous, name, FAILED if name == "report" else "success")

    gate = asked(previous, *tasks)

    assert gate.detail == "report has not succeeded in the previous run (wait_for_downstream): earlier (failed)"
    assert held(gate) == [("earlier", "report", "failed")]


def test_a_run_that_ended_before_the_task_began_is_run_again() -> None:
    previous = begun_before(*CHAIN)
    previous.run.state, previous.run.reason = RunState.FAILED, "all_tasks_deadlocked"

    gate = asked(previous, *CHAIN)

    assert gate.verdict is Verdict.NEVER
    (command,) = gate.commands
    assert command.startswith("aiosched tasks clear sales --run earlier ")


def test_a_run_without_the_task_is_named() -> None:
    gate = asked(begun_before(task("other")), task("load", depends_on_past=True, ignore_first_depends_on_past=False))

    assert (gate.verdict, gate.holders, gate.commands) == (Verdict.NEVER, (), ())
    assert gate.detail == "the previous run does not have this task (depends_on_past): earlier (running)"


@pytest.mark.parametrize("ending", ["success", "skipped"])
def test_nothing_is_said_of_a_run_that_does_not_hold_it_back(ending: str) -> None:
    previous = begun_before(LOAD)
    run(previous, "load")
    end(previous, "load", ending)

    gate = asked(previous, LOAD)

    assert (gate.verdict, gate.detail, gate.holders) == (Verdict.OK, "does not hold it back", ())


def test_a_teardown_that_waits_says_that_no_setup_succeeded() -> None:
    board = started(setup("up"), task("work"), teardown("load", "up", "work"), running=["up"])
    end(board, "up", FAILED)

    upstream = next(
        gate for gate in dependency_gates(board, of(board, "load"), NOW, unknown_duration) if gate.name == "upstream"
    )

    assert upstream.detail == "1 of 2 done (all_done_setup_success); no setup succeeded, 1 failed"


# -- a person ---------------------------------------------------------------------------------

QUESTION = InputRequest(subject="Which price?", options=("keep", "a new one"))


@pytest.mark.parametrize("index", [-1, 0, 1], ids=["not mapped", "the first", "the second"])
def test_a_question_is_answered_by_a_command_for_each_option_that_names_the_instance(index: int) -> None:
    asking = task("ask") if index < 0 else mapped("ask", inputs=over(2))
    board = begun(asking)
    instance = at(board, "ask" if index < 0 else f"ask[{index}]")
    board.grant(instance, NOW, 1)
    waits = Deferral(classpath=WAITS_FOR_PERSON, kwargs="{}", next_method="go_on")
    assert board.apply(Report(key=board.key(instance), outcome=Outcome.DEFERRED, at=NOW, deferral=waits), NOW)

    (gate,) = (
        one
        for one in dependency_gates(board, instance, NOW, unknown_duration, question=QUESTION)
        if one.name == "trigger"
    )

    option = {-1: "", 0: " --map-index 0", 1: " --map-index 1"}[index]
    place = f"aiosched inputs answer {board.run.dag_id} {board.run.run_id} ask"
    assert gate.commands == (f"{place} keep{option}", f"{place} 'a new one'{option}")
