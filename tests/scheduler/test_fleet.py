"""Several schedulers on one database: sharing out, handing over, taking over.

Source: docs/architecture.md, "Ownership and fencing".

In place of the semantics reference, section 20.1; guarantees 3 and 7 of section 16.2.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.engine import Database
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView, Peer, read_fleet
from aiosched.scheduler.partitions.ownership import PartitionPlan, apply_view, give_back, make_plan
from tests.patience import until
from tests.scheduler.harness import (
    NEW_YEAR,
    Running,
    ScriptedExecutor,
    chain,
    dag,
    dag_in,
    register,
    running,
    succeeding,
    task,
)

HOUR = timedelta(hours=1)


def peer(incarnation: int, *, draining: bool = False, gone: bool = False, expired: bool = False) -> Peer:
    return Peer(incarnation, draining, gone, expired)


def owners(*shares: tuple[int | None, int]) -> dict[int, int | None]:
    """Partitions in order: so many of this owner, then so many of that one."""
    flat = [owner for owner, count in shares for _ in range(count)]
    assert len(flat) == PARTITIONS
    return dict(enumerate(flat))


# -- the plan, as a table ---------------------------------------------------------------------


def test_the_first_scheduler_takes_all() -> None:
    assert make_plan(FleetView((peer(1),), owners((None, 64))), 1) == PartitionPlan((), tuple(range(64)), ())


def test_a_second_scheduler_takes_nothing_that_is_not_free_and_the_first_gives_half_back() -> None:
    view = FleetView((peer(1), peer(2)), owners((1, 64)))

    assert make_plan(view, 2) == PartitionPlan((), (), ())
    assert len(make_plan(view, 1).give_back) == 32
    assert make_plan(view, 1).acquire == ()


@pytest.mark.parametrize("dead", [peer(1, gone=True), peer(1, expired=True)])
def test_the_dead_are_buried_and_only_what_is_free_is_taken(dead: Peer) -> None:
    view = FleetView((dead, peer(2)), owners((1, 60), (None, 4)))

    assert make_plan(view, 2) == PartitionPlan((1,), (60, 61, 62, 63), ())


def test_peers_reach_for_different_partitions_first() -> None:
    view = FleetView((peer(1), peer(2)), owners((None, 64)))

    mine, theirs = make_plan(view, 1).acquire, make_plan(view, 2).acquire

    assert not set(mine) & set(theirs)


def test_who_drains_gets_nothing_does_not_count_and_gives_all_away() -> None:
    view = FleetView((peer(1), peer(2, draining=True)), owners((1, 22), (2, 10), (None, 32)))

    assert make_plan(view, 2) == PartitionPlan((), (), tuple(range(22, 32)))
    assert len(make_plan(view, 1).acquire) == 32


@pytest.mark.parametrize("other", [peer(1, draining=True), peer(1, gone=True), peer(1, expired=True)])
def test_who_drains_keeps_all_while_there_is_nobody_to_take_it(other: Peer) -> None:
    view = FleetView((other, peer(2, draining=True)), owners((1, 22), (2, 42)))

    assert make_plan(view, 2).give_back == ()


def test_a_scheduler_whose_own_lease_ran_out_takes_nothing_and_does_not_bury_itself() -> None:
    view = FleetView((peer(1, expired=True), peer(2)), owners((1, 32), (2, 32)))

    assert make_plan(view, 1) == PartitionPlan((), (), ())


peers = st.builds(Peer, st.integers(1, 12), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(peers, max_size=8, unique_by=lambda p: p.incarnation), st.data())
def test_nobody_takes_what_is_not_free_or_more_than_a_fair_share(fleet: list[Peer], data: st.DataObject) -> None:
    names = [None, *(p.incarnation for p in fleet)]
    leases = {p: data.draw(st.sampled_from(names)) for p in range(PARTITIONS)}
    view = FleetView(tuple(fleet), leases)

    for each in fleet:
        plan = make_plan(view, each.incarnation)
        assert all(leases[partition] is None for partition in plan.acquire)
        assert len(set(plan.acquire)) == len(plan.acquire)
        assert all(leases[partition] == each.incarnation for partition in plan.give_back)
        assert len(set(plan.give_back)) == len(plan.give_back)
        assert not (plan.acquire and plan.give_back)
        assert each.incarnation not in plan.remove_dead
        assert set(plan.remove_dead) == {p.incarnation for p in fleet if p.dead and p is not each}


@given(st.lists(peers, min_size=1, max_size=8, unique_by=lambda p: p.incarnation), st.data())
def test_following_the_plan_shares_differ_by_at_most_one(fleet: list[Peer], data: st.DataObject) -> None:
    names = [None, *(p.incarnation for p in fleet)]
    leases: dict[int, int | None] = {p: data.draw(st.sampled_from(names)) for p in range(PARTITIONS)}
    living = [p for p in fleet if not p.dead and not p.draining]

    for _ in range(4):
        for me in living:
            plan = make_plan(FleetView(tuple(fleet), leases), me.incarnation)
            for dead in plan.remove_dead:
                leases = {p: None if owner == dead else owner for p, owner in leases.items()}
            leases |= dict.fromkeys(plan.acquire, me.incarnation)
            leases |= dict.fromkeys(plan.give_back)
    counts = [sum(owner == me.incarnation for owner in leases.values()) for me in living]

    if living:
        draining = {p.incarnation for p in fleet if p.draining and not p.dead}
        kept = sum(owner in draining for owner in leases.values())
        if not kept:
            assert sum(counts) == PARTITIONS
            assert max(counts) - min(counts) <= 1
        assert max(counts) <= PARTITIONS // len(living) + 1


# -- two schedulers on one database -----------------------------------------------------------


async def shares(it: Running) -> dict[int | None, int]:
    rows = await it.fetch("SELECT incarnation, count(*) FROM partition_lease GROUP BY 1")
    return dict(rows)


def owned(it: Running) -> set[int]:
    return set(it.session.cache.partitions)


async def balanced(*fleet: Running) -> None:
    """Return when everybody holds a fair share, and all partitions are held."""
    share = PARTITIONS // len(fleet)

    def fair() -> bool:
        return sum(len(owned(it)) for it in fleet) == PARTITIONS and all(
            share <= len(owned(it)) <= share + 1 for it in fleet
        )

    await until(fair, f"fair shares; there are {[len(owned(it)) for it in fleet]}")


async def test_one_scheduler_gets_all_partitions_and_leaves_them_free(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        assert owned(it) == set(range(PARTITIONS))
        assert await shares(it) == {it.incarnation: PARTITIONS}
        scheduler = it.scheduler

        await scheduler.stop(grace=0)

        assert await shares(it) == {None: PARTITIONS}
        assert await it.fetch("SELECT 1 FROM scheduler") == []


async def test_a_second_scheduler_gets_half_and_when_it_goes_the_first_gets_it_back(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as first:
        async with running(dsn, clock, settle=False) as second:
            await balanced(first, second)
            assert not owned(first) & owned(second)
            assert await shares(first) == {first.incarnation: 32, second.incarnation: 32}

        await until(lambda: len(owned(first)) == PARTITIONS, "all partitions to come back")


@pytest.mark.slow
async def test_three_schedulers_share_fairly(dsn: str, clock: FakeClock) -> None:
    async with (
        running(dsn, clock) as first,
        running(dsn, clock, settle=False) as second,
        running(dsn, clock, settle=False) as third,
    ):
        await balanced(first, second, third)
        assert len(owned(first) | owned(second) | owned(third)) == PARTITIONS


async def test_no_run_is_created_twice_and_no_task_started_twice_by_two_live_schedulers(
    dsn: str, clock: FakeClock
) -> None:
    specs = [chain(f"d{i}", 2, schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=3) for i in range(30)]
    async with running(dsn, clock, *specs, executor=ScriptedExecutor(clock, script=succeeding)) as first:
        executor = ScriptedExecutor(clock, script=succeeding)
        async with running(dsn, clock, executor=executor, settle=False) as second:
            for hour in range(10):
                clock.advance(3600)
                for it in (first, second):
                    it.scheduler.wake_loops()
                if hour == 5:
                    await balanced(first, second)
            await first.settled()
            await second.settled()

            def created() -> bool:
                count = first.scheduler.metrics.runs_created + second.scheduler.metrics.runs_created
                return count == 300 and not first.session.cache.boards and not second.session.cache.boards

            await until(created, "all runs")
            assert await first.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [("success", 300)]
            keys = [a.key for it in (first, second) for a in it.executor.submitted]
            assert len(keys) == len(set(keys)) == 600
            await first.assert_consistent()
            await second.assert_consistent()


async def test_a_pool_is_shared_by_all_schedulers(dsn: str, clock: FakeClock) -> None:
    specs = [dag(dag_in(partition), task("a", pool="etl")) for partition in range(PARTITIONS)]
    async with running(dsn, clock, *specs) as first, running(dsn, clock, settle=False) as second:
        await first.execute("INSERT INTO pool (name, slots) VALUES ('etl', 3)")
        await balanced(first, second)
        for spec in specs[:16]:
            await first.scheduler.trigger(spec.dag_id, run_id="r")

        done = 0
        while done < 16:
            everything = {**first.executor.running, **second.executor.running}
            assert len(everything) <= 3
            for it in (first, second):
                for attempt in list(it.executor.running.values()):
                    it.executor.succeed(attempt)
                    done += 1
            await first.settled()
            await second.settled()
        assert first.executor.submitted
        assert second.executor.submitted
        await first.assert_consistent()


async def test_requests_reach_the_owner_wherever_they_are_made(dsn: str, clock: FakeClock) -> None:
    specs = [dag(dag_in(partition)) for partition in range(0, PARTITIONS, 8)]
    async with running(dsn, clock, *specs) as first, running(dsn, clock, settle=False) as second:
        await balanced(first, second)

        for it in (first, second):
            for spec in specs:
                await it.scheduler.trigger(spec.dag_id)

        answered = await first.fetch("SELECT applied_by, count(*) FROM request GROUP BY 1")
        assert {incarnation for incarnation, _ in answered} == {first.incarnation, second.incarnation}
        assert sum(count for _, count in answered) == 2 * len(specs)


@pytest.mark.slow
async def test_a_new_dag_is_seen_by_its_owner_whoever_registered_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as first, running(dsn, clock, settle=False) as second:
        await balanced(first, second)
        theirs = dag(dag_in(min(owned(second))))
        await register(first.db, theirs)

        await until(lambda: theirs.dag_id in second.session.cache.dags, "the news")
        assert theirs.dag_id not in first.session.cache.dags


@pytest.mark.slow
async def test_a_look_from_before_a_partition_was_given_back_does_not_bring_it_back(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        async with it.session.locks.ownership:
            async with it.db.acquire() as conn:
                before = await read_fleet(conn)
            await give_back(it.session, [7])
            assert len(owned(it)) == PARTITIONS - 1

            for _ in range(2):  # nothing says that the first look after the release is a fresh one
                await apply_view(it.session, before)

            assert len(owned(it)) == PARTITIONS - 1
        await it.until(lambda: len(owned(it)) == PARTITIONS, "the partition to be taken again")


async def test_partitions_that_others_hold_locked_are_left_for_the_next_regular_look(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    async with running(dsn, clock) as it:
        async with it.session.locks.ownership:
            await give_back(it.session, range(3))
            async with db.acquire() as conn, conn.transaction():
                view = await read_fleet(conn)
                await conn.execute("SELECT FROM partition_lease FOR UPDATE")

                assert not await apply_view(it.session, view)  # nothing has changed: no reason to look again at once

            assert await apply_view(it.session, view)
        await it.until(lambda: len(owned(it)) == PARTITIONS, "the partitions to be taken again")


async def test_a_row_that_a_dead_scheduler_still_holds_locked_holds_up_nobody(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    async with running(dsn, clock) as it:
        async with db.acquire() as conn, it.db.acquire() as other:
            dead = await conn.fetchval(
                "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
                " VALUES ('dead', 'h', 1, '0', 'none', 1, now() - interval '1 minute') RETURNING incarnation"
            )
            async with conn.transaction():
                await conn.execute("SELECT FROM scheduler WHERE incarnation = $1 FOR KEY SHARE", dead)

                assert not await ownership.take_over(other, dead, process_gone=False)

        await it.until(lambda: it.scheduler.metrics.takeovers == 1, "the take-over")


# -- the lease --------------------------------------------------------------------------------


async def test_a_silent_scheduler_is_taken_over_when_its_lease_runs_out(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2), lease=3.0) as first:
        await first.trigger("d", "r")
        old = first.incarnation
        with _silenced(first):
            async with running(dsn, clock, lease=3.0, settle=False) as second:
                await until(lambda: len(owned(second)) == PARTITIONS, "the take-over")
                await second.settled()
                assert second.scheduler.metrics.takeovers == 1
                assert not first.scheduler._incarnation._lease.trusted()  # type: ignore[union-attr]
                assert await second.fetch("SELECT state, queued_by FROM task_try") == [("lost", old)]
                await second.finish("t0", "t1")
                assert await second.runs("d") == {"r": "success"}


@contextlib.contextmanager
def _silenced(it: Running) -> Iterator[None]:
    """The lease thread of this scheduler hangs, as a process does whose machine sleeps."""
    lease = it.scheduler._incarnation._lease  # type: ignore[union-attr]
    awake = threading.Event()
    original = lease._poll_requested.wait
    lease._poll_requested.wait = lambda timeout=None: awake.wait()  # type: ignore[method-assign]
    lease.poll_now()
    try:
        yield
    finally:
        lease._poll_requested.wait = original  # type: ignore[method-assign]
        awake.set()


async def test_a_trust_window_that_has_passed_is_never_armed_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        lease = it.scheduler._incarnation._lease  # type: ignore[union-attr]
        assert lease.trusted()
        lease._trusted_until = 1.0  # long past

        assert not lease.trusted()
        lease._trust(attempt_started=1e12)

        assert not lease.trusted()
