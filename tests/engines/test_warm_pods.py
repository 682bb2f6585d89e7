"""Idle pods that wait for jobs: one job each, whoever gives it, and the worker that waits in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.kubernetes.engine import KubernetesEngine
from aiosched.executors.kubernetes.kube_api import KubeApi
from aiosched.executors.kubernetes.manifests import PodOptions, idle_pod, is_idle, job_of
from aiosched.executors.kubernetes.warm_pods import WarmPods
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_cluster import OneTask
from tests.engines.kubernetes_store import Refused
from tests.engines.test_engine_attempts import LEFT, TRIES, rows, serving, until
from tests.patience import PATIENCE

OPTIONS = PodOptions("aiosched", "default", image="aiosched")
JOBS = [Job(id=number, token=f"t{number}", urls=("http://127.0.0.1:1",), title=f"d.t{number} r") for number in (1, 2)]


def idle(kube: KubernetesApi) -> list[Any]:
    pods = kube.store.all("pods", "default")
    return [pod for pod in pods if is_idle(pod) and pod["status"]["phase"] == "Running"]


async def test_a_task_runs_in_a_pod_that_was_there_and_another_one_takes_its_place(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    settings.kubernetes.min_idle = 2
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await until(lambda: len(idle(kube)) == 2, "two idle pods")
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        (pod,) = [pod for pod in kube.store.all("pods", "default") if job_of(pod) is not None]
        assert pod["metadata"]["name"] in node.started[:2]
        assert pod["metadata"]["annotations"]["aiosched.io/title"] == "d.waits r"
        await until(lambda: len(idle(kube)) == 2, "a third pod")
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]
        assert await rows(scheduler, LEFT) == [(0,)]
        await until(lambda: len(kube.store.all("pods", "default")) == 2, "the deletion of the pod")
    assert not kube.store.all("secrets", "default")


async def test_a_pod_that_could_not_be_labelled_is_left_and_the_job_runs_once(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    settings.kubernetes.min_idle = 2
    refusals = iter([Refused(500, "InternalError", "etcd")])
    kube.refuses = lambda verb, kind: next(refusals, None) if verb == "patch" else None
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await until(lambda: len(idle(kube)) == 2, "two idle pods")
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]
    assert one.notes() == ["begins", "ends"]


async def test_a_task_with_an_override_has_a_pod_of_its_own(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    one.write({"pod_override": {"metadata": {"labels": {"team": "data"}}}})
    settings.kubernetes.min_idle = 1
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await until(lambda: len(idle(kube)) == 1, "an idle pod")
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
    assert len(node.started) == 2


# ---- without a kubelet


@pytest.fixture
async def connection(settings: Settings, kube: KubernetesApi, tmp_path: Any) -> AsyncIterator[KubeApi]:
    settings.kubernetes.kubeconfig, settings.kubernetes.requests_per_second = kube.kubeconfig(tmp_path), 500.0
    found = await KubeApi.connect(settings.kubernetes)
    yield found
    await found.close()


def running(kube: KubernetesApi, options: PodOptions = OPTIONS) -> Any:
    made = kube.store.create("pods", "default", idle_pod(options, salt="x"))
    return kube.store.update("pods", made, lambda pod: pod["status"].update(phase="Running"))


async def test_two_schedulers_never_give_a_pod_two_jobs(connection: KubeApi, kube: KubernetesApi) -> None:
    pod = running(kube)
    both = [WarmPods(connection, OPTIONS, 1) for _ in JOBS]
    for warm in both:
        warm.listed("default", [pod])
    given = await asyncio.gather(*(warm.give(job) for warm, job in zip(both, JOBS, strict=True)))
    (winner,) = [found for found in given if found is not None]
    (secret,) = kube.store.all("secrets", "default")
    assert secret["metadata"]["labels"]["aiosched.io/job"] == winner["metadata"]["labels"]["aiosched.io/job"]


async def test_a_pod_of_other_settings_is_not_used_and_replaced(connection: KubeApi, kube: KubernetesApi) -> None:
    pod = running(kube)
    warm = WarmPods(connection, PodOptions("aiosched", "default", image="aiosched:2"), 1)
    warm.listed("default", [pod])
    assert await warm.give(JOBS[0]) is None
    await warm.refill()
    (found,) = kube.store.all("pods", "default")
    assert found["spec"]["containers"][0]["image"] == "aiosched:2"


async def test_an_idle_pod_needs_a_worker_that_can_wait(settings: Settings, kube: KubernetesApi, tmp_path: Any) -> None:
    template = tmp_path / "pod.yaml"
    template.write_text("{kind: Pod, spec: {containers: [{name: base, image: a, args: [other]}]}}")
    settings.kubernetes.kubeconfig, settings.kubernetes.min_idle = kube.kubeconfig(tmp_path), 1
    settings.kubernetes.pod_template_file = template
    with pytest.raises(ConfigError, match=r"kubernetes\.min_idle.*args begin with worker run-attempt"):
        await KubernetesEngine(settings).start(lambda job, reason, *, certain=True: None)
