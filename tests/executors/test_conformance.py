"""The conformance suite (conformance.py) on every executor that comes with aiosched."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched.config import Settings
from aiosched.core.values.messages import Executor
from aiosched.db.server.engine import Database
from aiosched.executors.engines.engine import Engine
from aiosched.scheduler import Scheduler
from aiosched.web.server import ports, uvicorn_server
from aiosched.web.worker_api.endpoints import make_worker_api
from tests.database_roles import Roles, roles_of
from tests.engines.agents import AgentEngine
from tests.engines.brokers import on_broker, use
from tests.engines.celery_workers import CeleryWorkers
from tests.engines.dask_cluster import Cluster
from tests.engines.often import look_often
from tests.executors.conformance import EXPECTED, MANY, OUTCOMES, WAITING
from tests.network_namespace import CAN_ISOLATE, CANNOT_ISOLATE, network_namespace
from tests.patience import PATIENCE, until

HAS_DASK = importlib.util.find_spec("distributed") is not None
NO_DASK = "Dask is not installed: pip install distributed"
HAS_KUBERNETES = importlib.util.find_spec("kubernetes_asyncio") is not None
NO_KUBERNETES = "the client is not installed: pip install kubernetes_asyncio"


class Stage:
    """Settings, a folder for marks, and how to make the executor of a place."""

    def __init__(self, place: str, settings: Settings, folder: Path) -> None:
        self.place, self.settings, self.folder = place, settings, folder
        self.outlives = place not in ("inline", "local")
        self.has_processes = place != "inline"
        self.engine: AgentEngine | None = None

    def executor(self) -> str | Executor | Engine:
        if self.place.startswith("dask"):
            from aiosched.executors.engines.dask_engine import DaskEngine

            return DaskEngine(self.settings)
        if self.place.startswith("celery"):
            from aiosched.executors.celery.celery_engine import CeleryEngine

            return CeleryEngine(self.settings)
        if self.place == "kubernetes":
            from aiosched.executors.kubernetes.engine import KubernetesEngine

            return KubernetesEngine(self.settings)
        return self.engine or self.place

    def write(self, code: str, **values: Any) -> None:
        text = code.format(here=str(self.folder), **values)
        (self.settings.core.dags_folder / "dag.py").write_text(text)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Scheduler]:
        folder = self.settings.core.dags_folder
        async with Scheduler(dags_folder=folder, executor=self.executor(), settings=self.settings) as scheduler:
            await scheduler.read_folder()
            while not await rows(scheduler, "SELECT FROM dag WHERE version_id IS NOT NULL"):
                assert await rows(scheduler, "SELECT file, error FROM dag_file WHERE error IS NOT NULL") == []
                await asyncio.sleep(0.02)
            yield scheduler

    def calls(self) -> list[str]:
        """The tasks that began, sorted."""
        file = self.folder / "calls"
        return sorted(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    def forget_calls(self) -> None:
        """For the next scene: nothing has begun, and what begins waits again."""
        for name in ("calls", "go"):
            (self.folder / name).unlink(missing_ok=True)

    def log(self, task_id: str) -> str:
        return "".join(log.read_text() for log in self.settings.logs_folder.rglob(f"task_id={task_id}/*.log"))


def isolated(name: str) -> Any:
    """Workers in a network of their own, which has no way to PostgreSQL."""
    reason = CANNOT_ISOLATE if HAS_DASK else NO_DASK
    skips = pytest.mark.skipif(not (HAS_DASK and CAN_ISOLATE), reason=reason)
    return pytest.param(name, marks=[skips, pytest.mark.slow])


@pytest.fixture
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """Schedulers and the worker API have no more privileges than they need."""
    async with roles_of(dsn) as made:
        yield made


@pytest.fixture(
    params=[
        "local",
        "inline",
        "agents",
        pytest.param("dask", marks=[pytest.mark.skipif(not HAS_DASK, reason=NO_DASK), pytest.mark.slow]),
        isolated("dask elsewhere"),
        on_broker("redis", place="celery on redis"),
        on_broker("rabbitmq", place="celery on rabbitmq"),
        pytest.param(
            "kubernetes", marks=[pytest.mark.skipif(not HAS_KUBERNETES, reason=NO_KUBERNETES), pytest.mark.slow]
        ),
    ]
)
async def stage(
    request: pytest.FixtureRequest,
    roles: Roles,
    tmp_path: Path,
    kept_supervisors: None,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Stage]:
    """One executor, with two workers if it is an engine."""
    look_often(monkeypatch)
    settings = Settings()
    settings.core.home, settings.core.dags_folder = tmp_path / "home", tmp_path / "dags"
    settings.database.dsn = roles.scheduler
    settings.core.dags_folder.mkdir()
    settings.core.killed_task_cleanup_time = 0.5
    settings.core.parallelism = 200
    settings.executor.slots = 4
    settings.dask.workers = 2
    stage = Stage(request.param, settings, tmp_path)
    if not stage.outlives:
        yield stage
        return
    ended = asyncio.Event()
    async with await Database.open(roles.web, application_name="worker api") as db:
        api = make_worker_api(db, settings)
        if request.param == "agents":
            transport = httpx2.ASGITransport(app=api)
            stage.engine = AgentEngine(settings.core.dags_folder, transport, workers=2, slots=4)
            yield stage
            await stage.engine.close()
            return
        async with contextlib.AsyncExitStack() as stack:
            host, there, prefix = "127.0.0.1", "", tuple[str, ...]()
            if request.param == "dask elsewhere":
                host, there, prefix = stack.enter_context(network_namespace())
            sock = ports.bind(host, 0)
            serving = asyncio.create_task(uvicorn_server.serve(api, sock, ended))
            settings.executor.worker_api = ports.url_of(sock, host)
            if prefix:
                cluster = Cluster(settings, tmp_path, host=host, prefix=prefix)
                stack.callback(cluster.close)
                settings.dask.address = cluster.address
                cluster.scheduler()
                for name in ("first", "second"):
                    cluster.worker(name, "--no-nanny", "--host", there)
            if request.param.startswith("celery"):
                broker = request.getfixturevalue(request.param.removeprefix("celery on "))
                use(broker, settings, queue=f"of {tmp_path.name}")
                workers = CeleryWorkers(settings, tmp_path)
                stack.callback(workers.close)
                for name in ("first", "second"):
                    workers.start(name)
            if request.param == "kubernetes":
                await stack.enter_async_context(pods(settings, tmp_path))
            yield stage
            ended.set()
            await serving


@contextlib.asynccontextmanager
async def pods(settings: Settings, folder: Path) -> AsyncIterator[None]:
    """A cluster of one node behind an API server of Kubernetes; each pod is a process of its own."""
    from tests.engines.kubernetes_api import KubernetesApi
    from tests.engines.kubernetes_cluster import use

    api = KubernetesApi()
    await api.start()
    kubelet = use(api, settings, folder)
    yield
    await kubelet.close()
    await api.stop()


async def rows(scheduler: Scheduler, query: str, *args: object) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await scheduler.db.fetch(query, *args)]


INSTANCES = """
    SELECT v.spec -> 'tasks' -> ti.task_index ->> 'task_id', ti.state, ti.try_number, ti.reason, x.value, ti.map_index
      FROM task_instance AS ti
      JOIN dag_run AS r ON r.id = ti.run_id
      JOIN dag_version AS v ON v.id = r.version_id
      LEFT JOIN xcom AS x ON (x.run_id, x.task_index, x.map_index) = (ti.run_id, ti.task_index, ti.map_index)
     WHERE r.run_id = $1
     ORDER BY 1
"""
CHECKED = "SELECT task_id, try_number, status, message FROM asset_check ORDER BY task_id, try_number"


async def test_outcomes(stage: Stage) -> None:
    stage.write(OUTCOMES)
    async with stage.serving() as scheduler:
        run = await scheduler.trigger("outcomes", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        found = {row[0]: row for row in await rows(scheduler, INSTANCES, "r") if row[5] < 0}
        mapped = [row[1] for row in await rows(scheduler, INSTANCES, "r") if row[0] == "double"]
        rendered = await rows(scheduler, "SELECT fields -> 'templates_dict' ->> 'run' FROM rendered_fields")
        assert rendered == [("r",), ("r",)]
        assert await rows(scheduler, "SELECT count(*) FROM asset_event") == [(1,)]
        assert await rows(scheduler, CHECKED) == [
            ("passes_at_last", 1, "fail", ""),
            ("passes_at_last", 2, "pass", ""),
            ("warns", 1, "warn", "3 rows"),
        ]
        assert await rows(scheduler, "SELECT count(*) FROM task_report") == [(0,)]
        assert await rows(scheduler, "SELECT count(*) FROM engine_attempt") == [(0,)]
    for task_id, (state, tries, value, reason) in EXPECTED.items():
        _, found_state, found_tries, found_reason, found_value, _ = found[task_id]
        assert (task_id, found_state, found_tries) == (task_id, state, tries), found_reason
        assert reason in (found_reason or ""), task_id
        if value is not None:
            assert (task_id, json.loads(found_value)) == (task_id, value)
    assert sorted(mapped) == ["skipped", "success", "success"]


@pytest.mark.slow(but_first=True)
async def test_tasks_that_run_show_their_logs_and_end_when_their_results_are_not_wanted_or_they_are_killed(
    stage: Stage,
) -> None:
    """Three scenes, one after the other, beside the same workers."""
    if stage.place == "inline":
        stage.write(WAITING.replace("print(", "import logging; logging.getLogger('aiosched.task').info(").replace(
            ", flush=True", ""
        ))  # fmt: skip
    else:
        stage.write(WAITING)
    async with stage.serving() as scheduler:
        await a_log_can_be_read_while_its_task_runs(stage, scheduler)
        await a_task_whose_result_is_not_wanted_ends(stage, scheduler)
        if stage.has_processes:  # otherwise plain functions run in the scheduler's own process
            await a_process_that_is_killed_fails_its_task(stage, scheduler)


async def a_log_can_be_read_while_its_task_runs(stage: Stage, scheduler: Scheduler) -> None:
    run = await scheduler.trigger("waiting", run_id="logs")
    await until(lambda: "plain begins" in stage.log("plain"), "the log of the plain function")
    await until(lambda: "coroutine begins" in stage.log("coroutine"), "the log of the coroutine")
    stage.go()
    assert await run.wait(timeout=PATIENCE) == "success"
    assert stage.log("plain").count("begins") == 1
    stage.forget_calls()


async def a_task_whose_result_is_not_wanted_ends(stage: Stage, scheduler: Scheduler) -> None:
    await scheduler.trigger("waiting", run_id="unwanted")
    await until(lambda: len(stage.calls()) == 2, "both tasks")
    await scheduler.mark_task("waiting", "unwanted", "coroutine", "failed")
    if stage.has_processes:  # a thread cannot be ended
        await scheduler.mark_task("waiting", "unwanted", "plain", "failed")
    else:
        stage.go()
    await asyncio.wait_for(scheduler.wait_idle(), PATIENCE)
    states = {row[0]: row[1] for row in await rows(scheduler, INSTANCES, "unwanted")}
    assert states == {"coroutine": "failed", "plain": "failed" if stage.has_processes else "success"}
    stage.forget_calls()


async def a_process_that_is_killed_fails_its_task(stage: Stage, scheduler: Scheduler) -> None:
    await scheduler.trigger("waiting", run_id="killed")
    await until(lambda: len(stage.calls()) == 2, "both tasks")
    calls = [line.split() for line in (stage.folder / "calls").read_text().splitlines()]
    os.kill(next(int(pid) for name, pid in calls if name == "plain"), signal.SIGKILL)
    stage.go()
    await asyncio.wait_for(scheduler.wait_idle(), PATIENCE)
    found = {row[0]: (row[1], row[3] or "") for row in await rows(scheduler, INSTANCES, "killed")}
    assert found["plain"][0] == "failed"
    assert "SIGKILL" in found["plain"][1]
    assert found["coroutine"][0] == "success"


@pytest.mark.slow(but_first=True)
async def test_attempts_survive_the_end_of_their_scheduler_or_run_again(stage: Stage) -> None:
    if stage.place == "dask":
        pytest.skip("its own cluster ends with the scheduler; test_dask.py has a cluster that goes on")
    stage.write(WAITING)
    async with stage.serving() as first:
        await first.trigger("waiting", run_id="r")
        await until(lambda: len(stage.calls()) == 2, "both tasks")
        if stage.place == "inline":
            stage.go()  # its threads end with the process only
        await first.stop(grace=0.0)
    stage.go()
    async with stage.serving() as second:
        await asyncio.wait_for(second.wait_idle(), PATIENCE)
        found = {row[0]: row[1:3] for row in await rows(second, INSTANCES, "r")}
    if stage.outlives:
        assert found == {"plain": ("success", 1), "coroutine": ("success", 1)}
        assert stage.calls() == ["coroutine", "plain"]
    else:
        assert [state for state, _ in found.values()] == ["success"] * 2


@pytest.mark.slow(but_first=True)
async def test_thousands_of_quick_tasks_are_not_more_than_the_executor_takes(stage: Stage) -> None:
    count = 100 if os.environ.get("AIOSCHED_NIGHTLY") != "1" else 5_000
    if stage.place == "kubernetes":  # an interpreter starts for each of them, which takes a second of a processor
        count, stage.settings.kubernetes.max_pods = (4, 3) if count == 100 else (100, 20)
    stage.settings.core.max_map_length = 10_000
    stage.write(MANY, count=count)
    async with stage.serving() as scheduler:
        run = await scheduler.trigger("many", run_id="r")
        open_slots = []
        waiting = asyncio.ensure_future(run.wait(timeout=10 * PATIENCE))
        while not waiting.done():
            open_slots.append((scheduler.executor.open_slots, scheduler.executor.open_async_slots))
            await asyncio.sleep(0.01)
        assert await waiting == "success"
        assert min(min(pair) for pair in open_slots) >= 0
        assert await rows(scheduler, "SELECT state, count(*) FROM task_instance GROUP BY 1") == [("success", 2 * count)]
        assert await rows(scheduler, "SELECT count(*) FROM xcom") == [(2 * count,)]
