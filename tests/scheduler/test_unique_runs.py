"""One-off jobs: unique keys, debounced requests, runs that expire (core/requests/job_terms.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from aiosched import enqueue
from aiosched.clock import FakeClock
from aiosched.core.requests.job_terms import Fate, fate_of, start_of
from aiosched.core.requests.requests import Trigger
from aiosched.core.values.instants import LATEST
from aiosched.core.values.states import RunState
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import Refused
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, register, running

HOUR = timedelta(hours=1)


@pytest.fixture
async def it(dsn: str, clock: FakeClock) -> AsyncIterator[Running]:
    async with running(dsn, clock, dag("d"), dag("e")) as scheduler:
        yield scheduler


async def trigger(it: Running, dag_id: str = "d", **options: Any) -> str:
    return (await it.scheduler.trigger(dag_id, **options)).run_id


# -- what becomes of a request


@pytest.mark.parametrize(
    ("newest", "is_queued", "debounced", "fate"),
    [
        (None, False, False, Fate.CREATE),
        (None, False, True, Fate.CREATE),
        (RunState.SUCCESS, False, True, Fate.CREATE),
        (RunState.FAILED, False, False, Fate.CREATE),
        (RunState.QUEUED, True, False, Fate.KEEP),
        (RunState.QUEUED, False, False, Fate.KEEP),  # it is just starting
        (RunState.RUNNING, False, False, Fate.KEEP),
        (RunState.QUEUED, True, True, Fate.MOVE),
        (RunState.QUEUED, False, True, Fate.CREATE),
        (RunState.RUNNING, False, True, Fate.CREATE),
    ],
)
def test_the_fate_of_a_request(newest: RunState | None, is_queued: bool, debounced: bool, fate: Fate) -> None:
    assert fate_of(newest, is_queued=is_queued, debounced=debounced) is fate


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (Trigger(unique=""), "a key has 1 to 250 characters, not 0"),
        (Trigger(unique="k" * 251), "not 251"),
        (Trigger(debounce=1), "debounce needs a unique key"),
        (Trigger(unique="k", debounce=1, run_id="r"), "goes with none of run_id, logical_date, run_after"),
        (Trigger(unique="k", debounce=1, run_after=NEW_YEAR), "goes with none of"),
        (Trigger(unique="k", debounce=-1), "a number of seconds is needed, not -1"),
        (Trigger(unique="k", debounce=float("inf")), "not inf"),
        (Trigger(expires=NEW_YEAR), "The run would expire at 2026-01-01 00:00:00"),
        (Trigger(expires=NEW_YEAR + HOUR, run_after=NEW_YEAR + HOUR), "it may start from then"),
        (Trigger(unique="k", debounce=3600, expires=NEW_YEAR + HOUR), "would expire"),
        (Trigger(expires=datetime(2027, 1, 1)), "has no time zone"),  # noqa: DTZ001  what is refused
    ],
    ids=lambda value: None if isinstance(value, str) else repr(value)[:60],
)
def test_terms_that_contradict_each_other_are_refused(request_: Trigger, told: str) -> None:
    with pytest.raises(Refused, match=told):
        start_of(request_, NEW_YEAR)


# -- unique keys


async def test_while_a_run_with_the_key_is_unfinished_it_is_the_answer(it: Running) -> None:
    first = await trigger(it, unique="k", conf={"n": 1})

    assert await trigger(it, unique="k", conf={"n": 2}) == first
    assert await trigger(it, "e", unique="k") != first
    assert await trigger(it, unique="other") != first
    assert len(await it.runs("d")) == 2
    await it.finish("a")
    await it.settled()
    assert await trigger(it, unique="k") != first


async def test_one_that_waits_is_unfinished_too_and_so_is_one_of_a_paused_dag(it: Running) -> None:
    waits = await trigger(it, unique="k", run_after=NEW_YEAR + HOUR)
    assert await trigger(it, unique="k") == waits
    await it.scheduler.pause("e")
    paused = await trigger(it, "e", unique="k")
    assert await trigger(it, "e", unique="k") == paused


async def test_a_hundred_at_once_from_two_applications_are_one(dsn: str, it: Running) -> None:
    """Some through the scheduler, some in transactions of their own, in one pass of the owner and in several."""
    conns = [await asyncpg.connect(dsn) for _ in range(2)]

    async def ask(conn: asyncpg.Connection) -> list[int]:
        return [await enqueue(conn, "d", unique="k") for _ in range(25)]

    try:
        in_transactions = asyncio.gather(*map(ask, conns))
        answers = await asyncio.gather(*(trigger(it, unique="k") for _ in range(50)))
        numbers = [number for each in await in_transactions for number in each]
        runs = {(await it.scheduler.run_of(number, timeout=PATIENCE)).run_id for number in numbers}
    finally:
        for conn in conns:
            await conn.close()

    assert runs == set(answers)
    assert list(await it.runs("d")) == [*runs]


async def test_the_key_holds_over_a_restart(dsn: str, db: Database, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        first = await trigger(it, unique="k")
        await it.finish("t0")
    async with running(dsn, clock) as it:
        assert await trigger(it, unique="k") == first


async def test_two_with_one_key_that_wait_together_for_a_scheduler_are_one(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await register(db, dag("d"))
    async with db.acquire() as conn:
        numbers = [
            await inbox.send_request(conn, verb="trigger", dag_id="d", args={"unique": key}, requested_by="tester")
            for key in ("k", "l", "k", "k")
        ]
    async with running(dsn, clock) as it:
        runs = [(await it.scheduler.run_of(number, timeout=PATIENCE)).run_id for number in numbers]

    assert runs[0] == runs[2] == runs[3] != runs[1]


async def test_a_request_that_contradicts_itself_is_refused_though_nothing_would_run(it: Running) -> None:
    await trigger(it, unique="k")
    with pytest.raises(Refused, match="it may start from now"):
        await trigger(it, unique="k", expires=NEW_YEAR - HOUR)


# -- debounced requests


@pytest.mark.parametrize("seconds", [1e12, 1e308])
def test_a_debounce_beyond_the_calendar_waits_until_its_end(seconds: float) -> None:
    assert start_of(Trigger(unique="k", debounce=seconds), NEW_YEAR) == LATEST


async def test_a_debounced_request_moves_the_one_that_waits_and_the_last_conf_counts(it: Running) -> None:
    first = await trigger(it, unique="k", debounce=60, conf={"n": 1})
    await it.advance(59)
    assert await trigger(it, unique="k", debounce=60, conf={"n": 2}) == first
    await it.advance(59)
    assert await it.runs("d") == {first: "queued"}
    await it.advance(1)

    assert await it.runs("d") == {first: "running"}
    assert await it.fetch("SELECT conf::text, run_after FROM dag_run") == [
        ('{"n":2}', NEW_YEAR + timedelta(seconds=119))
    ]
    later = await trigger(it, unique="k", debounce=60)  # what has started does not know of this
    assert await it.runs("d") == {first: "running", later: "queued"}
    await it.assert_consistent()


async def test_a_moved_run_stays_moved_over_a_restart(dsn: str, db: Database, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        first = await trigger(it, unique="k", debounce=60)
        clock.advance(30)
        await trigger(it, unique="k", debounce=60)
    clock.advance(59)
    async with running(dsn, clock) as it:
        assert await it.runs("d") == {first: "queued"}
        await it.advance(1)
        assert await it.runs("d") == {first: "running"}


# -- expiry


async def test_a_run_that_has_not_started_in_time_fails_and_why_says_so(it: Running) -> None:
    await it.scheduler.pause("d")
    run = await trigger(it, expires=NEW_YEAR + HOUR)
    await it.advance(3599)
    assert await it.runs("d") == {run: "queued"}
    await it.advance(1)

    assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "expired")]
    assert (await it.scheduler.why("d", run)).summary.startswith(
        "failed at 2026-01-01 01:00:00 UTC: it had not started when it expired"
    )
    assert await it.fetch("SELECT state, reason FROM task_instance") == [("skipped", "the run expired")]
    await it.scheduler.unpause("d")
    await it.settled()
    assert it.executor.submitted == []
    await it.assert_consistent()


async def test_one_that_waits_for_its_turn_says_until_when(it: Running) -> None:
    run = await trigger(it, run_after=NEW_YEAR + HOUR, expires=NEW_YEAR + 2 * HOUR)

    (gate,) = [gate for gate in (await it.scheduler.why("d", run)).gates if gate.name == "start time"]

    assert "it expires at 2026-01-01 02:00:00" in gate.detail


async def test_it_expires_while_no_scheduler_lives_and_others_take_its_place(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=1)) as it:
        runs = [await trigger(it), await trigger(it, expires=NEW_YEAR + HOUR), await trigger(it)]
    clock.advance(2 * 3600)
    async with running(dsn, clock) as it:
        await it.settled()
        assert await it.runs("d") == dict(zip(runs, ("running", "failed", "queued"), strict=True))
        await it.finish("a")
        await it.settled()
        assert (await it.runs("d"))[runs[2]] == "running"
        await it.assert_consistent()


async def test_what_has_started_does_not_expire_and_neither_does_what_people_let_run_again(it: Running) -> None:
    started = await trigger(it, expires=NEW_YEAR + HOUR)
    await it.scheduler.pause("e")
    expired = await trigger(it, "e", expires=NEW_YEAR + HOUR)
    await it.advance(2 * 3600)
    assert (await it.runs("d"))[started] == "running"

    await it.scheduler.clear("e", [expired])
    await it.scheduler.unpause("e")
    await it.settled()

    assert (await it.runs("e"))[expired] == "running"


async def test_a_request_that_waited_too_long_for_a_scheduler_is_refused(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await register(db, dag("d"))
    conn = await asyncpg.connect(dsn)
    number = await enqueue(conn, "d", expires=NEW_YEAR + HOUR)
    await conn.close()
    clock.advance(2 * 3600)
    async with running(dsn, clock) as it:
        with pytest.raises(Refused, match="would expire at 2026-01-01 01:00:00"):
            await it.scheduler.run_of(number, timeout=PATIENCE)
