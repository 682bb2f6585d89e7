"""Lists of runs and of task instances across DAGs: filters, order, counts, and what Home counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.client import Client
from aiosched.core.graph.spec import TaskSpec
from aiosched.db.lists import instance_lists
from aiosched.db.lists.instance_lists import WantedInstances, page_of_instances
from aiosched.db.queries.live_queries import read_states
from aiosched.db.server.engine import Database
from tests.cli.records import NOON, add_dag, add_run, add_task

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def runs(db: Database) -> None:
    """Four runs of two DAGs with their task instances; the newest is a backfilled one of an old date."""
    sales = await add_dag(db, "sales", tags=["etl", "daily"], owner="ada")
    report = (TaskSpec(task_id="render", operator="BashOperator"),)
    other = await add_dag(db, "report", tags=["daily"], owner="bob", tasks=report)

    async def run(dag_id: str, version: int, run_id: str, minute: int, **columns: Any) -> int:
        at = NOON + minute * MINUTE
        columns = {"run_type": "scheduled", "start_date": at, "end_date": at + MINUTE, **columns}
        return await add_run(db, dag_id, version, run_id, run_after=at, **columns)

    conf = '{"city": "Oslo", "at": {"zone": 1}}'
    first = await run("sales", sales, "r1", 1, state="success", conf=conf)
    failed = {"state": "failed", "reason": "task_failure", "end_date": NOON + 60 * MINUTE}
    second = await run("sales", sales, "r2", 2, logical_date=NOON - timedelta(days=1), **failed)
    third = await run("report", other, "r3", 3, state="running", run_type="manual", end_date=None)
    await run("sales", sales, "old", 0, state="failed", run_type="backfill")
    times = {"start_date": NOON, "end_date": NOON + MINUTE}
    await add_task(db, first, 0, "success", **times)
    await add_task(db, first, 1, "failed", reason="ValueError: 7 rows", **times)
    await add_task(db, second, 0, "failed", reason="KeyError: 'x'", start_date=NOON, end_date=NOON + 5 * MINUTE)
    await add_task(db, second, 1, "upstream_failed")
    await add_task(db, third, 0, "running", start_date=NOON)
    await add_task(db, third, 7, None)  # of a task that the version does not have
    async with db.acquire() as conn:  # r1 updated the asset, and that triggered r2
        asset = await conn.fetchval("INSERT INTO asset (name, uri) VALUES ('orders', 'orders') RETURNING id")
        event = await conn.fetchval(
            "INSERT INTO asset_event (asset_id, timestamp, source_run_id) VALUES ($1, $2, $3) RETURNING id",
            *(asset, NOON, first),
        )
        await conn.execute(
            "INSERT INTO asset_consumption (dag_id, event_id, run_id) VALUES ('sales', $1, $2)", event, second
        )


async def found(api: httpx2.AsyncClient, path: str, *names: str) -> list[str]:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return ["/".join(str(item[name]) for name in names) for item in answer.json()["items"]]


RUNS = {
    "": ["r3", "r2", "r1", "old"],
    "order=run_after": ["old", "r1", "r2", "r3"],
    "order=-end_date": ["r2", "r1", "old"],
    "order=end_date&limit=2": ["old", "r1"],
    "dag_id=sales&state=failed": ["r2", "old"],
    "owner=ada": ["r2", "r1", "old"],
    "tag=daily&run_type=manual": ["r3"],
    "tag=daily&tag=etl&run_type=scheduled": ["r2", "r1"],
    "tag=none": [],
    "since=2026-11-20T12:02:00Z&until=2026-11-20T12:03:00Z": ["r2"],
    "ended_since=2026-11-20T12:02:00Z": ["r2", "r1"],
    "min_seconds=61&state=failed": ["r2"],
    "max_seconds=60": ["r1", "old"],
    "reason=task_failure": ["r2"],
    "search=r": ["r3", "r2", "r1"],
    "dag_id=sales&dag_id=report&owner=bob&owner=ada": ["r3", "r2", "r1", "old"],
    "after_dag_id=sales&after_run_id=r2": ["r1", "old"],
    "after_dag_id=report&after_run_id=r3&state=failed&limit=1": ["r2"],
    "after_dag_id=report&after_run_id=r3&order=-end_date": ["r2", "r1", "old"],
    "not_dag_id=sales": ["r3"],
    "not_state=failed&not_state=running": ["r1"],
    "not_run_type=scheduled": ["r3", "old"],
    "not_owner=ada": ["r3"],
    "not_tag=etl": ["r3"],
    "tag=daily&not_tag=daily": [],
    "owner=ada&dag_id=report": [],
    "team=none": [],
    "not_team=none": ["r3", "r2", "r1", "old"],
    "version=1&dag_id=report": ["r3"],
    "version=2": [],
    "asset=orders": ["r2", "r1"],
    "asset=none": [],
    "conf=city=Oslo": ["r1"],
    "conf=at.zone=1&conf=city=Oslo": ["r1"],
    "conf=city=": [],
    "logical_since=2026-11-19&logical_until=2026-11-19": ["r2"],
}


@pytest.mark.usefixtures("runs")
async def test_runs_by_every_filter_and_order(api: httpx2.AsyncClient) -> None:
    assert {query: await found(api, f"runs?{query}", "run_id") for query in RUNS} == RUNS


INSTANCES = {
    "": ["r3/extra", "r3/render", "r2/extract", "r2/load", "r1/extract", "r1/load"],
    "state=failed": ["r2/extract", "r1/load"],
    "state=running": ["r3/render"],
    "state=none&state=running": ["r3/extra", "r3/render"],
    "owner=ada&state=failed&tag=etl": ["r2/extract", "r1/load"],
    "operator=BashOperator": ["r3/render"],
    "pool=etl": ["r2/load", "r1/load"],
    "task_id=xtr&run_type=scheduled": ["r2/extract", "r1/extract"],
    "reason=keyerror": ["r2/extract"],
    "min_seconds=100&state=failed": ["r2/extract"],
    "max_seconds=100": ["r1/extract", "r1/load"],
    "since=2026-11-20T12:02:00Z&dag_id=sales": ["r2/extract", "r2/load"],
    "not_state=failed&not_state=none&dag_id=sales": ["r2/load", "r1/extract"],
    "not_state=none&not_owner=ada": ["r3/render"],
    "after_dag_id=sales&after_run_id=r2&after_task_id=extract": ["r2/load", "r1/extract", "r1/load"],
    "after_dag_id=sales&after_run_id=r2&after_task_id=extract&state=failed": ["r1/load"],
    "operator=BashOperator&operator=PythonOperator&not_pool=etl": ["r3/render", "r2/extract", "r1/extract"],
    "not_operator=PythonOperator": ["r3/extra", "r3/render"],
    "asset=orders&state=failed": ["r2/extract", "r1/load"],
}


@pytest.mark.usefixtures("runs")
async def test_task_instances_by_every_filter(api: httpx2.AsyncClient) -> None:
    for query, expected in INSTANCES.items():
        names = await found(api, f"task-instances?{query}", "run_id", "task_id")

        shown = ["r3/extra" if "does not have" in name else name for name in names]
        assert (query, sorted(shown)) == (query, sorted(expected))
        assert (query, [name[:2] for name in shown]) == (query, [name[:2] for name in expected])


@pytest.mark.usefixtures("runs")
async def test_facets_count_the_values_of_each_filter(api: httpx2.AsyncClient) -> None:
    async def facets(path: str) -> tuple[dict[str, dict[str | None, int]], Any]:
        answer = (await api.get(path)).json()
        counts: dict[str, dict[str | None, int]] = {}
        for each in answer["counts"]:
            counts.setdefault(each["facet"], {})[each["value"]] = each["number"]
        return counts, answer

    runs, answer = await facets("run-facets?state=failed")
    assert runs == {
        "state": {"failed": 2, "running": 1, "success": 1},
        "run_type": {"backfill": 1, "scheduled": 1},
        "reason": {"task_failure": 1, None: 1},
        "dag_id": {"sales": 2},
        "owner": {"ada": 2},
        "tag": {"daily": 2, "etl": 2},
        "team": {None: 2},
    }
    assert (answer["number"], answer["more"], answer["complete"]) == (2, False, True)

    instances, answer = await facets("task-instance-facets?state=failed&dag_id=sales")
    assert instances == {
        "state": {"failed": 2, "success": 1, "upstream_failed": 1},
        "run_type": {"scheduled": 2},
        "reason": {"KeyError: 'x'": 1, "ValueError: 7 rows": 1},
        "dag_id": {"sales": 2},
        "operator": {"PythonOperator": 2},
        "pool": {"default_pool": 1, "etl": 1},
    }
    assert answer["complete"]


async def test_errors_that_differ_in_numbers_are_counted_together(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    texts = ["ValueError: row 17 of 3f2a9c1e-77aa", "ValueError: row 4 of 0b2a9c1e-11aa", "ValueError: row 5", None]
    for index, reason in enumerate([*texts, "KeyError: 'x'", "7: 8", "9: 1"]):
        await add_task(db, run, 1, "failed", map_index=index, reason=reason)

    counts = (await api.get("task-instance-facets?state=failed")).json()["counts"]

    errors = {each["value"]: each["number"] for each in counts if each["facet"] == "reason"}
    assert errors == {"ValueError: row": 2, "7: 8": 2, "KeyError: 'x'": 1, "ValueError: row 5": 1}
    found = await api.get("task-instances", params={"state": "failed", "reason": "ValueError: row"})
    assert len(found.json()["items"]) == 3


@pytest.mark.usefixtures("runs")
async def test_a_page_that_looked_at_enough_says_up_to_where(db: Database) -> None:
    wanted = WantedInstances(pools=["etl"])
    seen: list[str] = []
    searched: list[datetime | None] = []
    after = None
    while True:
        page = await page_of_instances(db, wanted, after=after, most=3, limit=10)
        seen += [f"{row.run_id}/{row.task_id}" for row in page.rows]
        searched.append(page.searched_to)
        if (after := page.next) is None:
            break

    assert seen == ["r2/load", "r1/load"]
    assert searched == [NOON + 2 * MINUTE, NOON + MINUTE, None]
    facets = await instance_lists.instance_facets(db, WantedInstances(), most=3)
    assert not facets.complete


@pytest.mark.usefixtures("runs")
async def test_the_client_has_the_same_filters(app: FastAPI) -> None:
    async with Client("http://localhost", transport=httpx2.ASGITransport(app=app)) as client:
        runs = [run.run_id async for run in client.runs(owner="ada", tag=["etl"], run_type=["scheduled"])]
        wanted = client.task_instances(state=["failed"], reason="valueerror", dag_id="sales", pool="etl")
        instances = [(one.run_id, one.task_id) async for one in wanted]
        places = [("sales", "r1", "load", -1), ("sales", "r2", "extract", -1)]
        seen = await client.act_on_many("clear", tasks=places, dry_run=True)

    assert runs == ["r2", "r1"]
    assert instances == [("r1", "load")]
    assert (seen.count, seen.runs, seen.states) == (2, 2, {"failed": 2})


FAILED = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after, end_date)
    SELECT 'sales', 'f' || n, 1, $1, 'scheduled', 'test', CASE WHEN n % 4 = 0 THEN 'failed' ELSE 'success' END, at, at
      FROM generate_series(1, 20000) AS n
     CROSS JOIN LATERAL (SELECT now() - n * interval '4 seconds' AS at) AS t
"""


async def test_home_counts_every_run_that_failed_and_its_link_leads_to_as_many(
    db: Database, api: httpx2.AsyncClient
) -> None:
    version = await add_dag(db, "sales")
    await db.execute(FAILED, version)

    counts = (await api.get("summary")).json()["counts"]
    day = (datetime.now(UTC) - timedelta(days=1)).isoformat().replace("+00:00", "Z")
    linked = (await api.get("run-facets", params={"state": "failed", "ended_since": day})).json()

    assert (counts["failed_runs_24h"], counts["failed_runs_24h_more"]) == (5000, False)
    assert (linked["number"], linked["more"]) == (5000, False)


@pytest.mark.parametrize("state", ["upstream_failed", "skipped", "removed"])
async def test_what_never_began_has_neither_a_start_nor_a_duration(
    db: Database, api: httpx2.AsyncClient, state: str
) -> None:
    """Such an instance is stored with the instant at which that was decided as both of its dates."""
    version = await add_dag(db, "sales")
    run = await add_run(db, "sales", version, "r")
    await add_task(db, run, 0, state, start_date=NOON, end_date=NOON)
    await add_task(db, run, 1, state, start_date=NOON, end_date=NOON + timedelta(seconds=2))  # it has decided so itself

    listed = {one["task_id"]: one for one in (await api.get("dags/sales/runs/r/tasks")).json()["items"]}
    everywhere = {one["task_id"]: one for one in (await api.get("task-instances")).json()["items"]}
    pushed = {one.task_index: one.start_date for one in await read_states(db, run, limit=2)}

    for found in (listed, everywhere, {"extract": (await api.get("dags/sales/runs/r/tasks/extract")).json()}):
        assert (found["extract"]["start_date"], found["extract"]["seconds"]) == (None, None)
    assert [found["load"]["seconds"] for found in (listed, everywhere)] == [2.0, 2.0]
    assert pushed == {0: None, 1: NOON}


async def test_a_run_tells_how_many_instances_each_mapped_task_has(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    run = await add_run(db, "sales", version, "r")
    await add_task(db, run, 0, "success")
    for index in range(5):
        await add_task(db, run, 1, "failed" if index == 3 else "success", map_index=index)

    found = (await api.get("dags/sales/runs/r")).json()

    assert found["tasks"] == {"success": 5, "failed": 1}
    assert found["mapped"] == {"load": {"success": 4, "failed": 1}}
