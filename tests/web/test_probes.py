"""Health and metrics: what is read decides, and the status codes are honest."""

from __future__ import annotations

import httpx2
import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from aiosched import DAG, task
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from tests.cli.records import add_file, add_scheduler


@pytest.fixture
def probe(api: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """A client of the addresses outside of the API."""
    api.base_url = httpx2.URL("http://localhost/")
    return api


async def test_whoever_answers_is_alive(probe: httpx2.AsyncClient) -> None:
    assert (await probe.get("livez")).status_code == 200


async def test_without_a_scheduler_nothing_is_ready_and_the_remedy_is_named(probe: httpx2.AsyncClient) -> None:
    answer = await probe.get("readyz")

    assert answer.status_code == 503
    assert answer.json()["components"]["schedulers"]["fix"] == "aiosched serve"
    assert (await probe.get("readyz", params={"scheduler": False})).status_code == 200


async def test_with_a_scheduler_everything_is_healthy(db: Database, probe: httpx2.AsyncClient) -> None:
    conn = await db.connect()
    await add_scheduler(db, "one", locked=conn)

    ready, health = await probe.get("readyz"), await probe.get("health")

    assert (ready.status_code, health.status_code) == (200, 200)
    assert health.json()["status"] == "healthy"
    assert [row["name"] for row in health.json()["schedulers"]] == ["one"]
    await conn.close()


@pytest.mark.parametrize(("others", "status", "code"), [(0, "unhealthy", 503), (1, "degraded", 200)])
async def test_what_keeps_a_scheduler_from_its_work_is_told(
    db: Database, probe: httpx2.AsyncClient, others: int, status: str, code: int
) -> None:
    conns = [await db.connect() for _ in range(1 + others)]
    for number, conn in enumerate(conns):
        await add_scheduler(db, f"s{number}", locked=conn)
    async with db.acquire() as conn:
        figures = '{"trouble": "ValueError: no"}'
        await conn.execute("UPDATE scheduler SET figures = $1 WHERE name = 's0'", figures)

    answer = await probe.get("readyz")

    part = answer.json()["components"]["schedulers"]
    assert (answer.status_code, part["status"]) == (code, status)
    assert "s0 (ValueError: no)" in part["detail"]
    for conn in conns:
        await conn.close()


@pytest.mark.parametrize("broken", ["list_schedulers", "parsing_summary", "check_schema"])
async def test_what_keeps_the_web_server_itself_from_knowing_is_told(
    probe: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    async def fail(db: Database) -> None:
        raise ValueError("a bug of this server")

    monkeypatch.setattr(f"aiosched.web.views.health.{broken}", fail)

    ready, health = await probe.get("readyz"), await probe.get("health")

    assert (ready.status_code, health.status_code) == (503, 503)
    for answer in (ready, health):
        detail = answer.json()["components"]["database"]["detail"]
        assert detail == "this server cannot read it: ValueError: a bug of this server"


async def test_a_file_with_errors_degrades_the_parser_and_nothing_else(db: Database, probe: httpx2.AsyncClient) -> None:
    conn = await db.connect()
    await add_scheduler(db, "one", locked=conn)
    await add_file(db, "broken.py", error="SyntaxError")

    answer = await probe.get("health")

    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"
    assert answer.json()["components"]["parser"]["fix"] == "aiosched dags errors"
    await conn.close()


async def test_what_a_scheduler_says_of_its_machine_degrades_the_schedulers_and_keeps_them_ready(
    db: Database, probe: httpx2.AsyncClient
) -> None:
    conn = await db.connect()
    figures = msgspec.json.encode({"remarks": ["lacks a.py, which two has", "has a clock"]}).decode()
    await add_scheduler(db, "one", locked=conn)
    await conn.execute("UPDATE scheduler SET figures = $1::json", figures)

    ready, health = await probe.get("readyz"), await probe.get("health")

    assert (ready.status_code, health.status_code) == (200, 200)
    found = health.json()["components"]["schedulers"]
    assert (found["status"], found["fix"]) == ("degraded", "aiosched doctor")
    assert found["detail"] == "one lacks a.py, which two has; one has a clock"
    await conn.close()


async def test_a_schema_that_is_missing_is_told(db: Database, probe: httpx2.AsyncClient) -> None:
    await db.execute("DELETE FROM alembic_version")

    answer = await probe.get("health")

    assert answer.status_code == 503
    assert "aiosched db migrate" in answer.json()["components"]["database"]["detail"]
    assert answer.json()["components"]["schedulers"]["status"] == "unknown"


async def test_a_database_that_is_gone_is_told(app: FastAPI, db: Database, probe: httpx2.AsyncClient) -> None:
    await db.close()

    answer = await probe.get("health")

    assert answer.status_code == 503
    assert answer.json()["components"]["database"]["status"] == "unhealthy"


MUST_EXIST = """
    scheduler_heartbeat_timestamp_seconds journal_commit_seconds journal_batch_size critical_section_seconds
    task_lag_seconds tasks task_finished pool_slots tasks_starving dagrun_schedule_delay_seconds lost_attempts
    takeovers parse_seconds import_errors loop_lag_seconds
"""


async def test_the_metrics_of_a_fleet_are_in_one_answer(
    dsn: str, probe: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    @task
    async def ping() -> None: ...

    with DAG("pinging", schedule=None) as dag:
        ping()

    async with Scheduler(dsn=dsn, dags=[dag], name="one") as scheduler:
        await (await scheduler.trigger("pinging")).wait()
        figures = msgspec.json.encode(scheduler.figures()).decode()
        await scheduler.db.execute("UPDATE scheduler SET figures = $1", figures)
        text = (await probe.get("metrics")).text

    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {f"aiosched_{name}" for name in MUST_EXIST.split()} <= families.keys()
    finished = {
        s.labels["state"]: s.value for s in families["aiosched_task_finished"].samples if s.name.endswith("_total")
    }
    assert finished == {"success": 1.0}
    lag = {s.name: s.value for s in families["aiosched_task_lag_seconds"].samples if not s.name.endswith("_bucket")}
    assert lag["aiosched_task_lag_seconds_count"] == 1.0
    pools = {(s.labels["pool"], s.labels["kind"]): s.value for s in families["aiosched_pool_slots"].samples}
    assert pools["default_pool", "open"] == 128
