"""The limits under which the child that imports a file runs."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

import pytest

from aiosched.parsing.limits import Limits, lift_memory_limit, restrict_this_process

INFINITE = resource.RLIM_INFINITY
LIMITS = Limits(import_timeout=1, file_timeout=2.5, memory=1 << 30, result=1 << 20, output=1 << 16)


class Process:
    """Stands for this process: its limits, soft and hard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limits: Mapping[int, tuple[int, int]]) -> None:
        self.limits = dict(limits)
        monkeypatch.setattr(resource, "getrlimit", lambda what: self.limits.get(what, (INFINITE, INFINITE)))
        monkeypatch.setattr(resource, "setrlimit", self.limits.__setitem__)


@pytest.mark.parametrize(("cores", "seconds"), [(1, 4), (8, 25), (None, 4)])
def test_a_file_may_keep_all_cores_busy_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, seconds: int
) -> None:
    process = Process(monkeypatch, {})
    monkeypatch.setattr(os, "cpu_count", lambda: cores)

    restrict_this_process(LIMITS)

    assert process.limits[resource.RLIMIT_CPU] == (seconds, seconds)


def test_a_file_leaves_no_core_and_can_lift_only_what_its_report_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, {})

    restrict_this_process(LIMITS)

    assert process.limits[resource.RLIMIT_CORE] == (0, 0)
    assert process.limits[resource.RLIMIT_NOFILE] == (1024, INFINITE)
    assert process.limits[resource.RLIMIT_DATA] == (1 << 30, INFINITE)
    lift_memory_limit()
    assert process.limits[resource.RLIMIT_DATA] == (INFINITE, INFINITE)


def test_lower_limits_of_the_machine_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, {resource.RLIMIT_NOFILE: (256, 512), resource.RLIMIT_CPU: (3, 30)})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    restrict_this_process(LIMITS)

    assert process.limits[resource.RLIMIT_NOFILE] == (256, 512)
    assert process.limits[resource.RLIMIT_CPU] == (3, 3)
