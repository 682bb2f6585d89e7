"""The engine Celery: attempts run in Celery workers, behind Redis or RabbitMQ. Needs `pip install 'aiosched[celery]'`.

An attempt is a message in the Celery queue of its task's `queue`, or of its team's; coroutines, and functions that end
quickly, share messages. A broker cannot be asked for one message. But its queues are in order: a message is gone from a
queue that has not more messages than were sent after it, and if no worker says that it has it, it is sent again. That
may come too early, which does no harm: it is begun once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EngineStatus, EngineUnavailable, EngineWorker

if TYPE_CHECKING:
    from aiosched.executors.celery.broker import WorkerLook

logger: logging.Logger = logging.getLogger(__name__)

LOOK_EVERY: Final = 5.0  # seconds between two looks at the workers and queues
LOOK_FOR_WORKERS: Final = 1.0  # while none is known
_PER_SLOT: Final = 2  # attempts that are sent for each that can run: one runs, one waits on its way
_MOST_TOGETHER: Final = 20  # jobs in one message: RabbitMQ allows 255 bytes for its id, which names them
_LONGEST_NAME: Final = 255  # bytes of a queue's name in RabbitMQ
_REMEMBERED: Final = 100_000  # jobs whose places are known; older ones count as the oldest of all


class CeleryEngine:
    """Implements Engine, with the broker of the setting `celery.broker`."""

    name = "celery"
    sends_ahead = True

    def __init__(self, settings: Settings) -> None:
        try:
            import celery  # noqa: F401
        except ImportError:
            raise ConfigError("The executor 'celery' needs Celery: pip install 'aiosched[celery]'.") from None
        from aiosched.executors.celery.application import broker_of, make_app
        from aiosched.executors.celery.broker import Broker
        from aiosched.executors.celery.sealing import Seals

        self._settings = settings
        app, url = make_app(settings), broker_of(settings)
        self._seals = Seals(settings)
        self._sending, self._asking = Broker(app, url, self._seals), Broker(app, url, self._seals)
        self._workers: dict[str, WorkerLook] = {}
        self._lengths: dict[str, int] = {}  # of queues, at the last look
        self._places: dict[int, tuple[str, int]] = {}  # by job: its queue, and its number among those sent there
        self._sent: Counter[str] = Counter()  # how many were sent, by queue
        self._names: dict[tuple[str, str | None], str] = {}  # of queues, by the queue of a task and its team
        self._sent_before: Counter[str] = Counter()  # how many of them before the last look
        self.trouble: str = ""  # see TroubledEngine
        self._looking: asyncio.Task[None] | None = None
        self._ended: Callable[[int, str], None] = lambda job, reason: None

    @property
    def _concurrency(self) -> int:
        return sum(worker.concurrency for worker in self._workers.values())

    @property
    def slots(self) -> int:
        """Two for each task that the workers run at a time, and what waits in queues of which there is no worker."""
        limit = self._settings.executor.slots
        running = self._concurrency if limit is None else min(limit, self._concurrency)
        unserved = (self._lengths.keys() | self._sent.keys()) - self._served
        waiting = sum(self._lengths.get(q, 0) + self._sent[q] - self._sent_before[q] for q in unserved)
        return _PER_SLOT * running + waiting

    @property
    def _served(self) -> set[str]:
        return {queue for worker in self._workers.values() for queue in worker.queues}

    @property
    def async_slots(self) -> int:
        """As the setting says, once there is a worker."""
        return self._settings.executor.async_slots if self._workers else 0

    async def start(self, ended: Callable[[int, str], None]) -> None:
        """Connect in the background. `ended` is called for jobs that no queue can have; else the lease tells it."""
        self._ended = ended
        self._looking = asyncio.create_task(self._look_for_ever(), name="looking at Celery's workers")

    async def _look_for_ever(self) -> None:
        is_failing = False
        while True:
            try:
                await self._look()
                if is_failing:
                    logger.info("Celery's broker can be reached again")
                is_failing, self.trouble = False, ""
            except EngineUnavailable as error:
                self._workers, self._lengths, self.trouble = {}, {}, str(error)
                if not is_failing:
                    logger.warning("%s", error)
                is_failing = True
            await asyncio.sleep(LOOK_EVERY if self._workers else LOOK_FOR_WORKERS)

    async def _look(self) -> None:
        """First the queues, then the workers: what has left its queue has come to its worker by then."""
        known = {self._settings.celery.default_queue, *self._sent}
        known |= self._served
        sent = self._sent.copy()
        lengths = await self._asking.lengths(known)
        self._workers = await self._asking.workers()
        self._lengths, self._sent_before = lengths, sent

    def status(self) -> EngineStatus:
        """The workers that answered, and the queues."""
        workers = [
            EngineWorker(name=name, slots=said.concurrency, jobs=len(said.jobs))
            for name, said in sorted(self._workers.items())
        ]
        looked = self._lengths.keys() - self._served
        unserved = [(*of, name) for of, name in self._names.items() if name in looked]
        return EngineStatus(workers=workers, queues=self._lengths, unserved=unserved)

    def _queue(self, job: Job) -> str:
        """The Celery queue of a job; a team with keys of its own has queues of its own."""
        name = self._settings.celery.default_queue if job.queue == "default" else job.queue
        return name if (owner := self._seals.owner(job.team)) is None else f"{owner}.{name}"

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        """Publish the jobs to their queues: coroutines and quick functions together, the others one by one.

        What a broker refuses to have holds up nothing else; it is sent again as if it had been lost.
        """
        possible = [job for job in jobs if self._is_possible(job)]
        self._names |= {(job.queue, job.team): self._queue(job) for job in possible}
        messages = list(self._messages(possible, quick=quick))
        refused = await self._sending.publish(messages, held=not quick)
        for queue, reason in refused.items():
            logger.warning("attempts wait for the queue %r, which the broker refuses: %s", queue, reason)
        for queue, together in messages:
            if queue in refused:
                continue
            self._sent[queue] += 1
            for job in together:
                self._places.pop(job.id, None)
                self._places[job.id] = queue, self._sent[queue]
        while len(self._places) > _REMEMBERED:
            del self._places[next(iter(self._places))]

    def _is_possible(self, job: Job) -> bool:
        """Whether there can be a queue for a job; else it has ended."""
        if len(queue := self._queue(job).encode(errors="replace")) <= _LONGEST_NAME:
            return True
        self._ended(job.id, f"its queue is longer than {_LONGEST_NAME} bytes: {queue[:50].decode(errors='replace')}…")
        return False

    def _messages(self, jobs: Sequence[Job], *, quick: bool) -> Iterator[tuple[str, Sequence[Job]]]:
        """Queues and the jobs of a message each; those that share messages are spread over the queue's workers."""
        groups: dict[tuple[str, bool, str | None], list[Job]] = {}
        for job in jobs:
            groups.setdefault((self._queue(job), job.is_async, self._seals.owner(job.team)), []).append(job)
        for (queue, is_async, _), some in groups.items():
            served = [name for name, worker in self._workers.items() if queue in worker.queues]
            size = min(-(-len(some) // len(served)), _MOST_TOGETHER) if served and (is_async or quick) else 1
            for first in range(0, len(some), size):
                yield queue, some[first : first + size]

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        """Tell all workers: those that have one of these jobs do not begin it, or end it."""
        await self._sending.cancel(jobs, grace=grace)

    async def holds(self, jobs: Collection[int]) -> set[int]:
        """Those of the jobs that a worker has, or that may wait in their queue."""
        await self._look()
        at_workers = {job for worker in self._workers.values() for job in worker.jobs}
        return {job for job in jobs if job in at_workers or self._may_wait(job)}

    def _may_wait(self, job: int) -> bool:
        """Whether a queue is long enough to have it: the latest messages are those that were sent after it."""
        if (place := self._places.get(job)) is not None:
            queue, number = place
            return self._lengths.get(queue, 0) > self._sent_before[queue] - number
        return any(length > self._sent_before[queue] for queue, length in self._lengths.items())

    async def stop(self) -> None:
        """Disconnect; jobs go on."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await asyncio.gather(self._sending.close(), self._asking.close())
