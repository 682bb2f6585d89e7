"""The provider package for Kubernetes against the test API server, in the real service. For the night."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.providers.conftest import NIGHT, installed
from tests.providers.pods import PodsApi, PodsKubelet
from tests.providers.service import Ran, Service, check_states

pytestmark = NIGHT

SOURCE = """
from datetime import timedelta

from airflow import DAG
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.secret import Secret
from airflow.sdk import task

pods = {
    "kubernetes_conn_id": "cluster", "image": "tools:1", "random_name_suffix": True, "on_finish_action": "delete_pod",
    "poll_interval": 1,
}

with DAG("pods", schedule="@once", default_args=pods):
    plain = KubernetesPodOperator(
        task_id="plain", cmds=["sh", "-c"], arguments=["echo $WORD of {{ dag.dag_id }}; echo $PASSWORD | wc -c"],
        env_vars={"WORD": "greetings"}, secrets=[Secret("env", "PASSWORD", "bank", "password")],
    )
    result = KubernetesPodOperator(
        task_id="result", do_xcom_push=True, cmds=["sh", "-c"],
        arguments=['echo \\'{"n": 3}\\' > /airflow/xcom/return.json'],
    )
    deferred = KubernetesPodOperator(
        task_id="deferred", do_xcom_push=True, deferrable=True,
        cmds=["sh", "-c"], arguments=["echo deferred; echo [1] > /airflow/xcom/return.json"],
    )

    @task.kubernetes(image="python:3.11", do_xcom_push=True)
    def add(a, b):
        return {"sum": a + b}

    plain >> [result, deferred] >> add(1, 2)

    @task
    def hook():
        return KubernetesHook("cluster").get_namespace()

    hook()
    KubernetesPodOperator(
        task_id="wrong", cmds=["sh", "-c"], arguments=["echo broken; exit 3"], do_xcom_push=False,
    )
    KubernetesPodOperator(
        task_id="wrong_deferred", cmds=["sh", "-c"], arguments=["exit 4"], do_xcom_push=False, deferrable=True,
    )
    KubernetesPodOperator(
        task_id="long", cmds=["sleep"], arguments=["1000"], do_xcom_push=False, execution_timeout=timedelta(seconds=5),
    )
    KubernetesPodOperator(task_id="refused", kubernetes_conn_id="locked", cmds=["sh", "-c"], arguments=["true"])
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("pods") / "site", ["apache-airflow-providers-cncf-kubernetes"])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[PodsApi]:
    api = PodsApi()
    await api.start()
    kubelet = PodsKubelet(api, tmp_path / "pods")
    yield api
    await kubelet.close()
    await api.stop()


async def test_pods_run_fail_and_are_deleted(site: Path, tmp_path: Path, dsn: str, cluster: PodsApi) -> None:
    password = base64.b64encode(b"secret").decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bank"}, "data": {"password": password}}
    cluster.store.create("secrets", "default", secret)
    locked = cluster.connection()
    locked["extra"]["kube_config"] = locked["extra"]["kube_config"].replace(cluster.token, "wrong")
    service = Service(site, tmp_path, dsn)

    def run() -> dict[str, Ran]:
        service.connect("cluster", **cluster.connection())
        service.connect("locked", **locked)
        return service.run(SOURCE, dag_id="pods")

    ran = await asyncio.to_thread(run)

    failed = {"wrong", "wrong_deferred", "long", "refused"}
    check_states(ran, {name: "failed" if name in failed else "success" for name in ran})
    assert len(ran) == 9
    assert "greetings of pods" in ran["plain"].log
    assert ran["plain"].xcoms["pod_namespace"] == "default"
    assert ran["result"].result == {"n": 3}
    assert ran["deferred"].result == [1]
    assert ran["add"].result == {"sum": 3}
    assert ran["hook"].result == "default"
    assert "broken" in ran["wrong"].log
    assert "returned a failure" in ran["wrong"].reason
    assert "Unauthorized" in ran["refused"].reason
    assert cluster.store.all("pods", "default") == []
