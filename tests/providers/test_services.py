"""Operators of released provider packages against real services: PostgreSQL, Redis and S3. For the night."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.conftest import NIGHTLY
from tests.engines.brokers import REDIS, WHY_NO_REDIS, RealBroker
from tests.providers.conftest import Run, installed

pytestmark = [
    pytest.mark.skipif(not NIGHTLY, reason="installs many packages: set AIOSCHED_NIGHTLY=1"),
    pytest.mark.timeout(3_600),
]

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

S3 = """
from airflow import DAG
from airflow.providers.amazon.aws.operators.s3 import (
    S3CopyObjectOperator, S3CreateBucketOperator, S3CreateObjectOperator, S3ListOperator,
)
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor

with DAG("bucket", schedule=None, default_args={"aws_conn_id": "aws"}):
    make = S3CreateBucketOperator(task_id="make", bucket_name="shop", region_name="us-east-1")
    put = S3CreateObjectOperator(task_id="put", s3_bucket="shop", s3_key="day/{{ dag.dag_id }}", data="hello")
    copy = S3CopyObjectOperator(
        task_id="copy", source_bucket_name="shop", source_bucket_key="day/bucket",
        dest_bucket_name="shop", dest_bucket_key="b",
    )
    seen = S3KeySensor(task_id="seen", bucket_name="shop", bucket_key="day/*", wildcard_match=True, poke_interval=0.1)
    keys = S3ListOperator(task_id="keys", bucket="shop")
    make >> put >> copy >> seen >> keys
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"apache-airflow-providers-{name}" for name in ("postgres", "redis", "amazon")]
    return installed(tmp_path_factory.mktemp("services") / "site", names)


@pytest.fixture
def s3(folder: Path, tmp_path: Path) -> Iterator[str]:
    """A server of moto, which is installed into a folder of its own."""
    own = tmp_path / "moto"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(own), "moto[server,s3]"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(own)}
    with subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main()", "-p", str(port)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        for line in server.stdout:
            if "Running on" in line:
                break
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def states(run: object) -> set[str]:
    assert isinstance(run, dict)
    return {one["state"] for one in run["tasks"].values()}


async def test_sql_operators_run_on_postgresql(folder: Path, dsn: str, run_file: Run) -> None:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    fields = {
        "conn_type": "postgres",
        "host": parts.hostname or query["host"][0],
        "login": parts.username,
        "password": parts.password,
        "port": parts.port,
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


def test_s3_operators_and_sensors_run_against_moto(folder: Path, s3: str, run_file: Run) -> None:
    fields = {
        "conn_type": "aws",
        "login": "a",
        "password": "b",
        "extra": {"endpoint_url": s3, "region_name": "us-east-1"},
    }

    run = run_file(folder, S3, AIRFLOW_CONN_AWS=json.dumps(fields))

    assert states(run) == {"success"}, run
    assert run["tasks"]["keys"]["xcoms"]["return_value"] == ["b", "day/bucket"]
