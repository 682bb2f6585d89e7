"""Display names in answers: in place of nothing, beside the ids."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.config import Settings, WebSettings
from aiosched.core.graph.spec import GroupSpec, TaskSpec
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import NOON, add_dag, add_run, add_task

TASKS = (
    TaskSpec(task_id="g.load", operator="Op", group_id="g", display_name="Load it"),
    TaskSpec(task_id="g.send", operator="Op", group_id="g", upstream=("g.load",)),
)
GROUPS = (GroupSpec(group_id="g", display_name="First part"),)


@pytest.fixture
async def stored(db: Database) -> None:
    sales = await add_dag(db, "sales", tasks=TASKS, groups=GROUPS, display_name="Órdenes <b>2026</b>")
    plain = await add_dag(db, "plain")
    for dag_id, version in (("sales", sales), ("plain", plain)):
        run = await add_run(db, dag_id, version, "one", state="failed", end_date=NOON)
        await add_task(db, run, 0, "failed", reason="ValueError: boom", end_date=NOON)
        await add_task(db, run, 1, "success")


async def read(api: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.usefixtures("stored")
async def test_dags_runs_and_instances_have_them(api: httpx2.AsyncClient) -> None:
    name = {"sales": "Órdenes <b>2026</b>", "plain": None}
    for path in ("dags", "runs", "task-instances"):
        items = (await read(api, path))["items"]
        assert {one["dag_id"]: one["dag_display_name"] for one in items} == name, path
    for dag_id, shown in name.items():
        for path in (f"dags/{dag_id}", f"dags/{dag_id}/runs/one"):
            assert (await read(api, path))["dag_display_name"] == shown, path
    task = {"g.load": "Load it", "g.send": None}
    for path in ("dags/sales/tasks", "dags/sales/runs/one/tasks", "task-instances"):
        items = (await read(api, path, dag_id="sales"))["items"]
        assert {one["task_id"]: one["task_display_name"] for one in items} == task, path
    one = await read(api, "dags/sales/runs/one/tasks/g.load")
    assert (one["dag_display_name"], one["task_display_name"]) == (name["sales"], "Load it")
    assert one["definition"]["task_display_name"] == "Load it"


@pytest.mark.usefixtures("stored")
async def test_they_are_the_labels_of_grid_graph_and_gantt(api: httpx2.AsyncClient) -> None:
    labels = {"g": "First part", "g.load": "Load it", "g.send": "send"}
    for path, field in (("grid", "rows"), ("graph", "nodes"), ("runs/one/gantt", "rows")):
        rows = (await read(api, f"dags/sales/{path}"))[field]
        assert {row["id"]: row["label"] for row in rows} == labels, path


@pytest.mark.usefixtures("stored")
async def test_home_has_those_of_the_dags_that_it_names(api: httpx2.AsyncClient, db: Database) -> None:
    await db.execute("UPDATE dag_run SET start_date = now() - interval '1 minute', end_date = now()")
    for path in ("summary", "timeline", "activity"):
        assert (await read(api, path))["dag_display_names"] == {"sales": "Órdenes <b>2026</b>"}, path


@pytest.mark.usefixtures("stored")
async def test_dags_are_found_by_name_and_by_id(api: httpx2.AsyncClient) -> None:
    for typed in ("sal", "rdenes", "B>2026", "2026 SALES"):
        (found,) = (await read(api, "search", q=typed))["items"]
        assert (found["kind"], found["name"], found["display_name"]) == ("dag", "sales", "Órdenes <b>2026</b>"), typed
    assert (await read(api, "search", q="sales"))["items"][0]["match"] == 0
    assert (await read(api, "search", q="2026p"))["items"] == []  # letters in order are those of ids
    for typed in ("SALES", "rdenes", "b>2026"):
        assert [one["dag_id"] for one in (await read(api, "dags", search=typed))["items"]] == ["sales"], typed
        assert (await read(api, "dag-counts", search=typed))["number"] == 1


@pytest.mark.usefixtures("stored")
async def test_airflows_api_has_them_or_the_id(db: Database) -> None:
    app = make_app(RequestClient(db, Settings(web=WebSettings(airflow_api=True))))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v2/") as api:
        dags = (await read(api, "dags", order_by="dag_display_name"))["dags"]
        runs = (await read(api, "dags/sales/dagRuns"))["dag_runs"]
        tasks = (await read(api, "dags/sales/dagRuns/one/taskInstances"))["task_instances"]

    assert [(one["dag_id"], one["dag_display_name"]) for one in dags] == [
        ("plain", "plain"),
        ("sales", "Órdenes <b>2026</b>"),
    ]
    assert {one["dag_display_name"] for one in (*runs, *runs[0]["dag_versions"], *tasks)} == {"Órdenes <b>2026</b>"}
    assert [(one["task_id"], one["task_display_name"]) for one in tasks] == [
        ("g.load", "Load it"),
        ("g.send", "g.send"),
    ]
