"""The other schedulers of `serve --schedulers N`: processes on one database, with one parser, web server and server.

Each is an ordinary scheduler of the fleet. It gets its settings as JSON on its standard input, which stays open: when
it closes, the peer stops, so it never outlives this process. It tells what is shown and parsed here through a pipe
(peer_process.py). One that dies is started again. One that does not answer when all stop is killed: the others wait for
it before they give their partitions away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from aiosched.cli.serve.stopping import RunningAttempt
from aiosched.config import Settings
from aiosched.db.statements.ownership import set_draining
from aiosched.scheduler import Scheduler, SchedulerEvent
from aiosched.timeouts import clean_up_timeout

logger: logging.Logger = logging.getLogger(__name__)

_CORES_EACH: Final = 2  # with `auto`: the other one is for tasks and the database
_MOST_BY_ITSELF: Final = 8
_ENDING_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 10.0  # at most its lease: whoever is silent for longer is taken over in any case
_DYING_SECONDS: Final = 5.0  # of a process that is killed: one that waits for a disk does not end
AGAIN: Final = (1.0, 30.0)  # seconds before it is started again: at first, and at most
_LONG_LIFE: Final = 60.0  # seconds after which the next death counts as the first one


def number_of_schedulers(wanted: str, cores: int) -> int:
    """The number that a setting means: `auto` is one for every two cores, at most eight."""
    if wanted == "auto":
        return min(max(cores // _CORES_EACH, 1), _MOST_BY_ITSELF)
    return int(wanted)


def settings_of_each(settings: Settings, number: int) -> Settings:
    """The settings of each of several schedulers of one machine: they share `executor.slots`."""
    cores = os.cpu_count() or 1
    slots = settings.executor.slots or 4 * cores
    executor = settings.executor.model_copy(update={"slots": max(math.ceil(slots / number), 1)})
    return settings.model_copy(update={"executor": executor})


class PeerScheduler:
    """One other scheduler: its process, and what it has told."""

    def __init__(self, settings: Settings, dsn: str, name: str, parent: Peers) -> None:
        self._order = {"settings": settings.model_dump(mode="json"), "dsn": dsn, "name": name}
        self.name = name
        self._parent = parent
        self._child: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._answer_seconds = min(settings.scheduler.lease, _ANSWER_SECONDS)
        self._is_ending = False
        self._answers = True
        self._has_announced, self._has_drained = asyncio.Event(), asyncio.Event()
        self.incarnation: int | None = None  # its number in the fleet, the last one that it has told
        self.partitions: frozenset[int] = frozenset()
        self.running: list[RunningAttempt] = []

    async def keep(self) -> None:
        """Run it, and start it again whenever it dies, until it is stopped."""
        pause, longest = AGAIN
        while not self._is_ending:
            began = time.monotonic()
            try:
                end = f"exit code {await self._run()}"
            except (OSError, ValueError) as error:  # no process could be started, or what it told is no message
                end = f"{type(error).__name__}: {error}"
            self.partitions, self.running = frozenset(), []
            self._has_announced.set()
            self._has_drained.set()
            if self._is_ending:
                return
            pause = AGAIN[0] if time.monotonic() - began > _LONG_LIFE else pause
            logger.warning("scheduler %s ended (%s); starting it again in %.0f s", self.name, end, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def announce_drain(self) -> bool:
        """As `Scheduler.announce_drain`; False if it has no process, or one that does not answer and is killed."""
        self._is_ending = True
        return self._tell({"announce": True}) and await self._answered(self._has_announced) and self._is_alive

    async def drain(self, grace: float) -> bool:
        """As `Scheduler.drain`; True if nothing is left. One that does not answer in time is killed."""
        self._is_ending = True
        if not self._answers:
            return False
        if not self._tell({"drain": grace}):
            return True
        return await self._answered(self._has_drained, grace) and not self.running

    async def stop(self) -> None:
        """End its process: it stores what has ended and leaves the fleet."""
        self._is_ending = True
        child = self._child
        if child is None or child.returncode is not None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            async with clean_up_timeout(_ENDING_SECONDS if self._answers else 0.0):
                await child.wait()
        except TimeoutError:
            logger.warning("scheduler %s does not stop: it is killed", self.name)
            await self._kill()

    @property
    def _is_alive(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def _answered(self, answer: asyncio.Event, seconds: float = 0.0) -> bool:
        """Wait `seconds`, and as long as an answer may take, for one; without any, kill the process."""
        seconds += self._answer_seconds
        try:
            async with clean_up_timeout(seconds):
                await answer.wait()
        except TimeoutError:
            self._answers = False
            logger.warning(
                "scheduler %s has not answered for %.0f s: it is killed, and its tasks run again", self.name, seconds
            )
            await self._kill()
        return self._answers

    async def _kill(self) -> None:
        if self._child is None:
            return
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            self._child.kill()
            async with clean_up_timeout(_DYING_SECONDS):
                await self._child.wait()

    async def _run(self) -> int:
        """One life of its process; the exit code."""
        self._has_announced.clear()
        self._has_drained.clear()
        reading, writing = os.pipe()
        try:
            child = self._child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aiosched.cli.serve.peer_process", str(writing),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C in the terminal is for this process
            )  # fmt: skip
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        told = asyncio.StreamReader(limit=2**20)
        pipe = os.fdopen(reading, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(told), pipe
        )
        self._tell(self._order)
        try:
            while line := await told.readline():
                self._hear(json.loads(line))
            return await child.wait()
        finally:
            transport.close()
            if child.returncode is None:
                child.kill()

    def _hear(self, told: dict[str, Any]) -> None:
        match told:
            case {"event": event}:
                self._parent.show(SchedulerEvent(**{**event, "at": datetime.fromisoformat(event["at"])}))
            case {"partitions": numbers, "incarnation": incarnation}:
                self.partitions, self.incarnation = frozenset(numbers), incarnation
                self._parent.on_partitions()
            case {"running": attempts}:
                self.running = [(dag, run, task, seconds) for dag, run, task, seconds in attempts]
            case {"dropped": number}:
                logger.warning("%d lines of scheduler %s were dropped: this process stood still", number, self.name)
            case {"announced": _}:
                self._has_announced.set()
            case {"drained": _}:
                self._has_drained.set()

    def _tell(self, message: dict[str, Any]) -> bool:
        """Send one line; False if there is no process."""
        child = self._child
        if child is None or child.returncode is not None or child.stdin is None:
            return False
        child.stdin.write(json.dumps(message).encode() + b"\n")
        return True


class Peers:
    """All other schedulers of this `serve`."""

    def __init__(
        self,
        settings: Settings,
        dsn: str,
        number: int,
        *,
        show: Callable[[SchedulerEvent], None],
        on_partitions: Callable[[], None],
    ) -> None:
        """`number` schedulers besides the one of this process; `settings` are those of each."""
        self.show, self.on_partitions = show, on_partitions
        name = settings.scheduler.name or socket.gethostname()
        self.all: list[PeerScheduler] = [
            PeerScheduler(settings, dsn, f"{name}-{2 + which}", self) for which in range(number)
        ]
        self._keeping: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start them all, and keep them running until `stop`."""
        self._keeping = [asyncio.create_task(each.keep(), name=f"scheduler {each.name}") for each in self.all]

    def owns(self, partition: int) -> bool:
        """Whether one of them owns a partition: the parser of this process reads its files."""
        return any(partition in each.partitions for each in self.all)

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(each.stop() for each in self.all))
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)


class SchedulerGroup:
    """Several schedulers that stop together, as one."""

    def __init__(self, scheduler: Scheduler, peers: Sequence[PeerScheduler]) -> None:
        self._scheduler, self._peers = scheduler, peers

    async def drain(self, grace: float) -> object:
        """Each keeps its partitions unless a scheduler elsewhere takes them."""
        if self._peers:
            await self._announce()
        return await asyncio.gather(self._scheduler.drain(grace), *(peer.drain(grace) for peer in self._peers))

    async def stop(self, grace: float) -> object:
        await asyncio.gather(*(peer.stop() for peer in self._peers))
        await self._scheduler.stop(grace)
        return None

    async def _announce(self) -> None:
        """Have the fleet know of all that they drain; one that cannot say so itself must get no partitions either."""
        announcing = asyncio.gather(*(peer.announce_drain() for peer in self._peers))
        _, announced = await asyncio.gather(self._scheduler.announce_drain(), announcing)
        silent = [peer.incarnation for peer, done in zip(self._peers, announced, strict=True) if not done]
        for incarnation in silent:
            if incarnation is not None:
                await set_draining(self._scheduler.db, incarnation)

    def running_attempts(self) -> Sequence[RunningAttempt]:
        found = [*self._scheduler.running_attempts()]
        for peer in self._peers:
            found += peer.running
        return sorted(found, key=lambda entry: -entry[3])
