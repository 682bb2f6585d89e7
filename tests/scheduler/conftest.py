"""Fixtures for schedulers."""

from __future__ import annotations

import pytest

from aiosched.scheduler.membership import lease


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers look at their fleet ten times a second instead of once: partitions move soon."""
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.1)
