"""The shapes of the workload's DAGs: their tasks, and how the attempts of these go."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from aiosched.core.graph.spec import LiteralLength, MapInput, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.values.messages import Deferral

BUSY_SECONDS: Final = 40.0  # while DAGs are scheduled and people ask for things
POOL, SLOTS, RATE = "small", 2, "5/2s"


class Wait(NamedTuple):
    """What each real try of a task waits for, one trigger after the other.

    In the first `late` of them the last trigger never fires, or `fires` about when its `timeout` is over.
    """

    triggers: int
    seconds: float  # that each takes at most
    late: int = 0
    timeout: float = 0.0
    fires: bool = False

    def is_late(self, real_try: int, place: int) -> bool:
        """Whether that trigger of a try, counted from 1, has a timeout that may pass."""
        return real_try <= self.late and place == self.triggers


def wait_for(place: int, timeout: float | None = None) -> Deferral:
    """What a try waits for: its trigger number `place`, which has arguments of its own, as has what goes on then."""
    return Deferral(
        classpath="tests.Virtual",
        kwargs=arguments(place),
        next_method=f"after_{place}",
        next_kwargs=arguments(-place),
        timeout=timeout,
    )


def arguments(number: int) -> str:
    """Arguments that belong to one trigger, or negated to what follows it, as JSON."""
    return f'{{"number":{number}}}'


How = dict[str, Any]
Shape = Callable[[Random, str, How], tuple[TaskSpec, ...]]


def no_troubles() -> How:
    """How attempts go unless a shape says otherwise: they succeed. Keys are those of `Behaviour`; and mapped groups."""
    return {"failures": {}, "reschedules": {}, "branches": {}, "silent": set(), "waits": {}, "lengths": {},
            "broken": {}, "groups": {}}  # fmt: skip


def plain_task(task_id: str, *after: str, **options: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="Virtual", upstream=tuple(sorted(after)), is_async=True, **options)


def _chain(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    return tuple(plain_task(f"t{i}", *([f"t{i - 1}"] if i else [])) for i in range(random.randint(1, 4)))


def _fan(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    inner = [
        plain_task(
            f"f{i}", "a", pool=POOL, pool_slots=2 if i == 0 and random.random() < 0.5 else 1, priority_weight=i + 1
        )
        for i in range(random.randint(2, 4))
    ]
    return (plain_task("a"), *inner, plain_task("z", *(task.task_id for task in inner)))


def _branch(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    how["branches"][dag_id, "choose"] = "left"
    join = plain_task("join", "left", "right", trigger_rule="none_failed_min_one_success")
    return (
        plain_task("choose", can_skip_downstream=True),
        plain_task("left", "choose"),
        plain_task("right", "choose"),
        join,
    )


def _bumpy(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    how["failures"][dag_id, "retried"] = random.randint(0, 2)
    how["reschedules"][dag_id, "sensor"] = random.uniform(0, BUSY_SECONDS)
    retried = plain_task("retried", retries=2, retry_delay=random.choice((0.0, 1.0, 3.0)))
    return (retried, plain_task("sensor"), plain_task("end", "retried", "sensor"))


def _doomed(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Fails in the end, without a word from its worker: the scheduler has callbacks to call."""
    how["failures"][dag_id, "dies"] = 9
    how["silent"].add((dag_id, "dies"))
    callbacks = {"has_failure_callback": True, "has_retry_callback": True}
    return (plain_task("dies", retries=random.randint(0, 1), retry_delay=1.0, **callbacks), plain_task("never", "dies"))


SHAPES: Final[tuple[Shape, ...]] = (_chain, _fan, _fan, _branch, _bumpy, _doomed)
HARSH: Final[tuple[Shape, ...]] = (_fan, _fan, _bumpy, _doomed)


# -- DAGs that wait for other runs and for triggers -------------------------------------------


def _in_order(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Runs that overlap, and whose tasks go in the order of their dates."""
    how["failures"][dag_id, "load"] = random.choice((0, 0, 1))
    load = plain_task("load", "extract", depends_on_past=True, retries=1, retry_delay=random.choice((0.0, 1.0)))
    return (plain_task("extract", depends_on_past=random.random() < 0.5), load, plain_task("report", "load"))


def _one_by_one(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """A task that waits until those behind it have ended in the run before, too."""
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    return (
        plain_task("first", wait_for_downstream=True),
        plain_task("left", "first", **pool),
        plain_task("right", "first", **pool),
    )


def _patient(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Tasks that wait for triggers, once or more often in a try; some of their tries fail."""
    for task_id in ("submit", "fetch"):
        how["waits"][dag_id, task_id] = Wait(random.randint(1, 3), random.choice((0.5, 3.0, 9.0)))
    how["failures"][dag_id, "fetch"] = random.randint(0, 1)
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    fetch = plain_task("fetch", retries=1, retry_delay=random.choice((0.0, 1.0)), **pool)
    return (plain_task("submit"), fetch, plain_task("end", "submit", "fetch"))


def _patient_in_order(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Waits for the run before, and then for its triggers."""
    how["waits"][dag_id, "wait"] = Wait(random.randint(1, 2), random.choice((0.5, 3.0)))
    past = {"depends_on_past": True} if random.random() < 0.5 else {"wait_for_downstream": True}
    return (plain_task("wait", **past), plain_task("after", "wait"))


WAITING: Final[tuple[Shape, ...]] = (_in_order, _one_by_one, _patient, _patient, _patient_in_order)


# -- DAGs with mapped tasks -------------------------------------------------------------------

# How many values a task returns in its tries, in turn: it runs again when it is cleared.
LENGTHS: Final = ((0,), (1,), (3,), (2, 4), (4, 1), (3, 2, 5))


def over(task_id: str, *inputs: MapInput, **options: Any) -> TaskSpec:
    after = [each.task_id for each in inputs if isinstance(each, TaskOutput)]
    return plain_task(task_id, *after, mapping=MappingSpec(inputs=inputs), **options)


def _mapped(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """One instance for each value that a task returned; some fail at first, some wait for triggers."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    how["failures"][dag_id, "each"] = random.choice((0, 0, 1))
    if random.random() < 0.3:
        how["waits"][dag_id, "each"] = Wait(1, 3.0)
    pool = {"pool": POOL} if random.random() < 0.5 else {}
    each = over("each", TaskOutput("list"), retries=1, retry_delay=random.choice((0.0, 1.0)), **pool)
    return (plain_task("list"), each, plain_task("end", "each"))


def _mapped_again(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Mapped over what a mapped task returned."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    return (
        plain_task("list"),
        over("each", TaskOutput("list")),
        over("again", TaskOutput("each")),
        plain_task("end", "again"),
    )


def _crossed(random: Random, dag_id: str, how: How) -> tuple[TaskSpec, ...]:
    """Instances that are there from the beginning, and every pair of two values."""
    how["lengths"][dag_id, "list"] = random.choice(LENGTHS)
    fixed = over("fixed", LiteralLength(random.randint(1, 3)))
    return (
        fixed,
        plain_task("list", "fixed"),
        over("pairs", TaskOutput("list"), LiteralLength(2)),
        plain_task("end", "pairs"),
    )


MAPPED: Final[tuple[Shape, ...]] = (_mapped, _mapped, _mapped_again, _crossed)


def looks_back(tasks: tuple[TaskSpec, ...]) -> bool:
    """Whether a task waits for the run before."""
    return any(task.depends_on_past or task.wait_for_downstream for task in tasks)
