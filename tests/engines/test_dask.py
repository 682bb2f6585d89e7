"""The engine Dask, with real Dask schedulers and workers, which are processes of their own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

from distributed.scheduler import KilledWorker

from aiosched import leftovers
from aiosched.config import Settings
from aiosched.errors import ConfigError
from aiosched.executors.engines import dask_client, dask_engine, dask_worker
from aiosched.executors.engines.agent import WorkerAgent
from aiosched.executors.engines.dask_client import DaskClient
from aiosched.executors.engines.dask_engine import DaskEngine, settings_of_workers
from aiosched.executors.engines.dask_messages import Begin
from aiosched.executors.engines.dask_process import Server
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


class Here:
    """In the place of a GuardedProcess: this process talks to Dask, so that tests can look at the client."""

    last: Here

    def __init__(self, module: str, **_: Any) -> None:
        Here.last = self
        self.control, self._theirs = socket.socketpair()
        self.client: DaskClient | None = None
        self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=self._theirs)
        server = Server(reader, writer, lambda has_cluster: None)
        serving = asyncio.create_task(server.serve())
        while server.client is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self.client = server.client
        await serving
        writer.close()

    def end(self) -> None: ...

    def await_end(self) -> str:
        return "ended"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> type[Here]:
    monkeypatch.setattr(dask_engine, "GuardedProcess", Here)
    monkeypatch.setattr(dask_client, "LOOK_EVERY", 0.3)
    return Here


async def connected(here: type[Here]) -> tuple[DaskClient, Any]:
    """Our client, and Dask's."""
    await until(lambda: here.last.client is not None, "the client")
    ours = here.last.client
    assert ours is not None
    return ours, await ours.connected()


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
    settings: Settings, cluster: Cluster, waits: Path, here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those with an older aiosched, which do not know the question."""
    monkeypatch.setattr(dask_client, "DIRECT_TIMEOUT", 0.2)
    monkeypatch.setattr(dask_worker, "TAKE_JOBS", "unknown")
    (waits / "go").touch()
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        ours, _ = await connected(here)
        assert ours._out_of_reach == ours._offers.keys()
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


async def test_a_scheduler_of_dask_that_restarts_at_once_costs_no_loss(
    settings: Settings, cluster: Cluster, waits: Path, here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's client joins the new one by itself, between two looks: it knows no plugin and no task."""
    (waits / "go").touch()
    monkeypatch.setattr(dask_client, "CONNECT_TIMEOUT", PATIENCE)  # the client's patience with the new one
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        await until(lambda: engine.slots, "the worker")
        (looking,) = [task for task in asyncio.all_tasks() if task.get_name() == "looks of Dask's client"]
        looking.cancel()
        ours, client = await connected(here)
        comm = client.scheduler_comm
        for name in ("first", "scheduler"):
            await asyncio.to_thread(cluster.kill, name)
        cluster.scheduler()
        cluster.worker("second", "--no-nanny")
        await until(lambda: client.scheduler_comm not in (None, comm) and client.status == "running", "the client")
        await until(lambda: client.status == "running", "the client")

        run = await scheduler.trigger("d", run_id="r")
        async with asyncio.timeout(PATIENCE):
            while not ours.threads:
                await ours._look(await ours.connected())  # as a timer does
        ours.looked.set()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


async def test_a_worker_that_has_no_agent_costs_no_loss(
    settings: Settings, cluster: Cluster, here: type[Here], caplog: pytest.LogCaptureFixture
) -> None:
    """The job of its Dask task is sent again, although Dask has kept its error."""
    (settings.core.dags_folder / "gpu.py").write_text(GPU.replace('(queue="gpu")', ""))
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        await until(lambda: engine.slots, "the worker")
        _, client = await connected(here)
        await client.unregister_worker_plugin("aiosched")
        run = await scheduler.trigger("gpu", run_id="r")
        await until(lambda: "ended without its job" in caplog.text, "its error")
        await client.register_plugin(dask_worker.AgentPlugin(None))
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (dask_worker.NotReady("closing"), False),
        (KilledWorker("aiosched-7", SimpleNamespace(address="tcp://w"), 3), False),
        (RuntimeError("no module named aiosched"), True),
        (None, True),
    ],
    ids=["no agent", "killed workers", "an error", "unknown"],
)
async def test_only_an_error_of_the_job_is_told(error: Exception | None, *, ends: bool) -> None:
    told = list[tuple[int, bool]]()
    client = DaskClient(Begin("tcp://nowhere:1"), lambda job, reason: told.append((job, reason is not None)))
    future = SimpleNamespace(status="error", _state=SimpleNamespace(exception=error))
    client._futures[7] = future
    client._done(7, future)
    assert told == [(7, ends)]
    assert not client._futures


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
    settings: Settings, cluster: Cluster, waits: Path, here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_client, "DIRECT_TIMEOUT", dask_client.CONNECT_TIMEOUT)  # a busy machine
    (waits / "go").touch()
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        await until(lambda: engine.slots, "the worker")
        ours, client = await connected(here)
        await client.run(dask_worker.take_jobs, [])  # its agent has started
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert ours._given.total() > 0
        assert ours._out_of_reach == set()


@pytest.mark.parametrize("wrong", [OSError("closed"), RuntimeError("ConnectionPool is closed"), {}, {"workers": 7}])
async def test_the_cluster_is_looked_at_again_whatever_was_wrong(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's client raises RuntimeError, too, when its connection is closed meanwhile; or it is no answer."""
    monkeypatch.setattr(dask_client, "LOOK_EVERY", 0.0)
    answers = iter([wrong])

    async def identity() -> dict[str, Any]:
        for each in answers:
            if isinstance(each, Exception):
                raise each
            return each  # type: ignore[no-any-return]
        return {"workers": {"tcp://w": {"nthreads": 2, "resources": {}, "metrics": {}}}}

    client = DaskClient(Begin("tcp://nowhere:1"), lambda job, reason: None)
    client._client = SimpleNamespace(
        status="running", scheduler_comm=None, scheduler=SimpleNamespace(identity=identity)
    )
    looking = asyncio.create_task(client.look_for_ever())
    await until(lambda: client.threads or looking.done(), "a look")
    assert client.threads == 2
    looking.cancel()


async def test_a_killed_process_that_talks_to_dask_loses_nothing_and_runs_nothing_twice(
    settings: Settings, cluster: Cluster, waits: Path
) -> None:
    engine = DaskEngine(settings)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        first = engine.process
        assert first is not None
        (talking,) = leftovers.children_of(first.pid)
        os.kill(talking, signal.SIGKILL)
        await until(lambda: engine.process not in (None, first) and engine.slots, "another one")
        await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
        (waits / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert leftovers.read_process(talking) is None
    assert sorted(calls(waits)) == ["coroutine", "plain"]
    assert engine.process is None


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
    with pytest.raises(dask_worker.NotReady, match="has no agent of aiosched"):
        await dask_worker._ready_plugin(SimpleNamespace(plugins={}))


def test_workers_of_our_own_cluster_get_no_secrets(settings: Settings) -> None:
    settings.secrets.fernet_keys, settings.database.dsn = "sesame", "postgresql://u:sesame@h/d"
    settings.web.admin_password, settings.logs.remote_options = "sesame", '{"secret": "sesame"}'
    given = settings_of_workers(settings)
    assert "sesame" not in str(given)
    assert Settings.model_validate(given).core.dags_folder == settings.core.dags_folder


async def test_without_dask_the_kind_says_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'aiosched\[dask\]'"):
        DaskEngine(settings)


async def test_a_scheduler_that_is_killed_loses_none_of_a_hundred_attempts(
    settings: Settings, cluster: Cluster, dsn: str, tmp_path: Path
) -> None:
    environment = {"AIOSCHED__DASK__ADDRESS": cluster.address}
    await check_that_a_killed_scheduler_loses_none(settings, dsn, tmp_path, "dask", environment)
