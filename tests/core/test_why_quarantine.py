"""Why nothing goes on in a DAG in quarantine: its gate, for the DAG, a run and a task."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from aiosched.core.creation.run_creation import DagStatus
from aiosched.core.values.states import RunState
from aiosched.core.why.dag import DagFacts, explain_dag
from aiosched.core.why.explanation import Explanation, Gate, Owner, Verdict
from aiosched.core.why.quarantine import QuarantineFacts, explain_quarantine, quarantine_gates
from aiosched.core.why.run import RunFacts, explain_run
from aiosched.core.why.task import TaskFacts, explain_task
from tests.core.board_builders import grant, of, started
from tests.core.board_player import NOW, new_run
from tests.core.graph_builders import task
from tests.core.slot_builders import needs, room

ALIVE = Owner(name="one", is_alive=True)
HELD = QuarantineFacts(
    since=NOW,
    retry_at=NOW + timedelta(seconds=15),
    failures=1,
    place="the evaluation",
    error="KeyError: 7",
)
AGAIN = dataclasses.replace(HELD, failures=3)
DETAIL = (
    "since 2026-01-01 00:00:00 UTC: the evaluation failed (KeyError: 7); "
    "the DAG is tried again at 2026-01-01 00:00:15 UTC"
)


def only(said: Explanation) -> Gate:
    (gate,) = said.in_the_way()
    return gate


def run_facts(state: RunState = RunState.RUNNING, **changes: Any) -> RunFacts:
    return RunFacts(now=NOW, owner=ALIVE, run=new_run(state), running=1, quarantine=HELD, **changes)


def asked_task(*, has_slot: bool) -> Explanation:
    board = started(task("load"))
    if has_slot:
        grant(board, "load")
    facts = TaskFacts(
        run=dataclasses.replace(run_facts(), run=board.run),
        board=board,
        instance=of(board, "load"),
        candidate=needs(run=board.run.key),
        room=room(etl=4),
    )
    return explain_task(facts)


def test_a_dag_in_quarantine_says_so_first() -> None:
    said = explain_dag(DagFacts(now=NOW, owner=ALIVE, status=DagStatus("sales", None, 1, 0), quarantine=HELD))

    assert (said.in_the_way()[0].name, said.in_the_way()[0].detail) == ("quarantine", DETAIL)
    assert said.summary == f"has never run: in quarantine {DETAIL}"
    assert said.commands[0] == "aiosched dags release sales"
    assert said.earliest_start == HELD.retry_at


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.RUNNING])
def test_an_unfinished_run_of_it_waits(state: RunState) -> None:
    said = explain_run(run_facts(state), started(task("load")))

    assert (only(said).name, only(said).detail, only(said).opens_at) == ("quarantine", DETAIL, HELD.retry_at)
    assert said.gates[-1].verdict is Verdict.NOT_REACHED
    assert said.commands == ("aiosched dags release sales",)


def test_a_finished_run_of_it_does_not() -> None:
    said = explain_run(run_facts(RunState.SUCCESS), started(task("load")))

    assert [gate.name for gate in said.gates] == ["tasks"]


def test_a_waiting_task_of_it_waits_and_one_with_a_slot_goes_on() -> None:
    waits, goes_on = asked_task(has_slot=False), asked_task(has_slot=True)

    assert (only(waits).name, waits.commands) == ("quarantine", ("aiosched dags release sales",))
    (gate,) = [gate for gate in goes_on.gates if gate.name == "quarantine"]
    assert (gate.verdict, gate.detail) == (Verdict.OK, f"it goes on, and its result waits: {DETAIL}")


@pytest.mark.parametrize(
    ("quarantine", "words"),
    [
        (AGAIN, "(KeyError: 7), 3 times in a row; the DAG is tried again at "),
        (dataclasses.replace(HELD, retry_at=NOW), "the DAG is tried again now"),
        (dataclasses.replace(HELD, error="ValueError: one\n  two"), "(ValueError: one two)"),
        (dataclasses.replace(HELD, error="E: " + "word " * 200), "word …)"),
    ],
    ids=["in-a-row", "due", "lines", "long"],
)
def test_the_words_of_the_gate(quarantine: QuarantineFacts, words: str) -> None:
    (gate,) = quarantine_gates("sales", quarantine, NOW)

    assert words in gate.detail
    assert len(gate.detail) < 500


def test_what_cannot_be_explained_is_still_in_quarantine() -> None:
    said = explain_quarantine("sales · r", "running", "sales", HELD, NOW, KeyError(7))

    assert (said.state, said.summary) == ("running", f"its DAG is in quarantine {DETAIL}")
    assert (only(said).name, said.commands) == ("quarantine", ("aiosched dags release sales",))
    assert said.notes == ("nothing else can be said of it: KeyError: 7",)
