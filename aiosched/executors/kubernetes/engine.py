"""The engine Kubernetes, as schedulers use it: creates a pod for each job, and watches how the pods end.

What it knows are the pods that the watch shows (held_pods.py): a scheduler that starts adopts those that are there. The
job itself is in a Secret that belongs to the pod, and is created after it, so that Kubernetes removes both together.
Source: docs/decisions/0037-pods-for-attempts.md.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import secrets
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EndNotice, EngineUnavailable
from aiosched.executors.kubernetes.held_pods import HeldPods
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError, Manifest
from aiosched.executors.kubernetes.manifests import PodOptions, PodRefused, idle_pod, is_of, pod_of, secret_of
from aiosched.executors.kubernetes.quota_queue import QuotaQueue
from aiosched.executors.kubernetes.reasons import PodEnd, end_of, is_quota
from aiosched.executors.kubernetes.warm_pods import WarmPods
from aiosched.executors.kubernetes.watching import PodWatch

logger: logging.Logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16  # requests that are waited for at a time
SWEEP_EVERY: Final = 1.0  # seconds
_UNEXPECTED_PAUSE: Final = 30.0  # seconds after an error that nobody has foreseen
_MOST_REFUSED: Final = 10  # jobs that wait for a quota, before no more are accepted
_PATIENCE: Final = 0.9  # of the time after which a scheduler revokes an attempt: then the quota is named as the reason


class KubernetesEngine:
    """Implements Engine with a Kubernetes cluster."""

    name = "kubernetes"
    sends_ahead = False  # `kubernetes.max_pods` is a limit

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("kubernetes_asyncio") is None:
            raise ConfigError("The executor 'kubernetes' needs kubernetes_asyncio: pip install 'aiosched[kubernetes]'.")
        self._settings = settings.kubernetes
        self._ended: EndNotice
        self._api: KubeApi
        self._options: PodOptions
        self._pods: HeldPods
        self._warm: WarmPods
        self._watches: list[PodWatch] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._patience = _PATIENCE * settings.scheduler.task_queued_timeout
        self._refused = QuotaQueue()
        self._delivered: set[str] = set()  # uids of pods that have their Secret
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    @property
    def slots(self) -> int:
        """As the setting says, while the API can be reached and no quota is exhausted."""
        return self._settings.max_pods if self._is_connected() and len(self._refused) < _MOST_REFUSED else 0

    @property
    def async_slots(self) -> int:
        """As many as of plain functions: each coroutine has a pod, too."""
        return self.slots

    @property
    def trouble(self) -> str:
        """See TroubledEngine."""
        return next((watch.trouble for watch in self._watches if watch.trouble), "")

    def _is_connected(self) -> bool:
        return bool(self._watches) and all(watch.is_connected for watch in self._watches)

    async def start(self, ended: EndNotice) -> None:
        """Read the configuration and the template, then list and watch in the background."""
        self._ended = ended
        template = await asyncio.to_thread(_read_template, self._settings.pod_template_file)
        self._api = await KubeApi.connect(self._settings)
        self._options = PodOptions(
            instance=self._settings.instance,
            namespace=self._settings.namespace or self._api.namespace,
            others=[name.strip() for name in self._settings.namespaces.split(",") if name.strip()],
            container=self._settings.worker_container_name,
            image=self._settings.image,
            service_account=self._settings.service_account,
            template=template,
            override_allows=self._settings.pod_override_allows,
        )
        if self._settings.min_idle:
            try:
                idle_pod(self._options, salt="x")
            except PodRefused as error:
                await self._api.close()
                raise ConfigError(f"There can be no idle pods (kubernetes.min_idle): {error}.") from error
        self._pods = HeldPods(self._api, self._settings, self._ended)
        self._warm = WarmPods(self._api, self._options, self._settings.min_idle)
        self._watches = [
            PodWatch(self._api, namespace, self._options.selector, [self._pods, self._warm])
            for namespace in self._options.namespaces
        ]
        self._tasks = [
            asyncio.create_task(watch.run(), name=f"watching pods of {watch.namespace}") for watch in self._watches
        ]
        self._tasks.append(asyncio.create_task(self._sweep_for_ever(), name="clearing up pods"))

    async def stop(self) -> None:
        """Disconnect; pods go on."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            await self._api.close()

    # -- sending

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        """Create the pods of these jobs. What is wrong with one of them ends that one."""
        self._check_listed()
        for job in jobs:
            self._pods.mine.add(job.id)
        results = await asyncio.gather(*(self._send(job) for job in jobs), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, EngineUnavailable):
                raise error
        for error in results:
            if error is not None:
                raise error

    async def _send(self, job: Job) -> None:
        pod = self._pods.find(job.id)
        if pod is not None and is_of(pod, job) and pod["metadata"]["uid"] in self._delivered and not self._end(pod):
            self._refused.drop(job.id)
            return
        try:
            manifest = pod_of(job, self._options, salt=secrets.token_hex(3))
        except PodRefused as error:
            self._refused.drop(job.id)
            self._ended(job.id, str(error))
            return
        async with self._at_once:
            if self._settings.min_idle and (given := await self._warm.give(job)) is not None:
                self._pods.created(given)
                self._delivered.add(given["metadata"]["uid"])
                self._refused.drop(job.id)
                return
            await self._create(job, manifest)

    async def _create(self, job: Job, manifest: Manifest) -> None:
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        pod: Manifest | None = None
        try:
            try:
                pod = await self._api.create(namespace, "pods", manifest)
            except KubeError as error:
                if error.status != 409 or error.reason != "AlreadyExists":
                    raise
                pod = await self._existing(job, namespace, name)
                if pod is None:
                    self._refused.drop(job.id)
                    return
            self._pods.created(pod)
            try:
                await self._api.create(namespace, "secrets", secret_of(job, pod))
            except KubeError as error:
                if error.reason != "AlreadyExists":
                    self._pods.give_up(pod)
                    raise
            self._delivered.add(pod["metadata"]["uid"])
            self._refused.drop(job.id)
        except KubeError as error:
            self._refuse(job, namespace, error)
        except PodRefused as error:
            if pod is not None:
                self._pods.give_up(pod)
            self._refused.drop(job.id)
            self._ended(job.id, str(error))

    async def _existing(self, job: Job, namespace: str, name: str) -> Manifest | None:
        """The pod that a job has already; None if it cannot use it."""
        try:
            pod = await self._api.get(namespace, "pods", name)
        except KubeError as error:
            if error.status == 404:
                raise EngineUnavailable(f"the pod {name} was there and is gone again") from None
            raise
        if not is_of(pod, job):
            self._ended(
                job.id,
                f"there is a pod {name} of another installation in namespace {namespace}: give each its own "
                "kubernetes.instance",
            )
            return None
        if "deletionTimestamp" in pod["metadata"] and self._end(pod) is None:
            raise EngineUnavailable(f"the pod {name} is being deleted")
        if (end := self._end(pod)) is not None:  # when nobody waited for it
            self._ended(job.id, end.reason, certain=end.is_certain)
            return None
        return pod

    def _end(self, pod: Manifest) -> PodEnd | None:
        return end_of(pod, self._options.container)

    def _refuse(self, job: Job, namespace: str, error: KubeError) -> None:
        reason = f"its pod was refused by namespace {namespace} ({error.status} {error.reason}): {error}"
        if not is_quota(error.status, str(error)):
            self._refused.drop(job.id)
            self._ended(job.id, reason)
        elif self._refused.refuse(job, namespace, reason, now=time.monotonic()):
            logger.warning("kubernetes: %s waits for a quota: %s", job.title or job.name, error)

    # -- what it has

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        """Delete pods that have not started; the others get time to hear of it with a heartbeat."""
        for job in jobs:
            self._refused.drop(job)
            self._pods.cancel(job, grace=grace)

    async def holds(self, jobs: Collection[int]) -> set[int]:
        """Those of the jobs that have a pod, or wait for a quota. One whose Secret may be missing is sent again."""
        self._check_listed()
        held = self._refused.ids().intersection(jobs)
        for job in jobs:
            self._pods.mine.add(job)
            pod = self._pods.find(job)
            if pod is None or self._end(pod):
                continue
            if pod["metadata"]["uid"] in self._delivered or (pod.get("status") or {}).get("phase") == "Running":
                held.add(job)
        return held

    def _check_listed(self) -> None:
        if not self._watches or not all(watch.is_listed for watch in self._watches):
            raise EngineUnavailable("the pods have not been listed yet")

    # -- what becomes due

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._pods.next_change(SWEEP_EVERY)
            try:
                await self._try_refused()
                await self._pods.sweep()
                self._delivered &= self._pods.uids()
                await self._warm.refill()
            except EngineUnavailable as error:
                logger.debug("pods are cleared up later: %s", error)
                await asyncio.sleep(SWEEP_EVERY)
            except Exception:  # about pods as they are stored there, which nobody here has written
                logger.exception("kubernetes: pods cannot be cleared up")
                await asyncio.sleep(_UNEXPECTED_PAUSE)

    async def _try_refused(self) -> None:
        now = time.monotonic()
        for job, reason, _ in self._refused.since(now - self._patience):
            self._refused.drop(job.id)
            self._ended(job.id, reason)
        for refused in self._refused.due(now):
            await self._send(refused.job)


def _read_template(file: Path | None) -> Manifest:
    """The Pod in a file; nothing without one. Raises ConfigError."""
    if file is None:
        return {}
    import yaml

    called = f"The pod template {file} (kubernetes.pod_template_file)"
    try:
        found = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{called} cannot be read: {error}.") from error
    if len(found) != 1 or not isinstance(found[0], dict) or found[0].get("kind") != "Pod":
        raise ConfigError(f"{called} is to have one object of kind Pod.")
    for part in ("metadata", "spec"):
        if not isinstance(found[0].get(part, {}), dict):
            raise ConfigError(f"{called} has a {part} that is no object.")
    return dict(found[0])
