"""When a simulated fleet is judged: when it has come to rest, and not sooner; and what of the fleet is judged then."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from tests.simulation import statements
from tests.simulation.checker import violations
from tests.simulation.simulate import Simulation, simulate
from tests.simulation.store import EPOCH, Transaction
from tests.simulation.workload import FAULTS_END, Blow, Plan, make_plan


def _idle(machines: int) -> Plan:
    """A fleet to which nothing happens, and which has nothing to do when the time of faults is over."""
    return replace(make_plan(1), machines=machines, specs=(), requests=(), intervals={}, blows=(), rough=0.0)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("after", [-0.5, -0.1, 0.3, 0.7, 1.1, 1.5, 1.8, 1.99, 1.9999])
def test_a_machine_that_comes_in_the_last_moment_gets_its_share_before_the_fleet_is_judged(after: float) -> None:
    def meddle(simulation: Simulation) -> None:
        simulation.loop.call_at(FAULTS_END + after, simulation.add_machine)

    plan = _idle(1)
    history = simulate(1, plan, meddle=meddle)

    assert violations(plan, history) == []
    owned = [row["incarnation"] for row in history.tables["partition_lease"].values()]
    assert [owned.count(incarnation) for incarnation in sorted(history.living)] == [32, 32]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3.0, ""),
        (6.0, "were without an owner for more than 5 seconds"),  # and have one when the fleet is judged
        (1000.0, "are without an owner in the end"),
    ],
)
def test_partitions_that_stay_without_an_owner_while_a_scheduler_lives_are_found(seconds: float, said: str) -> None:
    """One of two schedulers leaves just before the faults are over, and the other one does not take what is free."""

    async def take_later(t: Transaction, number: int, wanted: list[int]) -> statements.Answer:
        now = (t.now - EPOCH).total_seconds()
        if FAULTS_END - 2 < now < FAULTS_END + seconds:
            return statements.answer("partition", [], "UPDATE")
        return await statements.acquire(t, number, wanted)

    (text,) = [text for text, handler in statements.HANDLERS.items() if handler is statements.acquire]
    plan = replace(_idle(2), blows=(Blow(FAULTS_END - 1, "leave", 0, 1000.0),))
    with mock.patch.dict(statements.HANDLERS, {text: take_later}), mock.patch(f"{simulate.__module__}._PATIENCE", 9.0):
        history = simulate(1, plan)

    found = violations(plan, history)
    assert [one[:10] for one in found] == ["[nobody's]"] * bool(said)
    assert all(one.endswith(said) for one in found), found
