"""The pods of this installation as the watch shows them: tells which jobs have ended, and deletes what is over.

Every scheduler sees all pods. It deletes those of the jobs that it waits for at once, and those that nobody has deleted
for a while, whosever they are. A deletion names the pod's uid, so it never hits another pod of that name.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiosched.executors.engines.engine import EndNotice
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError, Manifest
from aiosched.executors.kubernetes.manifests import job_of
from aiosched.executors.kubernetes.reasons import PodEnd, disruption, end_of, gone, is_node_lost, trouble_of

if TYPE_CHECKING:
    from aiosched.config.sections import KubernetesSettings

logger: logging.Logger = logging.getLogger(__name__)

ORPHANED_AFTER: Final = 60.0  # seconds from when a pod was due to be deleted by the scheduler that waits for its job
_HEARD_WITHIN: Final = 45.0  # seconds in which a worker hears with a heartbeat that it is to stop
_TELL_AGAIN: Final = 5.0  # seconds: its job may have been adopted only after its pod was seen to have ended
_AT_ONCE: Final = 8  # deletions that are waited for at a time


@dataclass(slots=True)
class _Held:
    """A pod, its last known state, and what is due. Instants are monotonic seconds."""

    job: int
    pod: Manifest
    seen_at: float
    end: PodEnd | None = None
    delete_at: float = math.inf
    grace: int | None = None  # seconds, for its deletion
    warned: bool = False
    told: PodEnd | None = None  # how it has ended, or perhaps has
    told_at: float = -math.inf
    is_silent: bool = False  # its end says nothing about its job
    is_deleted: bool = False  # the deletion was accepted
    is_one_of_several: bool = False  # the job has, or had, another pod: how one ends says nothing certain about the job
    trouble_since: float | None = None

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])


@dataclass
class HeldPods:
    """What is known of pods. `mine`: the jobs that this scheduler waits for, as far as it was asked about them."""

    api: KubeApi
    settings: KubernetesSettings
    ended: EndNotice
    mine: set[int] = field(default_factory=set)
    _held: dict[int, _Held] = field(default_factory=dict)  # by job
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def find(self, job: int) -> Manifest | None:
        """The pod of a job as it was last seen."""
        held = self._held.get(job)
        return None if held is None or held.is_deleted else held.pod

    def uids(self) -> set[str]:
        """Those of all pods."""
        return {held.uid for held in self._held.values()}

    async def next_change(self, seconds: float) -> None:
        """Wait until a pod has ended, or for so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    # -- what the watch says

    def listed(self, namespace: str, pods: list[Manifest]) -> None:
        """All pods of a namespace: those that are not among them are gone, and nobody saw how."""
        here = {pod["metadata"]["uid"] for pod in pods}
        for held in [one for one in self._held.values() if one.pod["metadata"]["namespace"] == namespace]:
            if held.uid in here:
                continue
            del self._held[held.job]
            if held.told is None and not held.is_silent and (held.pod.get("status") or {}).get("phase") == "Running":
                words = "is gone: it was deleted while the Kubernetes API could not be reached"
                self.ended(held.job, f"its pod {held.pod['metadata']['name']} {words}", certain=False)
        for pod in pods:
            self.changed(pod)

    def created(self, pod: Manifest) -> None:
        """The answer to a creation: what the watch has said of the same pod is newer."""
        job = job_of(pod)
        if job is not None and ((held := self._held.get(job)) is None or held.uid != pod["metadata"]["uid"]):
            self._held[job] = _Held(job, pod, time.monotonic())

    def changed(self, pod: Manifest) -> None:
        """A pod was added, or its state has changed."""
        if (job := job_of(pod)) is None:
            return
        held, now = self._held.get(job), time.monotonic()
        if held is None or held.uid != pod["metadata"]["uid"]:
            several = held is not None and held.end is None and not held.is_deleted
            held = self._held[job] = _Held(job, pod, now, is_one_of_several=several)
        held.pod = pod
        if held.end is not None:
            return
        held.end = end_of(pod, self.settings.worker_container_name)
        if held.end is not None:
            self._tell(held, held.end)
            self._delete_when_ended(held, now)
        elif held.told is None and (disruption(pod) or is_node_lost(pod)):
            self._tell(held, gone(pod, self.settings.worker_container_name)._replace(is_certain=False))

    def deleted(self, pod: Manifest) -> None:
        """A pod was removed; this was its last state."""
        if (job := job_of(pod)) is None:
            return
        held = self._held.get(job)
        if held is not None and held.uid != pod["metadata"]["uid"]:
            return
        self._held.pop(job, None)
        if held is not None and held.is_silent:
            return
        self.mine.discard(job)
        if held is None or held.end is None:
            end = gone(pod, self.settings.worker_container_name)
            reason = held.told.reason if held is not None and held.told is not None else end.reason
            several = held is not None and held.is_one_of_several
            self.ended(job, reason, certain=end.is_certain and not several)

    def _tell(self, held: _Held, end: PodEnd) -> None:
        if held.told is None and not end.is_success:
            logger.info("kubernetes: job %d: %s", held.job, end.reason)
        held.told, held.told_at = end, time.monotonic()
        self.ended(held.job, end.reason, certain=end.is_certain and not held.is_one_of_several)

    def _delete_when_ended(self, held: _Held, now: float) -> None:
        assert held.end is not None
        policy = self.settings.delete_pods
        if policy == "never" or (policy == "on success" and not held.end.is_success):
            held.delete_at = math.inf  # also if it was to be deleted because its task was cancelled
            return
        held.delete_at = now if held.job in self.mine else now + ORPHANED_AFTER
        self._changed.set()

    # -- what is due

    def cancel(self, job: int, *, grace: float) -> None:
        """Delete the pod of a job: at once if it has not started, else when its worker must have heard of it."""
        if (held := self._held.get(job)) is None or held.end is not None:
            return
        has_started = (held.pod.get("status") or {}).get("phase") == "Running"
        held.delete_at = time.monotonic() + (grace + _HEARD_WITHIN if has_started else 0.0)
        held.grace = max(1, round(grace)) if has_started else 1
        self._changed.set()

    def give_up(self, pod: Manifest) -> None:
        """Delete a pod that cannot begin, without a word about its job."""
        job = job_of(pod)
        if job is not None and (held := self._held.get(job)) is not None and held.uid == pod["metadata"]["uid"]:
            held.is_silent, held.delete_at, held.grace = True, time.monotonic(), 1
            self._changed.set()

    async def sweep(self) -> None:
        """Give up pods that do not start, and delete what is due. Raises EngineUnavailable."""
        now = time.monotonic()
        for held in list(self._held.values()):
            if held.end is None and held.delete_at == math.inf:
                self._judge_start(held, now)
            elif held.end is not None and held.job not in self.mine and now >= held.told_at + _TELL_AGAIN:
                self._tell(held, held.end)
        due = [held for held in self._held.values() if held.delete_at <= now and not held.is_deleted]
        for start in range(0, len(due), _AT_ONCE):
            results = await asyncio.gather(
                *(self._delete(held) for held in due[start : start + _AT_ONCE]), return_exceptions=True
            )
            for error in results:
                if error is not None:
                    raise error

    def _judge_start(self, held: _Held, now: float) -> None:
        """Give a pod up that has not started in time."""
        if (held.pod.get("status") or {}).get("phase") not in (None, "Pending"):
            return
        name, trouble = held.pod["metadata"]["name"], trouble_of(held.pod)
        if trouble is None or not trouble.is_error:
            held.trouble_since = None
        elif held.trouble_since is None:
            held.trouble_since = now
        if trouble is not None and not held.warned:
            held.warned = True
            logger.warning("kubernetes: the pod %s does not start: %s", name, trouble.reason)
        if trouble is not None and trouble.is_final:
            due = now
        elif held.trouble_since is not None:
            due = held.trouble_since + self.settings.startup_error_timeout
        else:
            due = held.seen_at + self.settings.startup_timeout
        if held.job not in self.mine:
            due += ORPHANED_AFTER
        if now >= due:
            words = "" if trouble is None else f": {trouble.reason}"
            waited = round(now - held.seen_at)
            self._tell(held, PodEnd(f"its pod {name} has not started after {waited} s{words}", is_certain=False))
            held.delete_at, held.grace = now, 1

    async def _delete(self, held: _Held) -> None:
        metadata = held.pod["metadata"]
        try:
            await self.api.delete_pod(metadata["namespace"], metadata["name"], uid=held.uid, grace=held.grace)
        except KubeError as error:
            logger.warning("kubernetes: the pod %s cannot be deleted: %s", metadata["name"], error)
            held.delete_at = time.monotonic() + ORPHANED_AFTER
            return
        held.is_deleted = True
