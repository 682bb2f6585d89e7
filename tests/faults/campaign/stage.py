"""The stage of a campaign: database, schedulers and work, set up, watched, taken down and judged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from tests.faults.campaign.asking import ASKED, CONNECTION, VALUE, VARIABLE
from tests.faults.campaign.engine_parts import Engine
from tests.faults.campaign.fleet import Service, children
from tests.faults.campaign.history import Read, read_history
from tests.faults.campaign.measures import Blow
from tests.faults.campaign.postgres import Postgres
from tests.faults.campaign.proxy import Proxy
from tests.faults.campaign.watching import WATCH, WRONG_POOLS
from tests.faults.campaign.workload import Workload
from tests.faults.checker import Freeze

FINISHED = "SELECT count(*) FROM dag_run WHERE state IN ('success', 'failed') AND run_type = 'scheduled'"
UNFINISHED = "SELECT count(*) FROM dag_run WHERE state NOT IN ('success', 'failed')"
SUCCEEDED = "SELECT count(*) FROM watched.instance WHERE new = 'success'"
FIGURES = "SELECT pid, figures FROM scheduler"  # renewed with the lease
OWNING = "SELECT DISTINCT pid FROM scheduler JOIN partition_lease USING (incarnation)"
JOINED = "SELECT pid FROM scheduler"
KEYS = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
_MOST_GIVEN_UP = 20  # starts of schedulers that ended by themselves, because there was no database, say
_LAST_SECONDS = 2.0  # in which what belonged to a scheduler that has ended must have ended, too
_STOP_SECONDS = 60.0  # that a scheduler may take to end in order

# Log lines of the service that say what it noticed, and what we call it.
NOTICED = {
    "This scheduler has lost its lease": "lost leases",
    "reading everything again": "recoveries",
}


@dataclass(frozen=True)
class Setting:
    """How a fleet is set up."""

    schedulers: int = 3
    processes: int = 1  # of each of them: `serve --schedulers N`
    executors: tuple[str, ...] = ("local", "inline")  # in turn
    lease: float = 15.0
    proxied: bool = False
    parallelism: int = 16
    postgres: dict[str, str] = field(default_factory=dict)
    module: str = "aiosched"
    awakening: float = 1.0  # see checker.History
    engine: Callable[[Path, str], Engine] | None = None  # makes the processes of an engine; `executors` names it
    disk: int | None = None  # MiB of the file system that the database is on (a tmpfs of its own; needs to be root)

    def environment(self) -> dict[str, str]:
        return {
            "AIOSCHED__SCHEDULER__LEASE": str(self.lease),
            "AIOSCHED__SCHEDULER__GRACE": "10",
            "AIOSCHED__SCHEDULER__PROCESSES": str(self.processes),
            "AIOSCHED__SCHEDULER__SAFETY_POLL": "2",
            "AIOSCHED__CORE__PARALLELISM": str(self.parallelism),
            "AIOSCHED__EXECUTOR__SLOTS": "4",
            "AIOSCHED__DATABASE__POOL_SIZE": "3",
            "AIOSCHED__PARSING__PROCESSES": "1",
            "AIOSCHED__LOGS__FORMAT": "json",
            "AIOSCHED__SECRETS__FERNET_KEYS": KEYS,
        }


class GaveUp(Exception):
    """Schedulers end by themselves: the campaign is pointless."""


class Stage:
    """See the module. `seen` counts what was done and noticed; `dice` is seeded."""

    def __init__(self, setting: Setting, workload: Workload, folder: Path) -> None:
        self.setting, self.workload, self.folder = setting, workload, folder
        self.disk = folder / "disk" if setting.disk is not None else folder
        self.postgres = Postgres(self.disk, **setting.postgres)
        self.services: list[Service] = []
        self.extras: list[Service] = []  # started by a fault, and ended by it
        self.proxies: list[Proxy] = []
        self.engine: Engine | None = None
        self.dice = random.Random(workload.seed)
        self.seen = Counter[str]()
        self.blows: list[Blow] = []
        self.troubles: list[str] = []
        self.freezes: list[Freeze] = []
        self.snapshots: list[str] = []
        self.figures: dict[int, dict[str, Any]] = {}  # what each process last told of itself
        self.over = asyncio.Event()  # all planned runs have ended

    @property
    def planned_runs(self) -> int:
        return self.workload.dags * self.workload.runs

    async def set_up(self, stack: contextlib.AsyncExitStack) -> None:
        """Database, files, proxies; then start every scheduler."""
        self.workload.write(self.folder)
        if self.setting.disk is not None:
            self.disk.mkdir()
            await _run("mount", "-t", "tmpfs", "-o", f"size={self.setting.disk}m,mode=0711", "faults", str(self.disk))
            stack.push_async_callback(_run, "umount", "--lazy", str(self.disk))
        await self.postgres.start()
        stack.push_async_callback(self.postgres.stop)
        await migrate(self.postgres.dsn)
        await self._prepare_rows()
        settings = self.setting.environment()
        if self.setting.engine is not None:
            self.engine = self.setting.engine(self.folder, self.postgres.dsn)
            stack.push_async_callback(self.engine.close)
            await self.engine.start()
            settings |= self.engine.settings
            for part in self.engine.parts:
                part.settings |= settings
                stack.push_async_callback(self._end, part)
                await part.start()
        for number in range(self.setting.schedulers):
            dsn = self.postgres.dsn
            if self.setting.proxied:
                proxy = await stack.enter_async_context(Proxy(self.postgres.socket))
                self.proxies.append(proxy)
                dsn = self.postgres.tcp_dsn(proxy.port)
            executor = self.setting.executors[number % len(self.setting.executors)]
            service = Service(f"s{number}", executor, dsn, self.folder, dict(settings), module=self.setting.module)
            self.services.append(service)
            stack.push_async_callback(self._end, service)
            await service.start()

    async def joined(self, service: Service) -> bool:
        """Wait until a scheduler's process is a member of the fleet; False if it ended before, or the work did."""
        while service.alive and not self.over.is_set():
            if service.pid in {row[0] for row in await self.postgres.ask(JOINED)}:
                return True
            await asyncio.sleep(0.02)
        return False

    async def members(self, those: str = JOINED) -> list[Service]:
        """The schedulers that are members of the fleet and go on, or `those` of them (`OWNING`); waits for one.

        There may be none for a while: those that were killed are starting. None at all when the work is over.
        """
        while not self.over.is_set():
            pids = {row[0] for row in await self.postgres.ask(those)}
            if found := [s for s in self.services if s.alive and not s.paused and s.pid in pids]:
                return found
            await self.rest(0.05)
        return []

    async def victim(self, those: str = JOINED) -> Service | None:
        """One of these members; None when the work is over."""
        found = await self.members(those)
        return self.dice.choice(found) if found else None

    async def all_joined(self) -> None:
        """Wait until every scheduler is a member."""
        await asyncio.gather(*(self.joined(service) for service in self.services))

    async def kill(self, service: Service) -> None:
        """SIGKILL, noted down."""
        pid = service.pid
        self.blows.append(Blow(pid, await service.kill()))
        self.seen["kills"] += 1

    async def kill_peer(self, service: Service) -> None:
        """SIGKILL for one of the other schedulers of a `serve --schedulers N` that is a member, noted down."""
        members = {row[0] for row in await self.postgres.ask(JOINED)}
        if peers := sorted(members.intersection(service.peers())):
            pid = self.dice.choice(peers)
            self.blows.append(Blow(pid, service.kill_peer(pid)))
            self.seen["kills"] += 1

    def pause(self, service: Service, *, whole: bool) -> None:
        """SIGSTOP, noted down; with `whole` for all its processes."""
        service.pause(whole=whole)
        self.blows.append(Blow(service.pid, service.paused_at))
        self.seen["pauses"] += 1

    def resume(self, service: Service) -> None:
        """SIGCONT, noted down."""
        now = time.monotonic()
        self.freezes += [Freeze(pid, service.paused_at, now) for pid in service.resume()]
        last = max(index for index, blow in enumerate(self.blows) if blow.pid == service.pid)
        self.blows[last] = replace(self.blows[last], until=now)

    async def usurp(self, service: Service) -> None:
        """Let the others take a living scheduler for dead: its lease has run out by the database's clock."""
        pids, began = {service.pid, *children(service.pid)}, time.monotonic()
        incarnations = "SELECT incarnation FROM scheduler WHERE pid = $1"
        old = await self.postgres.ask(incarnations, service.pid)
        late = "UPDATE scheduler SET lease_expires_at = now() - interval '1 second' WHERE pid = $1"
        while old and await self.postgres.ask(incarnations, service.pid) == old:
            await self.postgres.ask(late, service.pid)
            for _ in range(5):  # workers that begin meanwhile may have ended when the heir takes over
                pids.update(children(service.pid))
                await asyncio.sleep(0.01)
        pids |= {service.pid, *children(service.pid)}
        self.freezes += [Freeze(pid, began, time.monotonic()) for pid in pids]
        self.seen["usurped"] += 1

    async def rest(self, seconds: float) -> None:
        """Let time pass, but not beyond the end of the work."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()

    async def begin_work(self) -> None:
        """Write the DAG files whose runs are due, once the DAG that their tasks trigger is known."""
        known = "SELECT count(*) FROM dag WHERE dag_id = $1"
        while self.workload.asks and not await self.postgres.value(known, ASKED):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.workload.write_clocked(self.folder)

    async def watch(self) -> None:
        """Compare rows in snapshots, and notice the end of the work. A scheduler that gives up is started again."""
        while await self.postgres.value(FINISHED) < self.planned_runs or await self.postgres.value(UNFINISHED):
            for (problem,) in await self.postgres.ask(WRONG_POOLS):
                self.snapshots.append(problem)
            self.seen["snapshots"] += 1
            await self._note_figures()
            for service in self.services:
                if service.gave_up:
                    self.seen["given up"] += 1
                    if self.seen["given up"] > _MOST_GIVEN_UP:
                        raise GaveUp(f"{service.name} gives up again and again: {service.last_words()}")
                    await service.start()
            for part in self.engine.parts if self.engine is not None else ():
                if not part.alive:  # killed by us, or by itself: somebody who operates it starts it again
                    self.seen[f"starts of {part.kind}"] += 1
                    await part.start()
            await asyncio.sleep(0.25)
        self.over.set()

    async def wait_for_heartbeats(self) -> None:
        """Wait until every member has renewed its lease and stored its figures, and dead ones are removed."""
        began = await self.postgres.value("SELECT clock_timestamp()")
        fresh = "SELECT pid FROM scheduler WHERE renewed_at > $1"
        living = sorted(pid for service in self.services if service.alive for pid in (service.pid, *service.peers()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * self.setting.lease):
                while sorted(row[0] for row in await self.postgres.ask(fresh, began)) != living or (  # noqa: ASYNC110
                    await self.postgres.value("SELECT count(*) FROM scheduler") != len(living)
                ):
                    await asyncio.sleep(0.1)
        await self._note_figures()

    async def _note_figures(self) -> None:
        self.figures.update({pid: json.loads(told) for pid, told in await self.postgres.ask(FIGURES) if told})

    async def stop_services(self) -> None:
        """Ask every scheduler to end; what does not is a trouble."""
        orderly = await asyncio.gather(*(service.stop(_STOP_SECONDS) for service in self.services))
        for service, fine in zip(self.services, orderly, strict=True):
            if not fine:
                assert service.process is not None, "it was started"
                self.troubles.append(f"{service.name} did not end in order: {service.process.returncode}")
        for part in self.engine.parts if self.engine is not None else ():
            await part.stop(_STOP_SECONDS)

    async def read(self) -> Read:
        """The history, with what was noticed on the way."""
        read = await read_history(self.postgres.dsn, self.folder, self.workload)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                parts = self.engine.parts if self.engine is not None else ()
                owners = (*self.services, *self.extras, *parts)
                while survivors := [line for each in owners for line in each.survivors()]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        read.history.survivors = survivors
        for service in self.services:
            for line in service.logged():
                self._note(service, line)
        read.history.snapshots = self.snapshots
        read.history.freezes, read.history.awakening = self.freezes, self.setting.awakening
        self.seen["take-overs"] = sum(each.end == "taken over" for each in read.incarnations)
        self.seen["lost attempts"] = read.lost
        for told in self.figures.values():
            self.seen["unknown commits"] += told["counters"]["unknown_commits"]
            self.seen["refused writes"] += told["counters"]["stale_writes_refused"]
            self.seen["differences"] += told["counters"]["differences"]
            self.seen["stale reports"] += told["counters"]["stale_reports"]
        self.seen["joins"] = len(read.incarnations)
        if self.workload.leaves:
            self.seen["processes left behind"] = len(read.history.beats)
        read.history.drift = self.seen["differences"]
        return read

    def _note(self, service: Service, line: dict[str, object]) -> None:
        event = str(line["event"])
        for words, name in NOTICED.items():
            self.seen[name] += words in event
        ours = str(line.get("logger", "")).startswith("aiosched")  # the driver tells of every connection that it loses
        if (ours and "exception" in line) or "never retrieved" in event:
            self.troubles.append(f"{service.name}: {event}: {str(line.get('exception'))[-300:]}")

    async def _prepare_rows(self) -> None:
        for statement in filter(None, map(str.strip, _statements(WATCH))):
            await self.postgres.ask(statement)
        for name, slots in self.workload.pools.items():
            await self.postgres.ask("INSERT INTO pool (name, slots) VALUES ($1, $2)", name, slots)
        if self.workload.asks:
            async with await Database.open(self.postgres.dsn, application_name="faults") as db:
                secrets = SecretStore(db, Keyring(KEYS))
                await secrets.set_variables({VARIABLE: VariableValue(VALUE)})
                await secrets.set_connections([ConnectionValue(conn_id=CONNECTION, conn_type="generic", login=VALUE)])

    async def _end(self, service: Service) -> None:
        if service.alive:
            await service.kill()


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait() != 0:
        raise GaveUp(f"`{' '.join(command)}` is not permitted here: this campaign cannot be played")


def _statements(script: str) -> list[str]:
    """Statements of a script, functions whole."""
    found, inside = [""], False
    for line in script.splitlines():
        inside ^= line.count("$$") % 2 == 1
        found[-1] += line + "\n"
        if line.rstrip().endswith(";") and not inside:
            found.append("")
    return found


Inject = Callable[[Stage], Awaitable[None]]


async def perform(
    setting: Setting, workload: Workload, inject: Inject, *, deadline: float, keep: Path | None = None
) -> tuple[Stage, Read | None, float]:
    """Play one round: set up, inject faults until `inject` returns, wait for the end of the work, read everything.

    The history is None when the work did not end within `deadline` seconds. `keep`: the folder of logs and records.
    """
    folder = folder_of(keep)
    stage = Stage(setting, workload, folder)
    began = time.monotonic()
    read: Read | None = None
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stage.set_up(stack)
            async with asyncio.timeout(deadline), asyncio.TaskGroup() as group:
                group.create_task(stage.begin_work())
                group.create_task(stage.watch())
                group.create_task(_inject(stage, inject))
        except* GaveUp as group_of_one:
            stage.troubles += map(str, group_of_one.exceptions)
        except* TimeoutError:
            done = await stage.postgres.value(FINISHED)
            stage.troubles.append(f"{done} of {stage.planned_runs} runs had ended after {deadline:.0f} s")
        else:
            await stage.wait_for_heartbeats()
            await stage.stop_services()
            read = await stage.read()
    if keep is None and not stage.troubles:
        shutil.rmtree(folder)
    return stage, read, time.monotonic() - began


def folder_of(keep: Path | None) -> Path:
    """The folder of a round: `keep`, or a new one that PostgreSQL can use."""
    base = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
    folder = keep or Path(tempfile.mkdtemp(prefix="aiosched-faults-", dir=base))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)
    return folder


async def _inject(stage: Stage, inject: Inject) -> None:
    await stage.all_joined()
    while not await stage.postgres.value(SUCCEEDED):  # noqa: ASYNC110  # until files are parsed and tasks run
        await asyncio.sleep(0.1)
    await inject(stage)
