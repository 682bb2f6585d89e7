"""Rows whose JSON no bound has kept: what an older version or a hand has stored breaks no page and no command."""

from __future__ import annotations

import httpx2
import pytest

from aiosched.db.queries import queries
from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run, add_task

DEEP = '{"a": ' * 400 + "1" + "}" * 400
LARGE = '{"n": 123456789012345678901234567890}'


async def store(db: Database, value: str) -> None:
    """A run, a request, an XCom and an asset event with such a value."""
    version = await add_dag(db, "sales")
    run = await add_run(db, "sales", version, "r")
    await add_task(db, run, 0, "success")
    async with db.acquire() as conn:
        await conn.execute("UPDATE dag_run SET conf = $1", value)
        await conn.execute(
            "INSERT INTO request (partition, dag_id, verb, args, requested_by, state, result)"
            " VALUES (1, 'sales', 'trigger', $1, 'a hand', 'refused', $1)",
            value,
        )
        await conn.execute(
            "INSERT INTO xcom (run_id, task_index, map_index, key, value) VALUES ($1, 0, -1, 'k', $2)",
            run,
            value,
        )
        asset = await conn.fetchval(
            "INSERT INTO asset (name, uri, extra) VALUES ('orders', 'orders', $1) RETURNING id", value
        )
        await conn.execute("INSERT INTO asset_event (asset_id, extra, timestamp) VALUES ($1, $2, now())", asset, value)


PAGES = (
    "runs", "dags/sales/runs/r", "commands", "commands/1", "dags/sales/runs/r/tasks", "dags/sales/grid", "summary",
    "dags/sales/runs/r/tasks/{task}/xcom", "dags/sales/runs/r/tasks/{task}/xcom/k", "assets", "assets/orders",
    "assets/orders/events", "dags/sales/runs/r/tasks/{task}/events", "dags/sales/runs/r/tasks/{task}", "timeline",
    "dag-statistics?dag_id=sales",
)  # fmt: skip


@pytest.mark.parametrize("value", [DEEP, LARGE], ids=["deep", "large"])
async def test_every_page_answers(api: httpx2.AsyncClient, db: Database, value: str) -> None:
    await store(db, value)
    spec = await queries.get_spec(db, "sales")

    answers = {page: await api.get(page.format(task=spec.tasks[0].task_id)) for page in PAGES}

    assert {page: answer.text for page, answer in answers.items() if answer.status_code != 200} == {}


async def test_a_value_that_is_too_deep_is_replaced_by_a_note(api: httpx2.AsyncClient, db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r")
    await db.execute("UPDATE dag_run SET conf = $1 WHERE id = $2", DEEP, run)

    shown = (await api.get("dags/sales/runs/r")).json()

    assert shown["conf"] == {"not shown": "this JSON value is nested more than 64 levels deep"}
