"""The engine Kubernetes, with an API server that speaks the protocol, and pods that are real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.kubernetes.engine import KubernetesEngine
from tests.deploy.manifests import KUBERNETES, documents, problems
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_cluster import OneTask
from tests.engines.test_engine_attempts import LEFT, TRIES, VALUES, rows, serving, until
from tests.patience import PATIENCE

ROLE = KUBERNETES / "tasks" / "role.yaml"


async def test_tasks_run_in_pods_and_pass_values(settings: Settings, node: Kubelet) -> None:
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, "SELECT value FROM xcom ORDER BY task_index") == [("1",), ("2",)]
        assert await rows(scheduler, LEFT) == [(0,)]
        await until(lambda: not node.store.all("pods", "default"), "the deletion of both pods")
    assert not node.store.all("secrets", "default")
    assert [name.split("-", 2)[2] for name in node.started] == ["d-one", "d-two"]


async def test_pods_outlive_their_scheduler_and_the_next_one_adopts_them(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    async with serving(settings, KubernetesEngine(settings)) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
    async with serving(settings, KubernetesEngine(settings)) as second:
        one.go()
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 1, 0)]
    assert one.notes() == ["begins", "ends"]
    assert len(node.started) == 1


async def test_a_second_scheduler_leaves_the_pods_of_the_first_alone(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    async with serving(settings, KubernetesEngine(settings), name="first") as first:
        await first.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        async with serving(settings, KubernetesEngine(settings), name="second") as second:
            await until(lambda: second.executor.open_slots, "its watch")
            one.go()
            await first.wait_idle()
            await until(lambda: not node.store.all("pods", "default"), "the deletion of the pod")
            assert await rows(second, TRIES) == [("success", 1, 0)]
            assert await rows(second, LEFT) == [(0,)]
    assert one.notes() == ["begins", "ends"]


async def test_what_is_stored_has_no_token_but_in_a_secret_and_is_valid(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    engine = KubernetesEngine(settings)
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        (pod,), (secret,) = node.store.all("pods", "default"), node.store.all("secrets", "default")
        one.go()
        await scheduler.wait_idle()
    assert [*problems(pod), *problems(secret)] == []
    assert "token" not in str(pod)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    assert pod["metadata"]["annotations"]["aiosched.io/title"] == "d.waits r"


async def test_the_role_of_the_manifests_allows_what_the_engine_asks_for_and_nothing_else(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    one.go()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        await until(lambda: not node.store.all("pods", "default"), "the deletion of the pod")
    role = documents(ROLE)[0]
    allowed = {(verb, kind) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {*kube.seen, ("get", "pods"), ("patch", "pods")}  # one that exists already, or is idle


@pytest.mark.parametrize("has_started", [True, False])
async def test_a_task_that_is_cancelled_ends_with_its_pod(
    settings: Settings, node: Kubelet, one: OneTask, has_started: bool
) -> None:
    node.has_room = lambda pod: has_started
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: node.store.all("pods", "default") and (one.notes() or not has_started), "the pod")
        await scheduler.mark_task("d", "r", "waits", "failed")
        await scheduler.wait_idle()
        await until(lambda: not node.store.all("pods", "default"), "the deletion of the pod")
        assert await rows(scheduler, "SELECT state FROM task_instance") == [("failed",)]
    assert one.notes() == (["begins"] if has_started else [])


@pytest.mark.parametrize(
    ("policy", "fails", "is_left"), [("never", False, True), ("on success", False, False), ("on success", True, True)]
)
async def test_which_finished_pods_are_deleted(
    settings: Settings, node: Kubelet, one: OneTask, policy: str, fails: bool, is_left: bool
) -> None:
    settings.kubernetes.delete_pods = policy  # type: ignore[assignment]
    if fails:
        (settings.core.dags_folder / "d.py").write_text(VALUES.replace("return 1", "raise ValueError"))
    one.go()
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == ("failed" if fails else "success")
        phases = {"Failed" if fails else "Succeeded"} if is_left else set()
        await until(lambda: {pod["status"]["phase"] for pod in node.store.all("pods", "default")} == phases, "its end")


async def test_a_finished_pod_that_nobody_waits_for_is_deleted_after_a_while(
    settings: Settings, node: Kubelet, kube: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiosched.executors.kubernetes import held_pods
    from aiosched.executors.kubernetes.manifests import PodOptions, pod_of

    monkeypatch.setattr(held_pods, "ORPHANED_AFTER", 0.5)
    job = Job(id=7, token="t", urls=("http://127.0.0.1:1",), title="gone.gone r")
    pod = pod_of(job, PodOptions("aiosched", "default", image="aiosched"), salt="x")
    pod["spec"]["containers"][0] |= {"command": [sys.executable, "-c", ""], "args": [], "volumeMounts": []}
    pod["spec"]["volumes"] = []
    kube.store.create("pods", "default", pod)
    async with serving(settings, KubernetesEngine(settings)):
        await until(lambda: not node.store.all("pods", "default"), "the deletion of the pod")
    assert node.started == ["aiosched-7-gone-gone"]


# ---- what tasks and templates ask for


async def test_a_template_and_an_override_make_the_pod(
    settings: Settings, node: Kubelet, one: OneTask, tmp_path: Path
) -> None:
    template = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"team": "data"}},
        "spec": {
            "containers": [{"name": "base", "env": [{"name": n, "value": "template"} for n in ("FROM", "A")]}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
    }  # fmt: skip
    settings.kubernetes.pod_template_file = tmp_path / "pod.yaml"
    settings.kubernetes.pod_template_file.write_text(yaml.safe_dump(template))
    settings.kubernetes.namespaces = "others"
    container = {
        "env": [{"name": "FROM", "value": "override"}],
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}},
    }
    override = {"metadata": {"namespace": "others"}, "spec": {"containers": [container]}}
    one.write({"pod_override": override})
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        (pod,) = node.store.all("pods", "others")
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        await until(lambda: not node.store.all("pods", "others"), "the deletion of the pod")
    (worker,) = pod["spec"]["containers"]
    assert {each["name"]: each["value"] for each in worker["env"]} == {"FROM": "override", "A": "template"}
    assert worker["resources"] == container["resources"]
    assert pod["metadata"]["labels"]["team"] == "data"
    assert pod["spec"]["tolerations"] == template["spec"]["tolerations"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"pod_override": {"metadata": {"namespace": "foreign"}}}, "none of the namespaces default"),
        ({"pod_override": {"spec": {"containers": [{"name": "base", "resources": {"limits": "all"}}]}}}, "422 Invalid"),
        ({"pod_override": {"spec": {"hostNetwork": True}}}, "spec.hostNetwork in the pod_override of its"),
        ({"pod_override": [1]}, "is no Pod but list"),
    ],
)
async def test_a_task_that_asks_for_an_impossible_pod_fails_alone_with_the_reason(
    settings: Settings, node: Kubelet, one: OneTask, config: dict[str, object], reason: str
) -> None:
    one.write(config)
    with (settings.core.dags_folder / "d.py").open("a") as file:
        file.write(VALUES.replace('"d"', '"good"'))
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        bad, good = await scheduler.trigger("d", run_id="r"), await scheduler.trigger("good", run_id="r")
        assert await bad.wait(timeout=PATIENCE) == "failed"
        assert await good.wait(timeout=PATIENCE) == "success"
        (found,) = await rows(scheduler, "SELECT reason FROM task_instance WHERE state = 'failed'")
    assert "lost 3 times in a row" in found[0]
    assert reason in found[0]


async def test_a_pod_of_another_installation_is_left_alone_and_named(
    settings: Settings, node: Kubelet, one: OneTask, kube: KubernetesApi
) -> None:
    from aiosched.executors.kubernetes.manifests import PodOptions, pod_of

    node.has_room = lambda pod: False
    for number in range(1, 4):
        job = Job(id=number, token="another", urls=("http://127.0.0.1:1",), title="d.waits r")
        pod = pod_of(job, PodOptions("aiosched", "default", image="aiosched"), salt="x")
        kube.store.create("pods", "default", pod)
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        (found,) = await rows(scheduler, "SELECT reason FROM task_instance")
        assert "of another installation in namespace default" in found[0]
        assert "kubernetes.instance" in found[0]
    assert len(node.store.all("pods", "default")) == 3


# ---- settings


async def test_without_the_client_the_kind_says_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
    with pytest.raises(ConfigError, match=r"pip install 'aiosched\[kubernetes\]'"):
        KubernetesEngine(settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [("kind: Job", "one object of kind Pod"), ("a: [", "cannot be read"), ("kind: Pod\nspec: 3", "no object")],
)
async def test_a_template_that_is_none_is_named(settings: Settings, tmp_path: Path, text: str, words: str) -> None:
    settings.kubernetes.pod_template_file = tmp_path / "pod.yaml"
    settings.kubernetes.pod_template_file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        await KubernetesEngine(settings).start(lambda job, reason, *, certain=True: None)


async def test_a_kubeconfig_that_cannot_be_read_is_named(settings: Settings, tmp_path: Path) -> None:
    settings.kubernetes.kubeconfig = tmp_path / "missing"
    with pytest.raises(ConfigError, match=r"cannot read .*missing.*kubernetes\.kubeconfig"):
        await KubernetesEngine(settings).start(lambda job, reason, *, certain=True: None)
