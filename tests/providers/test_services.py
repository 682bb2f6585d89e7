"""Operators of released provider packages against real services: PostgreSQL and Redis. For the night."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.engines.brokers import REDIS, WHY_NO_REDIS, RealBroker
from tests.providers.conftest import NIGHT, Run, installed

pytestmark = NIGHT

POSTGRES = """
from airflow import DAG
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator, SQLInsertRowsOperator
from airflow.providers.common.sql.sensors.sql import SqlSensor

with DAG("store", schedule=None, default_args={"conn_id": "base"}):
    make = SQLExecuteQueryOperator(task_id="make", sql="CREATE TABLE sales (id INT, day DATE)")
    fill = SQLInsertRowsOperator(task_id="fill", table_name="sales", rows=[(1, "2026-01-02"), (2, "2026-01-03")])
    seen = SqlSensor(task_id="seen", sql="SELECT COUNT(*) FROM sales", poke_interval=0.1)
    read = SQLExecuteQueryOperator(
        task_id="read", sql="SELECT id FROM sales WHERE day > %(day)s", parameters={"day": "2026-01-02"}
    )
    make >> fill >> seen >> read
"""

REDIS_DAG = """
from airflow import DAG
from airflow.providers.redis.operators.redis_publish import RedisPublishOperator
from airflow.providers.redis.sensors.redis_key import RedisKeySensor
from airflow.sdk import task

with DAG("queue", schedule=None):
    @task
    def put(day):
        from airflow.providers.redis.hooks.redis import RedisHook

        RedisHook(redis_conn_id="queue").get_conn().set("ready", day)

    publish = RedisPublishOperator(task_id="publish", redis_conn_id="queue", channel="days", message="{{ run_id }}")
    put("{{ ds }}") >> RedisKeySensor(task_id="seen", redis_conn_id="queue", key="ready", poke_interval=0.1) >> publish
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"apache-airflow-providers-{name}" for name in ("postgres", "redis")]
    return installed(tmp_path_factory.mktemp("services") / "site", names)


def states(run: object) -> set[str]:
    assert isinstance(run, dict)
    return {one["state"] for one in run["tasks"].values()}


async def test_sql_operators_run_on_postgresql(folder: Path, dsn: str, run_file: Run) -> None:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    fields = {
        "conn_type": "postgres",
        "host": parts.hostname or query["host"][0],  # the folder of a socket
        "login": parts.username,
        "password": parts.password,
        "port": parts.port or int(query["port"][0]),
        "schema": parts.path.removeprefix("/"),
    }

    run = run_file(folder, POSTGRES, AIRFLOW_CONN_BASE=json.dumps(fields))

    assert states(run) == {"success"}, run
    assert run["tasks"]["read"]["xcoms"]["return_value"] == [[2]]
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT COUNT(*) FROM sales") == 2
    await connection.close()


@pytest.mark.skipif(REDIS is None, reason=WHY_NO_REDIS)
def test_redis_operators_and_sensors_run(folder: Path, redis: RealBroker, run_file: Run) -> None:
    run = run_file(folder, REDIS_DAG, AIRFLOW_CONN_QUEUE=redis.url.replace("/0", ""))

    assert states(run) == {"success"}, run
