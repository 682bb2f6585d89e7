"""The engine Kubernetes, with an API server that speaks the protocol, and pods that are real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiosched.config import Settings
from aiosched.executors.kubernetes.engine import KubernetesEngine
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.test_engine_attempts import GUARD, LEFT, TRIES, VALUES, rows, serving, until


@pytest.fixture
async def api() -> AsyncIterator[KubernetesApi]:
    found = KubernetesApi("default", "others")
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def cluster(settings: Settings, worker_api: str, api: KubernetesApi, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """A cluster with one node, and the settings to use it."""
    options = settings.kubernetes
    options.kubeconfig, options.image, options.requests_per_second = api.kubeconfig(tmp_path), "aiosched", 500.0
    environment = {"AIOSCHED_DAGS": str(settings.core.dags_folder), "AIOSCHED__CORE__KILLED_TASK_CLEANUP_TIME": "0.5"}
    kubelet = Kubelet(api, tmp_path / "pods", environment)
    yield kubelet
    await kubelet.close()


async def test_tasks_run_in_pods_and_pass_values(settings: Settings, cluster: Kubelet) -> None:
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=GUARD) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, "SELECT value FROM xcom ORDER BY task_index") == [("1",), ("2",)]
        assert await rows(scheduler, LEFT) == [(0,)]
        await until(lambda: not cluster.store.all("pods", "default"), "the deletion of both pods")
    assert not cluster.store.all("secrets", "default")
    assert [name.split("-", 2)[2] for name in cluster.started] == ["d-one", "d-two"]
