"""Who may set which state of a task instance. Source: the semantics reference, section 2.2.

The table is read twice: as the events that each of them causes, and as what becomes of a task
instance in any state when each of them acts. The owner of a DAG is the only one that writes;
what others do reaches it as a report or a request (docs/architecture.md, "Who writes what").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import aiosched
from aiosched.core.graph.spec import MappingSpec, TaskOutput
from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import Deferral, Outcome, Report, SkipDecision, XComValue
from aiosched.core.values.states import TRANSITIONS, RunState, TaskEvent, TaskState
from tests.semantics.boards import LATER, NOW, begin, board_of, of, report, task

E, S = TaskEvent, TaskState
WAITS = Deferral(classpath="x.Trigger", kwargs="{}", next_method="go_on")

# Who: the events that they cause, and the states that these lead to.
SETTERS: dict[str, tuple[str, str]] = {
    "scheduler, run evaluation": (
        """READY EMPTY SETTLED_SKIPPED SETTLED_UPSTREAM_FAILED SETTLED_REMOVED SETTLED_EMPTY RESTORED RUN_TIMED_OUT
        FAIL_FAST_RUNNING FAIL_FAST_WAITING""",
        "scheduled success skipped upstream_failed removed none failed",  # failed: fail_fast (2.3)
    ),
    "scheduler, critical section": ("SLOT_GRANTED DEFERRED", "queued deferred"),  # never failed: docs/semantics.md
    "scheduler, events and sweeps": (
        "LOST REQUEUED FAILED_RETRYABLE FAILED_FINALLY TRIGGERED",
        "none scheduled up_for_retry failed",
    ),
    "task runner": (
        "STARTED RETURNED SKIPPED_ITSELF FAILED_RETRYABLE FAILED_FINALLY RESCHEDULED DEFERRED SETTLED_SKIPPED",
        "running success skipped up_for_retry failed up_for_reschedule deferred",
    ),
    "triggerer": (
        "TRIGGERED RETURNED SKIPPED_ITSELF FAILED_RETRYABLE FAILED_FINALLY",
        "scheduled success skipped up_for_retry failed",
    ),
    "user": (
        "CLEARED STOP_REQUESTED MARKED_SUCCESS MARKED_FAILED MARKED_SKIPPED",
        "none restarting shutdown success failed skipped",  # shutdown is ours: a stop that was asked for
    ),
}


@pytest.mark.parametrize(("events", "states"), SETTERS.values(), ids=SETTERS.keys())
def test_the_events_of_each_lead_to_the_states_of_the_table(events: str, states: str) -> None:
    caused = {E[name] for name in events.split()}

    assert {str(new) for (_, event), new in TRANSITIONS.items() if event in caused} == set(states.split())


def test_every_event_is_caused_by_somebody() -> None:
    assert {E[name] for events, _ in SETTERS.values() for name in events.split()} == set(E)


# -- what each of them does to an instance in any state ---------------------------------------

Act = Callable[[Board, Instance], object]


def reports(outcome: Outcome, **fields: object) -> Act:
    return lambda board, one: report(board, "a", outcome, at=LATER, **fields)


def of_its_trigger(outcome: Outcome, *, ends: bool) -> Act:
    def act(board: Board, one: Instance) -> None:
        if one.state is S.DEFERRED:
            board.deferrals.begin(board.effects, one, WAITS, NOW)
        key = trigger_key(board.key(one))
        board.apply(Report(key=key, outcome=outcome, at=LATER, ends=ends), LATER)

    return act


def branches(board: Board, one: Instance) -> None:
    report(board, "branch", Outcome.SUCCESS, skip=SkipDecision(followed=()))


RUNNER: list[Act] = [
    *(reports(o) for o in (Outcome.STARTED, Outcome.SUCCESS, Outcome.SKIPPED, Outcome.FAILED)),
    reports(Outcome.FAILED, fail_now=True),
    reports(Outcome.RESCHEDULED, reschedule_at=LATER),
    reports(Outcome.DEFERRED, deferral=WAITS),
    branches,
]
TRIGGERER: list[Act] = [
    of_its_trigger(Outcome.TRIGGERED, ends=False),
    *(of_its_trigger(o, ends=True) for o in (Outcome.SUCCESS, Outcome.SKIPPED, Outcome.FAILED)),
]
SWEEPS: list[Act] = [
    reports(Outcome.LOST),
    reports(Outcome.STUCK),
    reports(Outcome.FAILED),
    lambda board, one: board.lose(one, LATER, "its worker died") if one.state in (S.QUEUED, S.RUNNING) else None,
]
USER: list[Act] = [
    lambda board, one: board.clear([one], LATER),
    *(lambda board, one, to=to: board.mark([one], to, LATER) for to in (S.SUCCESS, S.FAILED, S.SKIPPED)),  # type: ignore[misc]
]
ENDING = {S.RESTARTING, S.SHUTDOWN}  # what becomes of these is the table of section 2.3


def reached(acts: list[Act], retries: int) -> Iterator[str]:
    """The states that an instance comes to, from all states, by any of the acts."""
    for act in acts:
        for state in set(S) - ENDING:
            tasks = (task("branch"), task("a", "branch", retries=retries))
            board = board_of(*tasks, states={"branch": S.RUNNING, "a": state})
            act(board, of(board, "a"))
            if of(board, "a").state is not state:
                yield of(board, "a").state.value


@pytest.mark.parametrize(
    ("acts", "states"),
    [
        (RUNNER, "running success skipped up_for_retry failed up_for_reschedule deferred"),
        (TRIGGERER, "scheduled success skipped up_for_retry failed"),
        (SWEEPS, "none scheduled up_for_retry failed"),
        (USER, "none restarting success failed skipped"),
    ],
    ids=["task runner", "triggerer", "events and sweeps", "user"],
)
def test_what_each_does_to_an_instance_in_any_state(acts: list[Act], states: str) -> None:
    assert {*reached(acts, retries=0), *reached(acts, retries=3)} == set(states.split())


def mapped_over(board: Board, length: int) -> None:
    """The task that the others are mapped over ends, with a list so long."""
    (of(board, "p")).state = S.RUNNING
    report(board, "p", Outcome.SUCCESS, xcoms=(XComValue("return_value", str(list(range(length)))),))
    board.evaluate(NOW)


def test_run_evaluation_sets_the_states_of_its_row() -> None:
    over = MappingSpec(inputs=(TaskOutput("p"),))
    board = board_of(
        task("p"),
        task("m", "p", mapping=over),
        task("none_before"),
        task("empty", is_empty=True),
        task("bad"),
        task("after_bad", "bad"),
        task("odd"),
        task("after_odd", "odd"),
        states={"p": S.RUNNING, "bad": S.FAILED, "odd": S.SKIPPED},
    )
    seen: set[str] = set()

    def note() -> None:
        seen.update(i.state.value for i in board if board.graph.task_ids[i.task] not in ("p", "bad", "odd"))

    begin(board)
    mapped_over(board, 2)
    note()
    for length in (1, 2):  # a second index that is not needed any more, and then again
        board.clear([of(board, "p"), *(i for i in board if i.task == 1)], NOW)
        begin(board)
        of(board, "p").try_number += 1
        mapped_over(board, length)
        note()

    assert seen == {"scheduled", "success", "upstream_failed", "skipped", "removed"}
    assert [i.state for i in board if i.task == 1] == [S.SCHEDULED, S.SCHEDULED]  # restored, and ready again


@pytest.mark.parametrize("state", sorted(set(S)))
def test_a_run_that_times_out_skips_all_that_is_unfinished(state: TaskState) -> None:
    board = board_of(task("a"), states={"a": state})

    board.time_out(LATER)

    finished = {S.SUCCESS, S.FAILED, S.SKIPPED, S.UPSTREAM_FAILED, S.REMOVED}
    assert of(board, "a").state is (state if state in finished else S.SKIPPED)


def test_the_critical_section_queues_or_defers() -> None:
    board = board_of(task("a"), task("b"), states={"a": S.SCHEDULED, "b": S.SCHEDULED})

    board.grant(of(board, "a"), NOW, 1)

    assert (of(board, "a").state, of(board, "b").state) == (S.QUEUED, S.SCHEDULED)
    assert {new for (old, event), new in TRANSITIONS.items() if (old, event) == (S.SCHEDULED, E.DEFERRED)} == {
        S.DEFERRED
    }


def test_nothing_but_a_user_changes_an_instance_of_a_run_that_is_over() -> None:
    board = board_of(task("branch"), task("a"), states={"a": S.QUEUED}, run_state=RunState.FAILED)
    one = of(board, "a")

    for act in (*RUNNER, *TRIGGERER):
        act(board, one)
    board.time_out(LATER)
    board.evaluate(LATER + timedelta(days=1))

    assert one.state is S.QUEUED


def test_executors_and_parsing_never_write_a_state() -> None:
    root = Path(aiosched.__file__).parent
    table = r"(task_instance|dag_run)\b"
    writes = re.compile(rf"states import .*\badvance\b|(UPDATE|INTO|DELETE FROM)\s+{table}|{table}\.(update|insert)")

    for room in ("executors", "parsing", "authoring", "web", "cli"):
        found = [str(path) for path in (root / room).rglob("*.py") if writes.search(path.read_text())]
        assert found == [], "they report, or ask the owner"
