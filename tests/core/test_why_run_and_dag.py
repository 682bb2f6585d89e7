"""Why a run does not start or get on, and why a DAG gets no run."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from aiosched.core.assets.conditions import AllRequired, AssetId, AssetRequired, QueuedAsset
from aiosched.core.creation.run_creation import DagStatus
from aiosched.core.run.board import Board, Run
from aiosched.core.timetables.base import DataInterval, NextRun
from aiosched.core.values.states import RunState
from aiosched.core.why.dag import DagFacts, explain_dag
from aiosched.core.why.explanation import Explanation, Gate, Holder, Owner, Verdict, free_at, run_label
from aiosched.core.why.run import RunFacts, explain_run
from tests.core.board_builders import FAILED, SKIPPED, end, of, started
from tests.core.board_player import NOW, new_run
from tests.core.graph_builders import task

ALIVE = Owner(name="one", is_alive=True)
LATER = NOW + timedelta(minutes=4, seconds=12)
OTHER = Holder(dag_id="sales", run_id="manual__0", seconds=60.0, usual_seconds=120.0)


def queued(**changes: Any) -> Run:
    return dataclasses.replace(new_run(RunState.QUEUED), queued_at=NOW, **changes)


def ask(run: Run, board: Board | None = None, **changes: Any) -> Explanation:
    given: dict[str, Any] = {"now": LATER, "owner": ALIVE, "limit": 1, "running": 0}
    return explain_run(RunFacts(run=run, **(given | changes)), board or started(task("load")))


def only(said: Explanation) -> Gate:
    (gate,) = said.in_the_way()
    return gate


class TestQueuedRuns:
    def test_nothing_is_in_the_way(self) -> None:
        assert ask(queued()).summary == "queued for 4 m 12 s, not started; nothing is in the way, it starts next"

    def test_the_limit_names_the_runs_that_are_active_and_when_one_may_end(self) -> None:
        before, run = queued(key=0), queued(key=2)

        said = ask(run, running=1, queued=(before, run), active=(OTHER, dataclasses.replace(OTHER, seconds=0.0)))

        assert only(said).name == "max_active_runs"
        assert only(said).detail == "max_active_runs=1 of the DAG reached: 1 running, 1 run queued before it"
        assert (only(said).holders[0].label, said.likely_free_in) == ("sales manual__0", 120.0)
        assert said.summary == "queued for 4 m 12 s, not started"

    def test_a_run_that_may_start_later(self) -> None:
        run = queued(run_after=LATER + timedelta(hours=1))

        said = ask(run)

        assert (only(said).name, said.earliest_start) == ("start time", run.run_after)

    def test_a_paused_backfill(self) -> None:
        said = ask(queued(backfill_id=3, backfill_order=1), backfill_is_paused=True)

        assert (only(said).detail, said.commands) == ("backfill 3 is paused", ("aiosched backfill resume 3",))

    def test_a_backfill_has_a_limit_of_its_own(self) -> None:
        said = ask(queued(backfill_id=3, backfill_order=1), limit=2, running=2)

        assert only(said).detail == "max_active_runs=2 of backfill 3 reached: 2 running"

    def test_a_paused_dag_comes_first(self) -> None:
        said = ask(queued(), is_paused=True, running=1)

        assert (only(said).name, said.commands) == ("DAG is active", ("aiosched dags unpause sales",))
        assert said.gates[-1].verdict is Verdict.NOT_REACHED

    def test_a_limit_of_nothing_never_opens(self) -> None:
        assert only(ask(queued(), limit=0)).verdict is Verdict.NEVER


class TestOtherRuns:
    def test_a_run_that_gets_on(self) -> None:
        board = started(task("extract"), task("load", "extract"), running=["extract"])

        said = ask(board.run, board, running=1)

        assert said.summary == "running for 4 m 12 s, 0 of 2 task instances done"
        assert not said.in_the_way()
        assert said.gates[-1].detail == "1 running, 1 waiting"

    def test_a_run_of_which_nothing_runs_leads_to_the_task_that_waits(self) -> None:
        board = started(task("extract"), task("load", "extract"))

        said = ask(board.run, board, running=1)

        assert only(said).detail == "no task runs: 1 scheduled, 1 waiting"
        assert said.commands == ("aiosched why sales manual__1 extract",)

    def test_a_failed_run_names_the_task_that_failed(self) -> None:
        board = started(task("extract"), task("load", "extract"), running=["extract"])
        end(board, "extract", FAILED)

        said = ask(board.run, board)

        assert said.summary == "failed at 2026-01-01 00:00:00 UTC: a task failed: extract (boom)"
        assert said.commands == (
            "aiosched tasks logs sales manual__1 extract",
            "aiosched runs clear sales manual__1 --only-failed",
        )

    def test_a_successful_run(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load")

        said = ask(board.run, board)

        assert (said.summary, said.gates[0].detail) == ("succeeded in 0 ms", "1 of 1 task instance done")
        assert said.commands == ()

    @pytest.mark.parametrize(
        ("others", "words"),
        [
            ({"b": SKIPPED}, "1 skipped"),
            ({"b": SKIPPED, "c": SKIPPED}, "2 skipped"),
            ({"b": FAILED, "c": SKIPPED, "d": SKIPPED}, "2 skipped, 1 failed"),
            ({"b": FAILED}, "1 failed"),
        ],
    )
    def test_a_success_names_what_was_not_one(self, others: dict[str, Any], words: str) -> None:
        board = started(
            *(task(name) for name in ("a", *others)),
            task("end", *others, trigger_rule="all_done"),
            running=["a", *others],
        )
        for name, ending in others.items():
            end(board, name, ending)
        end(board, "a")
        board.run.state = RunState.SUCCESS

        said = ask(board.run, board)

        assert said.summary.startswith("succeeded")
        assert words in said.summary
        assert words in said.gates[0].detail
        assert (said.gates[0].holders[0].task_id, said.commands) == ("b", ("aiosched why sales manual__1 b",))

    def test_a_run_that_will_fail_goes_on_for_its_teardowns(self) -> None:
        board = started(task("load"), running=["load"])
        board.run.reason = "cancelled"

        assert ask(board.run, board).gates[2].detail.endswith("only its teardowns still run: a user cancelled it")
        assert of(board, "load").state == "running"


def due(seconds: float) -> NextRun:
    at = LATER + timedelta(seconds=seconds)
    return NextRun(at, DataInterval(at, at))


def status(**changes: Any) -> DagStatus:
    given: dict[str, Any] = {"dag_id": "sales", "next_run": due(-1), "max_active_runs": 2, "active_runs": 0}
    return DagStatus(**(given | changes))


def ask_dag(facts: dict[str, Any] | None = None, **changes: Any) -> Explanation:
    given: dict[str, Any] = {"now": LATER, "owner": ALIVE, "schedule": "@daily"}
    return explain_dag(DagFacts(status=status(**changes), **(given | (facts or {}))))


class TestDags:
    @pytest.mark.parametrize(
        ("changes", "name", "summary", "commands"),
        [
            ({"is_stale": True}, "file", "no DAG file and no application defines the DAG any more", ()),
            ({"has_import_errors": True}, "import", "its file cannot be imported", ("aiosched dags errors",)),
            ({"is_paused": True}, "DAG is active", "the DAG is paused", ("aiosched dags unpause sales",)),
            ({"next_run": None}, "schedule @daily", "its schedule has no further run", ()),
            ({"next_run": due(3600)}, "schedule @daily", "its next run is due at 2026-01-01 01:04:12 UTC, in 1 h", ()),
        ],
        ids=["stale", "import-error", "paused", "no-further-run", "later"],
    )
    def test_each_gate(self, changes: dict[str, Any], name: str, summary: str, commands: tuple[str, ...]) -> None:
        said = ask_dag(**changes)

        assert (only(said).name, said.commands) == (name, commands)
        assert said.summary.startswith(f"has never run: {summary}")

    def test_a_dag_without_a_schedule_waits_for_people(self) -> None:
        said = ask_dag({"is_timed": False, "schedule": None}, next_run=None)

        assert said.summary == "has never run: it has no schedule: it runs only when it is triggered"
        assert only(said).verdict is Verdict.WAIT  # nothing is wrong with it
        assert said.commands == ("aiosched dags trigger sales",)

    @pytest.mark.parametrize(
        ("changes", "commands"),
        [({"is_stale": True}, ()), ({"has_import_errors": True}, ("aiosched dags errors",))],
        ids=["stale", "import-error"],
    )
    def test_a_dag_that_cannot_be_triggered_is_not_to_be_triggered(
        self, changes: dict[str, Any], commands: tuple[str, ...]
    ) -> None:
        said = ask_dag({"is_timed": False, "schedule": None}, next_run=None, **changes)

        assert said.commands == commands

    def test_missing_assets_are_named(self) -> None:
        both = AllRequired((AssetRequired("raw"), AssetRequired("rates")))
        news = (QueuedAsset(1, AssetId("raw", "raw"), NOW),)

        said = ask_dag({"is_timed": False, "condition": both, "queue": news}, next_run=None)

        assert only(said).name == "assets"
        assert only(said).detail == f"waits for {both}; there are new events of raw"

    def test_the_limit_names_the_active_runs(self) -> None:
        said = ask_dag({"running": 2, "active": (OTHER,)}, active_runs=2)

        assert said.summary == (
            "2 runs running; no further one: max_active_runs=2 reached: 2 runs are queued or running"
        )
        assert only(said).holders == (OTHER,)

    def test_nothing_is_in_the_way(self) -> None:
        said = ask_dag({"last": "2025-12-31T00:00 (success 3 h ago)"})

        assert said.summary == (
            "nothing runs; the last run was 2025-12-31T00:00 (success 3 h ago); "
            "nothing is in the way, it gets a run next"
        )

    def test_nobody_is_there(self) -> None:
        assert only(ask_dag({"owner": Owner()})).name == "scheduler"


class TestWords:
    @pytest.mark.parametrize(
        ("date", "label"),
        [
            (NOW, "2026-01-01T00:00"),
            (NOW + timedelta(seconds=5), "2026-01-01T00:00:05"),
            (None, "manual__1"),
        ],
        ids=["minute", "second", "none"],
    )
    def test_a_run_is_named_by_its_date_as_short_as_it_is_exact(self, date: Any, label: str) -> None:
        assert run_label("manual__1", date) == label

    @pytest.mark.parametrize(
        ("needs", "seconds"), [(1, 60.0), (2, 60.0), (3, 120.0), (5, None)], ids=["one", "two", "three", "too-many"]
    )
    def test_holders_that_are_late_promise_nothing(self, needs: int, seconds: float | None) -> None:
        holders = [
            dataclasses.replace(OTHER, slots=2),
            dataclasses.replace(OTHER, slots=1, seconds=0.0),
            dataclasses.replace(OTHER, slots=9, seconds=500.0),
            dataclasses.replace(OTHER, slots=9, usual_seconds=None),
        ]

        found = free_at(holders, needs, NOW)

        assert found == (None if seconds is None else NOW + timedelta(seconds=seconds))
