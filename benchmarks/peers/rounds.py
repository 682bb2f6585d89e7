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
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
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
    for number in range(plan.rounds):
        for kind in plan.kinds:
            left = [s for s in plan.shapes if not log.has(kind.name, s.name, number, plan.size_of(kind, s).name)]
            if left and kind.name not in given_up:
                say(f"round {number + 1} of {plan.rounds}, {kind.name}: getting ready")
                try:
                    place = Place(str(_folder(root, kind)), await _database(dsn, kind))
                    await _turn(plan, kind, place, left, number, log, cache, say)
                except (PeerFailed, NotInstalled) as error:
                    given_up.add(kind.name)
                    say(f"  {error}")
                    for shape in left:
                        if not log.has(kind.name, shape.name, number, plan.size_of(kind, shape).name):
                            log.add(Measurement(kind.name, shape.name, number, problem=str(error)))


async def _turn(
    plan: Plan, kind: Kind, place: Place, shapes: Sequence[Shape], number: int, log: Log, cache: Path, say: Say
) -> None:
    """One peer's part of a round. Raises PeerFailed or NotInstalled when it cannot go on."""
    async with driving(kind, await python_for(kind, cache), place) as driver:
        log.add(Facts(kind.name, driver.ready["versions"], driver.ready["settings"]))
        for shape in shapes:
            size = plan.size_of(kind, shape)
            seconds, problems = await _measured(driver, size, Path(place.root))
            found = Measurement(
                kind.name, shape.name, number, size.name, size.total, seconds, "; ".join(problems)[:200]
            )
            log.add(replace(found, seconds=None) if problems else found)
            say(f"  {size.name:<18}{seconds:9.3f} s {size.total / seconds:9,.0f} tasks/s  {found.problem}")


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
            env=environment_of(root),
            start_new_session=True,
        )
    driver = Driver(kind, process, log, {})
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"root": place.root, "dsn": place.dsn}).encode() + b"\n")
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


def _folder(root: Path, kind: Kind) -> Path:
    folder = root / "peers" / kind.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
