"""The engine Dask: attempts run in the workers of a Dask cluster. Needs `pip install 'aiosched[dask]'`.

Dask's library unpickles what workers and Dask's scheduler answer, so it runs in a process of its own (dask_process.py),
without secrets, and as `executor.run_as`. This one asks it and checks what it says: answers to questions, and ends of
the jobs that it was given. Whatever else it says, or a silence, ends it, and it is started again.
Source: docs/decisions/0066-dask-in-a-process-of-its-own.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.engines.dask_messages import (
    LARGEST_ANSWER,
    MOST_AT_ONCE,
    Begin,
    CancelJobs,
    DaskJob,
    Done,
    Ended,
    FromDask,
    Holds,
    Look,
    Seen,
    Send,
    Stop,
    ToDask,
    from_dask,
)
from aiosched.executors.engines.engine import EndNotice, EngineStatus, EngineUnavailable, EngineWorker
from aiosched.executors.local.forkserver_client import FORKSERVER
from aiosched.executors.local.guarded_process import GuardedProcess
from aiosched.executors.worker.protocol import FramesOf, frame
from aiosched.other_user import OtherUser, check_access, check_rights, other_user

logger: logging.Logger = logging.getLogger(__name__)

ANSWERS_WITHIN: Final = 60.0  # seconds: a process that is silent for longer is ended
_PER_THREAD: Final = 2  # attempts that Dask is given for each thread: one runs, one waits on its way
_MOST_BYTES: Final = 16_777_216  # of the jobs in one question, unless one has more
_LOOKS_APART: Final = 0.1  # seconds at least between two looks
_STOPS_WITHIN: Final = 30.0  # seconds
_STOPS_WITHOUT_CLUSTER: Final = 6.0
AGAIN: Final = (0.2, 10.0)  # seconds before it is started again: at first, and at most
_LONG_LIFE: Final = 60.0  # seconds after which the next end counts as the first one
_MODULE: Final = "aiosched.executors.engines.dask_process"
_HAS_ENDED: Final = "it has ended"
_GONE: Final = "the process that talks to Dask is gone"


class Forbidden(Exception):
    """What the process said is nothing that it may say."""


class DaskLink(asyncio.Protocol):
    """The connection to one process: what was asked, what it was given, and nothing else is heard.

    `ended` hears of the jobs whose Dask tasks have failed.
    """

    def __init__(self, ended: Callable[[int, str], None]) -> None:
        self._ended = ended
        self._frames = FramesOf(from_dask, LARGEST_ANSWER)
        self._numbers = itertools.count(1)
        self._questions: dict[int, tuple[ToDask, asyncio.Future[Seen | Done]]] = {}
        self._given: Counter[int] = Counter()  # how often a job may be told to have ended
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why it is not heard any more

    async def ask(self, question: Callable[[int], ToDask]) -> Seen | Done:
        """The answer to a question, which is made with its number. Raises EngineUnavailable.

        Whoever does not wait any more does not change that it must be answered.
        """
        if self.lost.done() or self._transport is None:
            raise EngineUnavailable(_GONE)
        asked = question(next(self._numbers))
        if isinstance(asked, Send):
            self._given.update(job.id for job in asked.jobs)
        assert not isinstance(asked, Begin)
        answer: asyncio.Future[Seen | Done] = asyncio.get_running_loop().create_future()
        self._questions[asked.number] = asked, answer
        self.tell(asked)
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                said = await asyncio.shield(answer)
        except TimeoutError:
            self.close(f"it has not answered for {ANSWERS_WITHIN:.0f} s")
            raise EngineUnavailable(_GONE) from None
        if isinstance(said, Done) and said.trouble:
            raise EngineUnavailable(_plain(said.trouble))
        return said

    def tell(self, message: ToDask) -> None:
        """Send what needs no answer."""
        if self._transport is not None and not self.lost.done():
            self._transport.write(frame(message))

    def close(self, why: str) -> None:
        """Hear nothing more."""
        if not self.lost.done():
            self.lost.set_result(why)
        for _, answer in self._questions.values():
            if not answer.done():
                answer.set_exception(EngineUnavailable(_GONE))
                answer.exception()  # perhaps nobody waits for it
        self._questions.clear()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's classes are not subclasses

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(_HAS_ENDED)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._hear(message)
                if self.lost.done():
                    return
        except (Forbidden, msgspec.MsgspecError, RecursionError) as error:
            self.close(f"it said what it may not: {_plain(str(error))}")

    def _hear(self, message: FromDask) -> None:
        if isinstance(message, Ended):
            self._hear_end(message)
            return
        asked, answer = self._questions.get(message.number, (None, None))
        if asked is None or answer is None or isinstance(asked, Look) != isinstance(message, Seen):
            raise Forbidden(f"{type(message).__name__} {message.number} answers no question")
        if isinstance(message, Done):
            jobs = _jobs_of(asked)
            if len(set(message.jobs)) != len(message.jobs) or not jobs.issuperset(message.jobs):
                raise Forbidden(f"Done {message.number} names jobs that were not asked about")
            if isinstance(
                asked, Send
            ):  # the others were given to workers, which report by themselves, or were not sent
                for job in jobs.difference(message.jobs):
                    self._allow_one_less(job)
        del self._questions[message.number]
        if not answer.done():
            answer.set_result(message)

    def _hear_end(self, message: Ended) -> None:
        if not self._given[message.job]:
            raise Forbidden(f"job {message.job}, of which it speaks, was not given to it")
        self._allow_one_less(message.job)
        if message.reason is not None:
            self._ended(message.job, _plain(message.reason))

    def _allow_one_less(self, job: int) -> None:
        self._given[job] -= 1
        if self._given[job] <= 0:
            del self._given[job]


def _jobs_of(asked: ToDask) -> set[int]:
    match asked:
        case Send():
            return {job.id for job in asked.jobs}
        case Holds():
            return set(asked.jobs.values())
        case _:
            return set()


def _plain(text: str) -> str:
    """Text of the cluster for our log and pages: on one line, without control characters."""
    return "".join(each if each.isprintable() else " " for each in text)


class DaskEngine:
    """Implements Engine, and keeps the process that talks to Dask."""

    name = "dask"
    sends_ahead = True

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise ConfigError("The executor 'dask' needs Dask: pip install 'aiosched[dask]'.")
        self._settings = settings
        self._user: OtherUser | None = None
        self.process: GuardedProcess | None = None
        self._link: DaskLink | None = None
        self._threads, self._status = 0, EngineStatus()
        self.trouble: str = ""  # see TroubledEngine
        self._keeping: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def slots(self) -> int:
        """Two for each thread of the cluster, as far as it is known."""
        limit = self._settings.executor.slots
        return _PER_THREAD * (self._threads if limit is None else min(limit, self._threads))

    @property
    def async_slots(self) -> int:
        """As the setting says, once there is a worker."""
        return self._settings.executor.async_slots if self._threads else 0

    def status(self) -> EngineStatus:
        """The workers; a job is one that holds a thread."""
        return self._status

    async def start(self, ended: EndNotice) -> None:
        """Start the process, which connects in the background. Raises ConfigError if it cannot be run_as's."""
        self._ended = ended
        if (name := self._settings.executor.run_as) is not None:
            self._user = await asyncio.to_thread(_usable, name)
        self._keeping = asyncio.create_task(self._keep(), name="the process that talks to Dask")

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        """Give coroutines and quick functions to workers; the others become tasks that Dask keeps until they end."""
        link = self._linked()
        all_jobs = [DaskJob(job.id, job.name, job.queue, job.is_async, msgspec.json.encode(job)) for job in jobs]
        for some in _portions(all_jobs):
            await link.ask(lambda number, some=some: Send(number, some, quick))  # type: ignore[misc]

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        """Tell all workers: those that run one of these jobs end it."""
        await self._linked().ask(lambda number: CancelJobs(number, list(jobs), grace))

    async def holds(self, jobs: Collection[int]) -> set[int]:
        """Those of the jobs of which Dask's scheduler, or a worker, says that they wait or run."""
        held, all_jobs, link = set[int](), list(jobs), self._linked()
        for first in range(0, len(all_jobs), MOST_AT_ONCE):
            names = {name_of(job): job for job in all_jobs[first : first + MOST_AT_ONCE]}
            said = await link.ask(lambda number, names=names: Holds(number, names))  # type: ignore[misc]
            assert isinstance(said, Done)
            held.update(said.jobs)
        return held

    async def stop(self) -> None:
        """Disconnect. Our own cluster ends, and its attempts are lost; those of another one go on."""
        self._is_stopping = True
        if self._link is not None:
            seconds = _STOPS_WITHIN if self._settings.dask.address is None else _STOPS_WITHOUT_CLUSTER
            with contextlib.suppress(EngineUnavailable, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._link.ask(Stop)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def _linked(self) -> DaskLink:
        if self._link is None:
            raise EngineUnavailable(_GONE)
        return self._link

    async def _keep(self) -> None:
        """Run the process, and start it again whenever it ends."""
        pause, longest = AGAIN
        while not self._is_stopping:
            began = time.monotonic()
            try:
                why = await self._run()
            except OSError as error:  # it could not be started
                why = f"{type(error).__name__}: {error}"
            if self._is_stopping:
                return
            pause = AGAIN[0] if time.monotonic() - began > _LONG_LIFE else pause
            self.trouble = f"the process that talks to Dask has ended: {why}"
            logger.warning("the process that talks to Dask is started again in %.1f s: %s", pause, why)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _run(self) -> str:
        """One life of the process; returns why it ended."""
        loop = asyncio.get_running_loop()
        process = self.process = GuardedProcess(_MODULE, output="aiosched.dask", user=self._user)
        looking: asyncio.Task[None] | None = None
        try:
            process.control.setblocking(False)
            _, link = await loop.create_unix_connection(lambda: DaskLink(self._failed), sock=process.control)
            link.tell(self._beginning())
            self._link = link
            looking = asyncio.create_task(self._look_for_ever(link), name="looking at Dask's workers")
            why = await link.lost
            how = await self._ended_process(process)
            return f"it {how}" if why == _HAS_ENDED else why
        finally:
            if (last := self._link) is not None:
                last.close("it is not needed any more")
            self._link, self._threads, self._status = None, 0, EngineStatus()
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            if self.process is not None:
                await asyncio.shield(self._ended_process(process))

    async def _ended_process(self, process: GuardedProcess) -> str:
        """End it with all that it has started; returns how it ended."""
        process.end()
        how = await asyncio.to_thread(process.await_end)
        self.process = None
        return how

    def _beginning(self) -> Begin:
        settings = self._settings
        address = settings.dask.address
        if address is not None:
            return Begin(address)
        return Begin(None, settings.dask.workers, settings.executor.slots, settings_of_workers(settings))

    async def _look_for_ever(self, link: DaskLink) -> None:
        is_failing = False
        while True:
            began = time.monotonic()
            try:
                seen = await link.ask(Look)
            except EngineUnavailable:
                return
            assert isinstance(seen, Seen)
            self._threads = 0 if seen.trouble else seen.threads
            workers = [
                EngineWorker(name=_plain(each.name), slots=each.threads, jobs=each.executing) for each in seen.workers
            ]
            self._status = EngineStatus() if seen.trouble else EngineStatus(workers=workers)
            self.trouble = _plain(seen.trouble)
            if seen.trouble and not is_failing:
                logger.warning("%s", self.trouble)
            elif is_failing and not seen.trouble:
                logger.info("Dask can be reached again")
            is_failing = bool(seen.trouble)
            await asyncio.sleep(max(0.0, began + _LOOKS_APART - time.monotonic()))

    def _failed(self, job: int, reason: str) -> None:
        """Anybody in the cluster can have a Dask task fail: of an attempt that has begun its worker's lease decides."""
        self._ended(job, reason, certain=False)


def name_of(job: int) -> str:
    """The key of a job's Dask task."""
    return f"aiosched-{job}"


def settings_of_workers(settings: Settings) -> dict[str, Any]:
    """The settings of the workers of our own cluster, without secrets; those of others have their own.

    The whole cluster already runs as `executor.run_as`, and may not change users.
    """
    needed: Any = {"core": True, "dags": True, "executor": True, "logs": {"level"}, "xcom": True}
    given = settings.model_dump(mode="json", include=needed)
    given["executor"] |= {"run_as": None, "run_as_users": []} if settings.executor.run_as is not None else {}
    return given


def _portions(jobs: Sequence[DaskJob]) -> Iterator[list[DaskJob]]:
    """The jobs in the same order, so many at a time as a question may have."""
    some, size = list[DaskJob](), 0
    for job in jobs:
        if some and (len(some) == MOST_AT_ONCE or size + len(job.text) > _MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(job)
        size += len(job.text)
    if some:
        yield some


def _usable(name: str) -> OtherUser:
    user = other_user(name, "executor.run_as")
    check_rights("executor.run_as")
    check_access(user, "executor.run_as", [], program=FORKSERVER)
    return user
