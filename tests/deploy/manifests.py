"""The manifests of deploy/kubernetes as data: as they are written, and as kustomize renders them where it is there."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import yaml

from tests.deploy.compose import ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
KUSTOMIZATIONS: Final = sorted(path.parent for path in KUBERNETES.rglob("kustomization.yaml"))
OVERLAYS: Final = [folder for folder in KUSTOMIZATIONS if folder.parent.name == "overlays"]
_PUBLISHED: Final = json.loads(Path(__file__).with_name("kubernetes.json").read_text(encoding="utf-8"))

_RENDERERS: Final = (("kustomize", "build"), ("kubectl", "kustomize"))
RENDERER: Final = next((words for words in _RENDERERS if shutil.which(words[0])), None)
WHY_NOT: Final = "neither kustomize nor kubectl is installed: only what is written was checked, not what is rendered"

Object = dict[str, Any]


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> Object:
    found = documents(folder / "kustomization.yaml")
    assert len(found) == 1
    return dict(found[0])


def resources(folder: Path) -> Iterator[Object]:
    """The objects of a kustomization as they are written, with those that it builds on."""
    for name in (*kustomization(folder).get("resources", ()), *kustomization(folder).get("components", ())):
        path = (folder / name).resolve()
        yield from resources(path) if path.is_dir() else documents(path)


def render(folder: Path) -> list[Object]:
    """The objects as they would be applied."""
    assert RENDERER is not None, WHY_NOT
    done = subprocess.run([*RENDERER, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def kind_of(found: Object) -> str:
    return f"{found['apiVersion']} {found['kind']}"


@cache
def _validator(kind: str) -> Any:
    assert kind in _PUBLISHED["kinds"], f"{kind}: add it to .ci/kubernetes-schemas and run that"
    return jsonschema_rs.validator_for({"$ref": _PUBLISHED["kinds"][kind], "$defs": _PUBLISHED["$defs"]})


def problems(found: Object) -> list[str]:
    """What the published schema has against an object."""
    name = f"{found.get('kind')} {found.get('metadata', {}).get('name')}"
    return [
        f"{name}: {'.'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(kind_of(found)).iter_errors(found)
    ]


def pods(found: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Each object that makes pods, with the specification of these."""
    for one in found:
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield one, one["spec"]["template"]["spec"]


_VOLUMES: Final = {  # kinds that the profile `restricted` allows
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def unrestricted(spec: Object) -> list[str]:
    """What the profile `restricted` has against a pod (kubernetes.io, "Pod Security Standards")."""
    pod = spec.get("securityContext") or {}
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found += [f"volume {one['name']}" for one in spec.get("volumes", ()) if not set(one) - {"name"} <= _VOLUMES]
    found += ["sysctls"] if pod.get("sysctls") else []
    for one in containers(spec):
        own = one.get("securityContext") or {}
        both = {**pod, **own}
        capabilities = own.get("capabilities") or {}
        wrong = {
            "privileged": bool(own.get("privileged")),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
            "capabilities": "ALL" not in capabilities.get("drop", ())
            or not set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"},
            "runAsNonRoot": both.get("runAsNonRoot") is not True,
            "runAsUser": both.get("runAsUser") == 0,
            "seccompProfile": (both.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"),
            "procMount": own.get("procMount", "Default") != "Default",
            "hostPort": any(port.get("hostPort") for port in one.get("ports", ())),
        }
        found += [f"{one['name']}: {name}" for name, is_wrong in wrong.items() if is_wrong]
    return found


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod, with its labels and those of its namespace; or an address outside."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    of_namespace: Mapping[str, str] = field(default_factory=dict)
    address: str | None = None


def allows(policies: list[Object], source: End, target: End, port: int) -> bool:
    """Whether network policies let one end open a TCP connection to another."""
    return _passes(policies, "Egress", source, target, port) and _passes(policies, "Ingress", target, source, port)


def _passes(policies: list[Object], kind: str, at: End, other: End, port: int) -> bool:
    if at.address is not None:
        return True
    mine = [
        one["spec"]
        for one in policies
        if one["metadata"]["namespace"] == at.namespace
        and kind in one["spec"]["policyTypes"]
        and _matches(one["spec"]["podSelector"], at.labels)
    ]
    rules = [rule for spec in mine for rule in spec.get(kind.lower(), ())]
    side = "to" if kind == "Egress" else "from"
    return not mine or any(_rule(rule, rule.get(side), other, port) for rule in rules)


def _rule(rule: Object, peers: list[Object] | None, other: End, port: int) -> bool:
    ports = rule.get("ports")
    if ports is not None and not any(one["protocol"] == "TCP" and one["port"] == port for one in ports):
        return False
    return peers is None or any(_peer(one, other) for one in peers)


def _peer(peer: Object, other: End) -> bool:
    if (block := peer.get("ipBlock")) is not None:
        where = ip_address(other.address or "10.0.0.1")  # of a pod
        out = any(where in ip_network(one) for one in block.get("except", ()))
        return where in ip_network(block["cidr"]) and not out
    if other.address is not None:
        return False
    return _matches(peer.get("podSelector", {}), other.labels) and _matches(
        peer["namespaceSelector"], other.of_namespace
    )


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}, selector
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
