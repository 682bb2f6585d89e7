"""The shapes of DAGs whose tasks begin in a trigger, or wait for triggers that do not fire in time."""

from __future__ import annotations

from random import Random
from typing import Final

from aiosched.core.graph.spec import TaskSpec
from tests.simulation.shapes import POOL, How, Shape, Wait, plain_task, wait_for

ALWAYS: Final = 99  # real tries: more than any task has


def _late(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Waits in its first tries for what never comes, or comes when its time is about over; its last try succeeds."""
    late, timeout = random.randint(1, 2), random.choice((0.0, 1.0, 4.0))
    how["waits"][dag_id, "fetch"] = Wait(random.randint(1, 2), 1.0, late, timeout, fires=random.random() < 0.5)
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    fetch = plain_task("fetch", retries=late, retry_delay=random.choice((0.0, 1.0)), **pool)
    return (fetch, plain_task("end", "fetch"))


def _too_late(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Begins in a trigger that never fires; the timeout is its own, or that of the task."""
    timeout = random.choice((1.0, 5.0))
    how["waits"][dag_id, "poll"] = Wait(1, 1.0, ALWAYS, timeout)
    own = random.random() < 0.5
    poll = plain_task(
        "poll",
        "submit",
        retries=random.randint(0, 1),
        retry_delay=random.choice((0.0, 1.0)),
        execution_timeout=None if own else timeout,
        starts_deferred=wait_for(1, timeout if own else None),
    )
    return (plain_task("submit"), poll, plain_task("never", "poll"))


def _begins_waiting(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Begins in a trigger, may wait for more, and may fail at first."""
    how["waits"][dag_id, "poll"] = Wait(random.randint(1, 2), random.choice((0.5, 3.0)))
    how["failures"][dag_id, "poll"] = random.choice((0, 0, 1))
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    poll = plain_task("poll", *random.choice(((), ("submit",))), retries=1, retry_delay=random.choice((0.0, 1.0)),
                      starts_deferred=wait_for(1), **pool)  # fmt: skip
    return (plain_task("submit"), poll, plain_task("end", "poll", "submit"))


def _begins_in_order(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Waits for the run before, and begins in a trigger."""
    how["waits"][dag_id, "poll"] = Wait(1, random.choice((0.5, 3.0)))
    poll = plain_task("poll", depends_on_past=True, starts_deferred=wait_for(1))
    return (poll, plain_task("after", "poll"))


TIMED: Final[tuple[Shape, ...]] = (_late, _late, _too_late, _begins_waiting, _begins_waiting, _begins_in_order)
