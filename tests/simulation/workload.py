"""What a seed stands for: DAGs, how their attempts go, what people ask for, and what happens to the machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from aiosched.core.ids import PARTITIONS, partition_of
from aiosched.core.spec import DagSpec, TaskSpec, encode_spec
from aiosched.core.timetables.parse import parse_schedule
from tests.simulation.fleet import Behaviour
from tests.simulation.store import EPOCH

BUSY_SECONDS = 40.0  # while DAGs are scheduled and people ask for things
FAULTS_END = 50.0
ARRIVAL = 0.5  # in which a request is stored for certain: what is asked for sooner may overtake it
POOL, SLOTS = "small", 2


class Request(NamedTuple):
    at: float
    verb: str
    dag_id: str
    args: dict[str, Any]


class Blow(NamedTuple):
    """Something that happens to the fleet; `machine` counts among those that are up then."""

    at: float
    what: str  # kill, freeze, cut, cut_lease, isolate, join, leave
    machine: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    seed: int
    machines: int
    lease: float
    specs: tuple[DagSpec, ...]
    behaviour: Behaviour
    requests: tuple[Request, ...]
    blows: tuple[Blow, ...]
    rough: float  # how bad the network is: 0 to 1
    parallelism: int
    latency: float = 0.002  # seconds that a message takes at most, when nothing delays it
    intervals: dict[str, int] = field(default_factory=dict)  # of scheduled DAGs: how many runs there will be

    @property
    def retries(self) -> dict[tuple[str, str], int]:
        return {(spec.dag_id, task.task_id): task.retries for spec in self.specs for task in spec.tasks}


def _task(task_id: str, *after: str, **options: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="Virtual", upstream=tuple(sorted(after)), is_async=True, **options)


def _chain(random: Random, dag_id: str, how: dict[str, Any]) -> tuple[TaskSpec, ...]:
    return tuple(_task(f"t{i}", *([f"t{i - 1}"] if i else [])) for i in range(random.randint(1, 4)))


def _fan(random: Random, dag_id: str, how: dict[str, Any]) -> tuple[TaskSpec, ...]:
    inner = [
        _task(f"f{i}", "a", pool=POOL, pool_slots=2 if i == 0 and random.random() < 0.5 else 1, priority_weight=i + 1)
        for i in range(random.randint(2, 4))
    ]
    return (_task("a"), *inner, _task("z", *(task.task_id for task in inner)))


def _branch(random: Random, dag_id: str, how: dict[str, Any]) -> tuple[TaskSpec, ...]:
    how["branches"][dag_id, "choose"] = "left"
    join = _task("join", "left", "right", trigger_rule="none_failed_min_one_success")
    return (_task("choose", can_skip_downstream=True), _task("left", "choose"), _task("right", "choose"), join)


def _bumpy(random: Random, dag_id: str, how: dict[str, Any]) -> tuple[TaskSpec, ...]:
    how["failures"][dag_id, "retried"] = random.randint(0, 2)
    how["reschedules"][dag_id, "sensor"] = random.uniform(0, BUSY_SECONDS)
    retried = _task("retried", retries=2, retry_delay=random.choice((0.0, 1.0, 3.0)))
    return (retried, _task("sensor"), _task("end", "retried", "sensor"))


def _doomed(random: Random, dag_id: str, how: dict[str, Any]) -> tuple[TaskSpec, ...]:
    """Fails in the end, without a word from its worker: the scheduler has callbacks to call."""
    how["failures"][dag_id, "dies"] = 9
    how["silent"].add((dag_id, "dies"))
    callbacks = {"has_failure_callback": True, "has_retry_callback": True}
    return (_task("dies", retries=random.randint(0, 1), retry_delay=1.0, **callbacks), _task("never", "dies"))


_SHAPES: tuple[Callable[[Random, str, dict[str, Any]], tuple[TaskSpec, ...]], ...] = (
    _chain, _fan, _fan, _branch, _bumpy, _doomed,
)  # fmt: skip


_HARSH = (_fan, _fan, _bumpy, _doomed)


def make_plan(seed: int, *, harsh: bool = False) -> Plan:
    """The plan of a seed. A harsh one has three machines that are never left alone, and tasks that need a pool."""
    random = Random(seed)
    how: dict[str, Any] = {"failures": {}, "reschedules": {}, "branches": {}, "silent": set()}
    specs, requests, intervals = [], [], {}
    names = [f"dag_{n}" for n in range(200)]
    random.shuffle(names)
    for dag_id in names[: random.randint(2, 5)]:
        tasks = random.choice(_HARSH if harsh else _SHAPES)(random, dag_id, how)
        options: dict[str, Any] = {
            "max_active_runs": random.randint(1, 3),
            "max_active_tasks": random.choice((1, 2, 16)),
            "has_success_callback": random.random() < 0.3,
            "has_failure_callback": random.random() < 0.5,
        }
        schedule = None
        if random.random() < 0.5:
            step = random.choice((6, 9, 13))
            schedule = timedelta(seconds=step)
            count = int(BUSY_SECONDS // step)
            end = EPOCH + timedelta(seconds=step * (count - 1))
            options |= {"start_date": EPOCH, "end_date": end, "catchup": True}
            intervals[dag_id] = count
        timetable = parse_schedule(schedule, start_date=options.get("start_date"))
        specs.append(DagSpec(dag_id=dag_id, timetable=timetable, tasks=tasks, **options))
        requests += _requests(random, dag_id, scheduled=schedule is not None)
    behaviour = Behaviour(
        seed,
        how["failures"],
        how["reschedules"],
        how["branches"],
        frozenset(how["silent"]),
        random.choice((0.3, 2.0, 8.0)),
    )
    machines = 3 if harsh else random.randint(1, 3)
    return Plan(
        seed=seed,
        machines=machines,
        lease=4.0 if harsh else random.choice((4.0, 6.0, 9.0)),
        specs=tuple(specs),
        behaviour=behaviour,
        requests=tuple(sorted((r._replace(at=min(r.at, FAULTS_END - 2)) for r in requests), key=lambda r: r[:3])),
        blows=tuple(sorted(_blows(random, 20 if harsh else random.randint(1, 6)))),
        rough=1.0 if harsh else random.choice((0.0, 0.3, 1.0)),
        parallelism=random.choice((2, 4, 32)),
        latency=0.02 if harsh else 0.002,
        intervals=intervals,
    )


def _requests(random: Random, dag_id: str, *, scheduled: bool) -> list[Request]:
    found: list[Request] = []
    for number in range(random.randint(0, 2) if scheduled else random.randint(2, 5)):
        run_id = f"r{number}"
        at = random.uniform(0.5, BUSY_SECONDS)
        found.append(Request(at, "trigger", dag_id, {"run_id": run_id}))
        if random.random() < 0.2:
            found.append(Request(at + random.uniform(0, 3), "trigger", dag_id, {"run_id": run_id}))  # one is refused
        if random.random() < 0.2:
            found.append(Request(at + random.uniform(0, 8), "cancel_run", dag_id, {"run_id": run_id}))
        if random.random() < 0.25:
            found.append(Request(at + random.uniform(1, 15), "clear", dag_id, {"run_ids": [run_id]}))
    if random.random() < 0.3:
        at = random.uniform(0, BUSY_SECONDS - 10)
        found.append(Request(at, "pause", dag_id, {}))
        found.append(Request(at + max(ARRIVAL, random.uniform(0, 10)), "unpause", dag_id, {}))
    return found


def _blows(random: Random, count: int) -> list[Blow]:
    kinds = ("kill", "kill", "freeze", "freeze", "cut", "cut_lease", "isolate", "join", "leave")
    return [
        Blow(random.uniform(1, FAULTS_END - 5), random.choice(kinds), random.randrange(8), random.uniform(0.2, 14))
        for _ in range(count)
    ]


def rows_of(specs: tuple[DagSpec, ...]) -> dict[str, dict[Any, dict[str, Any]]]:
    """The rows that are there in the beginning: registered DAGs, free partitions, pools."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {
        "partition_lease": {partition: {"incarnation": None} for partition in range(PARTITIONS)},
        "pool": {},
        "dag": {},
        "dag_version": {},
    }
    for name, slots in (("default_pool", 128), (POOL, SLOTS)):
        tables["pool"][name] = {"name": name, "slots": slots, "used": 0, "include_deferred": False, "demands": {}}
    for version, spec in enumerate(specs, start=1):
        tables["dag_version"][version] = {
            "id": version, "number": 1, "spec": encode_spec(spec).decode(), "file": None, "file_hash": None,
        }  # fmt: skip
        tables["dag"][spec.dag_id] = {
            "dag_id": spec.dag_id, "partition": partition_of(spec.dag_id), "file": None, "version_id": version,
            "is_paused": False, "is_stale": False, "has_import_errors": False,
            "next_dagrun": None, "next_dagrun_create_after": None,
        }  # fmt: skip
    return tables
