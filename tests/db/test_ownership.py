"""Statements on schedulers and partition leases: docs/architecture.md, "Ownership and fencing"."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import ownership
from aiosched.db.statements.journal import begin
from aiosched.errors import FencedOut
from tests.db.waiting import until_a_lock_is_awaited


@contextlib.asynccontextmanager
async def scheduler(db: Database, *, lease: float = 60.0) -> AsyncIterator[tuple[int, DatabaseConnection]]:
    """A scheduler's row and the connection whose lock says that its process lives."""
    conn = await db.connect()
    try:
        number = await ownership.register(
            conn, name="s", hostname="h", pid=1, version="0", executor="inline", slots=1, lease=lease
        )
        yield number, conn
    finally:
        await conn.close()


async def look(db: Database) -> ownership.FleetView:
    async with db.acquire() as conn:
        return await ownership.read_fleet(conn)


async def test_a_new_scheduler_is_seen_alive_and_all_partitions_are_free(db: Database) -> None:
    async with scheduler(db) as (number, _):
        view = await look(db)

    assert view.peers == (ownership.Peer(number, draining=False, process_gone=False, expired=False),)
    assert view.leases == dict.fromkeys(range(PARTITIONS))


async def test_incarnations_are_never_issued_twice(db: Database) -> None:
    numbers = []
    for _ in range(3):
        async with scheduler(db) as (number, conn):
            numbers.append(number)
            await ownership.leave(conn, number)

    assert numbers == sorted(set(numbers))


async def test_a_process_that_died_is_seen_at_once(db: Database) -> None:
    async with scheduler(db) as (number, _):
        pass

    (peer,) = (await look(db)).peers
    assert (peer.incarnation, peer.process_gone, peer.expired, peer.dead) == (number, True, False, True)


async def test_a_lease_that_ran_out_is_seen_and_a_renewed_one_is_not(db: Database) -> None:
    async with scheduler(db, lease=-1.0) as (number, conn):
        assert (await look(db)).peers[0].expired

        assert await ownership.renew(conn, number, 60.0)

        assert not (await look(db)).peers[0].dead


async def test_a_session_that_comes_back_holds_the_lock_again(db: Database) -> None:
    async with scheduler(db) as (number, conn):
        await conn.close()
        assert (await look(db)).peers[0].process_gone
        again = await db.connect()

        await ownership.lock_again(again, number)

        assert not (await look(db)).peers[0].process_gone
        await again.close()


async def test_renewing_after_a_take_over_says_so(db: Database) -> None:
    async with scheduler(db, lease=-1.0) as (number, conn):
        async with db.acquire() as other:
            assert await ownership.take_over(other, number, process_gone=False)

        assert not await ownership.renew(conn, number, 60.0)


async def test_free_partitions_are_taken_once(db: Database) -> None:
    async with scheduler(db) as (first, one), scheduler(db) as (second, two):
        got = await asyncio.gather(
            ownership.acquire(one, first, range(40)), ownership.acquire(two, second, range(20, 64))
        )

        assert got[0] | got[1] == set(range(PARTITIONS))
        assert not got[0] & got[1]
        leases = (await look(db)).leases
        assert {p for p, owner in leases.items() if owner == first} == got[0]


async def test_a_scheduler_without_a_row_takes_nothing(db: Database) -> None:
    assert await ownership.acquire(db, 999, range(64)) == set()


async def test_who_is_taken_over_while_it_takes_partitions_is_fenced_out(db: Database) -> None:
    """The statement has seen its row; the foreign key waits for the take-over, and sees that the row is gone."""
    async with scheduler(db) as (number, conn), db.acquire() as peer:
        async with peer.transaction():
            await peer.execute("DELETE FROM scheduler WHERE incarnation = $1", number)
            taking = asyncio.create_task(ownership.acquire(conn, number, range(8)))
            await until_a_lock_is_awaited(peer)

        with pytest.raises(FencedOut, match="taken over"):
            await taking


async def test_only_ones_own_partitions_are_released(db: Database) -> None:
    async with scheduler(db) as (first, one), scheduler(db) as (second, two):
        await ownership.acquire(one, first, range(2))
        await ownership.acquire(two, second, range(2, 4))

        await ownership.release(one, first, range(64))

        leases = (await look(db)).leases
        assert [leases[p] for p in range(4)] == [None, None, second, second]


async def test_a_take_over_frees_the_partitions_of_the_dead_and_its_row_is_gone(db: Database) -> None:
    async with scheduler(db, lease=-1.0) as (number, conn):
        await ownership.acquire(conn, number, range(64))
        async with db.acquire() as other:
            assert await ownership.take_over(other, number, process_gone=False)
            assert not await ownership.take_over(other, number, process_gone=False)

        view = await look(db)
        assert view.peers == ()
        assert set(view.leases.values()) == {None}
        with pytest.raises(FencedOut, match=f"incarnation {number}"):
            await begin(conn, number)


async def test_a_lease_that_was_renewed_meanwhile_is_not_taken_over(db: Database) -> None:
    async with scheduler(db, lease=60.0) as (number, _), db.acquire() as other:
        assert not await ownership.take_over(other, number, process_gone=False)


async def test_a_process_that_is_gone_is_taken_over_before_its_lease_runs_out(db: Database) -> None:
    async with scheduler(db, lease=60.0) as (number, _):
        pass
    async with db.acquire() as other:
        assert await ownership.take_over(other, number, process_gone=True)


async def test_who_has_come_back_on_a_new_connection_is_not_taken_over(db: Database) -> None:
    """Its peer has seen the lock missing, and decides a moment too late."""
    async with scheduler(db, lease=60.0) as (number, conn):
        await conn.close()
        assert (await look(db)).peers[0].process_gone
        again = await db.connect()
        await ownership.lock_again(again, number)

        async with db.acquire() as other:
            assert not await ownership.take_over(other, number, process_gone=True)

        assert [peer.incarnation for peer in (await look(db)).peers] == [number]
        await again.close()


async def test_a_take_over_waits_for_the_last_commit_of_the_dead_and_stops_any_later_one(db: Database) -> None:
    async with scheduler(db, lease=-1.0) as (number, conn):
        await begin(conn, number)  # holds the fence
        async with db.acquire() as other:
            burying = asyncio.create_task(ownership.take_over(other, number, process_gone=False))
            async with db.acquire() as third:
                await until_a_lock_is_awaited(third)
            assert not burying.done()

            await conn.execute("COMMIT")

            assert await burying
        with pytest.raises(FencedOut):
            await begin(conn, number)


async def test_who_leaves_frees_its_partitions_and_takes_its_row_along(db: Database) -> None:
    async with scheduler(db) as (number, conn):
        await ownership.acquire(conn, number, range(64))

        await ownership.leave(conn, number)

        view = await look(db)
        assert view.peers == ()
        assert set(view.leases.values()) == {None}


async def test_draining_is_seen(db: Database) -> None:
    async with scheduler(db) as (number, conn):
        await ownership.set_draining(conn, number)

        assert (await look(db)).peers[0].draining
