"""What a seed stands for: DAGs, how their attempts go, what people ask for, and what happens to the machines."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import msgspec

from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.ids import PARTITIONS, partition_of
from tests.simulation.breaks import Break, make_breaks
from tests.simulation.dialects import NOVELTY
from tests.simulation.fleet import Behaviour
from tests.simulation.grouped_shapes import GROUPED
from tests.simulation.shapes import (
    BUSY_SECONDS,
    HARSH,
    MAPPED,
    POOL,
    RATE,
    SHAPES,
    SLOTS,
    WAITING,
    How,
    Shape,
    looks_back,
    no_troubles,
)
from tests.simulation.store import EPOCH
from tests.simulation.timed_shapes import TIMED

FAULTS_END = 50.0
LONG = 12.0  # seconds of errors, after which somebody has a DAG tried again
ARRIVAL = 0.5  # in which a request is stored for certain: what is asked for sooner may overtake it


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
    max_triggers: int = 1000
    part: int = 1_000  # task instances of a run that one transaction stores
    latency: float = 0.002  # seconds that a message takes at most, when nothing delays it
    intervals: dict[str, int] = field(default_factory=dict)  # of scheduled DAGs: how many runs there will be
    breaks: tuple[Break, ...] = ()
    keys: tuple[str, ...] = ()  # that encrypt the arguments of triggers; every machine has them all
    ends_as: str | None = None  # the version in the end, newer or older, of a fleet of both; None: it has one

    @property
    def retries(self) -> dict[tuple[str, str], int]:
        return {(spec.dag_id, task.task_id): task.retries for spec in self.specs for task in spec.tasks}


class _Dag(NamedTuple):
    """A DAG of the workload, and what it is given to do."""

    spec: DagSpec
    requests: list[Request]
    interval: int | None  # how many runs its schedule makes
    step: timedelta  # between them


def make_plan(seed: int, *, harsh: bool = False) -> Plan:
    """The plan of a seed. A harsh one has three machines that are never left alone, and tasks that need a pool."""
    random, more, mapped = Random(seed), Random(f"{seed}, more"), Random(f"{seed}, mapped")
    how = no_troubles()
    names = [f"dag_{n}" for n in range(200)]
    random.shuffle(names)
    left = iter(names)
    dags = list(_dags(random, random.randint(2, 5), left, HARSH if harsh else SHAPES, how))
    dags += _dags(more, more.choice((0, 1, 1, 2)), left, WAITING, how)
    dags += _dags(mapped, 0 if harsh else mapped.choice((0, 0, 1)), left, MAPPED, how)
    moves = _moves(more, len(dags))
    if not harsh:
        timed, grouped = Random(f"{seed}, timed"), Random(f"{seed}, grouped")
        dags += _dags(timed, timed.choice((0, 0, 1)), left, TIMED, how)
        dags += _dags(grouped, grouped.choice((0, 0, 0, 1)), left, GROUPED, how)
    requests = [request for dag in dags for request in dag.requests]
    if not harsh:
        requests += _backfills(Random(f"{seed}, backfills"), dags)
    breaks = () if harsh else make_breaks(Random(f"{seed}, breaks"), [dag.spec.dag_id for dag in dags])
    version = Random(f"{seed}, version")
    ends_as = None if harsh else version.choice((None, None, None, "newer", "newer", "older"))
    if ends_as is not None:  # somebody uses an option of the newer version
        dag_id = version.choice(dags).spec.dag_id
        requests.append(Request(version.uniform(1, BUSY_SECONDS), "trigger", dag_id, {"run_id": "novel"} | NOVELTY))
        moves += _upgrade(version)
    requests += [Request(each.at + 5, "release_dag", each.dag_id, {}) for each in breaks if each.until - each.at > LONG]
    behaviour = Behaviour(
        seed,
        how["failures"],
        how["reschedules"],
        how["branches"],
        frozenset(how["silent"]),
        random.choice((0.3, 2.0, 8.0)),
        how["waits"],
        how["lengths"],
        how["broken"],
    )
    machines = 3 if harsh else random.randint(1, 3)
    return Plan(
        seed=seed,
        machines=machines,
        lease=4.0 if harsh else random.choice((4.0, 6.0, 9.0)),
        specs=tuple(dag.spec for dag in dags),
        behaviour=behaviour,
        requests=tuple(sorted((r._replace(at=min(r.at, FAULTS_END - 2)) for r in requests), key=lambda r: r[:3])),
        blows=tuple(sorted([*_blows(random, 20 if harsh else random.randint(1, 6)), *moves])),
        rough=1.0 if harsh else random.choice((0.0, 0.3, 1.0)),
        parallelism=random.choice((2, 4, 32)),
        max_triggers=more.choice((1, 2, 1000)),
        part=Random(f"{seed}, parts").choice((1_000, 1_000, 2, 1)),
        latency=0.02 if harsh else 0.002,
        breaks=breaks,
        ends_as=ends_as,
        keys=_keys(Random(f"{seed}, keys")),
        intervals={dag.spec.dag_id: dag.interval for dag in dags if dag.interval is not None},
    )


def _keys(random: Random) -> tuple[str, ...]:
    """None, one, or two in the middle of a rotation."""
    number = random.choice((0, 0, 1, 2))
    return tuple(base64.urlsafe_b64encode(random.randbytes(32)).decode() for _ in range(number))


def _dags(random: Random, count: int, names: Iterator[str], shapes: Sequence[Shape], how: How) -> Iterator[_Dag]:
    for dag_id in islice(names, count):
        tasks = random.choice(shapes)(random, dag_id, how)
        options: dict[str, Any] = {
            "max_active_runs": random.randint(1, 3),
            "max_active_tasks": random.choice((1, 2, 16)),
            "has_success_callback": random.random() < 0.3,
            "has_failure_callback": random.random() < 0.5,
            "groups": how["groups"].get(dag_id, ()),
        }
        schedule = count_ = None
        step = timedelta(seconds=1)
        if random.random() < 0.5:
            schedule = step = timedelta(seconds=random.choice((6, 9, 13)))
            count_ = int(BUSY_SECONDS // step.total_seconds())
            end = EPOCH + step * (count_ - 1)
            options |= {"start_date": EPOCH, "end_date": end, "catchup": True}
        is_mapped = dag_id in how["groups"] or any(task.mapping for task in tasks)
        cleared = 0.6 if is_mapped else 0.25
        requests = _requests(random, dag_id, scheduled=schedule is not None, cleared=cleared)
        if looks_back(tasks):
            options["max_active_runs"] = random.choice((1, 2, 16))
            requests = list(_dated(random, requests, scheduled=schedule is not None))
        timetable = parse_schedule(schedule, start_date=options.get("start_date"))
        yield _Dag(DagSpec(dag_id=dag_id, timetable=timetable, tasks=tasks, **options), requests, count_, step)


def _dated(random: Random, requests: list[Request], *, scheduled: bool) -> Iterator[Request]:
    """Let runs that are asked for have logical dates, in any order, and come together. No schedule has these dates."""
    dates = [seconds + 40 * more for seconds in (1, 7, 20, 25) for more in range(1 if scheduled else 3)]
    together = random.uniform(0.5, BUSY_SECONDS / 2)
    sooner = 0.0  # what is asked about a run comes after it
    for request in requests:
        if request.verb == "trigger" and random.random() < 0.9:
            sooner = max(0.0, request.at - together - random.uniform(0, 6))
            date = EPOCH + timedelta(seconds=random.choice(dates))
            request = request._replace(args={**request.args, "logical_date": date.isoformat()})
        yield request if request.verb.endswith("pause") else request._replace(at=request.at - sooner)
    if scheduled or not requests or random.random() < 0.3:
        return
    at, dag_id = random.uniform(BUSY_SECONDS - 15, BUSY_SECONDS), requests[0].dag_id
    yield Request(at, "pause", dag_id, {})
    for later, run_id, second in (
        (1.0, "late", 140),
        (1.6, "early", 130),
    ):  # none starts yet; then the late one is first
        logical_date = (EPOCH + timedelta(seconds=second)).isoformat()
        yield Request(at + later, "trigger", dag_id, {"run_id": run_id, "logical_date": logical_date})
    yield Request(at + 2.5, "unpause", dag_id, {})
    yield Request(at + random.uniform(3, 6), "cancel_run", dag_id, {"run_id": "early"})


def _requests(random: Random, dag_id: str, *, scheduled: bool, cleared: float) -> list[Request]:
    """What people ask for; so many of the runs that they trigger are `cleared`."""
    found: list[Request] = []
    for number in range(random.randint(0, 2) if scheduled else random.randint(2, 5)):
        run_id = f"r{number}"
        at = random.uniform(0.5, BUSY_SECONDS)
        found.append(Request(at, "trigger", dag_id, {"run_id": run_id}))
        if random.random() < 0.2:
            found.append(Request(at + random.uniform(0, 3), "trigger", dag_id, {"run_id": run_id}))  # one is refused
        if random.random() < 0.2:
            found.append(Request(at + random.uniform(0, 8), "cancel_run", dag_id, {"run_id": run_id}))
        if random.random() < cleared:
            found.append(Request(at + random.uniform(1, 15), "clear", dag_id, {"run_ids": [run_id]}))
    if random.random() < 0.3:
        at = random.uniform(0, BUSY_SECONDS - 10)
        found.append(Request(at, "pause", dag_id, {}))
        found.append(Request(at + max(ARRIVAL, random.uniform(0, 10)), "unpause", dag_id, {}))
    return found


def _backfills(random: Random, dags: Sequence[_Dag]) -> Iterator[Request]:
    """Backfills of dates before the first one that the schedule has, and of some that it has; some meet another one."""
    for spec, _, count, step in dags:
        if count is None or looks_back(spec.tasks) or random.random() < 0.5:
            continue
        for _ in range(random.choice((1, 1, 2))):
            at = random.uniform(ARRIVAL, BUSY_SECONDS - 5)
            args = {
                "from": (EPOCH - step * random.randint(1, 4)).isoformat(),
                "to": (EPOCH + step * random.randint(-1, 3)).isoformat(),
                "rerun": random.choice(("missing", "failed", "all")),
                "max_active_runs": random.randint(1, 3),
                "backwards": random.random() < 0.3,
            }
            yield Request(at, "backfill_create", spec.dag_id, args)
            which = {"id": random.choice((1, 1, 2, 3))}
            if random.random() < 0.4:
                yield Request(at + random.uniform(0, 4), "backfill_pause", spec.dag_id, which)
                yield Request(at + random.uniform(5, 12), "backfill_resume", spec.dag_id, which)
            if random.random() < 0.3:
                yield Request(at + random.uniform(0, 9), "backfill_cancel", spec.dag_id, which)


def _blows(random: Random, count: int) -> list[Blow]:
    kinds = ("kill", "kill", "freeze", "freeze", "cut", "cut_lease", "isolate", "join", "leave")
    return [
        Blow(random.uniform(1, FAULTS_END - 5), random.choice(kinds), random.randrange(8), random.uniform(0.2, 14))
        for _ in range(count)
    ]


def _moves(random: Random, count: int) -> list[Blow]:
    """Machines that come and go, so that partitions change hands again and again."""
    if random.random() < 0.6:
        return []
    return [
        Blow(
            random.uniform(1, FAULTS_END - 5),
            random.choice(("join", "leave")),
            random.randrange(8),
            random.uniform(0.2, 5),
        )
        for _ in range(count)
    ]


def _upgrade(random: Random) -> list[Blow]:
    """One machine after the other leaves, and another comes: what those that leave still report is for the others."""
    return [
        Blow(random.uniform(3, BUSY_SECONDS), "leave", random.randrange(8), random.uniform(0.2, 3)) for _ in range(5)
    ]


def _document(spec: DagSpec, version: int) -> str:
    """Every other DAG was parsed by a newer version, which knows of more than this one."""
    document = encode_spec(spec).decode()
    if version % 2:
        return document
    found = msgspec.json.decode(document)
    found["tasks"] = [task | NOVELTY for task in found["tasks"]]
    return msgspec.json.encode(found | NOVELTY).decode()


def rows_of(specs: tuple[DagSpec, ...]) -> dict[str, dict[Any, dict[str, Any]]]:
    """The rows that are there in the beginning: registered DAGs, free partitions, pools."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {
        "partition_lease": {
            partition: {"incarnation": None, "since": None, "load": None} for partition in range(PARTITIONS)
        },
        "pool": {},
        "dag": {},
        "dag_version": {},
    }
    for name, slots, rate in (("default_pool", 128, None), (POOL, SLOTS, RATE)):
        tables["pool"][name] = {
            "name": name, "slots": slots, "used": 0, "include_deferred": False, "demands": {}, "team": None,
            "rate": rate, "starts": [],
        }  # fmt: skip
    for version, spec in enumerate(specs, start=1):
        tables["dag_version"][version] = {
            "id": version, "dag_id": spec.dag_id, "number": 1, "spec": _document(spec, version),
            "file": None,
            "file_hash": None,
            "source_hash": None,
            "bundle": None,
            "bundle_version": None,
            "sources": None,
        }  # fmt: skip
        tables["dag"][spec.dag_id] = {
            "dag_id": spec.dag_id, "partition": partition_of(spec.dag_id), "file": None, "version_id": version,
            "is_paused": False, "is_stale": False, "has_import_errors": False, "team": None,
            "next_dagrun": None, "next_dagrun_create_after": None,
        }  # fmt: skip
    return tables
