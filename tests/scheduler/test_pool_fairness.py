"""One pool, several schedulers: a freed slot goes to the best waiting task of the whole fleet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosched.clock import FakeClock
from aiosched.core.slots.allocation import Candidate, DagRoom, ExecutorRoom, PoolRoom, Room
from aiosched.core.slots.waiting import WaitingQueue
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import AttemptKey
from aiosched.db.statements.journal import PoolRow
from aiosched.scheduler.memory.pool_fairness import PATIENCE, PoolFairness
from tests.scheduler.harness import Running, dag, dag_in, running, task

# -- the decisions, without a database --------------------------------------------------------


@dataclass
class Fleet:
    """Schedulers with a queue each, and the row of the pool that they share."""

    slots: int
    used: int = 0
    demands: dict[str, str] = field(default_factory=dict)
    queues: list[WaitingQueue] = field(default_factory=list)
    manners: list[PoolFairness] = field(default_factory=list)
    now: float = 100.0
    writes: int = 0

    def join(self, *weights: int) -> None:
        """One more scheduler, with a DAG for each of these tasks."""
        number = len(self.queues)
        self.manners.append(PoolFairness(number))
        self.queues.append(WaitingQueue())
        for n, weight in enumerate(weights):
            self.line_up(number, weight, n)

    def line_up(self, number: int, weight: int, run: int) -> None:
        room = DagRoom(f"{number}.{run}", 16)
        self.queues[number].add(Candidate(AttemptKey(run, 0, -1, 1), room, pool="etl", weight=weight))

    def turn(self, number: int) -> tuple[list[int], set[int]]:
        """A pass of one scheduler under the pool's lock: the weights of what it took, and whom it wakes."""
        pool_fairness, queue = self.manners[number], self.queues[number]
        stored = "{" + ",".join(f'"{who}":{demand}' for who, demand in self.demands.items()) + "}"
        row = PoolRow(self.slots, self.used, demands=stored, read_at=self.now + 5000)
        competing_demands = {"etl": pool_fairness.competing_demands("etl", row, self.now)}
        executor = ExecutorRoom("local", 100, 100)
        room = Room({"etl": PoolRoom(self.slots, self.slots - self.used)}, {None: executor}, 100, 100)
        room.pools["etl"].competing_demands = list(competing_demands["etl"])
        taken = [candidate.weight for candidate in queue.take(room, self.now).taken]
        changes = pool_fairness.changes(queue.demands(room, self.now), {"etl": row}, self.now, served=queue.served)
        for demand in changes.values():
            self.demands.pop(str(number), None)
            self.writes += 1
            if demand is not None:
                self.demands[str(number)] = demand
        self.used += len(taken)
        return taken, pool_fairness.winners(room.pools, competing_demands, self.now)

    def settle(self, first: int, *, hung: frozenset[int] = frozenset()) -> list[int]:
        """Let `first` have its turn, and whoever is woken by that; the weights of all that was taken."""
        taken, woken = self.turn(first)
        for _ in range(100):
            awake = sorted(woken - hung)
            if not awake:
                return taken
            more, woken = self.turn(awake[0])
            taken += more
            woken |= set(awake[1:])
        raise AssertionError("they go on waking each other")


weights = st.lists(st.integers(0, 6), max_size=5)


@settings(max_examples=max(settings.default.max_examples // 5, 1))  # each is a whole story of many passes
@given(st.lists(weights, min_size=2, max_size=4), st.integers(1, 3), st.data())
def test_each_freed_slot_goes_to_the_best_of_the_whole_fleet(
    fleet: list[list[int]], slots: int, data: st.DataObject
) -> None:
    it = Fleet(slots, used=slots)
    for waiting in fleet:
        it.join(*waiting)
    for number in range(len(fleet)):
        assert it.settle(number) == []
    left = sorted((weight for waiting in fleet for weight in waiting), reverse=True)

    while left:
        freed = data.draw(st.integers(1, slots))
        it.used -= freed
        it.now += data.draw(st.floats(0.05, 3))
        taken = it.settle(data.draw(st.integers(0, len(fleet) - 1)))

        assert sorted(taken, reverse=True) == left[:freed]
        left = left[freed:]
        it.used = slots
    for number in range(len(fleet)):
        it.settle(number)
    assert it.demands == {}


def test_equals_of_two_schedulers_take_turns() -> None:
    it = Fleet(1, used=1)
    for _ in range(2):
        it.join(*[1] * 20)
    it.settle(0)
    it.settle(1)
    served = []
    for _ in range(30):  # the first one frees a slot five times a second, and is always the one to look first
        it.now += 0.2
        it.used -= 1
        before = len(it.queues[0])
        it.settle(0)
        served.append(0 if len(it.queues[0]) < before else 1)

    longest = max(len(run) for who in "01" for run in "".join(map(str, served)).split("10"[int(who)]))
    assert longest <= 7
    assert 10 <= sum(served) <= 20


def test_a_rival_that_hangs_costs_two_seconds_and_no_more() -> None:
    it = Fleet(2, used=2)
    it.join(1, 1, 1)
    it.join(9, 9)
    it.settle(1)
    hung = frozenset({1})

    it.used = 0
    assert it.settle(0, hung=hung) == []
    it.now += PATIENCE - 0.1
    assert it.settle(0, hung=hung) == []
    it.now += 0.2
    assert it.settle(0, hung=hung) == [1, 1]

    it.used = 0
    it.line_up(1, 9, run=7)
    assert sorted(it.settle(1)) == [9, 9], "it is alive again"


def test_a_demand_is_stored_only_when_it_changes() -> None:
    it = Fleet(2, used=2)
    it.join(1, 1, 1)
    it.join()
    for _ in range(5):
        it.now += 1
        it.settle(0)
        it.settle(1)

    assert it.writes == 1
    assert msgspec.json.decode(it.demands["0"]) == [False, 1, 5101.0, 1, 2, 0]


# -- two real schedulers ----------------------------------------------------------------------


async def _shared_out(first: Running, second: Running) -> None:
    def fair() -> bool:
        return len(first.session.cache.partitions) == len(second.session.cache.partitions) == 32

    await first.until(fair, "fair shares")


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("waiting_at", ["the one that frees", "the other one"])
async def test_a_freed_slot_goes_to_the_highest_priority_wherever_it_waits(
    dsn: str, clock: FakeClock, waiting_at: str
) -> None:
    names = [dag_in(partition) for partition in range(PARTITIONS)]
    specs = [dag(f"{name}_{w}", task("a", pool="etl", priority_weight=w)) for name in names for w in (1, 5, 9)]
    async with running(dsn, clock, *specs) as first, running(dsn, clock, settle=False) as second:
        await first.execute("INSERT INTO pool (name, slots) VALUES ('etl', 1)")
        await _shared_out(first, second)
        here = {w: [d for d in first.session.cache.dags if d.endswith(f"_{w}")] for w in (1, 5, 9)}
        there = {w: [d for d in second.session.cache.dags if d.endswith(f"_{w}")] for w in (1, 5, 9)}
        high, low = (here, there) if waiting_at == "the one that frees" else (there, here)
        await first.trigger(here[5][0], "holds")
        holder = await first.attempt("a", "holds")
        await first.scheduler.trigger(low[5][1], run_id="r")  # lines up first
        await first.scheduler.trigger(low[1][0], run_id="r")
        await first.scheduler.trigger(high[9][0], run_id="r")
        await first.settled()
        await second.settled()

        order = []
        running_now = [(first, holder)]
        while running_now:
            (it, attempt) = running_now[0]
            order.append(attempt.priority_weight)
            clock.advance(0.01)
            it.executor.succeed(attempt)
            running_now = await _next_attempt(first, second, len(order))

        assert order == [5, 9, 5, 1]
        await first.settled()
        await second.settled()
        await _pool_is_quiet(first)


async def _next_attempt(first: Running, second: Running, done: int) -> list[tuple[Running, object]]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [(it, a) for it in (first, second) for a in it.executor.running.values()]
            assert len(found) <= 1, "the pool has one slot"
            if found or done == 4:
                return found  # type: ignore[return-value]
            await asyncio.sleep(0.001)


async def _pool_is_quiet(it: Running) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await it.fetch("SELECT used, demands::text FROM pool WHERE name = 'etl'") == [(0, "{}")]:
                return
            await asyncio.sleep(0.01)


async def test_the_first_waiting_task_of_a_dag_is_passed_over_for_no_longer_than_the_limit(
    dsn: str, clock: FakeClock
) -> None:
    low, high = (dag(f"w{w}", task("a", pool="etl", priority_weight=w), max_active_runs=100) for w in (1, 9))
    async with running(dsn, clock, low, high, passed_over_limit=600.0) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('etl', 1)")
        await it.trigger("w9", "r0")
        await it.trigger("w1", "patient")
        for number in range(1, 12):  # a better one is always there
            await it.trigger("w9", f"r{number}")
            clock.advance(60)
            await it.finish("a")

        order = [attempt.run.run_id for attempt in it.executor.submitted]
        assert order.index("patient") == 10
        assert await it.runs("w1") == {"patient": "success"} or it.executor.find("a", "patient")
