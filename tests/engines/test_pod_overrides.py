"""What a task may ask for of its pod, and what an author who is an enemy asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aiosched.core.values.worker_messages import Job
from aiosched.executors.kubernetes.manifests import PodOptions, PodRefused, pod_of

OPTIONS = PodOptions("aiosched", "flows", image="registry.example/aiosched:1")
NO_RIGHTS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
JOB = Job(id=12, token="t", urls=("http://api:8484",), title="sales.load r", team="sales")


def pod(override: dict[str, Any], *allows: str, team: str | None = "sales") -> dict[str, Any]:
    options = PodOptions("aiosched", "flows", image="registry.example/aiosched:1", override_allows=allows)
    job = msgspec.structs.replace(JOB, executor_config={"pod_override": override}, team=team)
    return pod_of(job, options, salt="s")


def spec(**parts: Any) -> dict[str, Any]:
    return {"spec": parts}


def container(**parts: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "base", **parts}])


def volume(**source: Any) -> dict[str, Any]:
    return spec(volumes=[{"name": "v", **source}])


ATTACKS = {
    "spec.serviceAccountName": spec(serviceAccountName="scheduler"),
    "spec.serviceAccount": spec(serviceAccount="scheduler"),
    "spec.automountServiceAccountToken": spec(automountServiceAccountToken=True),
    "spec.hostPID": spec(hostPID=True),
    "spec.hostNetwork": spec(hostNetwork=True),
    "spec.hostIPC": spec(hostIPC=True),
    "spec.hostUsers": spec(hostUsers=True),
    "spec.hostAliases.ip": spec(hostAliases=[{"ip": "10.0.0.1"}]),
    "spec.shareProcessNamespace": spec(shareProcessNamespace=True),
    "spec.nodeName": spec(nodeName="control-plane"),
    "spec.schedulerName": spec(schedulerName="mine"),
    "spec.priorityClassName": spec(priorityClassName="system-cluster-critical"),
    "spec.runtimeClassName": spec(runtimeClassName="weak"),
    "spec.imagePullSecrets.name": spec(imagePullSecrets=[{"name": "others"}]),
    "spec.ephemeralContainers.name": spec(ephemeralContainers=[{"name": "x"}]),
    "spec.dnsPolicy": spec(dnsPolicy="None"),
    "spec.securityContext.runAsNonRoot": spec(securityContext={"runAsNonRoot": False}),
    "spec.securityContext.seccompProfile": spec(securityContext={"seccompProfile": None}),
    "spec.securityContext.seccompProfile.type": spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "spec.securityContext.sysctls.name": spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "spec.securityContext.fsGroup": spec(securityContext={"fsGroup": 0}),
    "spec.securityContext": spec(securityContext=None),
    "spec.containers.securityContext": container(securityContext=None),
    "spec.containers.securityContext.privileged": container(securityContext={"privileged": True}),
    "spec.containers.securityContext.procMount": container(securityContext={"procMount": "Unmasked"}),
    "spec.containers.securityContext.allowPrivilegeEscalation": container(
        securityContext={"allowPrivilegeEscalation": True}
    ),
    "spec.containers.securityContext.capabilities.add": container(
        securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}
    ),
    "spec.initContainers.securityContext.privileged": spec(
        initContainers=[{"name": "i", "image": "i", "securityContext": {"privileged": True}}]
    ),
    "spec.containers.envFrom.secretRef.name": container(envFrom=[{"secretRef": {"name": "aiosched"}}]),
    "spec.containers.env.valueFrom.secretKeyRef.name": container(
        env=[{"name": "D", "valueFrom": {"secretKeyRef": {"name": "aiosched"}}}]
    ),
    "spec.containers.env.valueFrom.configMapKeyRef.name": container(
        env=[{"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c"}}}]
    ),
    "spec.containers.volumeDevices.name": container(volumeDevices=[{"name": "v", "devicePath": "/dev/sda"}]),
    "spec.containers.lifecycle.postStart.httpGet.host": container(
        lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254"}}}
    ),
    "spec.containers.livenessProbe.httpGet.host": container(livenessProbe={"httpGet": {"host": "10.0.0.1"}}),
    "spec.containers.ports.hostPort": container(ports=[{"containerPort": 80, "hostPort": 443}]),
    "spec.containers.ports.hostIP": container(ports=[{"containerPort": 80, "hostIP": "10.0.0.1"}]),
    "spec.initContainers.ports.hostPort": spec(
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always", "ports": [{"hostPort": 10250}]}]
    ),
    "spec.containers.resources.claims.name": container(resources={"claims": [{"name": "gpu-of-others"}]}),
    "spec.containers.volumeMounts.mountPropagation": container(
        volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]
    ),
    "spec.volumes.hostPath.path": volume(hostPath={"path": "/"}),
    "spec.volumes.secret.secretName": volume(secret={"secretName": "aiosched"}),
    "spec.volumes.configMap.name": volume(configMap={"name": "aiosched"}),
    "spec.volumes.projected.sources.serviceAccountToken.path": volume(
        projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}
    ),
    "spec.volumes.projected.sources.secret.name": volume(projected={"sources": [{"secret": {"name": "aiosched"}}]}),
    "spec.volumes.csi.driver": volume(csi={"driver": "secrets-store.csi.k8s.io"}),
    "spec.volumes.nfs.server": volume(nfs={"server": "10.0.0.1"}),
    "spec.volumes.persistentVolumeClaim.claimName": volume(persistentVolumeClaim={"claimName": "of-others"}),
    "metadata.annotations.iam.amazonaws.com/role": {"metadata": {"annotations": {"iam.amazonaws.com/role": "admin"}}},
    "metadata.finalizers": {"metadata": {"finalizers": ["example.org/never"]}},
    "metadata.labels.app.kubernetes.io/component": {"metadata": {"labels": {"app.kubernetes.io/component": "web"}}},
    "spec.containers.$patch": container(**{"$patch": "replace"}),
    "spec.$patch": spec(**{"$patch": "replace"}),
    "spec": {"spec": None},
    "spec.containers": spec(containers=None),
    "metadata": {"metadata": None},
    "extra": {"extra": 1},
}


@pytest.mark.parametrize(("part", "override"), ATTACKS.items(), ids=ATTACKS)
def test_what_reaches_beyond_its_pod_is_refused_by_its_name(part: str, override: dict[str, Any]) -> None:
    with pytest.raises(PodRefused) as refused:
        pod(override)
    assert str(refused.value).startswith(f"{part} in the pod_override of its executor_config is not allowed: ")
    assert "kubernetes.pod_override_allows" in str(refused.value)


def test_what_stays_within_its_pod_is_allowed() -> None:
    override = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"cost-centre": "7"}},
        "spec": {
            "containers": [
                {
                    "name": "base",
                    "image": "ours:2",
                    "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi", "nvidia.com/gpu": 1}},
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    ],
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                    "securityContext": {"runAsUser": 1234, "readOnlyRootFilesystem": True},
                },
                {"name": "proxy", "image": "proxy:1", "command": ["proxy"], "ports": [{"containerPort": 5432}]},
            ],
            "initContainers": [{"name": "first", "image": "busybox:1", "command": ["true"]}],
            "nodeSelector": {"gpu": "yes"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
            "activeDeadlineSeconds": 60,
        },
    }

    found = pod(override)

    assert found["spec"]["containers"][0]["image"] == "ours:2"
    assert found["spec"]["containers"][0]["securityContext"] == {
        **NO_RIGHTS,
        "runAsUser": 1234,
        "readOnlyRootFilesystem": True,
    }
    others = (found["spec"]["containers"][1], *found["spec"]["initContainers"])
    assert all(other["securityContext"] == NO_RIGHTS for other in others)
    assert found["spec"]["securityContext"]["runAsNonRoot"] is True


def test_settings_open_more_for_all_or_for_one_team() -> None:
    account, secret = spec(serviceAccountName="s3-reader"), volume(secret={"secretName": "warehouse"})

    assert pod(account, "spec.serviceAccountName")["spec"]["serviceAccountName"] == "s3-reader"
    assert pod(account, "sales:spec.serviceAccountName")["spec"]["serviceAccountName"] == "s3-reader"
    assert pod(secret, "spec.volumes.secret")["spec"]["volumes"][0]["secret"] == {"secretName": "warehouse"}
    for team in ("research", None):
        with pytest.raises(PodRefused, match=r"spec\.serviceAccountName"):
            pod(account, "sales:spec.serviceAccountName", team=team)
    for near in ("spec.serviceAccountNames", "spec.serviceAccount", "serviceAccountName", "spec.volumes.sec", ""):
        for override in (account, secret):
            with pytest.raises(PodRefused):
                pod(override, near)
    with pytest.raises(PodRefused, match="hostPath"):
        pod(volume(secret={}, hostPath={"path": "/"}), "spec.volumes.secret")


def test_the_template_of_an_administrator_is_not_limited() -> None:
    template = {"spec": {"serviceAccountName": "tasks", "hostNetwork": True}}
    options = PodOptions("aiosched", "flows", image="i", template=template)

    assert pod_of(JOB, options, salt="s")["spec"]["hostNetwork"] is True
