"""What a task may ask for of its pod. Pure.

Who writes a DAG decides what runs in its pod, and not what the pod may do to others: `pod_override` has an allow list,
which settings open for all, or for one team. The template and the settings are an administrator's and have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_ANY: Final[Mapping[str, Any]] = {}  # with all that is in it
_USER: Final = dict.fromkeys(("runAsUser", "runAsGroup", "readOnlyRootFilesystem"), _ANY)  # root stays refused
_VALUE: Final = {"fieldRef": _ANY, "resourceFieldRef": _ANY}
_CONTAINER: Final = {
    **dict.fromkeys(("name", "image", "imagePullPolicy", "command", "args", "workingDir"), _ANY),
    **dict.fromkeys(("resizePolicy", "restartPolicy"), _ANY),
    "ports": dict.fromkeys(("name", "containerPort", "protocol"), _ANY),  # of the pod, not of its node
    "resources": {"requests": _ANY, "limits": _ANY},
    "volumeMounts": dict.fromkeys(("name", "mountPath", "readOnly", "subPath", "subPathExpr"), _ANY),
    "env": {"name": _ANY, "value": _ANY, "valueFrom": _VALUE},
    "securityContext": _USER,
}
ALLOWED: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("apiVersion", "kind", "status"), _ANY),  # we write these
    "metadata": {
        **dict.fromkeys(("name", "uid", "generateName", "ownerReferences", "resourceVersion"), _ANY),  # and these
        "namespace": _ANY,  # one of the settings
        "labels": _ANY,
    },
    "spec": {
        "containers": _CONTAINER,
        "initContainers": _CONTAINER,
        **dict.fromkeys(("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"), _ANY),
        **dict.fromkeys(("activeDeadlineSeconds", "terminationGracePeriodSeconds", "restartPolicy"), _ANY),
        "securityContext": _USER,
        "volumes": {"name": _ANY, "emptyDir": _ANY, "downwardAPI": _ANY},
    },
}
_RESERVED: Final = "app.kubernetes.io/"  # network policies go by such labels


def opened_for(team: str | None, rules: Sequence[str]) -> list[str]:
    """The paths of `rules` that count for DAGs of a team: `path`, or `team:path` for that one only."""
    found = []
    for rule in rules:
        whose, _, path = rule.rpartition(":")
        if not whose or whose == team:
            found.append(path)
    return found


def refused_part(override: Mapping[str, Any], opened: Sequence[str]) -> str | None:
    """The path of something in a pod_override that its task may not ask for; None if it may have all of it."""
    paths = {tuple(path.split(".")) for path in opened}
    for path in _refused(override, ALLOWED, ()):
        if not any(path[: len(each)] == each for each in paths):
            return ".".join(path)
    labels = (override.get("metadata") or {}).get("labels") or {}
    reserved = (name for name in labels if isinstance(name, str) and name.startswith(_RESERVED))
    return next((f"metadata.labels.{name}" for name in reserved if ("metadata", "labels", name) not in paths), None)


def _refused(value: Any, allowed: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The parts that are not allowed, as deep as the list of what is allowed goes. Items of lists have no number."""
    if allowed is _ANY:
        return
    if value is None and path:  # it would remove what the template or we have there
        yield path
    elif isinstance(value, list):
        for item in value:
            yield from _refused(item, allowed, path)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name in allowed:
                yield from _refused(inner, allowed[name], (*path, name))
            else:
                yield from _leaves(inner, (*path, str(name)))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What a part that is not allowed consists of, since settings may open a part of it."""
    parts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Mapping) and item]
    if not parts:
        yield path
    for part in parts:
        for name, inner in part.items():
            yield from _leaves(inner, (*path, str(name)))
