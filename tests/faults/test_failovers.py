"""A standby takes over, with and without the newest commits: what was lost is said once, and nothing that was not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import partition_of
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from tests.conftest import OLDER_SERVERS
from tests.faults.standby import Pair, a_pair
from tests.scheduler.harness import Running, chain, running

pytestmark = pytest.mark.slow

OLDER = "the database is older than what this scheduler has seen stored"


@pytest.fixture(params=[*OLDER_SERVERS, 18])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with a_pair(OLDER_SERVERS.get(request.param, binaries())) as found:
        yield found


def said(caplog: pytest.LogCaptureFixture, level: str = "WARNING") -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelname == level and r.getMessage().startswith(OLDER)]


async def until_it_goes_on(it: Running, failed: int) -> None:
    await it.until(lambda: it.scheduler.metrics.recoveries > failed and it.session.locks.loaded.is_set(), "a session")


async def test_a_standby_that_lacks_results_takes_over(
    pair: Pair, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await migrate(pair.primary.dsn())
    await pair.start_standby()
    await pair.keep_in_step()
    async with running(pair.dsn, clock, chain("d", 2), lease=60.0) as it, running(pair.dsn, clock, lease=60.0) as other:
        both = (it.session.cache.partitions, other.session.cache.partitions)
        await it.until(lambda: len(both[0]) == len(both[1]), "a fair share of the partitions")
        owner = it if partition_of("d") in both[0] else other
        await it.trigger("d", "r")
        await owner.attempt("t0")
        await pair.let_go()
        await pair.stop_standby()
        await owner.finish("t0")
        await owner.attempt("t1")
        before = [each.scheduler.metrics.recoveries for each in (it, other)]
        caplog.clear()

        await pair.fail_over(behind=True)
        for each, failed in zip((it, other), before, strict=True):
            await until_it_goes_on(each, failed)

        (row,) = await it.fetch("SELECT * FROM lost_span")
        assert row["lost_from"] <= row["lost_to"] <= row["noticed_at"]
        assert re.fullmatch(r"timeline 1, position [0-9A-F]+/[0-9A-F]+", row["seen"])
        assert row["found"].startswith("timeline 2, ")
        (message,) = said(caplog)
        assert "timeline 1 was seen at" in message
        repeated = await owner.attempt("t0")
        assert (repeated.key.try_number, repeated.may_have_run) == (1, True)


@pytest.mark.parametrize("how", ["immediate", "fast"])
async def test_a_standby_that_has_everything_takes_over(
    pair: Pair, clock: FakeClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    await migrate(pair.primary.dsn())
    await pair.start_standby()
    await pair.keep_in_step()
    if how == "fast":  # a planned switch needs no synchronous replication
        await pair.let_go()
    async with running(pair.dsn, clock, chain("d", 3), lease=60.0) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
        await it.attempt("t1")
        failed = it.scheduler.metrics.recoveries

        await pair.fail_over(how=how)
        await until_it_goes_on(it, failed)
        await it.finish("t1", "t2")
        await it.settled()

        assert await it.runs("d") == {"r": "success"}
        assert not any(attempt.may_have_run for attempt in it.executor.submitted)
        assert await it.fetch("SELECT * FROM lost_span") == []
        assert said(caplog) == said(caplog, "INFO") == []
