"""Operators of released provider packages against real services: PostgreSQL and Redis. For the night."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.engines.brokers import REDIS, WHY_NO_REDIS, RealBroker
from tests.providers.conftest import NIGHT, installed
from tests.providers.service import Ran, Service, check_states

pytestmark = NIGHT

POSTGRES = """
from airflow import DAG
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator, SQLInsertRowsOperator
from airflow.providers.common.sql.sensors.sql import SqlSensor

with DAG("store", schedule="@once", catchup=False, default_args={"conn_id": "base"}):
    make = SQLExecuteQueryOperator(task_id="make", sql="CREATE TABLE sales (id INT, day DATE)")
    fill = SQLInsertRowsOperator(task_id="fill", table_name="sales", rows=[(1, "2026-01-02"), (2, "2026-01-03")])
    seen = SqlSensor(task_id="seen", sql="SELECT COUNT(*) FROM sales", poke_interval=0.1)
    read = SQLExecuteQueryOperator(
        task_id="read", sql="SELECT id FROM sales WHERE day > %(day)s", parameters={"day": "2026-01-02"}
    )
    make >> fill >> seen >> read
    SQLExecuteQueryOperator(task_id="wrong", sql="SELECT nothing FROM sales_of_nobody")
"""

REDIS_DAG = """
from airflow import DAG
from airflow.providers.redis.operators.redis_publish import RedisPublishOperator
from airflow.providers.redis.sensors.redis_key import RedisKeySensor
from airflow.sdk import task

with DAG("published", schedule="@once"):
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


async def test_sql_operators_run_on_postgresql(folder: Path, tmp_path: Path, dsn: str) -> None:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    service = Service(folder, tmp_path, dsn)

    def run() -> dict[str, Ran]:
        service.connect(
            "base",
            conn_type="postgres",
            host=parts.hostname or query["host"][0],  # the folder of a socket
            login=parts.username,
            password=parts.password,
            port=parts.port or int(query["port"][0]),
            schema=parts.path.removeprefix("/"),
        )
        return service.run(POSTGRES, dag_id="store")

    ran = await asyncio.to_thread(run)

    check_states(ran, {name: "failed" if name == "wrong" else "success" for name in ran})
    assert ran["read"].result == [[2]]
    assert "sales_of_nobody" in ran["wrong"].reason
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT COUNT(*) FROM sales") == 2
    await connection.close()


@pytest.mark.skipif(REDIS is None, reason=WHY_NO_REDIS)
def test_redis_operators_and_sensors_run(folder: Path, tmp_path: Path, dsn: str, redis: RealBroker) -> None:
    service = Service(folder, tmp_path, dsn)
    service.connect("queue", conn_type="redis", host="127.0.0.1", port=redis.port)

    ran = service.run(REDIS_DAG, dag_id="published")

    check_states(ran, dict.fromkeys(ran, "success"))
    assert len(ran) == 3
