"""The list of DAGs by tag, status and owner."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2

from aiosched.core.timetables import CronTriggerTimetable
from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_file, add_run

DAILY = CronTriggerTimetable("0 0 * * *", timezone="UTC")
FOUND = {
    "": ["broken", "off", "on"],
    "tag=etl": ["off", "on"],
    "tag=etl&tag=daily": ["on"],
    "status=active": ["on"],
    "status=paused": ["off"],
    "status=stale": ["gone"],
    "status=error": ["broken"],
    "owner=ada": ["on"],
    "pattern=o*&status=paused": ["off"],
    "last_state=failed": ["on"],
    "last_state=none": ["broken", "off"],
    "dag_id=off&dag_id=on&dag_id=other": ["off", "on"],
    "not_tag=daily&tag=etl": ["off"],
    "not_owner=ada": ["broken", "off"],
    "status=active&status=paused": ["off", "on"],
    "not_status=paused&not_status=late": ["broken", "on"],
    "status=late": [],
    "not_last_state=failed": ["broken", "off"],
    "not_dag_id=on": ["broken", "off"],
    "team=none": [],
    "order=-dag_id": ["on", "off", "broken"],
    "order=-last_run": ["on", "off", "broken"],
    "order=last_state": ["broken", "off", "on"],
    "order=-owner&tag=etl": ["on", "off"],
}


async def test_dags_by_tag_status_and_owner(db: Database, api: httpx2.AsyncClient) -> None:
    on = await add_dag(db, "on", tags=["daily", "etl"], owner="ada")
    await add_run(db, "on", on, "r", state="failed")
    await add_dag(db, "off", tags=["etl"], is_paused=True)
    await add_dag(db, "gone", is_stale=True)
    await add_dag(db, "broken", has_import_errors=True, is_stale=True, is_paused=True)

    dags = {query: (await api.get(f"dags?{query}")).json()["items"] for query in FOUND}
    counts = {query: (await api.get(f"dag-counts?{query}")).json() for query in FOUND}

    assert {query: [dag["dag_id"] for dag in dags[query]] for query in FOUND} == FOUND
    assert counts == {query: {"number": len(found)} for query, found in FOUND.items()}
    facets = (await api.get("dag-facets?tag=etl")).json()
    assert facets["complete"]
    assert {(one["facet"], one["value"]): one["number"] for one in facets["counts"]} == {
        ("dag_id", "off"): 1,
        ("dag_id", "on"): 1,
        ("status", "active"): 1,
        ("status", "paused"): 1,
        ("last_state", "failed"): 1,
        ("last_state", "none"): 1,
        ("owner", "ada"): 1,
        ("owner", None): 1,
        ("team", None): 2,
        ("tag", "daily"): 1,
        ("tag", "etl"): 2,
    }
    for status in ("active", "paused", "stale", "error"):
        assert {dag["status"] for dag in dags[f"status={status}"]} == {status}
    assert {dag["status"] for dag in dags["pattern=o*&status=paused"]} == {"paused"}


async def test_nothing_is_promised_of_a_dag_whose_file_is_broken_or_gone(db: Database, api: httpx2.AsyncClient) -> None:
    due = datetime(9000, 1, 1, tzinfo=UTC)
    daily = {"schedule": "@daily", "next_dagrun_create_after": due, "next_dagrun": due}
    error = {"error": "SyntaxError:\n expected ':'", "error_line": 19}
    await add_file(db, "sales.py", dag_ids=["broken"], **error)
    for dag_id, flags in (
        ("broken", {"has_import_errors": True, "is_stale": True}),
        ("gone", {"is_stale": True}),
        ("good", {}),
        ("paused", {"is_paused": True}),
    ):
        await add_dag(db, dag_id, file="sales.py", timetable=DAILY, **daily, **flags)

    listed: list[dict[str, Any]] = []
    query: dict[str, str] | None = {}
    while query is not None:  # a page of one: the cursors are those of the order
        page = (await api.get("dags", params={"stale": "true", "order": "next_run", "limit": "1"} | query)).json()
        listed, cursor = [*listed, *page["items"]], page["next_cursor"]
        query = {"cursor": cursor} if cursor else None

    assert [dag["dag_id"] for dag in listed] == ["good", "paused", "broken", "gone"]
    assert [dag["next_run_after"] is None for dag in listed] == [False, False, True, True]
    assert [dag["next_logical_date"] is None for dag in listed] == [False, False, True, True]
    for dag in listed:
        is_promised = dag["next_run_after"] is not None
        coming = (await api.get(f"dags/{dag['dag_id']}/next")).json()["items"]
        days = (await api.get(f"dags/{dag['dag_id']}/calendar")).json()["days"]
        assert (bool(coming), any(day["coming"] for day in days)) == (is_promised, is_promised)
        shown = (await api.get(f"dags/{dag['dag_id']}")).json()
        told = {"line": 19, "error": "SyntaxError: expected ':'"} if dag["dag_id"] == "broken" else None
        assert (shown["import_error"], shown["next_run_after"] is None) == (told, not is_promised)


async def test_late_are_active_dags_whose_next_run_is_due_for_a_minute(db: Database, api: httpx2.AsyncClient) -> None:
    long_ago, soon = datetime(2020, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
    await add_dag(db, "late", next_dagrun_create_after=long_ago, owner="ada")
    await add_dag(db, "paused", next_dagrun_create_after=long_ago, is_paused=True)
    await add_dag(db, "broken", next_dagrun_create_after=long_ago, has_import_errors=True)
    await add_dag(db, "gone", next_dagrun_create_after=long_ago, is_stale=True)
    await add_dag(db, "soon", next_dagrun_create_after=soon)

    found = (await api.get("dags?status=late")).json()["items"]
    assert [dag["dag_id"] for dag in found] == ["late"]
    assert (await api.get("dag-counts?status=late")).json()["number"] == 1
    assert (await api.get("summary")).json()["counts"]["late_dags"] == 1
