"""Lists come in pages: every list that grows has a cursor, which leads through all of it, each entry once."""

from __future__ import annotations

import base64
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.records import NOON, add_dag, add_file, add_run, add_task, insert
from tests.web.walks import DOCUMENT

LISTS: Final = (
    "alert-silences",
    "alerts",
    "assets",
    "assets?freshness=unknown",
    "asset-events?name=a1",
    "audit",
    "backfills",
    "commands",
    "connections",
    "dags",
    "dags?order=next_run",
    "dags?order=-last_run",
    "dags?order=last_state",
    "dags?order=-owner",
    "dags/sales/runs/r1/tasks",
    "dags/sales/runs/r1/tasks/load/events",
    "dags/sales/runs/r1/tasks/load/tries",
    "dags/sales/runs/r1/tasks/load/xcom",
    "dags/sales/versions",
    "files",
    "import-errors",
    "inputs",
    "pools",
    "pools/etl/queue",
    "schedules",
    "runs",
    "runs?order=run_after",
    "tags",
    "task-instances",
    "sessions?user=u0",
    "tokens",
    "teams",
    "users",
    "variables",
    "views",
)
MAY_HAVE_EMPTY_PAGES: Final = ("assets?freshness=unknown",)  # it looks at a bounded part
WHOLE: Final = {  # what has `items` and no cursor, and what bounds it
    "/api/v1/alert-rules": "those who write rules",
    "/api/v1/connection-types": "the installed provider packages",
    "/api/v1/dag-statistics": "the DAGs asked for",
    "/api/v1/dags/{dag_id}/next": "the number asked for",
    "/api/v1/dags/{dag_id}/runs/{run}/gantt": "a picture; says whether it is complete",
    "/api/v1/dags/{dag_id}/tasks": "the file's author",
    "/api/v1/schedulers": "the fleet",
    "/api/v1/search": "at most 12 of each kind",
    "/api/v1/secret-sources": "what is in backends, and at most 10,000 names of each kind here",
    "/api/v1/settings": "aiosched itself",
}


def test_every_list_that_grows_has_a_cursor() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    paged: set[str] = set()
    whole: set[str] = set()

    for path, methods in DOCUMENT["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        shape = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        if "items" in schemas.get(shape, {}).get("properties", {}):
            asked = {each["name"] for each in methods["get"].get("parameters", ())}
            (paged if {"cursor", "limit"} <= asked else whole).add(path)

    assert whole == WHOLE.keys()
    assert len(paged) == len({path.partition("?")[0] for path in LISTS})


@pytest.fixture
async def three_of_each(db: Database) -> None:
    """At least three entries in each list."""
    version = await add_dag(db, "sales", tags=["x", "y", "z"])
    for number in range(3):
        at = NOON + timedelta(minutes=number // 2)  # two share an instant
        await add_dag(db, f"d{number}", next_dagrun_create_after=at)
        await add_file(db, f"{number}.py", error="SyntaxError")
        run = await add_run(db, "sales", version, f"r{number}")
        instance = {"run_id": run, "task_index": 1, "map_index": -1}
        for index in range(2):
            await add_task(db, run, index, "scheduled", try_number=4 * index, queued_at=at)
        await add_task(db, run, 1, "scheduled", map_index=0)
        asked = {"task_id": "load", "question": {"subject": "?", "options": ["a"]}, "asked_at": at, "try_number": 1}
        async with db.acquire() as conn:
            for each in range(1, 4):
                await insert(conn, "task_try", instance | {"try_number": each, "state": "failed", "end_date": at})
                place = {"run_id": run, "task_index": 1, "map_index": each}
                await insert(conn, "human_input", asked | place)
                await insert(conn, "xcom", instance | {"key": f"k{each}", "value": {}})
            await insert(conn, "pool", {"name": f"p{number}", "slots": 1})
            await insert(conn, "request", {"verb": "pause", "dag_id": "sales", "requested_by": "ann"})
            await insert(conn, "audit_log", {"kind": "login", "who": "api:ann"})
            backfill = {"dag_id": "sales", "partition": 1, "from_date": at, "to_date": at, "completed_at": at}
            await insert(conn, "backfill", backfill)
            schedule = {"dag_id": "sales", "partition": 1, "name": f"s{number}", "every": 60.0, "timezone": "UTC"}
            await insert(conn, "dag_schedule", schedule | {"since": at}, returning="id")
            asset = await insert(conn, "asset", {"name": f"a{number}", "uri": f"x://{number}"}, returning="id")
            for each in range(3):
                await insert(conn, "asset_event", {"asset_id": asset, "timestamp": NOON + timedelta(seconds=each // 2)})
            await insert(conn, "variable", {"key": f"v{number}", "value": ""})
            await insert(conn, "connection", {"conn_id": f"c{number}", "conn_type": "http", "secret": ""})
            await insert(conn, "team", {"name": f"t{number}"})
            view = {"page": "runs", "name": f"v{number}", "query": "state=failed", "changed_by": "ann"}
            await insert(conn, "list_view", view)
            await insert(conn, "web_user", {"name": f"u{number}", "role": "viewer"})
            user = await conn.fetchval("SELECT min(id) FROM web_user")
            token = {"owner": f"u{number}", "label": "", "token_hash": str(number), "role": "viewer"}
            await insert(conn, "api_token", token)
            session = {"user_id": user, "token_hash": str(number), "void": 0, "address": "", "agent": ""}
            await insert(conn, "web_session", session | {"expires_at": datetime(2100, 1, 1, tzinfo=UTC)})
            if number:
                row = {"dag_id": "sales", "number": number + 1, "content_hash": str(number)}
                await insert(conn, "dag_version", row | {"spec": {"dag_id": "sales"}})
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 1})
        rule = await insert(conn, "alert_rule", {"name": "r", "kind": "run_failed", "notifier": "n"}, returning="id")
        for number in range(3):
            alert = {"rule_id": rule, "subject": f"s{number}", "text": "failed", "opened_at": NOON, "last_at": NOON}
            await insert(conn, "alert", alert)
            silence = {"tag": "t", "reason": "r", "created_by": "ann", "created_at": NOON}
            await insert(conn, "alert_silence", silence | {"ends_at": datetime(2100, 1, 1, tzinfo=UTC)})


@pytest.mark.usefixtures("three_of_each")
async def test_a_cursor_leads_through_the_whole_list(api: httpx2.AsyncClient) -> None:
    async def page(path: str, **more: Any) -> tuple[list[Any], str | None]:
        everybody = {"everybody": "true"} if path == "tokens" else {}
        answer = await api.get(path, params={**httpx2.QueryParams(path.partition("?")[2]), **everybody, **more})
        assert answer.status_code == 200, (path, answer.text)
        return [_lasting(item) for item in answer.json()["items"]], answer.json()["next_cursor"]

    for path in LISTS:
        everything, nothing_more = await page(path, limit=1000)
        walked, cursor = await page(path, limit=1)
        while cursor is not None:
            items, cursor = await page(path, limit=1, cursor=cursor)
            assert len(items) == 1 or (not items and path in MAY_HAVE_EMPTY_PAGES), path
            walked += items

        assert len(everything) >= 3, path
        assert (path, walked, nothing_more) == (path, everything, None)


def _lasting(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "seconds"}  # of what waits: since then


MADE_UP: Final = (
    "?", "[]", '"\\u0000"', '["\\u0000", null]', "1e9", str(2**63), str(2**32), f"[{2**63}, 1]", "[null]"
)  # fmt: skip


@pytest.mark.usefixtures("three_of_each")
async def test_a_cursor_that_somebody_made_up_breaks_nothing(api: httpx2.AsyncClient) -> None:
    for path, key in itertools.product(LISTS, MADE_UP):
        cursor = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
        answer = await api.get(path, params={**httpx2.QueryParams(path.partition("?")[2]), "cursor": cursor})

        assert answer.status_code in (200, 400), (path, key, answer.text)
        assert answer.status_code == 200 or answer.json()["code"] == "bad-cursor", (path, key)
