"""The pod of a job: its name, what is merged into it, and what nobody can change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aiosched.core.values.worker_messages import Job
from aiosched.executors.kubernetes.manifests import (
    PodOptions,
    PodRefused,
    is_of,
    job_of,
    merged,
    name_of,
    pod_of,
    secret_of,
)
from tests.deploy.manifests import problems

OPTIONS = PodOptions("aiosched", "flows", ("gpu",), image="registry.example/aiosched:1", service_account="tasks")
JOB = Job(id=12, token="secret token", urls=("http://api:8484",), title="sales.load[3] scheduled__2026-01-01")


def with_override(**override: Any) -> Job:
    return msgspec.structs.replace(JOB, executor_config={"pod_override": override})


def test_a_pod_and_its_secret_are_valid_and_belong_together() -> None:
    pod = pod_of(JOB, OPTIONS, salt="ab12")
    assert problems(pod) == []
    pod["metadata"]["uid"] = "u-1"
    secret = secret_of(JOB, pod)
    assert problems(secret) == []
    (volume,) = pod["spec"]["volumes"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"] == "aiosched-12-sales-load-3-ab12"
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "aiosched-12-sales-load-3", "uid": "u-1"}
    ]
    assert msgspec.json.decode(secret["stringData"]["job.json"], type=Job) == JOB
    assert "secret token" not in str(pod)
    assert job_of(pod) == 12
    assert is_of(pod, JOB)
    assert not is_of(pod, msgspec.structs.replace(JOB, token="that of another database"))


def test_by_default_a_pod_has_no_rights() -> None:
    spec = pod_of(JOB, OPTIONS, salt="s")["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert spec["serviceAccountName"] == "tasks"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("sales.load r", "aiosched-12-sales-load"),
        ("Größe.Ünder_score[0] r", "aiosched-12-gr-e-nder-score-0"),
        ("", "aiosched-12"),
        ("x" * 200 + ".t r", "aiosched-12-" + "x" * 38),
        ("…", "aiosched-12"),
    ],
)
def test_a_name_is_readable_stable_and_allowed(title: str, name: str) -> None:
    assert name_of(msgspec.structs.replace(JOB, title=title), "aiosched") == name


def test_what_makes_it_the_pod_of_its_job_cannot_be_overridden() -> None:
    job = with_override(
        apiVersion="v2",
        metadata={"name": "mine", "labels": {"aiosched.io/job": "1", "team": "a"}, "ownerReferences": [], "uid": "u"},
        spec={"restartPolicy": "Always", "volumes": [{"name": "aiosched-job", "emptyDir": {}}]},
    )
    pod = pod_of(job, OPTIONS, salt="s")
    assert problems(pod) == []
    assert (pod["apiVersion"], pod["metadata"]["name"]) == ("v1", "aiosched-12-sales-load-3")
    assert job_of(pod) == 12
    assert pod["metadata"]["labels"]["team"] == "a"
    assert not {"uid", "ownerReferences"} & set(pod["metadata"])
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["volumes"][0]["secret"]["secretName"] == "aiosched-12-sales-load-3-s"


def test_containers_are_merged_by_name_and_one_without_a_name_is_the_workers() -> None:
    sidecar = {"name": "proxy", "image": "proxy:1"}
    job = with_override(spec={"containers": [sidecar, {"name": "base", "image": "other:2", "args": ["x"]}]})
    worker, proxy = pod_of(job, OPTIONS, salt="s")["spec"]["containers"]
    assert (worker["image"], worker["args"], proxy["image"]) == ("other:2", ["x"], "proxy:1")

    (worker,) = pod_of(with_override(spec={"containers": [{"image": "o"}]}), OPTIONS, salt="s")["spec"]["containers"]
    assert (worker["name"], worker["image"]) == ("base", "o")


def test_a_queue_is_a_namespace() -> None:
    def namespace(job: Job) -> str:
        return str(pod_of(job, OPTIONS, salt="s")["metadata"]["namespace"])

    assert namespace(JOB) == "flows"
    assert namespace(msgspec.structs.replace(JOB, queue="gpu")) == "gpu"
    assert namespace(with_override(metadata={"namespace": "gpu"})) == "gpu"
    with pytest.raises(PodRefused, match=r"its queue is 'x', which is none of the namespaces flows, gpu"):
        namespace(msgspec.structs.replace(JOB, queue="x"))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("text", "no Pod but str"),
        ({"spec": 3}, "spec in the pod_override"),
        ({"spec": {"containers": ["a"]}}, "no list of objects"),
        ({"metadata": {"namespace": "kube-system"}}, "none of the namespaces"),
    ],
)
def test_an_override_that_is_no_pod_is_refused(override: Any, words: str) -> None:
    job = msgspec.structs.replace(JOB, executor_config={"pod_override": override})
    with pytest.raises(PodRefused, match=words):
        pod_of(job, OPTIONS, salt="s")


@pytest.mark.parametrize(
    "override",
    [
        {"metadata": {"labels": ["x"]}},
        {"metadata": {"annotations": "x"}},
        {"spec": {"containers": [{"name": ["x"]}]}},
        {"spec": {"containers": {}}},
        {"spec": {"containers": None}},
    ],
)
def test_an_override_that_cannot_be_merged_is_the_fault_of_its_task(override: dict[str, Any]) -> None:
    with pytest.raises(PodRefused, match=r"its pod|pod_override"):
        pod_of(with_override(**override), OPTIONS, salt="s")


def test_without_an_image_the_settings_are_named() -> None:
    with pytest.raises(PodRefused, match=r"set kubernetes\.image"):
        pod_of(JOB, PodOptions("aiosched", "flows"), salt="s")


@pytest.mark.parametrize(
    ("base", "patch", "found"),
    [
        ({"a": 1, "b": 2}, {"b": None, "c": 3}, {"a": 1, "c": 3}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"env": [{"name": "A"}]}, {"env": [{"name": "B"}]}, {"env": [{"name": "A"}, {"name": "B"}]}),
        ({"env": [{"name": "A", "v": 1}]}, {"env": [{"name": "A", "x": 2}]}, {"env": [{"name": "A", "v": 1, "x": 2}]}),
        ({"tolerations": [1]}, {"tolerations": [2]}, {"tolerations": [2]}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        (
            {"volumeMounts": [{"mountPath": "/a", "name": "x"}]},
            {"volumeMounts": [{"mountPath": "/a", "name": "y"}]},
            {"volumeMounts": [{"mountPath": "/a", "name": "y"}]},
        ),
    ],
)  # fmt: skip
def test_merging_is_that_of_kubernetes(base: Any, patch: Any, found: Any) -> None:
    assert merged(base, patch) == found
