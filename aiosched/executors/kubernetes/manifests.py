"""Makes the pod of a job, and the Secret that it reads the job from. Pure.

A pod is merged from our defaults, the template and the task's `pod_override`, as Kubernetes merges patches: containers,
volumes and variables by their names, other lists as a whole. What makes it the pod of its job is written at last.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from aiosched.core.values.worker_messages import Job
from aiosched.executors.kubernetes.overrides import opened_for, refused_part

Manifest = dict[str, Any]

JOB_LABEL: Final = "aiosched.io/job"
INSTANCE_LABEL: Final = "aiosched.io/instance"
_TITLE: Final = "aiosched.io/title"
_DIGEST: Final = "aiosched.io/digest"  # tells jobs of two databases apart
_MADE_FROM: Final = "aiosched.io/made-from"
_IDLE: Final = "idle"  # in place of a job's id
_LONGEST_IDLE: Final = 3600  # seconds after which an idle pod ends, so that none is left for ever
_RUN_ATTEMPT: Final = ["worker", "run-attempt"]
_VOLUME: Final = "aiosched-job"
_FOLDER: Final = "/run/aiosched"
_KEY: Final = "job.json"
_JOB_ID: Final = re.compile("[0-9]{1,18}")
GRACE: Final = 10  # seconds that a pod which is deleted leaves to its task, of the 30 that Kubernetes leaves to it

_NO_RIGHTS: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}  # of a container by default
_MERGED_BY: Final = {  # lists of a pod that Kubernetes merges by a key (patchMergeKey)
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}


class PodRefused(Exception):
    """No pod can be made of this job: what its task or the settings ask for is wrong."""


@dataclass(frozen=True)
class PodOptions:
    """What the pods of an installation have in common. `template`: a Pod, as its author wrote it."""

    instance: str
    namespace: str
    others: Sequence[str] = ()  # further namespaces
    container: str = "base"
    image: str | None = None
    service_account: str | None = None
    template: Manifest = field(default_factory=dict)
    override_allows: Sequence[str] = ()  # what tasks may ask for besides, see overrides.py

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All namespaces in which there may be pods."""
        return (self.namespace, *(one for one in dict.fromkeys(self.others) if one != self.namespace))

    @property
    def selector(self) -> str:
        """The labels of all pods of this installation."""
        return f"{INSTANCE_LABEL}={self.instance},{JOB_LABEL}"


def pod_of(job: Job, options: PodOptions, *, salt: str) -> Manifest:
    """The pod of a job; `salt` makes the name of its Secret unique. Raises PodRefused."""
    try:
        return _pod_of(job, options, salt)
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # of what its author wrote
        raise PodRefused(
            f"the pod_override of its executor_config cannot be merged into a Pod: {type(error).__name__}: {error}"
        ) from error


def _pod_of(job: Job, options: PodOptions, salt: str) -> Manifest:
    override = _override(job)
    if (part := refused_part(override, opened_for(job.team, options.override_allows))) is not None:
        raise PodRefused(
            f"{part} in the pod_override of its executor_config is not allowed: an administrator can put it into the "
            "template (kubernetes.pod_template_file), or allow it to tasks (kubernetes.pod_override_allows)"
        )
    pod = _base(options, override)
    name = name_of(job, options.instance)
    pod["metadata"] |= {"name": name, "namespace": _namespace(job, override, options)}
    pod["metadata"]["labels"][JOB_LABEL] = str(job.id)
    pod["metadata"]["annotations"] |= _annotations(job)
    _mount(pod, options, secret=f"{name}-{salt}")
    return pod


def idle_pod(options: PodOptions, *, salt: str) -> Manifest:
    """A pod whose worker waits for a job; `salt` makes its name unique. Raises PodRefused."""
    pod = _base(options, {})
    name = f"{options.instance}-idle-{salt}"
    pod["metadata"] |= {"name": name, "namespace": options.namespace}
    pod["metadata"]["labels"][JOB_LABEL] = _IDLE
    pod["metadata"]["annotations"][_MADE_FROM] = _fingerprint(options)
    worker = _worker(pod, options)
    if worker.get("args", [])[:2] != _RUN_ATTEMPT:
        raise PodRefused(f"kubernetes.min_idle needs a worker whose args begin with {' '.join(_RUN_ATTEMPT)}")
    worker["args"] = [*_RUN_ATTEMPT, "--wait", str(_LONGEST_IDLE), *worker["args"][2:]]
    _mount(pod, options, secret=f"{name}-job", optional=True)
    return pod


def assigned(job: Job, pod: Manifest) -> Manifest:
    """The patch that makes an idle pod that of a job."""
    labels = {JOB_LABEL: str(job.id)}
    return {"metadata": {"uid": pod["metadata"]["uid"], "labels": labels, "annotations": _annotations(job)}}


def is_idle(pod: Manifest) -> bool:
    """Whether this pod waits for a job."""
    return (pod["metadata"].get("labels") or {}).get(JOB_LABEL) == _IDLE


def made_like(pod: Manifest, options: PodOptions) -> bool:
    """Whether an idle pod was made from the same settings and template."""
    return (pod["metadata"].get("annotations") or {}).get(_MADE_FROM) == _fingerprint(options)


def secret_of(job: Job, pod: Manifest) -> Manifest:
    """The Secret with the job for a pod that was created. Kubernetes removes it with the pod.

    Raises PodRefused for a pod from which our labels or our volume are gone.
    """
    metadata = pod["metadata"]
    try:
        labels = {key: metadata["labels"][key] for key in ("app.kubernetes.io/managed-by", INSTANCE_LABEL)}
        name = next(str(one["secret"]["secretName"]) for one in pod["spec"]["volumes"] if one["name"] == _VOLUME)
    except (KeyError, TypeError, StopIteration):
        raise PodRefused(
            f"its pod {metadata['name']} is there without the labels or the volume {_VOLUME!r} that it was made with: "
            "something in the cluster removes them"
        ) from None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    labels[JOB_LABEL] = str(job.id)
    text = msgspec.json.encode(msgspec.structs.replace(job, executor_config={})).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "immutable": True,
        "type": "Opaque",
        "stringData": {_KEY: text},
    }


def name_of(job: Job, instance: str) -> str:
    """The name of a job's pod: the same each time that the job is sent, readable, and short enough for a host name."""
    slug = re.sub(r"[^a-z0-9]+", "-", job.title.split(" ")[0].lower()).strip("-")
    return f"{instance}-{job.id}-{slug}"[:50].rstrip("-")


def job_of(pod: Manifest) -> int | None:
    """The id of the job of a pod, None if it is none of ours."""
    text = (pod["metadata"].get("labels") or {}).get(JOB_LABEL, "")
    return int(text) if _JOB_ID.fullmatch(text) else None


def is_of(pod: Manifest, job: Job) -> bool:
    """Whether this is the pod of that job, and not one of another database that has the same id."""
    return (pod["metadata"].get("annotations") or {}).get(_DIGEST) == _digest(job)


def merged(base: Any, patch: Any, *, key: str = "") -> Any:
    """`base` with a strategic merge patch as Kubernetes has it: null removes, lists merge by the key of their items."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        found = dict(base)
        for name, value in patch.items():
            if value is None:
                found.pop(name, None)
            else:
                found[name] = merged(base.get(name), value, key=name)
        return found
    by = _MERGED_BY.get(key)
    if by is not None and isinstance(base, list) and isinstance(patch, list):
        items = {one[by]: one for one in base}
        for one in patch:
            items[one.get(by)] = merged(items.get(one.get(by)), one)
        return list(items.values())
    if isinstance(patch, Mapping):
        return {name: merged(None, value, key=name) for name, value in patch.items() if value is not None}
    return patch


def _base(options: PodOptions, override: Manifest) -> Manifest:
    """What is merged, without what makes it the pod of one job. Raises PodRefused."""
    base = merged(_defaults(options), options.template)
    pod: Manifest = merged(base, _named_container(override, options.container))
    metadata, spec = pod.setdefault("metadata", {}), pod.setdefault("spec", {})
    for other in ("generateName", "ownerReferences", "resourceVersion", "uid"):
        metadata.pop(other, None)
    ours = {"app.kubernetes.io/managed-by": "aiosched", INSTANCE_LABEL: options.instance}
    metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
    metadata["annotations"] = {**(metadata.get("annotations") or {})}
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    pod.pop("status", None)
    spec["restartPolicy"] = "Never"
    for one in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        one["securityContext"] = {**_NO_RIGHTS, **(one.get("securityContext") or {})}
    if not _worker(pod, options).get("image"):
        raise PodRefused(f"its pod has no image: set kubernetes.image, or the image of container {options.container!r}")
    return pod


def _defaults(options: PodOptions) -> Manifest:
    worker: Manifest = {
        "name": options.container,
        "args": [*_RUN_ATTEMPT, "--grace", str(GRACE), f"{_FOLDER}/{_KEY}"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if options.image:
        worker["image"] = options.image
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [worker],
    }
    if options.service_account:
        spec["serviceAccountName"] = options.service_account
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}


def _override(job: Job) -> Manifest:
    found = job.executor_config.get("pod_override")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise PodRefused(f"the pod_override of its executor_config is no Pod but {type(found).__name__}")
    for part in ("metadata", "spec"):
        if not isinstance(found.get(part, {}), dict | None):
            raise PodRefused(f"{part} in the pod_override of its executor_config is no object")
    for kind in ("containers", "initContainers", "volumes"):
        items = (found.get("spec") or {}).get(kind) or []
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise PodRefused(f"spec.{kind} in the pod_override of its executor_config is no list of objects")
    return found


def _named_container(override: Manifest, container: str) -> Manifest:
    """With the name of the worker's container where there is one container without a name."""
    containers = (override.get("spec") or {}).get("containers") or []
    if len(containers) != 1 or containers[0].get("name"):
        return override
    return {**override, "spec": {**override["spec"], "containers": [{**containers[0], "name": container}]}}


def _namespace(job: Job, override: Manifest, options: PodOptions) -> str:
    chosen = (override.get("metadata") or {}).get("namespace")
    where = "metadata.namespace of its pod_override"
    if chosen is None and job.queue != "default":
        chosen, where = job.queue, "its queue"
    if chosen is None:
        return options.namespace
    if chosen not in options.namespaces:
        known = ", ".join(options.namespaces)
        raise PodRefused(f"{where} is {chosen!r}, which is none of the namespaces {known} (kubernetes.namespaces)")
    return str(chosen)


def _mount(pod: Manifest, options: PodOptions, *, secret: str, optional: bool = False) -> None:
    spec, worker = pod["spec"], _worker(pod, options)
    source: Manifest = {"secretName": secret, "items": [{"key": _KEY, "path": _KEY}]}
    if optional:
        source["optional"] = True
    mount = {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
    others = [one for one in spec.get("volumes") or [] if one.get("name") != _VOLUME]
    spec["volumes"] = [*others, {"name": _VOLUME, "secret": source}]
    worker["volumeMounts"] = merged(worker.get("volumeMounts") or [], [mount], key="volumeMounts")


def _worker(pod: Manifest, options: PodOptions) -> Manifest:
    for container in pod["spec"]["containers"]:
        if container.get("name") == options.container:
            found: Manifest = container
            return found
    raise PodRefused(f"its pod has no container {options.container!r}, which is to run the attempt")


def _annotations(job: Job) -> dict[str, str]:
    return {_TITLE: job.title or job.name, _DIGEST: _digest(job)}


def _fingerprint(options: PodOptions) -> str:
    return hashlib.sha256(msgspec.json.encode(_base(options, {}), order="sorted")).hexdigest()[:16]


def _digest(job: Job) -> str:
    return hashlib.sha256(job.token.encode()).hexdigest()[:16]
