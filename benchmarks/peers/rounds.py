"""In each round every peer in turn starts, runs all shapes and ends, so that none has the load of another.

What a peer's bodies wrote is verified after each shape. A peer that cannot be installed or started, or fails a shape,
is told with its reason and does not stop the others.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import asyncpg
import psutil

from aiosched.db.server.embedded import EmbeddedPostgres
from benchmarks import measure, record
from benchmarks.lag import percentile
from benchmarks.peers.catalogue import Kind
from benchmarks.peers.driver import Place, shape_to
from benchmarks.peers.environments import NotInstalled, environment_of, python_for
from benchmarks.peers.measurements import Facts, Log, Measurement, Session
from benchmarks.peers.servers import NoServer, has, installed_server
from benchmarks.processes import temporary_folders
from benchmarks.run import postgres
from benchmarks.shapes import Shape
from benchmarks.verify import verify_records

Say = Callable[[str], None]
_SHOWN = 200  # characters of what a peer did wrong


class PeerFailed(Exception):
    """A peer did not do what it was asked, with what it said."""


@dataclass(frozen=True)
class Plan:
    """What is compared. `size_of` gives the size in which a peer runs a shape."""

    kinds: Sequence[Kind]
    shapes: Sequence[Shape]
    rounds: int
    size_of: Callable[[Kind, Shape], Shape]


async def compare(plan: Plan, log: Log, cache: Path, say: Say) -> None:
    """Measure all that is not in the log yet."""
    with temporary_folders() as folders:
        async with EmbeddedPostgres(folders.home / "pg") as dsn:
            log.add(await _session(dsn))
            await compare_on(dsn, folders.root, plan, log, cache, say)


async def compare_on(dsn: str, root: Path, plan: Plan, log: Log, cache: Path, say: Say) -> None:
    """The same on a server that is there. `root` is a folder for what the peers write."""
    given_up = set[str]()
    with Servers(dsn, root) as servers:
        for number in range(plan.rounds):
            for kind in plan.kinds:
                turn = Turn(plan, kind, number, log, say)
                if not turn.left or kind.name in given_up:
                    continue
                say(f"round {number + 1} of {plan.rounds}, {kind.name}: getting ready")
                try:
                    await turn.take(await servers.place_for(kind), await python_for(kind, cache))
                except (PeerFailed, NotInstalled, NoServer) as error:
                    given_up.add(kind.name)
                    turn.give_up(error)


class Servers:
    """The server that all share, and others for those that need an extension, started when the first one does."""

    def __init__(self, dsn: str, root: Path) -> None:
        self._shared, self._root = dsn, root
        self._others: dict[str, str] = {}
        self._running = ExitStack()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    async def place_for(self, kind: Kind) -> Place:
        """A folder and a database of its own, on the server that it can use. Raises NoServer."""
        folder = self._root / "peers" / kind.name
        folder.mkdir(parents=True, exist_ok=True)
        dsn = self._shared
        if kind.extension and not await has(dsn, kind.extension):
            if kind.extension not in self._others:
                server = installed_server(kind.extension, self._root / kind.extension)
                self._others[kind.extension] = self._running.enter_context(server)
            dsn = self._others[kind.extension]
        return Place(str(folder), await _database(dsn, kind), on_shared_server=dsn == self._shared)


@dataclass
class Turn:
    """One peer's part of a round."""

    plan: Plan
    kind: Kind
    number: int
    log: Log
    say: Say

    @property
    def left(self) -> list[Shape]:
        """What is not measured yet."""
        return [
            s for s in self.plan.shapes if not self.log.has(self.kind.name, s.name, self.number, self._size(s).name)
        ]

    def _size(self, shape: Shape) -> Shape:
        return self.plan.size_of(self.kind, shape)

    async def take(self, place: Place, python: str) -> None:
        """Start it, run what is left, end it. Raises PeerFailed when it cannot go on."""
        async with driving(self.kind, python, place) as driver:
            said = driver.ready["settings"]
            on = "" if place.on_shared_server else f"; {await _version(place.dsn)}, which has `{self.kind.extension}`"
            self.log.add(Facts(self.kind.name, driver.ready["versions"], said + on))
            for shape in self.left:
                size = self._size(shape)
                seconds, problems = await _measured(driver, size, Path(place.root))
                found = Measurement(self.kind.name, shape.name, self.number, size.name, size.total, seconds)
                if problems:
                    found = replace(found, seconds=None, problem="; ".join(problems)[:_SHOWN])
                self.log.add(found)
                self.say(f"  {size.name:<18}{seconds:9.3f} s {size.total / seconds:9,.0f} tasks/s  {found.problem}")

    def give_up(self, error: Exception) -> None:
        self.say(f"  {error}")
        for shape in self.left:
            self.log.add(Measurement(self.kind.name, shape.name, self.number, problem=str(error)))


async def _measured(driver: Driver, shape: Shape, root: Path) -> tuple[float, list[str]]:
    """Seconds until the last body had ended, and what verification found."""
    named = replace(shape, name=f"{shape.name}-{token_hex(3)}")  # no peer meets the name of a DAG twice
    records = root / "records" / named.name
    records.mkdir(parents=True)
    answer = await driver.ask(shape=shape_to(named), records=str(records))
    found = record.read(records)
    problems = verify_records(named, found)
    return max((one.end for one in found), default=answer["due"] + 1e-9) - answer["due"], problems


@dataclass
class Driver:
    """A peer's process that is ready. `ready` is what it said then."""

    kind: Kind
    process: asyncio.subprocess.Process
    log: Path
    ready: Mapping[str, Any]

    async def ask(self, **what: Any) -> Mapping[str, Any]:
        """Send a line and return the answer. Raises PeerFailed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        return await self._answer(self.kind.bound)

    async def _answer(self, bound: float) -> Mapping[str, Any]:
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), bound)
        except TimeoutError:
            raise PeerFailed(f"{self.kind.title} did not end within {bound:g} s") from None
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"it ended: {_last_line(self.log)}"}
        if "error" in answer:
            raise PeerFailed(f"{self.kind.title} failed: {answer['error']}")
        return answer


@asynccontextmanager
async def driving(kind: Kind, python: str, place: Place) -> AsyncIterator[Driver]:
    """The process of a peer, ready; it and all that it started end with the block. Raises PeerFailed."""
    root = Path(place.root)
    log = root / "driver.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", f"benchmarks.peers.{kind.module}", *kind.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=root,
            env=environment_of(kind, root),
            start_new_session=True,
        )
    driver = Driver(kind, process, log, {})
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(place)).encode() + b"\n")
        driver.ready = await driver._answer(kind.ready_within)
        yield driver
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let it end by the end of its input; after 30 s it is killed with all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    started = psutil.Process(process.pid).children(recursive=True) if process.returncode is None else []
    try:
        await asyncio.wait_for(process.wait(), 30.0)
    except TimeoutError:
        process.kill()
        await process.wait()
    for child in started:
        with suppress(psutil.NoSuchProcess):
            child.send_signal(signal.SIGKILL)  # psutil does not touch another process with its number


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")[:300]


async def _database(dsn: str, kind: Kind) -> str:
    """The DSN of the peer's database on the server, which is created if it is not there."""
    name = f"peer_{kind.name}"
    conn = await asyncpg.connect(dsn)
    try:
        if not await conn.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await conn.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    finally:
        await conn.close()
    head, _, rest = dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{name}?{rest}"


async def _version(dsn: str) -> str:
    conn = await asyncpg.connect(dsn)
    try:
        return await postgres(conn)
    finally:
        await conn.close()


async def _session(dsn: str) -> Session:
    conn = await asyncpg.connect(dsn)
    try:
        commits = await measure.durable_commits(conn)
        return Session(
            datetime.now(UTC).date().isoformat(),
            measure.machine(),
            await postgres(conn),
            percentile(commits, 50),
            os.getloadavg()[0],
        )
    finally:
        await conn.close()
