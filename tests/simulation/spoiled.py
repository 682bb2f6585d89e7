"""Histories to which something was done, for the tests that the checker objects to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tests.simulation.checker import violations
from tests.simulation.history import Commit, Event, History, RowChange
from tests.simulation.simulate import simulate
from tests.simulation.workload import Plan, make_plan


@cache
def played(seed: int) -> tuple[Plan, History]:
    """One machine to which nothing happens."""
    plan = replace(make_plan(seed), machines=1, blows=(), rough=0.0)
    history = simulate(seed, plan)
    assert violations(plan, history) == []
    return plan, history


def objections(seed: int, spoil: Callable[[list[Event]], list[Event]]) -> list[str]:
    """What the checker says to the spoiled events of a seed that is `played`."""
    plan, history = played(seed)
    return violations(plan, replace(history, events=spoil(list(history.events)), seen=history.seen.copy()))


def without(events: list[Event], table: str, unwanted: Callable[[RowChange], bool]) -> list[Event]:
    """Without the changes of a table's rows that are unwanted."""
    return [
        e._replace(changes=[c for c in e.changes if c.table != table or not unwanted(c)])
        if isinstance(e, Commit)
        else e
        for e in events
    ]
