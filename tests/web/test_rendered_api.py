"""Rendered template fields by the API: rows for everybody who may look, rendering for operators."""

from __future__ import annotations

import httpx2
import pytest

from aiosched.core.graph.instances import RenderedFields
from aiosched.db.server.engine import Database
from aiosched.db.statements.rendered_fields import store_rendered
from tests.cli.records import add_dag, add_run, add_task

RENDERED = "dags/sales/runs/latest/tasks/extract/rendered"


@pytest.fixture
async def run(db: Database) -> int:
    key = await add_run(db, "sales", await add_dag(db, "sales", file="away.py"), "one")
    await add_task(db, key, 0, "success", try_number=2)
    return key


async def test_the_fields_of_each_try_are_rows(db: Database, api: httpx2.AsyncClient, run: int) -> None:
    async with db.acquire() as conn:
        await store_rendered(conn, [RenderedFields(run, 0, -1, n, f'{{"sql": "select {n}"}}') for n in (1, 2)])

    last, first, none = [(await api.get(RENDERED + query)).json() for query in ("", "?try_number=1", "?try_number=0")]

    assert last == {"fields": {"sql": "select 2"}, "try_number": 2}
    assert first == {"fields": {"sql": "select 1"}, "try_number": 1}
    assert none == {"fields": None, "try_number": 0}


async def test_nobody_renders_without_a_scheduler(db: Database, api: httpx2.AsyncClient, run: int) -> None:
    answer = await api.post(RENDERED, json={})

    assert (answer.status_code, answer.json()["code"]) == (503, "no-scheduler")
    assert "aiosched serve" in answer.json()["detail"]
    assert await db.fetchval("SELECT count(*) FROM request") == 0
