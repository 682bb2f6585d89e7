"""Runs that wait to start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiosched.core.graph.instances import Run
from aiosched.core.values.states import RunState, RunType

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_run(key: int, run_after: datetime = NOW, **facts: Any) -> Run:
    """A queued run, which may start at NOW unless said otherwise."""
    return Run(key, "sales", f"manual__{key}", 1, RunType.MANUAL, RunState.QUEUED, run_after, **facts)
