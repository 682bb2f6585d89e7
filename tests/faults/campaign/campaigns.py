"""Which campaigns there are: what each of them does to a fleet under load, and what it must have seen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tests.faults.campaign.engine_faults import one_after_the_other
from tests.faults.campaign.engine_parts import CeleryOnRabbitMQ, CeleryOnRedis, Dask, Engine, Pods
from tests.faults.campaign.proxy import Cut, Silence
from tests.faults.campaign.stage import OWNING, Inject, Setting, Stage
from tests.faults.campaign.troubles import JUMPY, TROUBLES
from tests.faults.campaign.workload import Workload


@dataclass(frozen=True)
class Size:
    """How big a round is. `gap`: seconds between two faults on average."""

    faults: int
    tasks: int
    gap: float
    seed: int
    schedulers: int = 3
    lease: float = 15.0


@dataclass(frozen=True)
class Campaign:
    """`prepare` makes the fleet, the work and the faults of a round of some size."""

    what: str
    size: Size  # of the short form
    long: Size  # what the acceptance asks for
    prepare: Callable[[Size], tuple[Setting, Workload, Inject]]
    minima: Callable[[Size], dict[str, int]]
    takeover_limit: Callable[[Size], float] | None = None


def work_for(size: Size, *, in_flight: int = 8, asks: bool = False, leaves: bool = False) -> Workload:
    """Work that lasts a little longer than the faults: through a pool of `in_flight` slots."""
    dags = max(3, min(60, size.tasks // 100))
    runs = max(1, size.tasks // (10 * dags))
    seconds = min(max(in_flight * size.gap * size.faults * 1.1 / (dags * runs * 10), 0.005), 0.6)
    return Workload(
        dags=dags, runs=runs, seconds=seconds, seed=size.seed, pool_slots=in_flight, asks=asks, leaves=leaves
    )


# -- SIGKILL --------------------------------------------------------------------------------------------


def kills(size: Size) -> tuple[Setting, Workload, Inject]:
    """SIGKILL for one scheduler after the other, now and then two at once; each is started again at once."""

    async def inject(stage: Stage) -> None:
        while stage.seen["kills"] < size.faults and not stage.over.is_set():
            members = await stage.members()
            victims = stage.dice.sample(members, min(len(members), 1 if stage.dice.random() < 0.9 else 2))
            for victim in victims:
                await stage.kill(victim)
            for victim in victims:
                await victim.start()
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    return Setting(schedulers=size.schedulers, lease=size.lease), work_for(size, leaves=True), inject


def peers(size: Size) -> tuple[Setting, Workload, Inject]:
    """SIGKILL at random for the other schedulers of one `serve --schedulers N`, which starts each of them again."""

    async def inject(stage: Stage) -> None:
        (service,) = stage.services
        while stage.seen["kills"] < size.faults and not stage.over.is_set():
            await stage.kill_peer(service)
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    setting = Setting(schedulers=1, processes=size.schedulers, lease=size.lease)
    return setting, work_for(size, leaves=True), inject


def takeovers(size: Size) -> tuple[Setting, Workload, Inject]:
    """SIGKILL for one scheduler at a time, the next one when the fleet is whole again: how long do DAGs stand still?"""

    async def inject(stage: Stage) -> None:
        for _ in range(size.faults):
            if (victim := await stage.victim(OWNING)) is None:
                return
            await stage.kill(victim)
            await stage.rest(size.gap)
            await victim.start()
            await stage.joined(victim)
            await stage.rest(1.0)

    work = work_for(replace(size, gap=size.gap + 2.5), in_flight=8)
    return Setting(schedulers=size.schedulers, lease=size.lease), work, inject


# -- SIGSTOP --------------------------------------------------------------------------------------------


def pauses(size: Size) -> tuple[Setting, Workload, Inject]:
    """SIGSTOP and SIGCONT for schedulers whose workers go on: half of the time for longer than the lease."""
    return Setting(schedulers=size.schedulers, lease=size.lease, executors=("local",)), *_stops(size, whole=False)


def freezes(size: Size) -> tuple[Setting, Workload, Inject]:
    """The same for a scheduler with all its processes, as when a machine sleeps: stale owners wake up in the middle."""
    return Setting(schedulers=size.schedulers, lease=size.lease), *_stops(size, whole=True)


def _stops(size: Size, *, whole: bool) -> tuple[Workload, Inject]:
    async def inject(stage: Stage) -> None:
        while stage.seen["pauses"] < size.faults and (victim := await stage.victim()) is not None:
            stage.pause(victim, whole=whole)
            is_long = stage.dice.random() < 0.5
            await stage.rest(size.lease * (stage.dice.uniform(1.3, 1.8) if is_long else stage.dice.uniform(0.1, 0.6)))
            stage.resume(victim)
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)
            await stage.joined(victim)

    return work_for(replace(size, gap=size.gap + 0.95 * size.lease), leaves=True), inject


def usurpers(size: Size) -> tuple[Setting, Workload, Inject]:
    """A living scheduler is declared dead, as when the database's clock jumps: what it still writes is refused.

    Its attempts and those of its heirs may overlap until it notices: at its next commit, or when it renews its lease.
    """

    async def inject(stage: Stage) -> None:
        while stage.seen["usurped"] < size.faults and (victim := await stage.victim(OWNING)) is not None:
            await stage.usurp(victim)
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    setting = Setting(schedulers=size.schedulers, lease=size.lease, awakening=size.lease / 3 + 0.5)
    return setting, work_for(replace(size, gap=size.gap + 1.0)), inject


# -- PostgreSQL -----------------------------------------------------------------------------------------


def restarts(size: Size) -> tuple[Setting, Workload, Inject]:
    """PostgreSQL is restarted under load, in order and by a crash in turn."""

    async def inject(stage: Stage) -> None:
        while stage.seen["restarts"] < size.faults and not stage.over.is_set():
            how: Literal["fast", "immediate"] = "fast" if stage.seen["restarts"] % 2 else "immediate"
            await stage.postgres.restart(how)
            stage.seen["restarts"] += 1
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    return Setting(schedulers=size.schedulers, lease=size.lease), work_for(size, asks=True), inject


def backends(size: Size) -> tuple[Setting, Workload, Inject]:
    """Server processes of PostgreSQL are ended (pg_terminate_backend); one in ten by SIGKILL, which restarts all."""

    async def inject(stage: Stage) -> None:
        while stage.seen["ended backends"] < size.faults and not stage.over.is_set():
            if found := await stage.postgres.backends():
                victim = stage.dice.choice(found)
                if stage.dice.random() < 0.1:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                    stage.seen["killed backends"] += 1
                else:
                    await stage.postgres.ask("SELECT pg_terminate_backend($1)", victim)
                stage.seen["ended backends"] += 1
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    return Setting(schedulers=size.schedulers, lease=size.lease), work_for(size, asks=True), inject


# -- the network ----------------------------------------------------------------------------------------


def cuts(size: Size) -> tuple[Setting, Workload, Inject]:
    """Connections are cut at a commit: before it was forwarded, after that, and when only the answer was missing."""

    async def inject(stage: Stage) -> None:
        kinds = itertools.cycle(Cut)
        armed = asyncio.Event()

        def decide(application: str) -> Cut | None:
            if not armed.is_set() or (application != "aiosched journal" and stage.dice.random() < 0.5):
                return None
            armed.clear()
            return next(kinds)

        for proxy in stage.proxies:
            proxy.decide = decide
        while (done := sum(sum(proxy.cuts.values()) for proxy in stage.proxies)) < size.faults:
            if stage.over.is_set():
                break
            armed.set()
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)
        stage.seen["cut commits"] = done
        for kind in Cut:
            stage.seen[f"cut {kind}"] = sum(proxy.cuts[kind] for proxy in stage.proxies)
        for proxy in stage.proxies:
            proxy.decide = lambda application: None

    return Setting(schedulers=size.schedulers, lease=size.lease, proxied=True), work_for(size, asks=True), inject


def network(size: Size) -> tuple[Setting, Workload, Inject]:
    """Resets of all connections of a scheduler, slow lines, and lines that are silent in one direction."""

    async def inject(stage: Stage) -> None:
        while stage.seen["troubled lines"] < size.faults and not stage.over.is_set():
            proxy = stage.dice.choice(stage.proxies)
            kind = stage.dice.choice(["reset", "slow", "short silence", "long silence"])
            direction = stage.dice.choice([Silence.TO_SERVER, Silence.TO_CLIENT])
            stage.seen["troubled lines"] += 1
            stage.seen[kind] += 1
            if kind == "reset":
                proxy.reset()
            elif kind == "slow":
                proxy.delay = stage.dice.uniform(0.01, 0.2)
                await stage.rest(size.gap)
                proxy.delay = 0.0
            else:
                proxy.silence(direction)
                await stage.rest(size.lease * (1.5 if kind == "long silence" else 0.2))
                proxy.silence(Silence.NONE)
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    setting = Setting(schedulers=size.schedulers, lease=size.lease, proxied=True, executors=("local",))
    return setting, work_for(replace(size, gap=2 * size.gap + 0.4 * size.lease)), inject


def disk(size: Size) -> tuple[Setting, Workload, Inject]:
    """The disk of PostgreSQL is full for some seconds, again and again."""

    async def inject(stage: Stage) -> None:
        filler = stage.disk / "filler"
        while stage.seen["full disks"] < size.faults and not stage.over.is_set():
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(65_536))
            stage.seen["full disks"] += 1
            await stage.rest(stage.dice.uniform(0.5, 1.5))
            filler.unlink()
            await stage.postgres.start()  # without room for its log of changes it ends itself
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    small = {"min_wal_size": "32MB", "max_wal_size": "48MB"}
    setting = Setting(schedulers=size.schedulers, lease=size.lease, disk=400, postgres=small)
    return setting, work_for(replace(size, gap=size.gap + 2.0)), inject


# -- all together ---------------------------------------------------------------------------------------


def pool(size: Size) -> tuple[Setting, Workload, Inject]:
    """A pool of five slots, four schedulers, random kills: never a sixth task."""
    setting, _, inject = kills(size)
    dags = max(4, min(40, size.tasks // 100))
    work = Workload(
        dags=dags, runs=max(1, size.tasks // (10 * dags)), seconds=0.02, seed=size.seed, pool_slots=5,
        max_active_runs=16, max_active_tasks=16, task_limit=16,
    )  # fmt: skip
    return setting, work, inject


def on_engine(executor: str, engine: type[Engine]) -> Callable[[Size], tuple[Setting, Workload, Inject]]:
    """Attempts on an engine: schedulers, workers, the engine itself and worker APIs are killed, workers paused."""

    def prepare(size: Size) -> tuple[Setting, Workload, Inject]:
        async def inject(stage: Stage) -> None:
            await one_after_the_other(stage, size.faults, size.gap)

        setting = Setting(schedulers=size.schedulers, lease=size.lease, executors=(executor,), engine=engine)
        return setting, work_for(replace(size, gap=size.gap + 1.5), leaves=engine is not Pods), inject

    return prepare


def chaos(size: Size) -> tuple[Setting, Workload, Inject]:
    """Whatever else can go wrong, in a random order."""

    async def inject(stage: Stage) -> None:
        while stage.seen["faults"] < size.faults and not stage.over.is_set():
            name = stage.dice.choice(list(TROUBLES))
            await TROUBLES[name](stage)
            stage.seen["faults"] += 1
            stage.seen[name] += 1
            await stage.rest(stage.dice.uniform(0.5, 1.5) * size.gap)

    setting = Setting(schedulers=size.schedulers, lease=size.lease, postgres={"max_connections": "40"}, module=JUMPY)
    return setting, work_for(replace(size, gap=size.gap + 1.0), leaves=True), inject


def _left(size: Size) -> dict[str, int]:
    return {"processes left behind": size.tasks // 20}


CAMPAIGNS: dict[str, Campaign] = {
    "kills": Campaign(
        "SIGKILL among schedulers",
        Size(faults=10, tasks=600, gap=1.5, seed=1, lease=6.0),
        Size(faults=1000, tasks=100_000, gap=1.5, seed=1),
        kills,
        lambda size: {
            "kills": size.faults,
            "take-overs": size.faults // 2,
            "lost attempts": size.faults // 3,
            **_left(size),
        },
    ),
    "peers": Campaign(
        "SIGKILL among the schedulers of one machine",
        Size(faults=8, tasks=600, gap=2.0, seed=15, lease=6.0),
        Size(faults=300, tasks=30_000, gap=3.0, seed=15),
        peers,
        lambda size: {"kills": size.faults // 2, "take-overs": size.faults // 4, **_left(size)},
    ),
    "takeovers": Campaign(
        "take-over after SIGKILL, measured",
        Size(faults=5, tasks=400, gap=2.5, seed=2, lease=6.0),
        Size(faults=110, tasks=8_000, gap=2.5, seed=2),
        takeovers,
        lambda size: {"kills": size.faults, "take-overs": size.faults},
        lambda size: 2.0,
    ),
    "pauses": Campaign(
        "SIGSTOP and SIGCONT of schedulers",
        Size(faults=5, tasks=300, gap=1.0, seed=3, lease=3.0),
        Size(faults=300, tasks=15_000, gap=1.0, seed=3, lease=3.0),
        pauses,
        lambda size: {"pauses": size.faults, "take-overs": size.faults // 4, **_left(size)},
        lambda size: size.lease + 5.0,
    ),
    "freezes": Campaign(
        "SIGSTOP and SIGCONT of schedulers with all their processes",
        Size(faults=5, tasks=300, gap=1.0, seed=4, lease=3.0),
        Size(faults=100, tasks=5_000, gap=1.0, seed=4, lease=3.0),
        freezes,
        lambda size: {"pauses": size.faults, "take-overs": size.faults // 4},
        lambda size: size.lease + 5.0,
    ),
    "usurpers": Campaign(
        "living schedulers declared dead",
        Size(faults=8, tasks=400, gap=1.5, seed=12, lease=6.0),
        Size(faults=100, tasks=10_000, gap=2.0, seed=12),
        usurpers,
        lambda size: {"usurped": size.faults, "take-overs": size.faults, "refused writes": size.faults // 4},
    ),
    "restarts": Campaign(
        "PostgreSQL restarted under load",
        Size(faults=4, tasks=300, gap=2.0, seed=5, lease=6.0),
        Size(faults=50, tasks=10_000, gap=4.0, seed=5),
        restarts,
        lambda size: {"restarts": size.faults, "recoveries": size.faults},
    ),
    "backends": Campaign(
        "server processes of PostgreSQL ended and killed",
        Size(faults=20, tasks=400, gap=0.5, seed=6, lease=6.0),
        Size(faults=300, tasks=10_000, gap=1.0, seed=6),
        backends,
        lambda size: {"ended backends": size.faults, "recoveries": size.faults // 8},
    ),
    "cuts": Campaign(
        "connections cut at a commit",
        Size(faults=15, tasks=400, gap=0.6, seed=7, lease=6.0),
        Size(faults=300, tasks=10_000, gap=1.0, seed=7),
        cuts,
        lambda size: {"cut commits": size.faults, "cut after": size.faults // 6, "cut answered": size.faults // 6},
    ),
    "network": Campaign(
        "lines reset, slow and silent in one direction",
        Size(faults=8, tasks=300, gap=0.7, seed=8, lease=3.0),
        Size(faults=200, tasks=10_000, gap=1.0, seed=8, lease=3.0),
        network,
        lambda size: {"troubled lines": size.faults},
    ),
    "pool": Campaign(
        "five slots, four schedulers, random kills",
        Size(faults=5, tasks=800, gap=2.0, seed=9, schedulers=4, lease=6.0),
        Size(faults=100, tasks=10_000, gap=3.0, seed=9, schedulers=4),
        pool,
        lambda size: {"kills": min(5, size.faults), "most slots of narrow in use": 5},
    ),
    "disk": Campaign(
        "the disk of PostgreSQL is full",
        Size(faults=4, tasks=300, gap=2.0, seed=11, lease=6.0),
        Size(faults=30, tasks=3_000, gap=3.0, seed=11),
        disk,
        lambda size: {"full disks": size.faults, "recoveries": size.faults // 2},
    ),
    "chaos": Campaign(
        "workers, parsing children, names, connections, locks, disk and clocks",
        Size(faults=10, tasks=400, gap=0.8, seed=10, lease=6.0),
        Size(faults=200, tasks=10_000, gap=1.0, seed=10),
        chaos,
        lambda size: {"faults": size.faults},
    ),
}

_ENGINES: dict[str, tuple[str, type[Engine], int]] = {  # executor, and the tasks of the short form
    "engines-dask": ("dask", Dask, 150),
    "engines-redis": ("celery", CeleryOnRedis, 150),
    "engines-rabbitmq": ("celery", CeleryOnRabbitMQ, 150),
    "engines-pods": ("kubernetes", Pods, 60),
}
CAMPAIGNS |= {
    name: Campaign(
        f"attempts on an engine: schedulers, workers, worker APIs and the engine ({engine.__name__})",
        Size(faults=6, tasks=tasks, gap=2.0, seed=14, schedulers=2, lease=4.0),
        Size(faults=60, tasks=10 * tasks, gap=2.0, seed=14, schedulers=2, lease=4.0),
        on_engine(executor, engine),
        lambda size: {"faults": size.faults // 2, "killed schedulers": 1, "killed workers": 1, "engine restarts": 1},
    )
    for name, (executor, engine, tasks) in _ENGINES.items()
}
