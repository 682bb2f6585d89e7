"""XComs of other DAGs: read in all ways in which tasks ask, but not of DAGs of another team."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from aiosched.web.worker_api.endpoints import make_worker_api
from tests.engines.agents import AgentEngine
from tests.patience import PATIENCE

MAKES = """
from decimal import Decimal
from aiosched import DAG, task

with DAG("of_alpha", schedule=None):

    @task
    def make():
        return {"price": Decimal("1.50"), "at": {1, 2}}

    @task
    def each(x):
        return x * 10

    make() >> each.expand(x=[1, 2, 3])
"""
READS = """
from aiosched import DAG, BaseOperator, task
from aiosched.authoring.triggers import DateTimeTrigger
from datetime import datetime, timezone

FAR = {"dag_id": "of_alpha", "include_prior_dates": True}

class Classic(BaseOperator):
    template_fields = ("text",)
    def __init__(self, text, **options):
        super().__init__(**options)
        self.text = text
    def execute(self, context):
        return [self.text, repr(context["ti"].xcom_pull("make", **FAR)["price"])]

class Defers(BaseOperator):
    def execute(self, context):
        self.defer(trigger=DateTimeTrigger(datetime(2020, 1, 1, tzinfo=timezone.utc)), method_name="go_on")
    def go_on(self, context, event=None):
        return context["ti"].xcom_pull("each", map_indexes=[2, 0], **FAR)

with DAG(DAG_ID, schedule=None):
    Classic(text="{{ ti.xcom_pull('make', dag_id='of_alpha', include_prior_dates=True)['price'] }}", task_id="classic")
    Defers(task_id="defers")

    @task
    def plain(ti):
        from aiosched.authoring.runtime.xcoms import TaskXCom as XCom
        value = XCom.get_one(task_id="make", **FAR)
        return [type(value["at"]).__name__, ti.xcom_pull("each", **FAR), ti.xcom_pull("make", dag_id="of_alpha")]

    @task
    async def later(ti):
        return await ti.axcom_pull("each", map_indexes=1, dag_id="of_alpha", run_id="r")

    plain()
    later()
"""
FOUND = {
    "classic": ["1.50", "Decimal('1.50')"],
    "defers": [30, 10],
    "plain": ["set", [10, 20, 30], None],
    "later": 20,
}
TEAMS = {"of_alpha": "alpha", "also_alpha": "alpha", "of_beta": "beta", "of_nobody": None}
ENGINE = pytest.param("engine", marks=pytest.mark.slow)


@contextlib.asynccontextmanager
async def serving(dsn: str, tmp_path: Path, kind: str) -> AsyncIterator[Scheduler]:
    """Teams alpha and beta, and a run `r` of the DAG of alpha that has ended."""
    settings, folder = Settings(), tmp_path / "dags"
    settings.core.home, settings.core.dags_folder, settings.database.dsn = tmp_path / "home", folder, dsn
    folder.mkdir()
    for dag_id in TEAMS:
        text = MAKES if dag_id == "of_alpha" else READS.replace("DAG_ID", repr(dag_id))
        (folder / f"{dag_id}.py").write_text(text)
    async with contextlib.AsyncExitStack() as stack:
        executor: Any = kind
        if kind == "engine":
            db = await stack.enter_async_context(await Database.open(dsn))
            executor = AgentEngine(folder, httpx2.ASGITransport(app=make_worker_api(db, settings)))
            stack.push_async_callback(executor.close)
        scheduler = await stack.enter_async_context(Scheduler(dags_folder=folder, executor=executor, settings=settings))
        await scheduler.read_folder()
        async with scheduler.db.acquire() as conn:
            await conn.execute("INSERT INTO team (name) VALUES ('alpha'), ('beta')")
            for dag_id, team in TEAMS.items():
                await conn.execute("UPDATE dag SET team = $2 WHERE dag_id = $1", dag_id, team)
        assert await (await scheduler.trigger("of_alpha", run_id="r")).wait(timeout=PATIENCE) == "success"
        yield scheduler


@pytest.mark.parametrize("kind", ["inline", pytest.param("local", marks=pytest.mark.slow), ENGINE])
async def test_a_dag_reads_those_of_its_team_and_no_other_in_whatever_way(dsn: str, tmp_path: Path, kind: str) -> None:
    async with serving(dsn, tmp_path, kind) as scheduler:
        for dag_id, state in {"also_alpha": "success", "of_beta": "failed", "of_nobody": "failed"}.items():
            run = await scheduler.trigger(dag_id, run_id=f"of_{dag_id}")
            assert await run.wait(timeout=PATIENCE) == state
            async with scheduler.db.acquire() as conn:
                rows = await conn.fetch(
                    """SELECT t.task_index, t.state, t.reason, x.value FROM task_instance AS t
                       JOIN dag_run AS r ON r.id = t.run_id
                       LEFT JOIN xcom AS x ON x.run_id = r.id AND x.task_index = t.task_index AND x.key = 'return_value'
                        WHERE r.dag_id = $1 ORDER BY t.task_index""",
                    dag_id,
                )
                names = await conn.fetchval(
                    "SELECT v.spec -> 'tasks' FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id"
                    " WHERE d.dag_id = $1",
                    dag_id,
                )
            results = {json.loads(names)[row["task_index"]]["task_id"]: row for row in rows}
            if dag_id == "also_alpha":
                assert {name: json.loads(row["value"]) for name, row in results.items()} == FOUND
                continue
            whose = "belongs to the team 'beta'" if dag_id == "of_beta" else "belongs to no team"
            for name, row in results.items():
                assert (row["state"], row["value"]) == ("failed", None), name
                words = (
                    f"XComs of the DAG 'of_alpha' are for DAGs of its team 'alpha'; '{dag_id}', which asks, {whose}."
                )
                assert words in row["reason"], (name, row["reason"])
