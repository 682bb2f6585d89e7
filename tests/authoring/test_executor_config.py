"""The executor_config of a task: JSON from dicts and from Kubernetes' objects, on its way to the engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from aiosched import DAG, task
from aiosched.authoring.base.executor_config import executor_config_as_json
from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.errors import DagError


def spec_of(config: Any) -> DagSpec:
    with DAG("d", schedule=None) as dag:

        @task(executor_config=config)
        def one() -> None: ...

        one()
    return dag.to_spec()


class Model:
    """An object as the Kubernetes clients for Python have them."""

    def __init__(self, names: dict[str, str], **values: Any) -> None:
        self.attribute_map = names
        for name in names:
            setattr(self, name, values.get(name))


def test_it_is_stored_with_the_task_and_only_if_there_is_one() -> None:
    config = {"pod_override": {"spec": {"containers": [{"name": "base", "env": []}]}}}
    spec = spec_of(config)
    assert spec.tasks[0].executor_config == config
    assert msgspec.json.decode(encode_spec(spec), type=DagSpec) == spec
    assert b"executor_config" not in encode_spec(spec_of(None))


def test_objects_of_kubernetes_clients_become_what_the_api_calls_them() -> None:
    container = Model(
        {"name": "name", "image_pull_policy": "imagePullPolicy", "args": "args"}, name="base", args=("a",)
    )
    spec = Model({"containers": "containers", "restart_policy": "restartPolicy"}, containers=[container])
    pod = Model({"spec": "spec", "created": "created"}, spec=spec, created=datetime(2026, 1, 1, tzinfo=UTC))
    assert spec_of({"pod_override": pod}).tasks[0].executor_config == {
        "pod_override": {
            "spec": {"containers": [{"name": "base", "args": ["a"]}]},
            "created": "2026-01-01T00:00:00+00:00",
        }
    }


@pytest.mark.slow
def test_a_pod_of_the_installed_client_is_read() -> None:
    client = pytest.importorskip("kubernetes_asyncio.client", reason="not installed: pip install kubernetes_asyncio")
    resources = client.V1ResourceRequirements(limits={"memory": "1Gi"})
    pod = client.V1Pod(
        spec=client.V1PodSpec(
            service_account_name="s", containers=[client.V1Container(name="base", resources=resources)]
        )
    )
    assert spec_of({"pod_override": pod}).tasks[0].executor_config == {
        "pod_override": {
            "spec": {
                "containers": [{"name": "base", "resources": {"limits": {"memory": "1Gi"}}}],
                "serviceAccountName": "s",
            }
        }
    }


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("text", "executor_config is a dict"),
        ({"a": [object()]}, r"executor_config\.a\[0\] is an object"),
        ({1: 2}, "has the key 1"),
        ({"a": float("inf")}, r"executor_config\.a is a float"),
    ],
)
def test_what_json_cannot_hold_is_refused_at_its_line(config: Any, words: str) -> None:
    with pytest.raises(DagError, match=words) as caught:
        spec_of(config)
    assert caught.value.line is not None


@pytest.mark.parametrize("given", ["2 GiB", "2GiB", 2 << 30, "2147483648 bytes"])
def test_a_memory_limit_becomes_bytes(given: object) -> None:
    assert executor_config_as_json({"memory_limit": given}, None) == {"memory_limit": 2 << 30}


def test_a_memory_limit_that_is_no_size_is_refused() -> None:
    with pytest.raises(DagError, match=r"executor_config\['memory_limit'\]: '2 GB' is no size: give bytes, or text"):
        executor_config_as_json({"memory_limit": "2 GB"}, None)
