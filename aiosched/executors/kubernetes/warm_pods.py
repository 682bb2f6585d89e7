"""Idle pods whose worker waits for a job, so that an attempt does not wait for its pod. Optional: `min_idle`.

An idle pod mounts a Secret that does not exist yet. Whoever creates it has given the pod its job: the name is fixed, so
a second scheduler gets a conflict. Then the pod is labelled as that of its job, which also makes the kubelet look at
the Secret at once. If a scheduler dies in between, the kubelet finds the Secret a little later, and the job may have
been sent again by then: one of the two claims the attempt.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.values.worker_messages import Job
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError, Manifest
from aiosched.executors.kubernetes.manifests import (
    PodOptions,
    PodRefused,
    assigned,
    idle_pod,
    is_idle,
    made_like,
    secret_of,
)  # fmt: skip
from aiosched.executors.kubernetes.reasons import end_of

logger: logging.Logger = logging.getLogger(__name__)

_TAKEN: Final = (404, 409, 422)  # the pod is gone, or another scheduler was faster


@dataclass
class WarmPods:
    """The idle pods of the options' namespace, which all schedulers share. `least`: how many there should be."""

    api: KubeApi
    options: PodOptions
    least: int
    _idle: dict[str, Manifest] = field(default_factory=dict)  # by uid
    _has_warned: bool = False

    def listed(self, namespace: str, pods: list[Manifest]) -> None:
        """All pods of a namespace."""
        if namespace == self.options.namespace:
            self._idle.clear()
        for pod in pods:
            self.changed(pod)

    def changed(self, pod: Manifest) -> None:
        """A pod was added, or its state has changed."""
        if is_idle(pod) and pod["metadata"]["namespace"] == self.options.namespace:
            self._idle[pod["metadata"]["uid"]] = pod
        else:
            self.deleted(pod)

    def deleted(self, pod: Manifest) -> None:
        """A pod was removed, or has a job."""
        self._idle.pop(pod["metadata"]["uid"], None)

    async def give(self, job: Job) -> Manifest | None:
        """Give a job to an idle pod; returns the pod, None if there is none. Raises EngineUnavailable."""
        if job.queue != "default" or job.executor_config.get("pod_override"):
            return None
        while (pod := self._take()) is not None:
            metadata = pod["metadata"]
            try:
                await self.api.create(metadata["namespace"], "secrets", secret_of(job, pod))
                return await self.api.patch_pod(metadata["namespace"], metadata["name"], assigned(job, pod))
            except (KubeError, PodRefused) as error:
                if isinstance(error, PodRefused) or error.status not in _TAKEN:
                    logger.warning("kubernetes: the idle pod %s cannot be used: %s", metadata["name"], error)
        return None

    def _take(self) -> Manifest | None:
        for uid, pod in self._idle.items():
            if (pod.get("status") or {}).get("phase") == "Running" and self._is_usable(pod):
                return self._idle.pop(uid)
        return None

    def _is_usable(self, pod: Manifest) -> bool:
        return (
            "deletionTimestamp" not in pod["metadata"]
            and end_of(pod, self.options.container) is None
            and made_like(pod, self.options)
        )

    async def refill(self) -> None:
        """Delete idle pods that have ended or are outdated, and create what is missing. Raises EngineUnavailable."""
        if not self.least:
            return
        usable = 0
        for pod in list(self._idle.values()):
            if self._is_usable(pod):
                usable += 1
            elif "deletionTimestamp" not in pod["metadata"]:
                metadata = pod["metadata"]
                await self.api.delete_pod(metadata["namespace"], metadata["name"], uid=metadata["uid"], grace=1)
                self._idle.pop(metadata["uid"], None)
        try:
            for _ in range(self.least - usable):
                pod = idle_pod(self.options, salt=secrets.token_hex(4))
                self.changed(await self.api.create(self.options.namespace, "pods", pod))
            self._has_warned = False
        except KubeError as error:  # perhaps a quota: attempts go first
            if not self._has_warned:
                logger.warning("kubernetes: no idle pod can be created: %s", error)
            self._has_warned = True
            raise EngineUnavailable(f"no idle pod can be created: {error}") from error
