"""The lease thread: a living scheduler is not taken for dead, and one that was silent for too long knows it at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView, Peer
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.scheduler.membership.lease import Lease, SchedulerIdentity, SuspectedPeers
from tests.patience import PATIENCE

ME = SchedulerIdentity(name="me", version="0", executor="none", slots=1)
LEASE = 30.0


def seen(at: float, *, gone: bool, expired: bool = False) -> FleetView:
    peers = (Peer(1, draining=False, process_gone=False, expired=False), Peer(2, False, gone, expired))
    return FleetView(peers, dict.fromkeys(range(PARTITIONS), 1), at)


@pytest.mark.parametrize(
    ("looks", "dead"),
    [
        pytest.param([(0.0, True)], False, id="missing once"),
        pytest.param([(0.0, True), (0.1, True)], False, id="missing for a moment"),
        pytest.param([(0.0, True), (0.6, True)], True, id="missing for long"),
        pytest.param([(0.0, True), (0.2, False), (0.6, True)], False, id="came back"),
        pytest.param([(0.0, True), (0.6, False)], False, id="there after all"),
    ],
)
def test_a_peer_is_gone_when_its_lock_has_been_missing_for_a_while(looks: list[tuple[float, bool]], dead: bool) -> None:
    suspicions = SuspectedPeers()

    views = [suspicions.confirm(seen(at, gone=gone)) for at, gone in looks]

    assert [peer.dead for peer in views[-1].peers] == [False, dead]
    assert bool(suspicions) is looks[-1][1]


def test_a_lease_that_ran_out_is_not_doubted() -> None:
    view = SuspectedPeers().confirm(seen(0.0, gone=True, expired=True))

    assert view.peers[1].dead
    assert not view.peers[1].process_gone


@contextlib.asynccontextmanager
async def lease(
    db: Database, *, seconds: float = LEASE, window: LeaseDeadline | None = None
) -> AsyncIterator[tuple[Lease, asyncio.Queue[object]]]:
    views: asyncio.Queue[object] = asyncio.Queue()
    kept = Lease(db, ME, seconds=seconds, on_view=views.put_nowait, windows=[window] if window else [])
    await kept.start()
    try:
        yield kept, views
    finally:
        await kept.stop(leave=True)


async def test_a_lost_connection_is_made_again_and_the_number_locked_again_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.scheduler.membership.lease.POLL_SECONDS", 10 * PATIENCE)  # the next look is far away
    backend = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'aiosched lease' AND datname = current_database()"
    )
    locked = """
        SELECT l.pid FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
         WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
    """
    async with lease(db, seconds=30 * PATIENCE) as (_, views), db.acquire() as conn:
        await views.get()
        old = await conn.fetchval(backend)

        await conn.fetchval("SELECT pg_terminate_backend($1)", old)

        async with asyncio.timeout(PATIENCE):
            while await conn.fetchval(locked) in (None, old):  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def ends_its_session(conn: DatabaseConnection, _: int) -> None:
    await conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("lock_again", [None, ends_its_session], ids=["read-only", "ends the session"])
async def test_a_database_that_lets_it_connect_and_no_more_is_asked_less_and_less_often(
    db: Database, monkeypatch: pytest.MonkeyPatch, lock_again: Callable[..., Awaitable[None]] | None
) -> None:
    rests: asyncio.Queue[tuple[float, float]] = asyncio.Queue()  # what each was to be, and what it was
    loop, rest = asyncio.get_running_loop(), Lease._rest

    async def timed(self: Lease, seconds: float) -> None:
        began = time.monotonic()
        await rest(self, seconds)
        loop.call_soon_threadsafe(rests.put_nowait, (seconds, time.monotonic() - began))

    async with db.acquire() as conn, lease(db) as (_, views):
        name = await conn.fetchval("SELECT current_database()")
        await views.get()
        monkeypatch.setattr(Lease, "_rest", timed)
        if lock_again is None:
            await conn.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        else:
            monkeypatch.setattr(ownership, "lock_again", lock_again)
        try:
            await conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'aiosched lease' AND datname = current_database()"
            )
            while (await rests.get())[0] != 0.05:
                pass
            later = [await rests.get() for _ in range(3)]
        finally:
            await conn.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            monkeypatch.undo()

    assert [planned for planned, _ in later] == [0.1, 0.2, 0.4]
    assert all(took >= 0.9 * planned for planned, took in later), later


@pytest.mark.parametrize("seconds", [0.9, 2.0, LEASE])
async def test_a_lease_is_renewed_when_a_third_of_it_has_passed_however_short_it_is(
    db: Database, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    rests: list[float] = []
    rest = Lease._rest

    async def noted(self: Lease, seconds: float) -> None:
        rests.append(seconds)
        await rest(self, seconds)

    monkeypatch.setattr(Lease, "_rest", noted)
    async with lease(db, seconds=seconds) as (_, views):
        await views.get()

    assert max(rests) <= seconds / 3


async def test_executors_are_told_how_long_their_processes_may_live(db: Database) -> None:
    window = LeaseDeadline()
    began = time.monotonic()

    async with lease(db, window=window) as (kept, views):
        await views.get()

        assert kept.trusted()
        assert began + 0.9 * LEASE <= window.until <= time.monotonic() + 0.9 * LEASE
    window.close()


async def test_a_database_that_does_not_answer_is_named_as_the_reason(
    db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with lease(db) as (kept, views):
        await views.get()
        monkeypatch.setattr(kept, "_poll", asyncio.Event().wait)
        monkeypatch.setattr(kept, "_seconds", 0.03)
        kept.poll_now()
        async with asyncio.timeout(PATIENCE):
            while "lease: no answer from the database" not in caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        monkeypatch.undo()


async def test_a_start_that_is_cancelled_leaves_no_lease_behind(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    registering, may_register = asyncio.Event(), threading.Event()
    loop, register = asyncio.get_running_loop(), ownership.register

    async def late(conn: DatabaseConnection, **options: Any) -> int:
        loop.call_soon_threadsafe(registering.set)
        await asyncio.to_thread(may_register.wait)
        return await register(conn, **options)

    monkeypatch.setattr(ownership, "register", late)
    kept = Lease(db, ME, seconds=LEASE, on_view=lambda view: None)

    starting = asyncio.create_task(kept.start())
    await registering.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    may_register.set()

    await asyncio.to_thread(kept._thread.join, 30.0)
    assert not kept._thread.is_alive()
    assert await db.fetchval("SELECT count(*) FROM scheduler") == 0


async def test_a_look_is_answered_at_once(db: Database) -> None:
    async with lease(db) as (kept, views):
        await views.get()
        kept.poll_now()

        await asyncio.wait_for(views.get(), PATIENCE)


async def test_who_was_silent_for_too_long_is_lost_without_asking_the_database(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lease(db) as (kept, views):
        while (await views.get()) is None:
            pass
        monkeypatch.setattr(kept, "_trusted_until", time.monotonic())
        kept.poll_now()

        async with asyncio.timeout(PATIENCE):
            while await views.get() is not None:
                pass
        assert not kept.trusted()
