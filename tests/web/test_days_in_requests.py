"""A date without a time in requests: that whole day, in the time zone of the DAG that is meant."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import httpx2
import pytest

from aiosched.core.audit.kinds import AuditKind
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.audit.entries import record
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from tests.cli.records import NOON, SALES, add_dag, add_run

DAY = "2026-11-20"


async def add_morning(db: Database) -> None:
    """A DAG that runs at six in New York."""
    timezone = "America/New_York"
    schedule = parse_schedule("0 6 * * *", timezone=timezone)
    spec = DagSpec(dag_id="morning", tasks=SALES, timetable=schedule, timezone=timezone)
    async with db.transaction() as conn:
        await register_specs(conn, [spec], now=NOON)


@pytest.mark.parametrize(
    ("first", "final", "number"), [("2025-10-01", "2025-10-31", 31), ("2025-11-02", "2025-11-02", 1)]
)
async def test_a_backfill_has_its_last_day_too(
    db: Database, api: httpx2.AsyncClient, first: str, final: str, number: int
) -> None:
    await add_morning(db)
    body = {"dag_id": "morning", "from_date": first, "to_date": final, "dry_run": True}

    planned = (await api.post("backfills", json=body)).json()

    assert (len(planned["dates"]), planned["timezone"], planned["left_out"]) == (number, "America/New_York", None)
    assert planned["from"] == f"{first}T00:00:00-04:00"
    assert planned["to"].startswith(f"{final}T23:59:59.999999-0")


async def test_the_preview_says_what_is_left_out(db: Database, api: httpx2.AsyncClient) -> None:
    await add_morning(db)
    body = {"dag_id": "morning", "from_date": "2025-12-01", "to_date": "9999-12-31", "dry_run": True}

    left_out = (await api.post("backfills", json=body)).json()["left_out"]

    assert left_out["reason"].startswith("its data interval ends at ")
    assert date.fromisoformat(left_out["logical_date"][:10]) >= date(2026, 1, 1)


async def test_lists_have_the_whole_day(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "kolkata", timezone="Asia/Kolkata")
    for at in ("19T18:29", "19T18:30", "20T18:29", "20T18:30"):
        instant = datetime.fromisoformat(f"2026-11-{at}+00:00")
        columns: dict[str, Any] = {"logical_date": instant, "run_after": instant, "end_date": instant}
        await add_run(db, "kolkata", version, at, state="success", **columns)

    async def runs(**wanted: str) -> list[str]:
        return sorted(run["run_id"] for run in (await api.get("runs", params=wanted)).json()["items"])

    assert await runs(dag_id="kolkata", since=DAY, until=DAY) == ["19T18:30", "20T18:29"]
    assert await runs(dag_id="kolkata", ended_since=DAY, ended_until=DAY) == ["19T18:30", "20T18:29"]
    assert await runs(since=DAY, until=DAY) == ["20T18:29", "20T18:30"]  # of UTC
    facets = await api.get("run-facets", params={"dag_id": "kolkata", "since": DAY, "until": DAY})
    assert facets.json()["number"] == 2
    cleared = await api.post("dags/kolkata/clear", json={"from_date": DAY, "to_date": DAY, "dry_run": True})
    assert cleared.status_code == 200
    spans = (await api.get("timeline", params={"since": DAY, "until": DAY})).json()
    assert (spans["since"], spans["until"]) == ("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z")


async def test_the_audit_log_of_a_day(db: Database, api: httpx2.AsyncClient) -> None:
    async with db.acquire() as conn:
        await record(conn, AuditKind.AUDIT_EXPORTED, after=0)
        at = await conn.fetchval("SELECT max(at) FROM audit_log")
    today = at.astimezone(UTC).date().isoformat()

    for path in ("audit", "audit/export"):
        assert "audit.exported" in (await api.get(path, params={"since": today, "until": today})).text
        assert "audit.exported" not in (await api.get(path, params={"until": "2020-01-01"})).text


@pytest.mark.parametrize("given", ["2026-11-20T00:00:00", "2026-13-01", "soon"])
async def test_what_is_neither_a_day_nor_an_instant_with_a_zone_is_refused(
    db: Database, api: httpx2.AsyncClient, given: str
) -> None:
    await add_morning(db)
    body = {"dag_id": "morning", "from_date": given, "to_date": "2026-11-20", "dry_run": True}

    assert (await api.post("backfills", json=body)).status_code == 422
    for path in ("runs", "task-instances", "audit", "timeline"):
        assert (await api.get(path, params={"since": given})).status_code == 422
