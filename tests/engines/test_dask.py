"""The engine Dask, with real Dask schedulers and workers, which are processes of their own."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

from aiosched.config import Settings
from aiosched.errors import ConfigError
from aiosched.executors.engines import dask_engine, dask_worker
from aiosched.executors.engines.agent import WorkerAgent
from aiosched.executors.engines.dask_engine import DaskEngine
from tests.engines.dask_cluster import Cluster
from tests.engines.hundred_attempts import check_that_a_killed_scheduler_loses_none
from tests.engines.test_engine_attempts import LEFT, TRIES, VALUES, calls, rows, serving, until
from tests.patience import PATIENCE

MANY = """
import asyncio
from pathlib import Path
from aiosched import DAG, task

with DAG("many", schedule=None, max_active_tasks=1000):
    @task
    async def meet(number):
        with (Path({here!r}) / "met").open("a") as file:
            file.write(f"{{number}}\\n")
        while len((Path({here!r}) / "met").read_text().splitlines()) < 50:
            await asyncio.sleep(0.05)

    meet.expand(number=list(range(50)))
"""

GPU = """
from aiosched import DAG, task

with DAG("gpu", schedule=None):
    @task(queue="gpu")
    def where():
        import os
        return os.environ.get("PLACE")

    where()
"""


@pytest.fixture
async def cluster(settings: Settings, worker_api: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A Dask scheduler and one worker with two threads."""
    found = Cluster(settings, tmp_path)
    settings.dask.address = found.address
    found.scheduler()
    found.worker("first", "--no-nanny")
    yield found
    await asyncio.to_thread(found.close)


async def test_a_cluster_of_this_machine_runs_tasks(settings: Settings, worker_api: str) -> None:
    settings.dask.workers, settings.executor.slots = 1, 2
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, DaskEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, LEFT) == [(0,)]


async def test_workers_that_only_the_scheduler_of_dask_reaches_are_asked_through_it(
    settings: Settings, cluster: Cluster, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those with an older aiosched, which do not know the question."""
    monkeypatch.setattr(dask_engine, "DIRECT_TIMEOUT", 0.2)
    monkeypatch.setattr(dask_worker, "TAKE_JOBS", "unknown")
    (waits / "go").touch()
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert engine._out_of_reach == engine._workers.keys()
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


async def test_attempts_in_a_cluster_outlive_their_scheduler(settings: Settings, cluster: Cluster, waits: Path) -> None:
    async with serving(settings, DaskEngine(settings)) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
    async with serving(settings, DaskEngine(settings)) as second:
        (waits / "go").touch()
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 1, 0)] * 2

    assert sorted(calls(waits)) == ["coroutine", "plain"]


async def test_attempts_of_a_worker_that_was_killed_run_again_elsewhere(
    short_lease: None, settings: Settings, cluster: Cluster, waits: Path
) -> None:
    async with serving(settings, DaskEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        await asyncio.to_thread(cluster.kill, "first")
        cluster.worker("second", "--no-nanny")
        (waits / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2

    assert sorted(calls(waits)) == ["coroutine", "coroutine", "plain", "plain"]


async def test_a_cluster_that_was_restarted_is_sent_what_it_has_lost(
    settings: Settings, cluster: Cluster, waits: Path
) -> None:
    (waits / "go").touch()
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        await until(lambda: engine.slots, "the worker")
        for name in ("first", "scheduler"):
            await asyncio.to_thread(cluster.kill, name)
        run = await scheduler.trigger("d", run_id="r")
        cluster.scheduler()
        cluster.worker("second", "--no-nanny")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert [row[0] for row in await rows(scheduler, TRIES)] == ["success"] * 2


async def test_many_coroutines_run_in_a_worker_at_a_time(settings: Settings, cluster: Cluster, tmp_path: Path) -> None:
    settings.core.parallelism = 100
    (settings.core.dags_folder / "many.py").write_text(MANY.format(here=str(tmp_path)))
    async with serving(settings, DaskEngine(settings)) as scheduler:
        run = await scheduler.trigger("many", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"


async def test_the_queue_of_a_task_is_a_resource_of_workers(settings: Settings, cluster: Cluster) -> None:
    (settings.core.dags_folder / "gpu.py").write_text(GPU)
    cluster.worker("gpu", "--no-nanny", "--resources", "gpu=1", PLACE="with a gpu")
    async with serving(settings, DaskEngine(settings)) as scheduler:
        run = await scheduler.trigger("gpu", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, "SELECT value FROM xcom") == [('"with a gpu"',)]


@pytest.mark.parametrize("task_id", ["plain", "coroutine"])
async def test_a_task_that_is_cancelled_ends_in_its_worker(
    settings: Settings, cluster: Cluster, waits: Path, task_id: str
) -> None:
    async with serving(settings, DaskEngine(settings)) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        await scheduler.mark_task("d", "r", task_id, "failed")
        async with asyncio.timeout(PATIENCE):
            while len(await rows(scheduler, "SELECT FROM engine_attempt")) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        (waits / "go").touch()
        await scheduler.wait_idle()
        assert sorted(row[0] for row in await rows(scheduler, TRIES)) == ["failed", "success"]


async def test_a_cluster_that_cannot_be_reached_is_named_once_and_holds_up_nothing(
    settings: Settings, waits: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        settings.dask.address = f"tcp://127.0.0.1:{sock.getsockname()[1]}"
        engine = DaskEngine(settings)
        async with serving(settings, engine) as scheduler:
            await scheduler.trigger("d", run_id="r")
            await until(lambda: caplog.messages, "a warning")
            why = await scheduler.why("d", "r", "plain")
            await until(lambda: "slots open" in str(why), "the reason")
    warnings = [text for text in caplog.messages if "cannot be reached (dask.address)" in text]
    assert (len(warnings), engine.slots) == (1, 0)


async def test_a_worker_takes_jobs_without_the_scheduler_of_dask(
    settings: Settings, cluster: Cluster, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "DIRECT_TIMEOUT", dask_engine._CONNECT_TIMEOUT)  # a busy machine
    (waits / "go").touch()
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        await until(lambda: engine.slots, "the worker")
        await (await engine._connected()).run(dask_worker.take_jobs, [])  # its agent has started
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert engine._given.total() > 0
        assert engine._out_of_reach == set()


@pytest.mark.parametrize("error", [OSError, RuntimeError])
async def test_the_cluster_is_looked_at_again_whatever_was_wrong(
    error: type[Exception], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's client raises RuntimeError, too, when its connection is closed meanwhile."""
    monkeypatch.setattr(dask_engine, "LOOK_EVERY", 0.0)
    worker = {"nthreads": 2, "resources": {}, "metrics": {}}
    answers = iter([error("ConnectionPool is closed")])

    async def identity() -> dict[str, Any]:
        for wrong in answers:
            raise wrong
        return {"workers": {"tcp://w": worker}}

    async def close() -> None: ...

    engine = DaskEngine(settings)
    engine._client = SimpleNamespace(status="running", scheduler=SimpleNamespace(identity=identity), close=close)
    engine._looking = asyncio.create_task(engine._look_for_ever())
    await until(lambda: engine.slots or engine._looking.done(), "a look")
    assert engine.slots == 4
    await engine.stop()


async def test_a_worker_is_given_nothing_while_its_agent_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask answers for a worker, and so gives it jobs, before its plugins are set up."""
    can_start = asyncio.Event()
    monkeypatch.setattr(WorkerAgent, "start", lambda _: can_start.wait())
    plugin = dask_worker.AgentPlugin({})
    worker: Any = SimpleNamespace(plugins={"aiosched": plugin}, state=SimpleNamespace(nthreads=2), handlers={})
    starting = asyncio.create_task(plugin.setup(worker))
    waiting = asyncio.create_task(dask_worker._ready_plugin(worker))
    await asyncio.wait([starting, waiting], timeout=0)
    await asyncio.sleep(0)
    assert not waiting.done()

    can_start.set()
    await starting
    assert await waiting is plugin


async def test_a_task_that_comes_before_its_worker_is_ready_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiosched.executors.engines import dask_worker

    plugin = dask_worker.AgentPlugin(None)
    worker = SimpleNamespace(plugins={})
    waiting = asyncio.create_task(dask_worker._ready_plugin(worker))
    await asyncio.sleep(0)
    worker.plugins["aiosched"] = plugin
    await asyncio.sleep(0)
    assert not waiting.done()
    plugin.agent = object()  # type: ignore[assignment]
    assert await waiting is plugin

    monkeypatch.setattr(dask_worker, "READY_WITHIN", 0.0)
    with pytest.raises(RuntimeError, match="has no agent of aiosched"):
        await dask_worker._ready_plugin(SimpleNamespace(plugins={}))


def test_workers_of_our_own_cluster_get_no_secrets(settings: Settings) -> None:
    settings.secrets.fernet_keys, settings.database.dsn = "sesame", "postgresql://u:sesame@h/d"
    settings.web.admin_password, settings.logs.remote_options = "sesame", '{"secret": "sesame"}'
    engine = DaskEngine(settings)
    engine._cluster = object()
    given = engine._settings_of_workers()
    assert given is not None
    assert "sesame" not in str(given)
    assert Settings.model_validate(given).core.dags_folder == settings.core.dags_folder


async def test_without_dask_the_kind_says_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'aiosched\[dask\]'"):
        DaskEngine(settings)


async def test_a_scheduler_that_is_killed_loses_none_of_a_hundred_attempts(
    settings: Settings, cluster: Cluster, dsn: str, tmp_path: Path
) -> None:
    environment = {"AIOSCHED__DASK__ADDRESS": cluster.address}
    await check_that_a_killed_scheduler_loses_none(settings, dsn, tmp_path, "dask", environment)
