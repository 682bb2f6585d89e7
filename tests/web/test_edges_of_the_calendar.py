"""Instants outside the years 1 to 9999 in UTC, as a request gives them with the offset of a time zone."""

from __future__ import annotations

import itertools
from typing import Final

import httpx2

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run

EDGES = {
    "9999-12-31T23:59:59-12:00": "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00+14:00": "0001-01-01T00:00:00Z",
}


async def test_a_filter_takes_such_an_instant_and_the_answer_has_the_nearest(
    db: Database, api: httpx2.AsyncClient
) -> None:
    await add_run(db, "sales", await add_dag(db, "sales"), "r1")

    for (edge, nearest), name in itertools.product(EDGES.items(), ("since", "until")):
        answer = await api.get("timeline", params={name: edge})
        assert (answer.status_code, answer.json()[name]) == (200, nearest), answer.text
        for path in ("runs", "task-instances", "audit"):
            assert (await api.get(path, params={name: edge})).status_code == 200


FIELDS: Final[tuple[tuple[str, dict[str, object], str], ...]] = (
    ("dags/sales/runs", {}, "logical_date"),
    ("dags/sales/runs", {}, "run_after"),
    ("dags/sales/clear", {"dry_run": True}, "from_date"),
    ("dags/sales/clear", {"dry_run": True}, "to_date"),
    ("backfills", {"dag_id": "sales", "from_date": "2026-01-01T00:00:00Z"}, "to_date"),
    ("backfills", {"dag_id": "sales", "to_date": "2026-01-01T00:00:00Z"}, "from_date"),
)


async def test_a_body_with_such_an_instant_is_refused(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales")

    for (path, body, field), edge in itertools.product(FIELDS, EDGES):
        answer = await api.post(path, json=body | {field: edge})

        assert answer.status_code == 422, (path, field, edge, answer.text)
        assert f"body.{field}: Value error, it is not in the years 1 to 9999 in UTC" in answer.json()["detail"]
