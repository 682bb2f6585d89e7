"""The provider packages for HTTP and SQLite, as they are released, in DAG files of Airflow's dialect."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.providers.conftest import Run, walked
from tests.providers.service import Service, check_states

pytestmark = pytest.mark.timeout(1_800)

HTTP = """
from airflow import DAG
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.http.sensors.http import HttpSensor

with DAG("web", schedule="@once", catchup=False):
    wait = HttpSensor(task_id="wait", http_conn_id="local", endpoint="ready", poke_interval=0.1)
    plain = HttpOperator(
        task_id="plain", http_conn_id="local", endpoint="echo", method="POST", data="{{ dag.dag_id }}",
        response_filter=lambda response: response.json()["body"], log_response=True,
    )
    deferred = HttpOperator(
        task_id="deferred", http_conn_id="local", endpoint="echo", method="POST", data="deferred", deferrable=True,
    )
    wrong = HttpOperator(task_id="wrong", http_conn_id="local", endpoint="nowhere", method="GET", deferrable=True)
    wait >> [plain, deferred, wrong]
    HttpOperator(task_id="unknown", http_conn_id="nobody", endpoint="ready")
"""

SQL = """
from airflow import DAG
from airflow.providers.common.sql.operators.sql import (
    BranchSQLOperator, SQLCheckOperator, SQLColumnCheckOperator, SQLExecuteQueryOperator,
)
from airflow.providers.common.sql.sensors.sql import SqlSensor
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import task

with DAG("store", schedule=None, default_args={"conn_id": "base"}):
    make = SQLExecuteQueryOperator(task_id="make", sql=["CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1), (2)"])
    read = SQLExecuteQueryOperator(task_id="read", sql="SELECT id FROM t ORDER BY id")
    check = SQLCheckOperator(task_id="check", sql="SELECT COUNT(*) FROM t")
    columns = SQLColumnCheckOperator(
        task_id="columns", table="t", column_mapping={"id": {"null_check": {"equal_to": 0}, "max": {"equal_to": 2}}}
    )
    seen = SqlSensor(task_id="seen", sql="SELECT COUNT(*) FROM t", poke_interval=0.1)
    branch = BranchSQLOperator(
        task_id="branch", sql="SELECT 1", follow_task_ids_if_true="yes", follow_task_ids_if_false="no"
    )

    @task.sql
    def last():
        return "SELECT MAX(id) FROM t"

    make >> [read, check, columns, seen, last()]
    make >> branch >> [EmptyOperator(task_id="yes"), EmptyOperator(task_id="no")]
"""


class _Echo(http.server.BaseHTTPRequestHandler):
    """Returns the body of a POST; the second GET of /ready succeeds, and no other."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200 if self.path == "/ready" and len(self.asked) > 1 else 404)
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        answer = json.dumps({"body": body}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[int]:
    _Echo.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_http_operators_and_sensors_run_also_deferred(
    three_providers: Path, tmp_path: Path, dsn: str, web: int
) -> None:
    service = Service(three_providers, tmp_path, dsn)
    service.connect("local", conn_type="http", host="127.0.0.1", port=web)

    ran = service.run(HTTP, dag_id="web")

    success, failed = ("wait", "plain", "deferred"), ("wrong", "unknown")
    check_states(ran, {**dict.fromkeys(success, "success"), **dict.fromkeys(failed, "failed")})
    assert ran["plain"].result == "web"
    assert json.loads(ran["deferred"].result) == {"body": "deferred"}
    assert "404" in ran["wrong"].reason
    assert "'nobody'" in ran["unknown"].reason


def test_sql_operators_run_on_sqlite(three_providers: Path, tmp_path: Path, run_file: Run) -> None:
    base = tmp_path / "base.db"

    run = run_file(three_providers, SQL, AIRFLOW_CONN_BASE=json.dumps({"conn_type": "sqlite", "host": str(base)}))

    became = {name: one["state"] for name, one in run["tasks"].items()}
    assert became == {**dict.fromkeys(became, "success"), "no": "skipped"}, run
    assert run["tasks"]["read"]["xcoms"]["return_value"] == [[1], [2]]
    assert run["tasks"]["last"]["xcoms"]["return_value"] == [[2]]
    with sqlite3.connect(base) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)


def test_every_class_of_them_can_be_constructed_rendered_and_serialized(three_providers: Path) -> None:
    names = ("apache-airflow-providers-common-sql", "apache-airflow-providers-http")

    found = walked(three_providers, names)

    every = [one for ones in found.values() for one in ones]
    assert [one for one in every if one.stage] == []
    assert sum(one.is_task for one in every) >= 14
