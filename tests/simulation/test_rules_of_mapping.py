"""The checker of simulated fleets objects when the instances of a mapped task are not those that there should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.checker import violations
from tests.simulation.history import Event, RowChange
from tests.simulation.spoiled import objections, played, without

pytestmark = pytest.mark.slow

_MAPPED = 1  # a seed with a task that is mapped over what another returned
_GROUPED = 17  # one with a group in which a task fails at the first index


def _is_unexpanded(change: RowChange) -> bool:
    return change.new is None and change.key[2] == -1


def _makes_the_first(change: RowChange) -> bool:
    return change.old is None and change.key[2] == 0


def _last_ends(change: RowChange) -> bool:
    return change.new is not None and change.key[2] > 0 and change.new["state"] == "success"


@pytest.mark.parametrize(
    ("unwanted", "rule", "said"),
    [
        (_is_unexpanded, "mapping", "beside the task that was to be expanded"),
        (_makes_the_first, "mapping", "without the instance before it"),
        (_last_ends, "dependencies", "is queued while"),
    ],
)
def test_instances_that_are_not_as_they_should_be_are_found(
    unwanted: Callable[[RowChange], bool], rule: str, said: str
) -> None:
    def spoil(events: list[Event]) -> list[Event]:
        return without(events, "task_instance", unwanted)

    found = objections(_MAPPED, spoil)

    assert any(one.startswith(f"[{rule}]") and said in one for one in found), found


@pytest.mark.parametrize("more", [-1, 1])
def test_one_instance_more_or_less_than_there_are_values_is_found(more: int) -> None:
    plan, history = played(_MAPPED)
    lengths = {task: tuple(length + more for length in lengths) for task, lengths in plan.behaviour.lengths.items()}

    found = violations(replace(plan, behaviour=replace(plan.behaviour, lengths=lengths)), history)

    assert any(one.startswith("[outcome]") for one in found), found


# -- mapped task groups


def _succeeds(task: int, index: int) -> Callable[[RowChange], bool]:
    """Whether an instance of a group succeeds; in `_GROUPED` no other DAG has a task of that map index."""

    def is_meant(change: RowChange) -> bool:
        return change.key[1:] == (task, index) and change.new is not None and change.new["state"] == "success"

    return is_meant


def test_an_instance_of_a_group_that_begins_before_those_that_belong_to_it_is_found() -> None:
    found = objections(_GROUPED, lambda events: without(events, "task_instance", _succeeds(1, 2)))

    said = [one for one in found if one.startswith("[dependencies]")]
    assert said
    assert all("g.second[2] is queued while" in one for one in said), said


@pytest.mark.parametrize("broken", [1, None])
def test_a_failure_in_a_group_that_is_not_at_its_index_only_is_found(broken: int | None) -> None:
    plan, history = played(_GROUPED)
    where = {} if broken is None else dict.fromkeys(plan.behaviour.broken, broken)

    found = violations(replace(plan, behaviour=replace(plan.behaviour, broken=where)), history)

    assert any(one.startswith("[outcome]") and "g.second" in one for one in found), found
