"""An asset reads what the asset before it returned, as files for Airflow write it."""

from __future__ import annotations

import json
from pathlib import Path

from aiosched import Scheduler
from aiosched.config import Settings
from tests.patience import PATIENCE

FILE = """
from airflow.sdk import asset

@asset(schedule=None)
def first():
    return {"rows": 3}

@asset(schedule=first)
def second(context):
    return context["ti"].xcom_pull(dag_id="first", task_ids="first", include_prior_dates=True)["rows"] + 1
"""
VALUE = """
    SELECT x.value FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id
     WHERE r.run_id = 's' AND x.key = 'return_value'
"""


async def test_an_asset_reads_the_value_of_the_one_that_it_follows(dsn: str, tmp_path: Path) -> None:
    settings = Settings()
    settings.core.home, folder = tmp_path / "home", tmp_path / "dags"
    folder.mkdir()
    (folder / "assets.py").write_text(FILE)
    async with Scheduler(dsn=dsn, dags_folder=folder, executor="inline", settings=settings) as scheduler:
        await scheduler.read_folder()
        assert await (await scheduler.trigger("first", run_id="r")).wait(PATIENCE) == "success"
        assert await (await scheduler.trigger("second", run_id="s")).wait(PATIENCE) == "success"
        found = await scheduler.db.fetchval(VALUE)

    assert json.loads(found) == 4
