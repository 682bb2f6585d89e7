"""`aiosched why`: what it writes, for people and for programs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import SystemClock
from aiosched.core.graph.spec import TaskSpec
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task, insert, own

SALES = (
    TaskSpec(task_id="orders", operator="PythonOperator"),
    TaskSpec(task_id="prices", operator="PythonOperator"),
    TaskSpec(task_id="load", operator="PythonOperator", upstream=("orders", "prices"), pool="etl"),
)
BULK = (
    TaskSpec(task_id="load", operator="PythonOperator", pool="etl", pool_slots=2),
    TaskSpec(task_id="copy", operator="PythonOperator", pool="etl", pool_slots=2),
)


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda self: NOON)


def minutes(number: float) -> Any:
    return NOON - timedelta(minutes=number)


async def busy_pool(db: Database) -> None:
    """The pool etl is full of two tasks, one of which takes much longer than usual; `sales.load` waits for it."""
    await own(db, "sales", "refunds")
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 4, "used": 4})
    versions = {"sales": await add_dag(db, "sales", tasks=SALES), "bulk": 0}
    versions["bulk"] = await add_dag(db, "bulk", tasks=BULK)
    for number, task, seconds in ((1, 0, 360), (2, 1, 540)):
        done = await add_run(
            db, "bulk", versions["bulk"], f"done{number}", state="success", start_date=minutes(90), end_date=minutes(60)
        )
        await add_task(
            db, done, task, "success", start_date=minutes(90), end_date=minutes(90) + timedelta(seconds=seconds)
        )
    for hour, task, running in ((5, 0, 31), (6, 1, 4)):
        run = await add_run(
            db, "bulk", versions["bulk"], f"r{hour}", run_type="scheduled", logical_date=NOON.replace(hour=hour)
        )
        await add_task(db, run, task, "running", try_number=1, start_date=minutes(running))
    for hour in (7, 8):
        await add_run(db, "sales", versions["sales"], f"s{hour}", logical_date=NOON.replace(hour=hour))
    waiting = await add_run(db, "sales", versions["sales"], "s9", logical_date=NOON.replace(hour=9))
    for index in (0, 1):
        await add_task(db, waiting, index, "success", try_number=1, start_date=minutes(9), end_date=minutes(5))
    await add_task(db, waiting, 2, "scheduled", try_number=1, scheduled_at=NOON - timedelta(seconds=252))


def test_a_full_pool_is_explained_as_the_journey_shows_it(on_db: Cli) -> None:
    on_db.work(busy_pool)

    said = on_db("why", "sales", "latest", "load", "-o", "table").stdout

    assert said.splitlines() == [
        "sales · 2026-11-20T09:00 · load: scheduled for 4 m 12 s, not running",
        "  ok    run is running  3 of 16 active runs",
        "  ok    upstream        2 of 2 succeeded (all_success)",
        "  WAIT  pool etl        4 of 4 slots held, needs 1",
        "          bulk 2026-11-20T05:00 load  2 slots, running 31 m, usually 6 m",
        "          bulk 2026-11-20T06:00 copy  2 slots, running 4 m, usually 9 m",
        "  ok    DAG limit       0 of 16",
        "  -     executor local  not reached",
        "likely free in about 5 m",
        "do: aiosched pools set etl 5",
    ]


def test_what_was_not_looked_at_is_noted(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    on_db.work(busy_pool)
    monkeypatch.setattr("aiosched.db.queries.why.MOST_RUNS", 2)
    note = "more than 2 runs are running: who holds slots or goes first is known of the 2 oldest"

    table = on_db("why", "sales", "latest", "load", "-o", "table").stdout.splitlines()

    assert f"note: {note}" in table
    assert ["note", note] in on_db.lines("why", "sales", "latest", "load")
    assert note in on_db.json("why", "sales", "latest", "load")["notes"]


def test_the_gates_are_data(on_db: Cli) -> None:
    on_db.work(busy_pool)

    data = on_db.json("why", "sales", "s9", "load")

    assert [gate["name"] for gate in data["gates"] if gate["verdict"] == "wait"] == ["pool etl"]
    pool = next(gate for gate in data["gates"] if gate["name"] == "pool etl")
    assert pool["holders"][0] | {"label": "", "left": None} == {
        "dag_id": "bulk", "run_id": "r5", "task_id": "load", "map_index": -1, "state": "running", "slots": 2,
        "seconds": 1860.0, "usual_seconds": 360.0, "logical_date": "2026-11-20T05:00:00Z", "label": "", "left": None,
    }  # fmt: skip
    assert (data["state"], data["rank"], data["waiting_seconds"]) == ("scheduled", 1, 252.0)
    assert data["likely_free_at"] == "2026-11-20T12:05:00Z"
    assert data["commands"] == ["aiosched pools set etl 5"]


def test_plain_lines_have_verdict_gate_and_detail(on_db: Cli) -> None:
    on_db.work(busy_pool)

    lines = on_db.lines("why", "sales", "latest", "load")

    assert lines[0] == ["sales · 2026-11-20T09:00 · load", "scheduled", "scheduled for 4 m 12 s, not running"]
    assert ["wait", "pool etl", "4 of 4 slots held, needs 1"] in lines
    assert ["", "bulk 2026-11-20T06:00 copy", "2 slots, running 4 m, usually 9 m"] in lines
    assert lines[-1] == ["do", "aiosched pools set etl 5"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("salse",), "Did you mean sales?"),
        (("sales", "s8x"), "Did you mean s8"),
        (("sales", "latest", "laod"), "Did you mean load?"),
        (("sales", "latest", "load", "--map-index", "3"), "no instance load[3]"),
    ],
    ids=["dag", "run", "task", "map-index"],
)
def test_an_unknown_name_ends_with_3_and_names_near_ones(on_db: Cli, words: tuple[str, ...], said: str) -> None:
    on_db.work(busy_pool)

    assert said in on_db("why", *words, code=3).stderr


def test_without_a_scheduler_it_says_to_start_one(on_db: Cli) -> None:
    async def seed(db: Database) -> None:
        await add_run(db, "lonely", await add_dag(db, "lonely"), "r1", state="queued", queued_at=minutes(1))

    on_db.work(seed)

    lines = on_db.lines("why", "lonely", "r1")

    assert ["wait", "scheduler", "no scheduler is alive"] in lines
    assert ["do", "aiosched serve"] in lines


@pytest.mark.parametrize(
    ("drains", "after"),
    [("incarnation = 1", "another one takes over its DAGs"), ("true", "every other one is draining, too")],
    ids=["one", "all"],
)
def test_another_scheduler_takes_over_only_if_it_is_not_draining_itself(on_db: Cli, drains: str, after: str) -> None:
    async def seed(db: Database) -> None:
        await add_run(db, "d", await add_dag(db, "d"), "r1", state="queued", queued_at=minutes(1))
        assert await own(db, "d") == 1
        await own(db)
        await db.execute(f"UPDATE scheduler SET draining = true WHERE {drains}")

    on_db.work(seed)

    assert ["wait", "scheduler", f"one is draining: it starts nothing new, {after}"] in on_db.lines("why", "d", "r1")


def test_what_nobody_has_told_is_unknown(on_db: Cli) -> None:
    async def seed(db: Database) -> None:
        await own(db, "sales", figures=None)
        run = await add_run(db, "sales", await add_dag(db, "sales", tasks=SALES[:1]), "r1")
        await add_task(db, run, 0, "scheduled", try_number=1, scheduled_at=minutes(1))

    on_db.work(seed)

    lines = on_db.lines("why", "sales", "r1", "orders")

    assert ["unknown", "executor", "its scheduler has not reported how many slots are open"] in lines
    assert ["unknown", "parallelism", "its scheduler has not reported how many attempts it runs"] in lines
    assert "  ?     parallelism" in on_db("why", "sales", "r1", "orders", "-o", "table").stdout
