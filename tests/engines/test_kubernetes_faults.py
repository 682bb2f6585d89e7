"""The engine Kubernetes when pods, nodes, quotas and the API server fail: reasons are named, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiosched.config import Settings
from aiosched.executors.kubernetes import manifests, quota_queue
from aiosched.executors.kubernetes.engine import KubernetesEngine
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_cluster import LOST, OneTask
from tests.engines.kubernetes_store import Refused
from tests.engines.test_engine_attempts import LEFT, TRIES, rows, serving, until
from tests.patience import PATIENCE

ENDS: list[tuple[Callable[[Kubelet, Any], None], str]] = [
    (Kubelet.kill, "ended with exit code 137"),
    (Kubelet.run_out_of_memory, "more memory than its limit of 64Mi (OOMKilled)"),
    (Kubelet.evict, "ended by its node, which was short of resources"),
    (Kubelet.preempt, "preempted for a pod of higher priority"),
    (lambda node, pod: node.lose_node(pod, dies=True), "its node was lost"),
]


@pytest.fixture
def short_lease(settings: Settings) -> float:
    """Seconds. Ask for it before `node`: the worker API reads the setting when it starts."""
    settings.executor.worker_lease = 5.0
    return settings.executor.worker_lease


@pytest.mark.parametrize(("fault", "reason"), ENDS)
async def test_a_pod_that_ends_before_its_time_is_named_and_its_task_runs_again(
    settings: Settings,
    short_lease: float,
    node: Kubelet,
    one: OneTask,
    fault: Callable[[Kubelet, Any], None],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifests, "GRACE", 1)  # seconds that a pod which is preempted leaves to its task
    one.write({"pod_override": {"spec": {"containers": [{"resources": {"limits": {"memory": "64Mi"}}}]}}})
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        fault(node, node.pod())
        node.is_partitioned = False
        await until(lambda: one.notes() == ["begins", "begins"], "the second try")
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)]
        ((found,),) = await rows(scheduler, LOST)
        assert reason in found
    assert one.notes() == ["begins", "begins", "ends"]


async def test_a_pod_that_ends_while_there_is_no_scheduler_is_named_by_the_next_one(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    async with serving(settings, KubernetesEngine(settings)) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
    node.run_out_of_memory(node.pod())
    await until(lambda: node.pod()["status"]["phase"] == "Failed", "its end")
    async with serving(settings, KubernetesEngine(settings)) as second:
        one.go()
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 2, 0)]
        ((reason,),) = await rows(second, LOST)
    assert "OOMKilled" in reason
    assert one.notes() == ["begins", "begins", "ends"]


async def test_a_pod_on_a_node_that_is_cut_off_goes_on_while_it_reaches_the_worker_api(
    settings: Settings, short_lease: float, node: Kubelet, one: OneTask
) -> None:
    """The node runs on and reaches the worker API: the attempt is not lost, and not run a second time."""
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        node.lose_node(node.pod(), dies=False)
        ((end,),) = await rows(scheduler, "SELECT alive_until FROM engine_attempt")
        renewed = f"SELECT alive_until > '{end}'::timestamptz + interval '{short_lease} seconds' FROM engine_attempt"
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, renewed) != [(True,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]
    assert one.notes() == ["begins", "ends"]


@pytest.mark.parametrize("error", ["ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"])
async def test_an_image_that_cannot_be_started_fails_the_task_with_the_reason(
    settings: Settings, node: Kubelet, one: OneTask, error: str
) -> None:
    settings.kubernetes.startup_error_timeout = 0.2
    node.image_errors["aiosched"] = error
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        ((reason,),) = await rows(scheduler, "SELECT reason FROM task_instance")
        await until(lambda: not node.store.all("pods", "default"), "the deletion of all pods")
    assert "lost 3 times in a row: its pod aiosched-" in reason
    assert error in reason
    assert "aiosched" in reason


async def test_a_pod_that_no_node_takes_is_given_up(
    settings: Settings, node: Kubelet, one: OneTask, caplog: pytest.LogCaptureFixture
) -> None:
    settings.kubernetes.startup_timeout = 0.5
    node.has_room = lambda pod: False
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        ((reason,),) = await rows(scheduler, "SELECT reason FROM task_instance")
    assert "has not started" in reason
    assert "no node takes it (Unschedulable): 0/1 nodes are available: 1 Insufficient cpu." in reason
    assert [text for text in caplog.messages if "does not start: no node takes it" in text]


@pytest.fixture
def tries_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a quota has refused is tried again a moment later."""
    monkeypatch.setattr(quota_queue, "FIRST_PAUSE", 0.2)


async def test_a_quota_is_waited_for(
    tries_soon: None, settings: Settings, node: Kubelet, one: OneTask, caplog: pytest.LogCaptureFixture
) -> None:
    one.go()
    node.store.quotas["default"] = 0
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: [text for text in caplog.messages if "exceeded quota: few" in text], "the quota")
        node.store.quotas["default"] = 1
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]


async def test_a_quota_that_stays_exhausted_is_named_before_the_attempt_is_revoked(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    settings.scheduler.task_queued_timeout = 2.0
    node.store.quotas["default"] = 0
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        ((reason,),) = await rows(scheduler, "SELECT reason FROM task_instance")
    assert "refused by namespace default (403 Forbidden)" in reason
    assert "exceeded quota: few" in reason


async def test_a_quota_of_secrets_is_waited_for_without_a_loss(
    tries_soon: None, settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    refusals = iter([Refused(403, "Forbidden", 'secrets "x" is forbidden: exceeded quota: few')])
    kube.refuses = lambda verb, kind: next(refusals, None) if kind == "secrets" else None
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, LOST) == []
    assert one.notes() == ["begins", "ends"]


async def test_a_namespace_that_is_missing_or_forbidden_is_named(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    refusals = iter([Refused(403, "Forbidden", 'User "s" cannot create resource "pods"')] * 3)
    kube.refuses = lambda verb, kind: next(refusals, None) if (verb, kind) == ("create", "pods") else None
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        ((reason,),) = await rows(scheduler, "SELECT reason FROM task_instance")
    assert 'User "s" cannot create resource "pods"' in reason


async def test_a_worker_that_does_not_begin_leaves_the_end_of_its_log_in_the_reason(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    one.write({"pod_override": {"spec": {"containers": [{"args": ["worker", "run-attempt", "/no/such/file"]}]}}})
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        ((reason,),) = await rows(scheduler, "SELECT reason FROM task_instance")
    assert "ended with exit code 2" in reason
    assert "The job cannot be read from /no/such/file" in reason


async def test_a_pod_without_its_secret_is_completed_by_the_next_scheduler(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    kube.refuses = lambda verb, kind: Refused(500, "InternalError", "etcd") if kind == "secrets" else None
    async with serving(settings, KubernetesEngine(settings)) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: node.store.all("pods", "default"), "the pod")
    kube.refuses = lambda verb, kind: None
    async with serving(settings, KubernetesEngine(settings)) as second:
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 1, 0)]
    assert one.notes() == ["begins", "ends"]


async def test_a_server_that_asks_for_patience_gets_it(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await until(lambda: scheduler.executor.open_slots, "the watch")
        kube.retry_after = 2
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: kube.told_to_wait, "the first answer")
        await asyncio.sleep(1.0)  # in which nothing more is asked
        assert kube.told_to_wait == 1
        kube.retry_after = None
        assert await run.wait(timeout=PATIENCE) == "success"


async def test_a_token_that_was_replaced_is_read_again(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi, tmp_path: Path
) -> None:
    one.go()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await until(lambda: scheduler.executor.open_slots, "the watch")
        kube.token = "another"
        kube.kubeconfig(tmp_path)
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]


async def test_a_watch_goes_on_after_a_restart_and_lists_again_only_if_it_must(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"] and kube.bookmarks, "the task, and a bookmark")
        watches = kube.seen["watch", "pods"]
        await kube.stop()
        await kube.start()
        await until(lambda: kube.seen["watch", "pods"] > watches, "a second watch")
        assert kube.seen["list", "pods"] == 1
        await kube.stop()
        kube.store.version += 10
        kube.store.compact()
        await kube.start()
        await until(lambda: kube.seen["list", "pods"] == 2, "a second list")
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        await until(lambda: not node.store.all("pods", "default"), "the deletion of the pod")
        assert await rows(scheduler, TRIES) == [("success", 1, 0)]
        assert await rows(scheduler, LEFT) == [(0,)]
