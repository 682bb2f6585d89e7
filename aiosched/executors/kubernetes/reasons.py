"""What the status of a pod means for its attempt: whether it has ended and why, and why it does not start. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

Manifest = dict[str, Any]

NOT_BEGUN: Final = 4  # exit code of `aiosched worker run-attempt` for a job that another worker has begun
_MOST_TEXT: Final = 600  # characters of what Kubernetes or a log says

_DISRUPTIONS: Final = {  # reasons of the condition DisruptionTarget
    "PreemptionByScheduler": "preempted for a pod of higher priority",
    "EvictionByEvictionAPI": "evicted on request, for example by a drain of its node",
    "DeletionByTaintManager": "deleted because its node does not tolerate it any more, or cannot be reached",
    "DeletionByPodGC": "deleted because its node was lost",
    "TerminationByKubelet": "ended by its node, which was short of resources or shut down",
}
_STATUS_REASONS: Final = {  # of a pod that has failed as a whole
    "Evicted": "evicted from its node",
    "Preempting": "preempted on its node for a critical pod",
    "Preempted": "preempted for a pod of higher priority",
    "NodeLost": "lost with its node",
    "NodeShutdown": "ended by the shutdown of its node",
    "Terminated": "ended by the shutdown of its node",
    "Shutdown": "ended by the shutdown of its node",
    "DeadlineExceeded": "ended by its activeDeadlineSeconds",
    "NodeAffinity": "refused by its node, whose labels no longer match",
    "UnexpectedAdmissionError": "refused by its node",
}
_NODE_LOST: Final = ("NodeLost", "DeletionByPodGC", "DeletionByTaintManager")
_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
_NEVER: Final = ("InvalidImageName", "ErrImageNeverPull")  # waiting does not help
_CONFIGURATION: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")


class PodEnd(NamedTuple):
    """A pod's attempt has ended. `is_certain`: its process runs no more; else only its lease can tell."""

    reason: str
    is_certain: bool
    is_success: bool = False


class PodTrouble(NamedTuple):
    """Why a pod does not start. `is_error`: something is wrong; `is_final`: and will not get better by itself."""

    reason: str
    is_error: bool = False
    is_final: bool = False


def end_of(pod: Manifest, container: str) -> PodEnd | None:
    """How the attempt of a pod has ended, whose worker runs in `container`; None while it may still run."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    ended = _terminated(_status_of(status, container))
    if ended is not None and ended.get("reason") != "ContainerStatusUnknown":
        return _exit(pod, container, ended)
    phase = status.get("phase")
    if phase not in ("Failed", "Succeeded"):
        return None
    for one in status.get("initContainerStatuses") or ():
        if (failed := _terminated(one)) is not None and failed.get("exitCode"):
            words = f"its pod {name} failed before it began: init container {one['name']!r} {_exit_words(failed)}"
            return PodEnd(words, is_certain=True)
    why = disruption(pod) or _failed_words(status) or "failed, and Kubernetes does not say why"
    return PodEnd(f"its pod {name} was {why}" if not why.startswith("failed") else f"its pod {name} {why}", False)


def gone(pod: Manifest, container: str) -> PodEnd:
    """How the attempt of a pod has ended that was deleted in this last state."""
    if (end := end_of(pod, container)) is not None:
        return end
    why = disruption(pod) or "deleted"
    never_placed = not (pod.get("spec") or {}).get("nodeName")
    return PodEnd(f"its pod {pod['metadata']['name']} was {why}", is_certain=never_placed)


def disruption(pod: Manifest) -> str | None:
    """In words, why Kubernetes ends this pod before its time; None if it does not."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = condition.get("reason") or ""
            words = _DISRUPTIONS.get(reason, f"ended by Kubernetes ({reason})")
            return _with_message(f"{words} ({reason})" if reason in _DISRUPTIONS else words, condition, pod)
    return None


def is_node_lost(pod: Manifest) -> bool:
    """Whether the node of the pod cannot be reached, so that nobody knows what its containers do."""
    status = pod.get("status") or {}
    said = {c.get("reason") for c in status.get("conditions") or () if c.get("status") == "True"}
    return status.get("phase") == "Unknown" or status.get("reason") in _NODE_LOST or bool(said & set(_NODE_LOST))


def trouble_of(pod: Manifest) -> PodTrouble | None:
    """Why a pod that is pending does not start; None if it has started or nothing is known."""
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "Pending"):
        return None
    images = {one["name"]: one.get("image", "?") for one in _containers(pod)}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        said = f" ({reason}){_colon(waiting.get('message'))}"
        if reason in _IMAGE or reason in _NEVER:
            image = images.get(one["name"], one.get("image", "?"))
            return PodTrouble(f"its image {image} cannot be pulled{said}", True, reason in _NEVER)
        if reason in _CONFIGURATION:
            return PodTrouble(f"its container {one['name']!r} cannot be started{said}", True)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return PodTrouble(f"no node takes it ({condition.get('reason')}){_colon(condition.get('message'))}")
    return None


def is_quota(status: int, message: str) -> bool:
    """Whether the creation of an object was refused because of a quota: there may be room later."""
    return status == 403 and "exceeded quota" in message


def _containers(pod: Manifest) -> Iterator[Manifest]:
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _status_of(status: Manifest, container: str) -> Manifest:
    return next((one for one in status.get("containerStatuses") or () if one.get("name") == container), {})


def _terminated(container_status: Manifest) -> Manifest | None:
    found: Manifest | None = (container_status.get("state") or {}).get("terminated")
    return found


def _exit(pod: Manifest, container: str, ended: Manifest) -> PodEnd:
    name, code = pod["metadata"]["name"], ended.get("exitCode", 0)
    if why := disruption(pod) or _failed_words(pod["status"]):
        return PodEnd(f"its pod {name} was {why}" if not why.startswith("failed") else f"its pod {name} {why}", True)
    if ended.get("reason") == "OOMKilled":
        limit = next((_memory_limit(one) for one in _containers(pod) if one["name"] == container), None)
        words = f"was killed because it needed more memory than its limit of {limit}" if limit else "ran out of memory"
        return PodEnd(f"its pod {name} {words} (OOMKilled)", True)
    if "deletionTimestamp" in pod["metadata"] and code != 0:
        return PodEnd(f"its pod {name} was deleted ({_exit_words(ended)})", True)
    return PodEnd(f"its pod {name} {_exit_words(ended)}", code != NOT_BEGUN, code == 0)


def _memory_limit(container: Manifest) -> str | None:
    found: str | None = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return found


def _exit_words(ended: Manifest) -> str:
    code, signal = ended.get("exitCode", 0), ended.get("signal")
    words = f"was ended by signal {signal}" if signal else f"ended with exit code {code}"
    reason = ended.get("reason")
    if reason not in (None, "Completed", "Error"):
        words += f" ({reason})"
    return words + (_colon(ended.get("message")) if code != 0 or signal else "")


def _failed_words(status: Manifest) -> str | None:
    reason = status.get("reason")
    if not reason:
        return None
    words = _STATUS_REASONS.get(reason)
    said = _colon(status.get("message"))
    return f"{words} ({reason}){said}" if words else f"failed ({reason}){said}"


def _with_message(words: str, condition: Manifest, pod: Manifest) -> str:
    message = (pod.get("status") or {}).get("message") or condition.get("message")
    return words + _colon(message)


def _colon(message: str | None) -> str:
    text = " ".join((message or "").split())
    if len(text) > _MOST_TEXT:
        text = "… " + text[-_MOST_TEXT:]
    return f": {text}" if text else ""
