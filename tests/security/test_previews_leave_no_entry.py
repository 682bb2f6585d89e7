"""A preview changes nothing, so the audit log does not have it: of the API, of Airflow's API, of each command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
import pytest

from aiosched.config import Settings, WebSettings
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.audit.reading import EntrySelection, list_entries
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.cli.conftest import Cli
from tests.cli.records import NOON, SALES, add_dag, add_run, add_task
from tests.cli.test_output_everywhere import commands
from tests.web.walks import DOCUMENT

DAYS: Final = ("2025-01-01", "2025-01-02")
TASK: Final = SALES[0].task_id
RUN: Final = "dags/sales/runs/r1"
PREVIEWS: Final[dict[str, tuple[str, dict[str, Any]]]] = {  # by the route; the address, and what is sent
    "/dags/{dag_id}/clear": ("dags/sales/clear", {"run_ids": ["r1"]}),
    "/dags/{dag_id}/runs/{run}/tasks/{task_id}/mark": (f"{RUN}/tasks/{TASK}/mark", {"state": "failed"}),
    "/bulk": ("bulk", {"action": "clear", "runs": [{"dag_id": "sales", "run_id": "r1"}]}),
    "/backfills": ("backfills", {"dag_id": "daily", "from_date": f"{DAYS[0]}T00:00Z", "to_date": f"{DAYS[1]}T00:00Z"}),
}
OF_AIRFLOW: Final = {  # a preview unless the body says otherwise
    "dags/sales/dagRuns/r1/clear": {},
    "dags/sales/clearTaskInstances": {"dag_run_id": "r1", "only_failed": False},
}
DRY_RUNS: Final = {
    "runs clear": ("sales", "r1"),
    "runs bulk": ("clear", "--dag", "sales"),
    "tasks bulk": ("mark", "--dag", "sales", "--to", "failed"),
    "tasks clear": ("sales",),
    "tasks mark": ("sales", "r1", TASK, "failed"),
    "backfill create": ("daily", "--from", DAYS[0], "--to", DAYS[1]),
    "db clean": ("--before", "2021-01-01"),
}
OF_OTHER_THINGS: Final = {"providers install", "migrate airflow"}  # packages of this machine; files of another program


async def seed(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="success", end_date=NOON)
    await add_task(db, run, 0, "success", try_number=1)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    spec = DagSpec(dag_id="daily", tasks=SALES, timetable=parse_schedule("@daily"), start_date=start)
    async with db.transaction() as conn:
        await register_specs(conn, [spec], now=NOON)


async def recorded(db: Database) -> list[str]:
    """What the audit log has, and what waits to be applied: it would get an entry."""
    waiting = [row["verb"] for row in await db.fetch("SELECT verb FROM request")]
    return [entry.kind for entry in await list_entries(db, EntrySelection(), limit=1000)] + waiting


@pytest.fixture
async def site(db: Database) -> AsyncIterator[httpx2.AsyncClient]:
    await seed(db)
    app = make_app(RequestClient(db, Settings(web=WebSettings(airflow_api=True))))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/") as client:
        yield client


def test_the_table_has_every_route_with_a_preview() -> None:
    found = set()
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schema = DOCUMENT["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
            if "dry_run" in schema.get("properties", {}):
                found.add(path.removeprefix("/api/v1"))

    assert found == set(PREVIEWS)


async def test_a_preview_of_the_api(site: httpx2.AsyncClient, db: Database) -> None:
    for path, body in PREVIEWS.values():
        answer = await site.post(f"v1/{path}", json={**body, "dry_run": True})

        assert answer.status_code == 200, (path, answer.text)
        assert (path, await recorded(db)) == (path, [])


async def test_a_preview_of_airflows_api(site: httpx2.AsyncClient, db: Database) -> None:
    for path, body in OF_AIRFLOW.items():
        answer = await site.post(f"v2/{path}", json=body)

        assert answer.status_code == 200, (path, answer.text)
        assert answer.json()["total_entries"] == 1
        assert (path, await recorded(db)) == (path, [])


def test_the_table_has_every_command_with_a_dry_run() -> None:
    found = {
        words
        for words, command in commands()
        if any("--dry-run" in (*each.opts, *each.secondary_opts) for each in command.params)
    }

    assert found == {*DRY_RUNS, *OF_OTHER_THINGS}


def test_a_dry_run_of_a_command(on_db: Cli) -> None:
    on_db.work(seed)

    for command, words in DRY_RUNS.items():
        on_db(*command.split(), *words, "--dry-run")

        assert (command, on_db.work(recorded)) == (command, [])
