"""Fixtures for engines: a worker API on the test's database, and an engine that delivers to agents in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.web.server import ports, uvicorn_server
from aiosched.web.worker_api.endpoints import make_worker_api
from tests.engines.agents import AgentEngine
from tests.engines.often import look_often
from tests.executors.conformance import WAITS
from tests.executors.kept_forkservers import KeptForkservers

if TYPE_CHECKING:
    from tests.engines.kubelet import Kubelet
    from tests.engines.kubernetes_api import KubernetesApi
    from tests.engines.kubernetes_cluster import OneTask


@pytest.fixture(scope="module")
def forkservers() -> Iterator[KeptForkservers]:
    kept = KeptForkservers()
    yield kept
    kept.end()


@pytest.fixture(autouse=True)
def agents_keep_their_forkservers(
    forkservers: KeptForkservers, kept_supervisors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers in this process begin with one that another test of the file had, and so do parsers."""
    monkeypatch.setattr("aiosched.executors.local.forkservers.ForkserverClient", forkservers)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines notice soon what has changed at their workers."""
    look_often(monkeypatch)


@pytest.fixture
def settings(tmp_path: Path, dsn: str) -> Settings:
    found = Settings()
    found.core.home, found.core.dags_folder, found.database.dsn = tmp_path / "home", tmp_path / "dags", dsn
    found.core.dags_folder.mkdir()
    found.core.killed_task_cleanup_time = 0.5
    found.parsing.min_file_process_interval = 0.1
    return found


@pytest.fixture
def short_lease(settings: Settings) -> None:
    """Workers may be silent for three seconds. Request it before the web server that grants the lease."""
    settings.executor.worker_lease = 3.0


@pytest.fixture
async def transport(settings: Settings, dsn: str) -> AsyncIterator[httpx2.ASGITransport]:
    """Requests to it reach the worker API."""
    async with await Database.open(dsn, application_name="worker api") as db:
        yield httpx2.ASGITransport(app=make_worker_api(db, settings))


@pytest.fixture
async def engine(settings: Settings, transport: httpx2.ASGITransport) -> AsyncIterator[AgentEngine]:
    engine = AgentEngine(settings.core.dags_folder, transport)
    yield engine
    await engine.close()


@pytest.fixture
async def worker_api(settings: Settings, dsn: str) -> AsyncIterator[str]:
    """The address of a web server with the worker API, for workers that are other processes."""
    ended = asyncio.Event()
    async with await Database.open(dsn, application_name="worker api") as db:
        sock = ports.bind("127.0.0.1", 0)
        serving = asyncio.create_task(uvicorn_server.serve(make_worker_api(db, settings), sock, ended))
        settings.executor.worker_api = ports.url_of(sock, "127.0.0.1")
        yield settings.executor.worker_api
        ended.set()
        await serving


@pytest.fixture
async def kube() -> AsyncIterator[KubernetesApi]:
    """An API server of Kubernetes with two namespaces."""
    from tests.engines.kubernetes_api import KubernetesApi

    found = KubernetesApi("default", "others")
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def node(settings: Settings, worker_api: str, kube: KubernetesApi, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """A node of its cluster that runs pods, and the settings to use it."""
    from tests.engines.kubernetes_cluster import use

    kubelet = use(kube, settings, tmp_path)
    yield kubelet
    await kubelet.close()


@pytest.fixture
def one(settings: Settings, tmp_path: Path) -> OneTask:
    """A DAG of one task that waits."""
    from tests.engines.kubernetes_cluster import OneTask

    return OneTask(settings, tmp_path)


@pytest.fixture
def waits(settings: Settings, tmp_path: Path) -> Path:
    """The DAG `d`, whose tasks wait for the file `go` in this folder; each call is a line of the file `calls`."""
    (settings.core.dags_folder / "d.py").write_text(WAITS.format(here=str(tmp_path)))
    return tmp_path
