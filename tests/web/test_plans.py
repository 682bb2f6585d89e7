"""Everything that can be read is read by key: with much history no request looks at all of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import event

from aiosched.config import DatabaseSettings, Settings
from aiosched.db.server.engine import Database, StatementCount
from aiosched.web.api import ROUTERS
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import add_dag, insert

RUNS: Final = 6_000
GROWING: Final = frozenset(
    {
        "asset_check",
        "asset_event",
        "audit_log",
        "request",
        "dag_run",
        "deferral",
        "figures_hour",
        "figures_minute",
        "task_instance",
        "task_try",
        "xcom",
    }
)

_HISTORY: Final = (
    """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date, run_after,
                         start_date, end_date)
    SELECT d.dag_id, 'r' || n, d.partition, d.version_id, 'scheduled', 'test',
           CASE WHEN n > $1 - 3 THEN 'running' WHEN n % 7 = 0 THEN 'failed' ELSE 'success' END,
           at, at, at, CASE WHEN n <= $1 - 3 THEN at + interval '1 minute' END
      FROM dag AS d CROSS JOIN generate_series(1, $1::int) AS n
     CROSS JOIN LATERAL (SELECT now() - ($1 - n) * interval '1 hour' AS at) AS t
    """,
    """
    INSERT INTO task_instance (run_id, task_index, map_index, try_number, state, queued_at, start_date, end_date)
    SELECT r.id, i, -1, 2, CASE WHEN r.state = 'running' THEN 'running' ELSE 'success' END, r.start_date, r.start_date,
           r.end_date
      FROM dag_run AS r CROSS JOIN generate_series(0, 1) AS i
    """,
    """
    INSERT INTO task_try (run_id, task_index, map_index, try_number, state)
    SELECT run_id, task_index, map_index, 1, 'failed' FROM task_instance WHERE task_index = 0
    """,
    """
    INSERT INTO deferral (run_id, task_index, map_index, try_number, since, until)
    SELECT run_id, task_index, map_index, 1, now(), now() FROM task_instance
    """,
    """
    INSERT INTO human_input (run_id, task_index, map_index, try_number, task_id, question, asked_at)
    SELECT id, 1, -1, 1, 'load', '{"subject": "?", "options": ["a"]}', start_date FROM dag_run WHERE id % 10 = 0
    """,
    """
    INSERT INTO xcom (run_id, task_index, map_index, key, value)
    SELECT run_id, task_index, map_index, 'return_value', '1' FROM task_instance WHERE task_index = 0
    """,
    """
    INSERT INTO request (dag_id, verb, requested_by, state, result)
    SELECT CASE WHEN n % 50 = 0 THEN 'sales' ELSE 'other' END, 'clear', 'test', 'applied', '{"instances": []}'
      FROM generate_series(1, $1::int) AS n
    """,
    """
    INSERT INTO figures_minute (at, incarnation, scheduler, ended, waiting, queued, running, parsing)
    SELECT now() - n * interval '1 minute', 1, 'one', 1, 1, 1, 1, 1 FROM generate_series(1, $1::int) AS n
    """,
    """
    INSERT INTO figures_hour (at, scheduler, ended, waiting, queued, running, parsing)
    SELECT now() - n * interval '1 hour', 'one', 1, 1, 1, 1, 1 FROM generate_series(1, $1::int) AS n
    """,
    "INSERT INTO asset (name, uri) SELECT 'asset' || n, 'x://' || n FROM generate_series(1, 20) AS n",
    """
    INSERT INTO asset_event (asset_id, timestamp, source_dag_id, source_run_id)
    SELECT a.id, r.start_date, r.dag_id, r.id FROM dag_run AS r JOIN asset AS a ON a.id = 1 + r.id % 20
    """,
    """
    INSERT INTO asset_reference (dag_id, role, kind, name, task_id, is_check)
    SELECT DISTINCT r.dag_id, 'inlet', 'asset', a.name, 'load', true FROM dag_run AS r CROSS JOIN asset AS a
    """,
    """
    INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status)
    SELECT 1 + r.id % 20, r.dag_id, 'load', r.id, -1, 1, 'pass' FROM dag_run AS r
    """,
)

PATHS: Final = (
    "summary",
    "timeline",
    "activity",
    "dags?search=sal&tag=x&order=next_run",
    "dags?order=-last_run&last_state=running",
    "dag-counts?last_state=running&owner=x",
    "dag-facets?last_state=running&owner=x&not_tag=y&not_status=late",
    "dags/sales",
    "dag-statistics?dag_id=sales&dag_id=other",
    "tags",
    "teams",
    "alerts?is_open=true",
    "alert-rules",
    "alert-rules/late",
    "alert-silences",
    "badges",
    "search?q=load",
    "search?q=sales%20r1",
    "dags/sales/next",
    "dags/sales/why",
    "dags/sales/runs/r77/why",
    "dags/sales/runs/r77/tasks/load/why",
    "dags/sales/versions",
    "dags/sales/versions/1",
    "dags/sales/versions/1/runs",
    "dags/sales/versions/1/module?name=helper.py",
    "dags/sales/versions/1/diff/1",
    "dags/sales/tasks",
    "dags/sales/graph?run=latest",
    "dags/sales/grid",
    "dags/sales/grid?state=failed&run_type=manual",
    "dags/sales/trends",
    "dags/sales/trends?task_id=load",
    "dags/sales/runs/r77/comparison",
    "dags/sales/calendar",
    "runs",
    "runs?dag_id=sales&state=failed&search=r1",
    "runs?order=-end_date&owner=ada&tag=x",
    "runs?not_owner=ada&not_state=failed&asset=orders",
    "runs?state=failed&ended_since=2026-11-20T12:00:00Z&order=end_date",
    "run-facets?owner=ada&tag=x&state=failed",
    "run-facets?since=2026-11-20T12:00:00Z&run_type=scheduled&min_seconds=5",
    "task-instances",
    "task-instances?state=running",
    "task-instances?state=failed&owner=ada&tag=x&operator=O&pool=etl&task_id=lo&reason=E&min_seconds=1",
    "task-instances?dag_id=sales&since=2026-11-20T12:00:00Z",
    "task-instance-facets?state=failed&pool=etl",
    "dags/sales/runs/latest",
    "dags/sales/runs/latest-failed",
    "dags/sales/runs/r77",
    "dags/sales/runs/r77/tasks",
    "dags/sales/runs/r77/tasks?task_id=load&state=success",
    "dags/sales/runs/r77/gantt",
    "dags/sales/runs/r77/tasks/load",
    "dags/sales/runs/r77/tasks/load/tries",
    "dags/sales/runs/r77/tasks/load/xcom",
    "dags/sales/runs/r77/tasks/extract/xcom/return_value",
    "dags/sales/runs/r77/tasks/extract/xcom/return_value/content",
    "dags/sales/runs/r77/tasks/load/events",
    "dags/sales/runs/r77/tasks/load/rendered",
    "dags/sales/runs/r77/tasks/load/logs/1",
    "dags/sales/runs/r77/tasks/load/logs/1/blocks",
    "dags/sales/runs/r77/tasks/load/logs/1/errors",
    "dags/sales/runs/r77/tasks/load/logs/1/lines?level=error",
    "dags/sales/runs/r77/tasks/load/logs/1/search?words=x",
    "pools",
    "pools/etl",
    "pools/etl/queue",
    "pools/etl/figures",
    "assets",
    "asset?name=asset1",
    "asset-checks?name=asset1",
    "asset-events?name=asset1",
    "asset-partitions?name=asset1",
    "assets/asset1",
    "assets/asset1/events",
    "assets?freshness=late",
    "asset-lineage",
    "dependencies",
    "dependencies?search=sal",
    "dependencies?around=dag:sales",
    "dependencies?around=asset:asset1&direction=downstream",
    "backfills",
    "backfills?dag_id=sales",
    "backfills/1",
    "schedules",
    "schedules?dag_id=sales",
    "schedules?paused=true",
    "dags/sales/schedules/nightly",
    "inputs",
    "inputs?waiting=true&dag_id=sales",
    "import-errors",
    "files",
    "schedulers",
    "figures?hours=24",
    "figures?hours=168&scheduler=one",
    "audit",
    "audit?dag_id=sales",
    "audit/export",
    "commands",
    "commands?dag_id=sales",
    "commands/77",
    "audit",
    "audit?kind=request.&who=api:ann&dag_id=sales",
    "audit/export?limit=10",
    "secret-sources",
    "metrics/summary",
    "settings",
    "variables",
    "variables/region",
    "connections",
    "connections/shop",
    "connection-types",
    "users",
    "views?page=runs",
    "views/1",
    "users/ada",
    "sessions",
    "tokens",
    "me",
    "login",
)
ELSEWHERE: Final = frozenset(
    {
        "/stream",  # never ends; its statements are those of test_live.py
        "/openapi.json",
        "/login/oidc",  # these two go to the identity provider
        "/login/callback",
    }
)


class Statements(StatementCount):
    """Keeps every statement with its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[Any, ...]]] = []

    def __call__(self, logged: Any) -> None:
        if logged is not None:
            self.seen.append((logged.query, tuple(logged.args or ())))


@pytest.fixture
async def statements(dsn: str) -> AsyncIterator[tuple[Statements, FastAPI]]:
    """An application that keeps its statements, on a database with a history."""
    seen = Statements()
    db = Database(dsn, DatabaseSettings(), "test")
    db.statements = seen
    await db._open_pool()

    @event.listens_for(db.engine.sync_engine, "before_cursor_execute")
    def keep(_: Any, __: Any, query: str, arguments: Any, *___: Any) -> None:  # the driver does not log prepared ones
        seen.seen.append((query, tuple(arguments)))

    request_client = RequestClient(db, Settings())
    for dag_id in ("sales", "other"):
        await add_dag(db, dag_id, tags=["x"])
    async with db.acquire() as conn:
        for statement in _HISTORY:
            await conn.execute(statement, *([RUNS] if "$1" in statement else []))
        await insert(conn, "connection", {"conn_id": "shop", "conn_type": "http", "secret": ""})
        await insert(conn, "alert_rule", {"name": "late", "kind": "run_late", "notifier": "ops"})
        await insert(conn, "web_user", {"name": "ada", "role": "viewer"})
        await insert(conn, "pool", {"name": "etl", "slots": 3})
        await insert(conn, "list_view", {"page": "runs", "name": "v", "query": "q", "changed_by": "ada"})
        await insert(conn, "variable", {"key": "region", "value": ""})
        await conn.execute(
            "INSERT INTO backfill (dag_id, partition, from_date, to_date) VALUES ('sales', 1, now(), now())"
        )
        await conn.execute(
            "INSERT INTO dag_schedule (dag_id, name, partition, every, timezone, since, last_at) "
            "VALUES ('sales', 'nightly', 1, 60, 'UTC', now(), now())"
        )
        await conn.execute("""UPDATE dag_version SET sources = '{"helper.py": "0"}' WHERE dag_id = 'sales'""")
        await conn.execute("ANALYZE")
    yield seen, make_app(request_client)
    await db.close()


async def test_no_request_reads_the_whole_of_a_table_that_grows(
    statements: tuple[Statements, FastAPI], dsn: str
) -> None:
    seen, app = statements
    problems: list[str] = []
    db: Database = app.state.request_client.db
    # one that does is noticed
    (plan,) = await db.fetchrow("EXPLAIN (FORMAT json) SELECT * FROM dag_run WHERE note LIKE '%x%'")
    assert list(scans(json.loads(plan)[0]["Plan"])) == ["dag_run (note ~~ '%x%'::text)"]

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost/api/v1/") as api:
        for path in PATHS:
            seen.seen.clear()
            answer = await api.get(path)
            asked = list(seen.seen)
            assert answer.status_code == 200, (path, answer.text)
            assert asked or path in ("me", "settings", "login", "connection-types"), path
            async with db.acquire() as conn:
                for query, arguments in asked:
                    if query.lstrip().upper().startswith(("SELECT", "WITH")):
                        (plan,) = await conn.fetchrow(f"EXPLAIN (FORMAT json) {query}", *arguments)
                        problems += [f"{path}: {node}" for node in scans(json.loads(plan)[0]["Plan"])]

    assert problems == []


def scans(plan: dict[str, Any]) -> Iterator[str]:
    """The tables that a plan reads from end to end, of those that grow."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in GROWING:
        yield f"{plan['Relation Name']} {plan.get('Filter', '')}"
    for part in plan.get("Plans", ()):
        yield from scans(part)


def test_every_address_that_can_be_read_is_looked_at() -> None:
    looked_at = ["/" + path.partition("?")[0] for path in PATHS]
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]

    readable = [route for route in routes if "GET" in route.methods and route.path not in ELSEWHERE]
    missing = {route.path for route in readable if not any(route.path_regex.match(path) for path in looked_at)}

    assert missing == set()
