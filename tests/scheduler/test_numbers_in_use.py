"""Sequences that went back, as after a cut-over by logical replication: no run is lost, and no request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.sequences import NUMBERED
from tests.scheduler.harness import NEW_YEAR, chain, dag, running

HOUR = timedelta(hours=1)
BACK = "SELECT setval(pg_get_serial_sequence($1, $2), 1, false)"


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("tables", [["dag_run"], ["request"], ["callback_outbox", "audit_log"], NUMBERED], ids=" ".join)
async def test_a_scheduler_whose_sequences_went_back_creates_each_run_once(
    dsn: str, clock: FakeClock, tables: list[str]
) -> None:
    spec = dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=100, has_failure_callback=True)
    async with running(dsn, clock, spec, chain("m", 1), retention=True) as it:
        await it.advance(5 * 3600)
        await it.trigger("m", "first")
        await it.settled()
        for table in tables:
            await it.fetch(BACK, table, "incarnation" if table == "scheduler" else "id")

        await it.advance(5 * 3600)
        await it.trigger("m", "second")
        await it.finish_all()
        await it.settled()

        runs = await it.runs("d")
        assert len(runs) == 10
        assert set(runs.values()) == {"success"}
        assert await it.runs("m") == {"first": "success", "second": "success"}
        await it.assert_consistent()


async def test_no_incarnation_is_issued_twice(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("m", 1), retention=True) as first:
        await first.fetch(BACK, "scheduler", "incarnation")

        async with running(dsn, clock, settle=False, retention=True) as second:
            assert second.incarnation > first.incarnation
