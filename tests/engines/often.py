"""Engines and agents look at workers, queues, pods and logs several times a second: tests do not wait for that."""

from __future__ import annotations

import pytest

_EVERY = {  # seconds
    "aiosched.executors.celery.celery_engine.LOOK_EVERY": 0.5,
    "aiosched.executors.celery.celery_engine.LOOK_FOR_WORKERS": 0.1,
    "aiosched.executors.engines.agent.ANNOUNCED_AFTER": 0.2,
    "aiosched.executors.engines.agent.LOGS_EVERY": 0.3,
    "aiosched.executors.kubernetes.engine.SWEEP_EVERY": 0.2,
    "aiosched.executors.kubernetes.watching.FIRST_PAUSE": 0.1,
    "aiosched.scheduler.engines.engine_executor.WATCH_EVERY": 0.05,
}


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """For engines that this process makes from now on."""
    for name, seconds in _EVERY.items():
        monkeypatch.setattr(name, seconds)
