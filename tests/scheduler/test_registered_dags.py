"""DAGs that a process gives to its scheduler as objects: scheduler/registered_dags.py."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.authoring import DAG, BaseOperator
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError
from aiosched.executors.attempt.plans import plan_of
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE


class Greets(BaseOperator):
    template_fields = ("text",)

    def __init__(self, text: str, **options: Any) -> None:
        super().__init__(**options)
        self.text = text

    def execute(self, context: object) -> str:
        return self.text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["nightly"], "dags= takes DAG objects, not a str"),
        (
            [lambda: None],
            r"dags= takes DAG objects, not a function: call what @dag decorates, as in dags=\[nightly\(\)\]",
        ),
        ([DAG("d", schedule=None), DAG("d", schedule=None)], "dags= has two DAGs with the id 'd': give each its own"),
        (DAG("d", schedule=None), "dags= takes a list of DAG objects, not an? .*DAG"),
    ],
)
def test_what_is_no_list_of_dags_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scheduler(dags=wrong)


async def test_what_first_attempts_need_is_computed_at_the_start(dsn: str) -> None:
    with DAG("d", schedule=None) as dag:
        tasks = [Greets(text="{{ run_id }}", task_id="templated"), Greets(text="plain", task_id="plain")]

    async with Scheduler(dsn=dsn, dags=[dag]):
        assert set(dag._attempt_plans) == set(tasks)

    assert plan_of(tasks[0], dag).has_templates
    assert not plan_of(tasks[1], dag).has_templates


async def test_a_task_whose_template_is_broken_fails_and_the_others_run(dsn: str, db: Database) -> None:
    with DAG("d", schedule=None) as dag:
        Greets(text="{{ ti.xcom_pull( }}", task_id="broken")
        Greets(text="plain", task_id="plain")

    async with Scheduler(dsn=dsn, dags=[dag]) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
    query = "SELECT ti.task_index, ti.state FROM task_instance AS ti JOIN dag_run AS d ON d.id = ti.run_id"
    async with db.acquire() as conn:
        states = {dag.task_ids[row["task_index"]]: row["state"] for row in await conn.fetch(query)}

    assert states == {"broken": "failed", "plain": "success"}
