"""The simulation itself: locks of the modelled PostgreSQL, and what people may ask for."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.loop import VirtualLoop, run
from tests.simulation.store import Store, Strength, Transaction
from tests.simulation.workload import ARRIVAL, make_plan

_ROW, _OTHER = ("pool", "small"), ("scheduler", 1)


@pytest.mark.parametrize("how", ["got its lock", "was ended"])
def test_a_transaction_that_waits_no_longer_and_has_not_gone_on_yet_is_no_part_of_a_circle(how: str) -> None:
    # given one that has a row, and one that waits for it and has another row
    loop = VirtualLoop(Random(0))
    store = Store(loop)

    async def play() -> None:
        first, second, third = (_begin(store, node) for node in (1, 2, 3))
        await store.lock(first, _ROW, Strength.UPDATE)
        await store.lock(second, _OTHER, Strength.UPDATE)
        ahead = loop.create_task(store.lock(second, _ROW, Strength.UPDATE))
        await asyncio.sleep(0)

        # when its wait is over, and a third one wants what it has before it is its turn
        wanted = _ROW if how == "got its lock" else _OTHER
        behind = loop.create_task(store.lock(third, wanted, Strength.UPDATE))
        if how == "got its lock":
            store.roll_back(first)
        else:
            second.backend.busy = True
            store.end(second.backend)
        await asyncio.wait([ahead])

        # then the third one waits, until the second one is over
        assert not behind.done()
        store.roll_back(second)
        await behind
        assert (ahead.exception() is None) is (how == "got its lock")
        assert third.held == {wanted: Strength.UPDATE}
        assert store.deadlocks == []

    run(loop, play())
    loop.close()


def test_no_dag_stays_paused_because_its_unpause_overtook_its_pause() -> None:
    asked = 0
    for seed in range(100):
        plan = make_plan(seed, harsh=seed % 2 == 1)
        paused = {request.dag_id: request.at for request in plan.requests if request.verb == "pause"}
        unpaused = {request.dag_id: request.at for request in plan.requests if request.verb == "unpause"}

        assert paused.keys() == unpaused.keys()
        assert all(unpaused[dag_id] >= at + ARRIVAL for dag_id, at in paused.items())
        assert 10 * plan.latency < ARRIVAL
        asked += len(paused)

    assert asked > 20


def _begin(store: Store, node: int) -> Transaction:
    return store.begin(store.connect(node, "test"), explicit=True)
