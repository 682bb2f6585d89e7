"""What every open page is told about the fleet: that none works, and how the machines of schedulers differ."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from aiosched.clock import FakeClock
from aiosched.config import DatabaseSettings
from aiosched.db.queries.schedulers import SchedulerRow
from aiosched.db.server.engine import Database
from aiosched.web.views.database_watch import DatabaseWatch, Outage
from aiosched.web.views.live_status import LiveStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def scheduler(name: str, *remarks: str, alive: bool = True) -> SchedulerRow:
    return SchedulerRow(
        1, name, "box", 1, "1", "local", 4, False, alive, 0.5, 64, NOW, {"remarks": list(remarks)}
    )  # fmt: skip


def watch() -> DatabaseWatch:
    return DatabaseWatch(Database("postgresql:///nowhere", DatabaseSettings(), "test"))


def told(status: LiveStatus) -> dict[str, Any]:
    return dict(json.loads(status.message().decode().split("data: ")[1]))


def test_machines_that_differ_are_told_since_when_until_they_are_alike() -> None:
    clock = FakeClock(NOW)
    status = LiveStatus(watch(), clock)
    assert not status.see([scheduler("one")])
    assert status.see([scheduler("one"), scheduler("two", "lacks a.py, which one has")])
    clock.advance(60)
    assert status.see(
        [scheduler("one", "has a clock that is 40 s ahead"), scheduler("two", "lacks a.py, which one has")]
    )
    assert not status.see(
        [scheduler("one", "has a clock that is 40 s ahead"), scheduler("two", "lacks a.py, which one has")]
    )

    machines = told(status)["machines"]
    assert machines["texts"] == ["one has a clock that is 40 s ahead", "two lacks a.py, which one has"]
    assert datetime.fromisoformat(machines["since"]) == NOW
    assert status.see([scheduler("one"), scheduler("two")])
    assert "machines" not in told(status)


def test_a_machine_whose_scheduler_is_gone_differs_from_none() -> None:
    status = LiveStatus(watch(), FakeClock(NOW))
    status.see([scheduler("one"), scheduler("two", "lacks a.py", alive=False)])

    assert "machines" not in told(status)


def test_nothing_is_said_of_machines_while_the_database_does_not_answer() -> None:
    seen = watch()
    status = LiveStatus(seen, FakeClock(NOW))
    status.see([scheduler("two", "lacks a.py")])
    seen.outage = Outage(NOW, "away")

    assert "machines" not in told(status)
