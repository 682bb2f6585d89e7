"""The subset of Airflow's REST API v2, called with Airflow's own published client. docs/migration.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import airflow_client.client as airflow
import httpx2
import pytest
from airflow_client.client.api.connection_api import ConnectionApi
from airflow_client.client.api.dag_api import DAGApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.api.monitor_api import MonitorApi
from airflow_client.client.api.pool_api import PoolApi
from airflow_client.client.api.task_instance_api import TaskInstanceApi
from airflow_client.client.api.variable_api import VariableApi
from airflow_client.client.api.version_api import VersionApi
from airflow_client.client.exceptions import ApiException
from airflow_client.client.models.clear_task_instances_body import ClearTaskInstancesBody
from airflow_client.client.models.connection_body import ConnectionBody
from airflow_client.client.models.dag_patch_body import DAGPatchBody
from airflow_client.client.models.dag_run_clear_body import DAGRunClearBody
from airflow_client.client.models.dag_run_patch_body import DAGRunPatchBody
from airflow_client.client.models.patch_task_instance_body import PatchTaskInstanceBody
from airflow_client.client.models.pool_body import PoolBody
from airflow_client.client.models.pool_patch_body import PoolPatchBody
from airflow_client.client.models.trigger_dag_run_post_body import TriggerDAGRunPostBody
from airflow_client.client.models.variable_body import VariableBody
from pydantic import BaseModel

from aiosched import DAG, task
from aiosched.config import Settings, WebSettings
from aiosched.db.crypto.keyring import new_key
from aiosched.db.server.engine import Database
from aiosched.remote.log_files import log_folder
from aiosched.scheduler import Scheduler
from aiosched.web.airflow_api import dags, pools, runs, secrets, tasks
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import ports, uvicorn_server

T = TypeVar("T")


def sales() -> DAG:
    @task
    async def extract() -> None: ...

    @task
    async def load(part: int) -> None:
        if part == 2:
            raise RuntimeError("the warehouse is closed")

    with DAG("sales", schedule=None, tags=["money"], description="What was sold") as dag:
        extract() >> load.expand(part=[1, 2])  # type: ignore[operator]
    return dag


def settings_with(home: Path, **web: Any) -> Settings:
    settings = Settings(web=WebSettings(airflow_api=True, **web))
    settings.core.home = home
    settings.secrets.fernet_keys = new_key()
    return settings


class Remote:
    """Airflow's client on a server, in threads."""

    def __init__(self, address: str, token: str = "any") -> None:
        self._client = airflow.ApiClient(airflow.Configuration(host=address, access_token=token))

    def __getattr__(self, name: str) -> Any:
        apis = {
            "dags": DAGApi, "runs": DagRunApi, "tasks": TaskInstanceApi, "variables": VariableApi,
            "connections": ConnectionApi, "pools": PoolApi, "version": VersionApi, "monitor": MonitorApi,
        }  # fmt: skip
        return apis[name](self._client)

    async def call(self, method: Callable[..., T], *args: Any, **options: Any) -> T:
        return await asyncio.to_thread(method, *args, **options)


@asynccontextmanager
async def served(db: Database, settings: Settings) -> AsyncIterator[str]:
    """A web server on a free port; its address."""
    app, ended = make_app(RequestClient(db, settings)), asyncio.Event()
    sock = ports.bind("127.0.0.1", 0)
    serving = asyncio.create_task(uvicorn_server.run(app, sock, ended))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        ended.set()
        await serving


@pytest.fixture
async def scheduler(answered: None, dsn: str, tmp_path: Path) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[sales()], settings=settings_with(tmp_path)) as scheduler:
        yield scheduler


@pytest.fixture
async def remote(db: Database, scheduler: Scheduler, tmp_path: Path) -> AsyncIterator[Remote]:
    async with served(db, settings_with(tmp_path, auth="none")) as address:
        yield Remote(address)


async def triggered(remote: Remote, scheduler: Scheduler, run_id: str = "one") -> Any:
    body = TriggerDAGRunPostBody(dag_run_id=run_id, logical_date=None, conf={"a": 1}, note="by hand")
    await remote.call(remote.runs.trigger_dag_run, "sales", body)
    await scheduler.wait_idle()
    return await remote.call(remote.runs.get_dag_run, "sales", run_id)


async def test_dags_are_listed_shown_and_paused(remote: Remote) -> None:
    found = await remote.call(remote.dags.get_dags, tags=["money"], dag_id_pattern="%sal%")
    one = await remote.call(remote.dags.get_dag, "sales")
    details = await remote.call(remote.dags.get_dag_details, "sales")
    paused = await remote.call(remote.dags.patch_dag, "sales", DAGPatchBody(is_paused=True))

    assert [dag.dag_id for dag in found.dags] == ["sales"]
    assert found.total_entries == 1
    assert (one.description, [tag.name for tag in one.tags], one.is_paused) == ("What was sold", ["money"], False)
    assert details.catchup is False
    assert paused.is_paused is True
    assert (await remote.call(remote.dags.get_dags, paused=False)).dags == []


async def test_a_run_is_triggered_listed_noted_and_marked(remote: Remote, scheduler: Scheduler) -> None:
    run = await triggered(remote, scheduler)
    await triggered(remote, scheduler, "two")

    assert (run.state, run.run_type, run.triggered_by, run.note, run.conf) == (
        "failed", "manual", "rest_api", "by hand", {"a": 1},
    )  # fmt: skip
    newest = await remote.call(remote.runs.get_dag_runs, "~", order_by=["-run_after"], limit=1)
    assert ([one.dag_run_id for one in newest.dag_runs], newest.total_entries) == (["two"], 2)
    failed = await remote.call(remote.runs.get_dag_runs, "sales", state=["failed"], offset=1)
    assert [one.dag_run_id for one in failed.dag_runs] == ["two"]
    marked = await remote.call(
        remote.runs.patch_dag_run, "sales", "one", DAGRunPatchBody(state="success", note="looked at it")
    )
    assert (marked.state, marked.note) == ("success", "looked at it")


async def test_task_instances_and_logs_are_read(remote: Remote, scheduler: Scheduler, tmp_path: Path) -> None:
    await triggered(remote, scheduler)
    folder = log_folder(tmp_path / "logs", dag_id="sales", run_id="one", task_id="extract")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attempt=1.log").write_text("read 3 rows\ndone\n")

    found = await remote.call(remote.tasks.get_task_instances, "sales", "one", order_by=["map_index"])
    mapped = await remote.call(remote.tasks.get_mapped_task_instance, "sales", "one", "load", 1)
    log = await remote.call(remote.tasks.get_log, "sales", "one", "extract", 1)

    assert [(one.task_id, one.map_index, one.state) for one in found.task_instances] == [
        ("extract", -1, "success"), ("load", 0, "success"), ("load", 1, "failed"),
    ]  # fmt: skip
    assert (mapped.state, mapped.try_number, mapped.pool) == ("failed", 1, "default_pool")
    assert [line.event for line in log.content.actual_instance] == ["read 3 rows", "done"]


async def test_clearing_is_tried_first_and_then_done(remote: Remote, scheduler: Scheduler) -> None:
    await triggered(remote, scheduler)
    body = ClearTaskInstancesBody.from_dict({"dag_run_id": "one", "task_ids": ["load"], "dry_run": True})

    planned = await remote.call(remote.tasks.post_clear_task_instances, "sales", body)
    assert [(one.task_id, one.map_index, one.state) for one in planned.task_instances] == [("load", 1, "failed")]
    body.dry_run = False
    await remote.call(remote.tasks.post_clear_task_instances, "sales", body)
    await scheduler.wait_idle()
    again = await remote.call(remote.tasks.get_mapped_task_instance, "sales", "one", "load", 1)
    whole = await remote.call(remote.runs.clear_dag_run, "sales", "one", DAGRunClearBody(dry_run=False))
    await scheduler.wait_idle()

    assert again.try_number == 2
    assert whole.actual_instance.dag_run_id == "one"
    extract = await remote.call(remote.tasks.get_task_instance, "sales", "one", "extract")
    assert extract.try_number == 2


async def test_a_task_instance_is_marked(remote: Remote, scheduler: Scheduler) -> None:
    await triggered(remote, scheduler)

    body = PatchTaskInstanceBody(new_state="success")
    found = await remote.call(remote.tasks.patch_task_instance_by_map_index, "sales", "one", "load", 1, body)

    assert [(one.map_index, one.state) for one in found.task_instances] == [(1, "success")]


async def test_variables_connections_and_pools_are_kept_and_secrets_are_not_shown(remote: Remote) -> None:
    await remote.call(remote.variables.post_variable, VariableBody(key="region", value="eu"))
    await remote.call(remote.variables.post_variable, VariableBody(key="api_token", value="sk-1234567"))
    await remote.call(remote.variables.patch_variable, "region", VariableBody(key="region", value={"a": 1}))
    body = ConnectionBody(connection_id="shop", conn_type="postgres", host="db", password="hunter22", schema="s")
    await remote.call(remote.connections.post_connection, body)
    await remote.call(remote.pools.post_pool, PoolBody(name="etl", slots=3))

    variables = await remote.call(remote.variables.get_variables, order_by=["key"])
    assert [(one.key, one.value) for one in variables.variables] == [("api_token", "***"), ("region", '{"a": 1}')]
    (shop,) = (await remote.call(remote.connections.get_connections)).connections
    assert (shop.connection_id, shop.host, shop.password, shop.var_schema) == ("shop", "db", "***", "s")
    pools = await remote.call(remote.pools.get_pools, order_by=["name"])
    assert [(one.name, one.slots) for one in pools.pools] == [("default_pool", 128), ("etl", 3)]
    with pytest.raises(ApiException) as refused:
        await remote.call(remote.pools.post_pool, PoolBody(name="etl", slots=4))
    assert refused.value.status == 409
    for delete, name in (
        (remote.variables.delete_variable, "region"), (remote.connections.delete_connection, "shop"),
        (remote.pools.delete_pool, "etl"),
    ):  # fmt: skip
        await remote.call(delete, name)
    with pytest.raises(ApiException) as gone:
        await remote.call(remote.variables.get_variable, "region")
    assert gone.value.status == 404


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (DAGPatchBody, dags.DagPatch), (DAGRunPatchBody, runs.RunPatch), (DAGRunClearBody, runs.RunClear),
        (TriggerDAGRunPostBody, runs.TriggerBody), (PoolBody, pools.PoolBody), (PoolPatchBody, pools.PoolPatch),
        (VariableBody, secrets.VariableBody), (ConnectionBody, secrets.ConnectionBody),
        (PatchTaskInstanceBody, tasks.TaskPatch), (ClearTaskInstancesBody, tasks.ClearBody),
    ],
)  # fmt: skip
def test_bodies_have_all_fields_of_airflows_client(theirs: type[BaseModel], ours: type[BaseModel]) -> None:
    sent = {field.alias or name for name, field in theirs.model_fields.items()} - {"additional_properties"}
    assert sent <= {field.alias or name for name, field in ours.model_fields.items()}


async def test_a_misspelt_field_is_refused_and_nothing_is_done(
    db: Database, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with served(db, settings_with(tmp_path)) as address, httpx2.AsyncClient(base_url=address) as client:
        body = {"logical_date": None, "config": {"day": 1}}
        answer = await client.post("/api/v2/dags/sales/dagRuns", json=body)
        found = await client.get("/api/v2/dags/sales/dagRuns")

    assert answer.status_code == 422
    assert "config" in answer.text
    assert "Did you mean conf?" in answer.text
    assert found.json()["total_entries"] == 0


async def test_dates_without_a_time_mean_what_they_mean_to_airflow(
    db: Database, scheduler: Scheduler, tmp_path: Path
) -> None:
    """In filters the first instant of the day, in UTC. Airflow refuses them where tasks are cleared: a whole day."""
    async with (
        served(db, settings_with(tmp_path, auth="none")) as address,
        httpx2.AsyncClient(base_url=f"{address}/api/v2/dags/sales/") as client,
    ):
        for hour in (0, 12):
            date = f"2026-01-05T{hour:02}:00:00Z"
            await client.post("dagRuns", json={"logical_date": date, "dag_run_id": f"at{hour}"})
        await scheduler.wait_idle()

        async def listed(**bounds: str) -> list[str]:
            found = await client.get("dagRuns", params=bounds)
            return [run["dag_run_id"] for run in found.json()["dag_runs"]]

        assert await listed(logical_date_gte="2026-01-05", logical_date_lte="2026-01-06") == ["at0", "at12"]
        assert await listed(logical_date_gte="2026-01-05", logical_date_lte="2026-01-05") == ["at0"]
        assert await listed(logical_date_gte="2026-01-05T01:00:00") == ["at12"]
        days = {"start_date": "2026-01-05", "end_date": "2026-01-05", "only_failed": False, "task_ids": ["extract"]}
        cleared = await client.post("clearTaskInstances", json=days)
        assert sorted(one["dag_run_id"] for one in cleared.json()["task_instances"]) == ["at0", "at12"]


async def test_version_and_health_are_open(remote: Remote) -> None:
    version = await remote.call(remote.version.get_version)
    health = await remote.call(remote.monitor.get_health)

    assert version.version.startswith("3.")
    assert (health.metadatabase.status, health.scheduler.status) == ("healthy", "healthy")


async def test_a_password_gets_a_token_and_without_one_nothing_is_shown(
    db: Database, scheduler: Scheduler, tmp_path: Path
) -> None:
    settings = settings_with(tmp_path, auth="password", admin_password="a long password")
    async with served(db, settings) as address, httpx2.AsyncClient(base_url=address) as client:
        with pytest.raises(ApiException) as refused:
            await Remote(address).call(Remote(address).dags.get_dags)
        wrong = await client.post("/auth/token", json={"username": "admin", "password": "nope"})
        answer = await client.post("/auth/token", json={"username": "admin", "password": "a long password"})
        known = Remote(address, answer.json()["access_token"])
        found = await known.call(known.dags.get_dags)

    assert (refused.value.status, wrong.status_code, answer.status_code) == (401, 401, 201)
    assert [dag.dag_id for dag in found.dags] == ["sales"]


async def test_it_is_not_there_unless_it_is_asked_for(api: httpx2.AsyncClient) -> None:
    assert (await api.get("http://localhost/api/v2/version")).status_code == 404
