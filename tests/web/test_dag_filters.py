"""The list of DAGs by tag, status and owner."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run

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
    await add_dag(db, "broken", has_import_errors=True, is_paused=True)

    dags = {query: (await api.get(f"dags?{query}")).json()["items"] for query in FOUND}
    counts = {query: (await api.get(f"dag-counts?{query}")).json() for query in FOUND}

    assert {query: [dag["dag_id"] for dag in dags[query]] for query in FOUND} == FOUND
    owners = [{"owner": "ada", "dags": 1}]
    assert counts == {query: {"number": len(found), "owners": owners} for query, found in FOUND.items()}
    for status in ("active", "paused", "stale", "error"):
        assert {dag["status"] for dag in dags[f"status={status}"]} == {status}
    assert {dag["status"] for dag in dags["pattern=o*&status=paused"]} == {"paused"}


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
