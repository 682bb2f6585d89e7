"""Many pods: their scheduler is killed, or the API server restarts, and each attempt runs once all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.executors.kubernetes.engine import KubernetesEngine
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_cluster import LOST
from tests.engines.test_engine_attempts import LEFT, calls, rows, serving
from tests.patience import PATIENCE

COUNT = 100 if os.environ.get("AIOSCHED_NIGHTLY") == "1" else 6  # each takes a second of a processor
GUARD = PATIENCE + 3 * COUNT

MANY = """
import time
from pathlib import Path
from aiosched import DAG, task

HERE = Path({here!r})

with DAG("many", schedule=None, max_active_tasks=1000):
    @task
    def waits(number):
        with (HERE / "calls").open("a") as file:
            file.write(f"{{number}}\\n")
        while not (HERE / "go").exists():
            time.sleep(0.05)
        return number

    waits.expand(number=list(range({count})))
"""


async def until(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(GUARD):
            while not condition():  # noqa: ASYNC110  pods are other processes
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited for {what}") from None


@pytest.fixture
def many(settings: Settings, tmp_path: Path) -> Path:
    """A DAG whose tasks note their number in the file `calls`, and wait for the file `go`, in this folder.

    Ask for it before `node`: the lease is so long that no worker loses it when a hundred of them start on two cores.
    """
    settings.executor.worker_lease = 120.0
    settings.core.parallelism = 200
    (settings.core.dags_folder / "many.py").write_text(MANY.format(here=str(tmp_path), count=COUNT))
    return tmp_path


class Schedulers:
    """Processes that serve the DAGs folder with pods."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, name: str) -> None:
        options, dsn = self.settings.kubernetes, self.settings.database.dsn
        environment = {
            "AIOSCHED__KUBERNETES__KUBECONFIG": str(options.kubeconfig),
            "AIOSCHED__KUBERNETES__IMAGE": str(options.image),
            "AIOSCHED__EXECUTOR__WORKER_API": self.settings.executor.worker_api,
            "AIOSCHED__EXECUTOR__SLOTS": "1",
            "AIOSCHED__EXECUTOR__WORKER_LEASE": str(self.settings.executor.worker_lease),
            "AIOSCHED__SCHEDULER__LEASE": "5",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiosched", "serve", "--role", "scheduler,parser", "--executor",
                 "kubernetes", "--dsn", str(dsn), "--dags", str(self.settings.core.dags_folder), "--name", name,
                 "--parallelism", "200"],
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder, env={**os.environ, **environment},
            )  # fmt: skip

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
async def schedulers(settings: Settings, tmp_path: Path) -> AsyncIterator[Schedulers]:
    found = Schedulers(settings, tmp_path)
    yield found
    for name in list(found.processes):
        await asyncio.to_thread(found.kill, name)


async def test_a_scheduler_that_is_killed_loses_none_of_its_pods(
    settings: Settings, many: Path, node: Kubelet, schedulers: Schedulers, dsn: str
) -> None:
    async with await Database.open(dsn) as db:

        async def rows_of(query: str) -> list[tuple[object, ...]]:
            return [tuple(row) for row in await db.fetch(query)]

        async def wait_for(query: str, what: str) -> None:
            try:
                async with asyncio.timeout(GUARD):
                    while await rows_of(query) != [(True,)]:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            except TimeoutError:
                raise AssertionError(f"waited for {what}") from None

        schedulers.serve("victim")
        await wait_for("SELECT count(*) = 1 FROM dag", "the DAG")
        async with db.acquire() as conn:
            await inbox.send_request(conn, verb="trigger", dag_id="many", args={"run_id": "r"}, requested_by="test")
            await inbox.notify(conn, "commands", [])
        await until(lambda: len(calls(many)) == COUNT, "all attempts")
        await asyncio.to_thread(schedulers.kill, "victim")
        schedulers.serve("heir")
        await wait_for("SELECT count(*) = 1 AND bool_and(name = 'heir') FROM scheduler", "the takeover")
        (many / "go").touch()
        await wait_for("SELECT state = 'success' FROM dag_run", "the end of the run")

        assert await rows_of(LOST) == []
        assert await rows_of("SELECT DISTINCT state, try_number, losses FROM task_instance") == [("success", 1, 0)]
        assert await rows_of(LEFT) == [(0,)]
    assert sorted(map(int, calls(many))) == list(range(COUNT))
    assert len(node.started) == COUNT


async def test_an_api_server_that_restarts_under_load_loses_and_repeats_nothing(
    settings: Settings, many: Path, node: Kubelet, kube: KubernetesApi
) -> None:
    (many / "go").touch()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("many", run_id="r")
        for fraction in (0.25, 0.5, 0.75):
            await until(lambda fraction=fraction: len(calls(many)) >= fraction * COUNT, "some of the attempts")
            await kube.stop()
            if fraction == 0.5:
                kube.store.compact()
            await asyncio.sleep(0.5)  # for which there is no API server
            await kube.start()
        assert await run.wait(timeout=GUARD) == "success"
        assert await rows(scheduler, LOST) == []
        found = await rows(scheduler, "SELECT DISTINCT state, try_number, losses FROM task_instance")
        assert found == [("success", 1, 0)]
        assert await rows(scheduler, LEFT) == [(0,)]
        await until(lambda: not kube.store.all("pods", "default"), "the deletion of all pods")
    assert sorted(map(int, calls(many))) == list(range(COUNT))


async def test_an_api_server_that_has_forgotten_its_pods_is_sent_them_again(
    settings: Settings, many: Path, node: Kubelet, kube: KubernetesApi
) -> None:
    """As after a restore of an old backup: what had not begun is sent again from the rows, what runs goes on."""
    node.has_room = lambda pod: False
    (many / "go").touch()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("many", run_id="r")
        await until(lambda: len(kube.store.all("secrets", "default")) == COUNT, "all pods")
        await kube.stop()
        for pod in kube.store.all("pods", "default"):
            kube.store.remove("pods", pod)
        kube.store.compact()
        node.has_room = lambda pod: True
        await kube.start()
        await until(lambda: kube.seen["list", "pods"] == 2, "a second list")
        await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
        assert await run.wait(timeout=GUARD) == "success"
        assert await rows(scheduler, LOST) == []
        found = await rows(scheduler, "SELECT DISTINCT state, try_number, losses FROM task_instance")
        assert found == [("success", 1, 0)]
    assert sorted(map(int, calls(many))) == list(range(COUNT))
