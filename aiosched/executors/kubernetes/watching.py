"""All pods of one namespace with our label, kept up to date: list once, then watch from there.

A watch goes on from the last version that the server has named, also in a bookmark. Only if the server no longer knows
the changes since then (410) everything is listed again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Final, Protocol

from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError, Manifest

logger: logging.Logger = logging.getLogger(__name__)

_SHORTEST_WATCH: Final = 60  # seconds: a connection that has died unnoticed is noticed soon after
_LONGEST_WATCH: Final = 90
_FAILURES: Final = 3  # of watches in a row, after which everything is listed again
FIRST_PAUSE: Final = 0.5  # seconds after an error, doubled up to the last, and spread by half
_LAST_PAUSE: Final = 15.0


class PodListener(Protocol):
    """Somebody who hears of pods."""

    def listed(self, namespace: str, pods: list[Manifest]) -> None:
        """These are all pods of the namespace."""
        ...

    def changed(self, pod: Manifest) -> None:
        """A pod was added, or has changed."""
        ...

    def deleted(self, pod: Manifest) -> None:
        """A pod was removed; this was its last state."""
        ...


class PodWatch:
    """Watches the pods of a namespace until it is cancelled; call `run` once."""

    def __init__(self, api: KubeApi, namespace: str, selector: str, listeners: Sequence[PodListener]) -> None:
        self.namespace: str = namespace
        self._api, self._selector, self._listeners = api, selector, listeners
        self.is_listed: bool = False  # ever
        self.is_connected: bool = False
        self.trouble: str = ""  # why not
        self._has_warned = False

    async def run(self) -> None:
        """Watch for ever; errors are logged once until it works again."""
        version: str | None = None
        failures = 0
        while True:
            begun = time.monotonic()
            try:
                if version is None:
                    pods, version = await self._api.list_pods(self.namespace, self._selector)
                    for listener in self._listeners:
                        listener.listed(self.namespace, pods)
                    self.is_listed = True
                async for change in self._api.watch_pods(
                    self.namespace, self._selector, version=version, seconds=_seconds(), opened=self._opened
                ):
                    failures, version = 0, change.version
                    if change.pod is not None:
                        self._receive(change.kind, change.pod)
                if time.monotonic() > begun + _SHORTEST_WATCH / 2:
                    continue  # it has ended as agreed
            except KubeError as error:
                if error.status != 410:
                    self._failed(error)
                version = None
            except EngineUnavailable as error:
                self._failed(error)
                if failures >= _FAILURES:
                    version = None
            except Exception:  # about a pod as it is stored there, which nobody here has written
                self.is_connected, version = False, None
                logger.exception("kubernetes: the pods of namespace %s are listed again", self.namespace)
            await asyncio.sleep(min(FIRST_PAUSE * 2**failures, _LAST_PAUSE) * random.uniform(0.5, 1.5))
            failures += 1

    def _receive(self, kind: str, pod: Manifest) -> None:
        for listener in self._listeners:
            if kind in ("ADDED", "MODIFIED"):
                listener.changed(pod)
            elif kind == "DELETED":
                listener.deleted(pod)

    def _opened(self) -> None:
        if not self.is_connected:
            logger.info("kubernetes: the pods of namespace %s are watched", self.namespace)
        self.is_connected, self._has_warned, self.trouble = True, False, ""

    def _failed(self, error: Exception) -> None:
        self.is_connected = False
        self.trouble = f"the pods of namespace {self.namespace} cannot be watched: {error}"
        if not self._has_warned:
            logger.warning("kubernetes: %s", self.trouble)
        self._has_warned = True


def _seconds() -> int:
    return random.randint(_SHORTEST_WATCH, _LONGEST_WATCH)
