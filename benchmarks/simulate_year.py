"""A year of many schedules in one world, twice: how long it takes, and whether the decisions are equal.

The schedules are as mixed as a big company's: hourly to yearly, in time zones on both
hemispheres, cron and trigger and delta, catching up and not, under pools and limits of every kind,
with failures and retries.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables import AnyTimetable
from aiosched.core.timetables.parse import parse_schedule
from aiosched.scheduler.gc_tuning import rare_collections
from aiosched.testing.world import World
from aiosched.timetables import CronTriggerTimetable, DeltaTriggerTimetable

ZONES: Final = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata",
    "Australia/Sydney", "America/St_Johns", "Pacific/Auckland", "Africa/Cairo",
)  # fmt: skip
FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)
POOLS: Final = {"etl": 24, "reports": 8, "narrow": 2}


@dataclass(frozen=True)
class Outcome:
    """One simulation. `digest` is of the decision log; seconds of this process."""

    dags: int
    runs: int
    decisions: int
    seconds: float
    digest: str


def schedules(number: int, *, seed: int = 1) -> list[DagSpec]:
    """`number` DAGs, the same for every call: of twenty one runs about hourly, one a few times a day, twelve daily."""
    chance = random.Random(seed)
    return [_dag(position, chance) for position in range(number)]


def _dag(position: int, chance: random.Random) -> DagSpec:
    zone = ZONES[position % len(ZONES)]
    minute, hour = chance.randrange(60), chance.randrange(24)
    start = FIRST - timedelta(days=chance.choice([0, 3, 30]))
    schedule: AnyTimetable
    match position % 10:
        case 0:
            often = ["@hourly", f"{minute} * * * *", f"{minute} */2 * * *"]
            seldom = ["0 */6 * * *", "0 */12 * * *"]
            schedule = parse_schedule(chance.choice(often if position % 20 == 0 else seldom), timezone=zone)
        case 1 | 2 | 3:
            schedule = parse_schedule(f"{minute} {hour} * * *", timezone=zone)
        case 4:
            schedule = CronTriggerTimetable(f"{minute} {chance.choice([1, 2, 3])} * * *", timezone=zone)
        case 5:
            schedule = parse_schedule(f"{minute} {hour} * * 1-5", timezone=zone)
        case 6:
            schedule = DeltaTriggerTimetable(timedelta(hours=chance.choice([24, 36])))
        case 7:
            schedule = parse_schedule(timedelta(hours=chance.choice([12, 24, 168])), timezone=zone)
        case 8:
            schedule = parse_schedule("@weekly", timezone=zone)
        case _:
            schedule = parse_schedule(chance.choice(["@monthly", "@quarterly", "0 6 L * *"]), timezone=zone)
    limits: dict[str, Any] = {}
    if position % 4 == 0:
        limits["max_active_runs"] = chance.choice([1, 2])
    if position % 7 == 0:
        limits["max_active_tasks"] = 2
    if position % 11 == 0:
        limits["dagrun_timeout"] = 7200.0
    return DagSpec(
        dag_id=f"dag_{position:03d}",
        timetable=schedule,
        timezone=zone,
        start_date=start,
        catchup=position % 3 == 0,
        tasks=_tasks(chance),
        **limits,
    )


def _tasks(chance: random.Random) -> tuple[TaskSpec, ...]:
    count = chance.choice([1, 2, 3, 3, 4])
    tasks = []
    for number in range(count):
        ups = tuple(f"t{up}" for up in range(number) if up == number - 1 or chance.random() < 0.3)
        tasks.append(
            TaskSpec(
                task_id=f"t{number}",
                operator="Scripted",
                upstream=ups,
                trigger_rule=chance.choice(["all_success", "all_success", "all_done", "none_failed"]),
                pool=chance.choice(["default_pool", "etl", "reports", "narrow"]) if number else "default_pool",
                retries=chance.choice([0, 1, 2]),
                priority_weight=chance.choice([1, 1, 5]),
            )
        )
    return tuple(tasks)


async def simulate_once(specs: list[DagSpec], until: datetime, *, seed: int = 0, checked: bool = False) -> Outcome:
    """One world with these DAGs, from FIRST to `until`; every twentieth task fails at first."""
    started = time.process_time()
    async with World(now=FIRST, seed=seed, takes=timedelta(minutes=7), checked=checked) as world:
        for name, slots in POOLS.items():
            world.pool(name, slots=slots)
        world.add(*specs)
        for spec in specs[::5]:
            world.script(spec.dag_id, spec.tasks[-1].task_id, fails=1, takes=timedelta(minutes=3))
        with rare_collections():
            await world.run_until(until)
        seconds = time.process_time() - started
        digest = hashlib.sha256()
        for entry in world.log:
            digest.update(repr(entry).encode())
        runs = sum(entry[1] == "run created" for entry in world.log)
        return Outcome(len(specs), runs, len(world.log), seconds, digest.hexdigest())


def main(dags: int = 200, days: int = 365) -> int:
    """Simulate twice and print; exit code 0 when both logs are equal and each took under 60 s."""
    specs = schedules(dags)
    outcomes = []
    for _ in range(2):
        gc.collect()
        outcome = asyncio.run(simulate_once(specs, FIRST + timedelta(days=days)))
        outcomes.append(outcome)
        print(
            f"{outcome.dags} DAGs, {days} days: {outcome.runs} runs, {outcome.decisions} decisions "
            f"in {outcome.seconds:.1f} s of one core, log {outcome.digest[:12]}"
        )
    equal = len({outcome.digest for outcome in outcomes}) == 1
    print("the decision logs are equal" if equal else "the decision logs DIFFER")
    return 0 if equal and all(outcome.seconds < 60 for outcome in outcomes) else 1
