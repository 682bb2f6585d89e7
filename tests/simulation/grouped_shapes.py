"""The shapes of DAGs with mapped task groups."""

from __future__ import annotations

from random import Random
from typing import Final

from aiosched.core.graph.spec import GroupSpec, LiteralLength, MapInput, MappingSpec, TaskOutput, TaskSpec
from tests.simulation.shapes import LENGTHS, POOL, How, Shape, Wait, over, plain_task, wait_for


def _grouped(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """A group for each value that a task returned; some of them fail in the middle, for good."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    how["groups"][dag_id] = (_group("g", TaskOutput("list")),)
    how["failures"][dag_id, "g.first"] = random.choice((0, 0, 1))
    if random.random() < 0.5:
        how["broken"][dag_id, "g.second"] = random.randrange(3)
    if random.random() < 0.3:
        how["waits"][dag_id, "g.second"] = Wait(1, 3.0)
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    first = plain_task("g.first", "list", group_id="g", retries=1, retry_delay=random.choice((0.0, 1.0)))
    second = plain_task("g.second", "g.first", group_id="g", **pool)
    third = plain_task("g.third", "g.second", group_id="g")
    rule = random.choice(("all_success", "none_failed_min_one_success"))
    return (plain_task("list"), first, second, third, plain_task("end", "g.third", trigger_rule=rule))


def _grouped_fan(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """A group of a number that is known from the beginning; in it, one task begins in a trigger."""
    number = random.randint(1, 4)
    how["groups"][dag_id] = (_group("g", LiteralLength(number)),)
    how["waits"][dag_id, "g.left"] = Wait(1, random.choice((0.5, 3.0)))
    if random.random() < 0.3:
        how["broken"][dag_id, "g.right"] = random.randrange(number)
    left = plain_task("g.left", "g.first", group_id="g", starts_deferred=wait_for(1))
    right = plain_task("g.right", "g.first", group_id="g")
    last = plain_task("g.last", "g.left", "g.right", group_id="g")
    return (plain_task("g.first", group_id="g"), left, right, last, plain_task("end", "g.last"))


def _groups_in_a_row(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """A task that is mapped over what the last tasks of a group returned: those that did."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    how["groups"][dag_id] = (_group("g", TaskOutput("list")),)
    first = plain_task("g.first", "list", group_id="g")
    last = plain_task("g.last", "g.first", group_id="g")
    return (plain_task("list"), first, last, over("each", TaskOutput("g.last")), plain_task("end", "each"))


def _nested(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """A mapped group in a mapped group."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    inner = _group("g.h", LiteralLength(random.randint(1, 2)), parent="g")
    how["groups"][dag_id] = (_group("g", TaskOutput("list")), inner)
    first = plain_task("g.first", "list", group_id="g")
    below = plain_task("g.h.below", "g.first", group_id="g.h")
    last = plain_task("g.last", "g.h.below", group_id="g")
    return (plain_task("list"), first, below, last, plain_task("end", "g.last"))


GROUPED: Final[tuple[Shape, ...]] = (_grouped, _grouped, _grouped_fan, _groups_in_a_row, _nested)


def _group(group_id: str, mapped: MapInput, *, parent: str | None = None) -> GroupSpec:
    return GroupSpec(group_id=group_id, parent_id=parent, mapping=MappingSpec(inputs=(mapped,)))
