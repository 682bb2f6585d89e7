"""What is read from the status of a pod: how its attempt has ended, and why it does not start."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.executors.kubernetes.reasons import disruption, end_of, gone, is_node_lost, is_quota, trouble_of

Status = dict[str, Any]


def pod(status: Status, *, node: str | None = "n", **metadata: Any) -> Status:
    worker = {"name": "base", "image": "flows:1", "resources": {"limits": {"memory": "1Gi"}}}
    return {
        "metadata": {"name": "aiosched-1", **metadata},
        "spec": {"containers": [worker], **({"nodeName": node} if node else {})},
        "status": status,
    }


def container(state: str, **fields: Any) -> list[Status]:
    return [{"name": "sidecar", "state": {"running": {}}}, {"name": "base", "state": {state: fields}}]


def terminated(code: int, **fields: Any) -> Status:
    return {"phase": "Running", "containerStatuses": container("terminated", exitCode=code, **fields)}


def disrupted(reason: str, **fields: Any) -> list[Status]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, **fields}]


@pytest.mark.parametrize(
    ("status", "words", "is_certain", "is_success"),
    [
        (terminated(0, reason="Completed"), "ended with exit code 0", True, True),
        (terminated(1, reason="Error", message="a\n b "), "ended with exit code 1: a b", True, False),
        (terminated(4), "ended with exit code 4", False, False),
        (terminated(137, reason="OOMKilled"), "more memory than its limit of 1Gi (OOMKilled)", True, False),
        (terminated(128, reason="StartError", message="no such file"), "(StartError): no such file", True, False),
        (
            {**terminated(137), "phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            "was evicted from its node (Evicted): low on memory", True, False,
        ),
        ({**terminated(143), "conditions": disrupted("PreemptionByScheduler")}, "was preempted", True, False),
        ({**terminated(143), "conditions": disrupted("EvictionByEvictionAPI")}, "a drain of its node", True, False),
        ({**terminated(143), "conditions": disrupted("New")}, "ended by Kubernetes (New)", True, False),
        ({"phase": "Failed", "reason": "NodeLost"}, "was lost with its node (NodeLost)", False, False),
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "m"}, "failed (OutOfcpu): m", False, False),
        ({"phase": "Failed"}, "Kubernetes does not say why", False, False),
        (
            {**terminated(137, reason="ContainerStatusUnknown"), "phase": "Failed",
             "conditions": disrupted("DeletionByPodGC")},
            "its node was lost (DeletionByPodGC)", False, False,
        ),
        (
            {"phase": "Failed", "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 3}}}]},
            "before it began: init container 'fetch' ended with exit code 3", True, False,
        ),
    ],
)  # fmt: skip
def test_how_an_attempt_has_ended(status: Status, words: str, is_certain: bool, is_success: bool) -> None:
    end = end_of(pod(status), "base")
    assert end is not None
    assert words in end.reason
    assert end.reason.startswith("its pod aiosched-1 ")
    assert (end.is_certain, end.is_success) == (is_certain, is_success)


@pytest.mark.parametrize(
    "status",
    [{}, {"phase": "Pending"}, {"phase": "Running", "containerStatuses": container("running")}, {"phase": "Unknown"}],
)
def test_what_may_still_run_has_not_ended(status: Status) -> None:
    assert end_of(pod(status), "base") is None


def test_what_was_deleted_has_certainly_ended_only_if_somebody_saw_it() -> None:
    running = {"phase": "Running", "containerStatuses": container("running")}
    assert gone(pod(running), "base") == ("its pod aiosched-1 was deleted", False, False)
    assert gone(pod({"phase": "Pending"}, node=None), "base").is_certain
    assert gone(pod(terminated(143), deletionTimestamp="t"), "base").is_certain


def test_a_long_log_is_cut_at_its_beginning() -> None:
    end = end_of(pod(terminated(1, message="x" * 5000 + " the end")), "base")
    assert end is not None
    assert len(end.reason) < 700
    assert end.reason.endswith("the end")


@pytest.mark.parametrize(
    ("status", "words", "is_error", "is_final"),
    [
        (container("waiting", reason="ErrImagePull", message="m"), "its image flows:1 cannot be pulled", 1, 0),
        (container("waiting", reason="ImagePullBackOff"), "cannot be pulled (ImagePullBackOff)", 1, 0),
        (container("waiting", reason="InvalidImageName"), "(InvalidImageName)", 1, 1),
        (container("waiting", reason="ErrImageNeverPull"), "(ErrImageNeverPull)", 1, 1),
        (container("waiting", reason="CreateContainerConfigError"), "'base' cannot be started", 1, 0),
    ],
)  # fmt: skip
def test_why_a_container_does_not_start(status: list[Status], words: str, is_error: int, is_final: int) -> None:
    found = trouble_of(pod({"phase": "Pending", "containerStatuses": status}))
    assert found is not None
    assert words in found.reason
    assert (found.is_error, found.is_final) == (bool(is_error), bool(is_final))


def test_a_pod_without_a_node_waits_and_one_that_is_created_has_no_trouble() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    found = trouble_of(pod({"phase": "Pending", "conditions": [condition]}))
    assert found == ("no node takes it (Unschedulable): 0/3 nodes", False, False)
    waiting = container("waiting", reason="ContainerCreating")
    assert trouble_of(pod({"phase": "Pending", "containerStatuses": waiting})) is None
    assert trouble_of(pod({"phase": "Running", "containerStatuses": waiting})) is None


def test_whether_a_node_is_lost() -> None:
    assert is_node_lost(pod({"phase": "Unknown"}))
    assert is_node_lost(pod({"phase": "Running", "conditions": disrupted("DeletionByTaintManager")}))
    assert not is_node_lost(pod({"phase": "Running", "conditions": disrupted("PreemptionByScheduler")}))
    assert disruption(pod({"conditions": disrupted("PreemptionByScheduler", message="for p")})) == (
        "preempted for a pod of higher priority (PreemptionByScheduler): for p"
    )


def test_what_is_a_quota() -> None:
    assert is_quota(403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1')
    assert not is_quota(403, "User cannot create pods")
    assert not is_quota(422, "exceeded quota")
