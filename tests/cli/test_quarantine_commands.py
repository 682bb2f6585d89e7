"""What commands and the screen of `serve` say of a DAG in quarantine; what the doctor says of other things left."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.cli.base.output import Format
from aiosched.cli.serve.screen import Screen
from aiosched.db.server.engine import Database
from aiosched.scheduler import SchedulerEvent
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_scheduler, add_task, insert, quarantine

REASON = (
    "DAG 'sales' is in quarantine since 2026-11-20T12:00:00+00:00: the evaluation failed (KeyError: 7\n). "
    "Nothing of it is decided; it is tried again at 2026-11-20T12:00:15+00:00, or now by `aiosched dags release sales`."
)


async def seed(db: Database) -> None:
    version = await add_dag(db, "sales", is_paused=True)
    await add_task(db, await add_run(db, "sales", version, "r"), 0, None)
    await add_dag(db, "refunds")
    await quarantine(db, "sales", failures=2)
    await quarantine(db, "refunds", tried_at=NOON)  # tried again: not in quarantine


@pytest.fixture
def held(on_db: Cli) -> Cli:
    on_db.work(seed)
    return on_db


def test_dags_list_shows_the_status(held: Cli) -> None:
    assert [line[:2] for line in held.lines("dags", "list")] == [["refunds", "active"], ["sales", "quarantine"]]
    refunds, sales = held.json("dags", "list")

    assert refunds["quarantine"] is None
    assert sales["quarantine"] == {
        "dag_id": "sales",
        "since": "2026-11-20T12:00:00Z",
        "retry_at": "2026-11-20T12:00:15Z",
        "failures": 2,
        "place": "the evaluation",
        "error": "KeyError: 7",
        "release": "aiosched dags release sales",
    }


def test_dags_show_has_the_error_and_the_traceback(held: Cli) -> None:
    lines = held.lines("dags", "show", "sales")
    table = held("dags", "show", "sales", "-o", "table").stdout

    assert ["status", "quarantine"] in lines
    assert ["failed", "the evaluation, 2 in a row"] in lines
    assert ["error", "KeyError: 7"] in lines
    assert ["tried again at", "2026-11-20T12:00:15Z"] in lines
    assert ["try it now", "aiosched dags release sales"] in lines
    assert "    Traceback (most recent call last):\n      in evaluate\n    KeyError: 7\n" in table
    assert held.json("dags", "show", "sales")["quarantine"]["traceback"].endswith("in evaluate\nKeyError: 7\n")
    assert held.json("dags", "show", "refunds")["quarantine"] is None


def test_the_doctor_has_a_line_for_each_dag_in_quarantine(held: Cli) -> None:
    (found,) = [each for each in held.json("doctor", code=1) if each["check"] == "quarantine"]

    assert (found["status"], found["fix"]) == ("error", "aiosched dags release sales")
    assert found["text"] == (
        "DAG 'sales' is in quarantine since 2026-11-20 12:00:00 UTC: the evaluation failed (KeyError: 7); "
        "tried again at 2026-11-20 12:00:15Z"
    )


def test_the_doctor_counts_the_loops_that_were_started_again(on_db: Cli) -> None:
    async def seed_schedulers(db: Database) -> None:
        locked = await db.connect()
        try:
            await add_scheduler(db, "one", locked=locked)
            await db.execute("UPDATE scheduler SET figures = $1", json.dumps({"counters": {"restarted_loops": 2}}))
            from aiosched.cli.operation.doctor import _schedulers

            found.append(await _schedulers(db))
        finally:
            await locked.close()

    found: list[object] = []
    on_db.work(seed_schedulers)

    assert "auxiliary loops failed and were started again 2 times" in str(found)


@pytest.mark.parametrize(
    ("figure", "check", "words"),
    [
        ("not_removed", "retention", "cannot be removed: run 'r' (no)"),
        ("left_alone", "rows", "left alone: run 'r' (no)"),
    ],
)
def test_the_doctor_names_what_schedulers_leave(on_db: Cli, figure: str, check: str, words: str) -> None:
    async def look(db: Database) -> None:
        locked = await db.connect()
        try:
            await add_scheduler(db, "one", locked=locked)
            await db.execute("UPDATE scheduler SET figures = $1", json.dumps({figure: ["run 'r' (no)"]}))
            from aiosched.cli.operation.doctor import _examine_database
            from aiosched.config import Settings

            found.extend([each async for each in _examine_database(db, Settings()) if each.check == check])
        finally:
            await locked.close()

    found: list[Any] = []
    on_db.work(look)

    (finding,) = found
    assert (finding.status, finding.text) == ("error", words)


def test_why_names_the_quarantine(held: Cli) -> None:
    said = held.json("why", "sales", "r", "extract")

    assert "aiosched dags release sales" in said["commands"]
    assert "quarantine" in [gate["name"] for gate in said["gates"]]
    assert "quarantine" not in [gate["name"] for gate in held.json("why", "refunds")["gates"]]


def test_the_screen_of_serve_shows_a_quarantine_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    event = SchedulerEvent("dag_quarantined", at, "sales", "", "quarantined", reason=REASON)
    for output in (None, Format.JSON):
        screen = Screen(output)
        screen.run(event)
        screen.ready(0.5)

    _, line, _, data = capsys.readouterr().out.splitlines()
    assert line[8:] == (
        " sales  quarantine since 2026-11-20T12:00:00+00:00: the evaluation failed (KeyError: 7 ). "
        "Nothing of it is decided; it is tried again at 2026-11-20T12:00:15+00:00, "
        "or now by `aiosched dags release sales`."
    )
    shown = json.loads(data)
    assert (shown["event"], shown["dag_id"], shown["reason"]) == ("dag_quarantined", "sales", REASON)


def test_the_doctor_names_a_report_that_was_set_aside_lately(on_db: Cli) -> None:
    async def seed_reports(db: Database) -> None:
        run = await add_run(db, "sales", await add_dag(db, "sales"), "r")
        for error, at in (("KeyError: 7", datetime.now(UTC)), ("long ago", NOON.replace(year=2025))):
            row = {
                "run_id": run, "task_index": 0, "map_index": 2, "try_number": 1, "outcome": "success", "body": {},
                "queued_by": 1, "failures": 3, "error": error, "version": "1", "set_aside_at": at,
            }  # fmt: skip
            async with db.acquire() as conn:
                await insert(conn, "set_aside_report", row)

    on_db.work(seed_reports)

    (found,) = [each for each in on_db.json("doctor", code=1) if each["check"] == "reports"]

    assert (found["status"], found["fix"]) == ("error", "please report it: a bug in aiosched")
    assert found["text"].startswith(
        "sales r extract[2]: the report 'success' of try 1 could not be processed 3 times (KeyError: 7); "
        "it is kept as row 1 of set_aside_report since "
    )


def test_the_doctor_counts_the_callbacks_that_were_given_up_and_names_the_newest(on_db: Cli) -> None:
    async def seed_callbacks(db: Database) -> None:
        callbacks: list[tuple[str, str, dict[str, Any]]] = [
            ("sales", "r1", {"kind": "dag_failure", "task_id": "load", "given_up_at": NOON}),
            ("sales", "r2", {"kind": "task_failure", "task_id": "load", "map_index": 2, "given_up_at": NOON}),
            ("sales", "r3", {"kind": "dag_failure", "given_up_at": None}),  # waits
            ("refunds", "r", {"kind": "dag_success", "task_id": "load", "given_up_at": NOON}),
        ]
        versions = {dag: await add_dag(db, dag) for dag in ("sales", "refunds")}
        for dag, run_id, columns in callbacks:
            run = await add_run(db, dag, versions[dag], run_id)
            async with db.acquire() as conn:
                row = {
                    "partition": 0,
                    "dag_id": dag,
                    "run_id": run,
                    "attempts": 3,
                    "error": "the worker process ended\n",
                }
                await insert(conn, "callback_outbox", row | columns)

    on_db.work(seed_callbacks)

    refunds, sales = [each for each in on_db.json("doctor", code=1) if each["check"] == "callbacks"]

    assert refunds["text"] == (
        "refunds r: dag_success was lost 3 times, and given up at 2026-11-20 12:00:00 UTC (the worker process ended)"
    )
    assert sales["text"] == (
        "sales r2 load[2]: task_failure was lost 3 times, and given up at 2026-11-20 12:00:00 UTC "
        "(the worker process ended); 1 more of this DAG"
    )
    assert sales["status"] == "warning"
    assert sales["fix"] == (
        "correct the callback; its log is callback=task_failure/attempt=2.log of that run; "
        "its row stays in callback_outbox until the run is removed"
    )
