"""An engine as an executor: stores each attempt before the engine hears of it, and sends it again if it was lost.

Reports do not come through the engine: the worker API stores them in the inbox of the partition's owner
(partitions/handover.py). So attempts belong to no scheduler, and go on whichever of them ends. Triggers and callbacks
run in worker processes of the scheduler's machine. Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, AttemptKey, Executor, Outcome, Report, TaskServices
from aiosched.core.values.worker_messages import Job
from aiosched.db.engines import attempts as statements
from aiosched.db.engines.attempts import NewAttempt, SentAttempt, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people.signing_keys import PresentKeys
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.executors.engines.engine import Engine, EngineUnavailable
from aiosched.executors.throughput import Throughput

logger: logging.Logger = logging.getLogger(__name__)

_MOST_AT_ONCE: Final = 1000  # attempts stored in one statement
_FIRST_PAUSE: Final = 0.1  # seconds before something is tried again, doubled up to the last
_LAST_PAUSE: Final = 5.0
WATCH_EVERY: Final = 0.5  # seconds between two looks at how many attempts the engine takes
_CHECK_EVERY: Final = 10.0  # seconds between two comparisons of what waits with what the engine has
_AHEAD: Final = 0.25  # seconds of work that is sent beyond the slots: about the way to a worker and back
_MOST_AHEAD: Final = 32  # times the slots
_UNBEGUN: Final = "was stopped on request, before it began"


@dataclass(slots=True)
class _Sent:
    """An attempt that has not ended. `id` is None until its row is stored."""

    is_async: bool
    id: int | None = None
    has_begun: bool = False


class EngineExecutor:
    """Implements the Executor protocol with an `engine`. `local` runs triggers and callbacks.

    `urls` are addresses of the worker API for workers.
    """

    def __init__(self, engine: Engine, local: Executor, *, urls: Sequence[str]) -> None:
        self.name: str = engine.name
        self.engine: Engine = engine
        self._local, self._urls = local, tuple(urls)
        self._sent: dict[AttemptKey, _Sent] = {}
        self._keys: dict[int, AttemptKey] = {}  # by id
        self.remarks: dict[AttemptKey, str] = {}  # what the engine says of attempts that have perhaps ended
        self._unstored: dict[AttemptKey, Attempt] = {}
        self._rows: dict[AttemptKey, int] = {}  # of attempts that are about to be submitted
        self._unneeded: list[int] = []  # rows that were stored for nothing
        self._to_send: dict[int, Job] = {}
        self._async_count = 0
        self._throughput = Throughput(_AHEAD)
        self._changed, self._check = asyncio.Event(), asyncio.Event()
        self._storing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._endings: set[asyncio.Task[None]] = set()
        self._db: Database | None = None
        self._incarnation: Callable[[], int | None] = lambda: None
        self.on_growth: Callable[[], None] = lambda: None  # called when the engine takes more than before

    @property
    def lease_deadline(self) -> object:
        """That of the local processes, for the lease thread."""
        return getattr(self._local, "lease_deadline", None)

    def bind(self, db: Database, *, name: str, incarnation: Callable[[], int | None]) -> None:
        """Before `start`: the database, the name by which tasks choose it, and the scheduler's current incarnation."""
        self._db, self.name, self._incarnation = db, name, incarnation

    @property
    def slots(self) -> int:
        """What the engine is given at a time."""
        return self.engine.slots

    @property
    def open_slots(self) -> int:
        """How many more plain-function attempts it accepts now, with those expected to end in a moment."""
        slots = self.engine.slots
        quick = self._throughput.ahead(time.monotonic()) if self.engine.sends_ahead else 0
        ahead = min(quick, _MOST_AHEAD * slots)
        return max(0, slots + ahead - (len(self._sent) - self._async_count))

    @property
    def open_async_slots(self) -> int:
        """How many more `async def` attempts it accepts now."""
        return max(0, self.engine.async_slots - self._async_count)

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        """Connect to the engine."""
        self._report = report
        self._signing_keys = PresentKeys(self.db)
        await self._renew_signer()
        await self._local.start(report, services)
        await self.engine.start(self._ended)
        self._tasks = [
            asyncio.create_task(self._send_for_ever(), name=f"sending to {self.name}"),
            asyncio.create_task(self._check_for_ever(), name=f"checking {self.name}"),
            asyncio.create_task(self._watch_slots(), name=f"watching the slots of {self.name}"),
        ]

    @property
    def db(self) -> Database:
        """The database that it is bound to."""
        assert self._db is not None
        return self._db

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Accept the attempts; they are sent together. Those without a row (`has_row`) are stored before."""
        without_slot = [each for each in attempts if each.trigger is not None or each.callback is not None]
        if without_slot:
            self._local.submit(without_slot)
        for attempt in attempts:
            if attempt.trigger is None and attempt.callback is None:
                number = self._rows.pop(attempt.key, None)
                self._note(attempt.key, _Sent(attempt.is_async, number))
                if number is None:
                    self._unstored[attempt.key] = attempt
                else:
                    self._to_send[number] = self._job(number, attempt)
        if self._unstored or self._to_send:
            self._changed.set()

    def has_row(self, key: AttemptKey, number: int) -> None:
        """An attempt was stored with its claim, and is about to be submitted."""
        self._rows[key] = number

    def drop_rows(self) -> None:
        """The attempts with rows that were not submitted are not wanted any more."""
        if self._rows:
            self._unneeded.extend(self._rows.values())
            self._rows.clear()
            self._changed.set()

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """End an attempt: at once if no worker has begun it; its worker hears of it from the engine or a heartbeat."""
        sent = self._sent.get(attempt)
        if sent is None:
            await self._local.cancel(attempt, grace)
            return
        if self._unstored.pop(attempt, None) is not None:
            self.settled(attempt)
            self._report(_unbegun(attempt))
            return
        async with self._storing:  # it may be about to be stored
            if sent.id is None:
                return
        async with self.db.transaction() as conn:
            ended = await statements.end_attempts(conn, [(sent.id, _unbegun(attempt))], unless_begun=True)
            if not ended:
                await statements.request_stop(conn, sent.id, grace=grace)
        self._to_send.pop(sent.id, None)
        with contextlib.suppress(EngineUnavailable):
            await self.engine.cancel([sent.id], grace=grace)

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Stop triggers that wait elsewhere, and leave attempts to the scheduler that owns them now."""
        self._local.forget(triggers)
        for key in triggers:
            self.settled(key)

    def settled(self, key: AttemptKey) -> None:
        """The final report of an attempt has arrived, or another scheduler waits for it."""
        if (sent := self._sent.pop(key, None)) is not None:
            self._async_count -= sent.is_async
            if not sent.is_async:
                self._throughput.ended(time.monotonic())
            self._unstored.pop(key, None)
            if sent.id is not None:
                self._to_send.pop(sent.id, None)
                self._keys.pop(sent.id, None)
            self.remarks.pop(key, None)

    def take_over(self, rows: Iterable[SentAttempt]) -> None:
        """Adopt attempts that another scheduler has sent; those that the engine does not know are sent again."""
        for row in rows:
            self._note(row.key, _Sent(row.is_async, row.id, row.begun_at is not None))
        self._check.set()

    def unstored(self) -> Iterable[Attempt]:
        """The attempts that it has accepted and whose rows are not stored yet."""
        return self._unstored.values()

    def holds(self, key: AttemptKey) -> bool:
        """Whether it waits for the end of an attempt."""
        return key in self._sent

    def is_stored(self, key: AttemptKey) -> bool:
        """Whether an attempt that has not ended was stored."""
        return (sent := self._sent.get(key)) is not None and sent.id is not None

    async def stop(self, grace: float) -> None:
        """Disconnect; attempts go on, and the next scheduler adopts them. Ends triggers and callbacks."""
        tasks, self._tasks = [*self._tasks, *self._endings], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.engine.stop()
        await self._local.stop(grace)

    def _note(self, key: AttemptKey, sent: _Sent) -> None:
        self.settled(key)
        self._sent[key] = sent
        self._async_count += sent.is_async
        if sent.id is not None:
            self._keys[sent.id] = key

    # -- sending

    async def _send_for_ever(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                if self._unneeded:
                    await self._remove_unneeded()
                while self._unstored:
                    await self._store(list(itertools.islice(self._unstored.values(), _MOST_AT_ONCE)))
                if self._to_send:
                    jobs = list(self._to_send.values())
                    quick = self._throughput.ahead(time.monotonic()) > self.engine.slots
                    await self.engine.send(jobs, quick=quick)
                    for job in jobs:
                        self._to_send.pop(job.id, None)
                pause = _FIRST_PAUSE
            except Exception as error:
                if not (isinstance(error, EngineUnavailable) or is_of_database(error)):
                    logger.exception("%s: attempts cannot be sent", self.name)
                elif pause == _FIRST_PAUSE:
                    logger.warning("%s: attempts wait to be sent: %s", self.name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
                self._changed.set()

    async def _store(self, attempts: Sequence[Attempt]) -> None:
        """Store attempts, then send them. What cannot be stored fails alone."""
        incarnation = self._incarnation()
        if incarnation is None:
            raise EngineUnavailable("this scheduler is not a member of the fleet")
        try:
            new = [new_attempt(partition_of(each.run.dag_id), self.name, each) for each in attempts]
            async with self._storing, self.db.acquire() as conn:
                ids = await statements.insert_attempts(conn, new, incarnation=incarnation)
        except Exception as error:
            if is_of_database(error):
                raise
            if len(attempts) > 1:
                for attempt in attempts:
                    await self._store([attempt])
                return
            self.settled(attempts[0].key)
            self._report(_failed(attempts[0].key, f"cannot be stored: {type(error).__name__}: {error}"))
            return
        for attempt in attempts:
            self._unstored.pop(attempt.key, None)
            sent, number = self._sent.get(attempt.key), ids.get(attempt.key)
            if number is None:
                continue
            if sent is None:
                self._unneeded.append(number)  # cancelled, or left to another session, while it was inserted
                continue
            sent.id = number
            self._keys[number] = attempt.key
            self._to_send[number] = self._job(number, attempt)
        if self._unneeded:
            await self._remove_unneeded()

    async def _remove_unneeded(self) -> None:
        numbers = self._unneeded.copy()
        await statements.remove_unclaimed(self.db, numbers)
        del self._unneeded[: len(numbers)]

    def _job(self, number: int, attempt: Attempt) -> Job:
        index = f"[{attempt.key.map_index}]" if attempt.key.map_index >= 0 else ""
        return Job(
            id=number,
            token=self._signer.seal(number, attempt.key),
            urls=self._urls,
            queue=attempt.queue or "default",
            title=f"{attempt.run.dag_id}.{attempt.task_id}{index} {attempt.run.run_id}",
            is_async=attempt.is_async,
            executor_config=attempt.executor_config or {},
            team=attempt.run.team,
        )

    # -- what the engine says

    async def _watch_slots(self) -> None:
        slots = self.engine.slots, self.engine.async_slots
        while True:
            await asyncio.sleep(WATCH_EVERY)
            before, slots = slots, (self.engine.slots, self.engine.async_slots)
            if slots[0] > before[0] or slots[1] > before[1]:
                self.on_growth()

    async def _check_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_EVERY):
                    await self._check.wait()
            self._check.clear()
            try:
                await self._renew_signer()
                await self.send_again()
            except Exception as error:
                if not (isinstance(error, EngineUnavailable) or is_of_database(error)):
                    logger.exception("%s: what it has cannot be compared with the rows", self.name)

    async def _renew_signer(self) -> None:
        self._signer = TokenSigner(await self._signing_keys.get())

    async def send_again(self) -> None:
        """Send those attempts again that no worker has begun and that the engine does not have."""
        waiting = {s.id for s in self._sent.values() if s.id is not None and not s.has_begun} - self._to_send.keys()
        if not waiting:
            return
        unclaimed = await statements.unclaimed_attempts(self.db, waiting)
        for sent in self._sent.values():
            sent.has_begun = sent.has_begun or (sent.id in waiting and sent.id not in unclaimed)
        missing = unclaimed.keys() - await self.engine.holds(unclaimed.keys())
        if missing:  # what it no longer has may have begun meanwhile
            missing = set(await statements.unclaimed_attempts(self.db, missing))
        if missing:
            logger.warning("%s has lost %d attempts: they are sent again", self.name, len(missing))
            self._to_send |= {number: self._job(number, unclaimed[number]) for number in sorted(missing)}
            self._changed.set()

    def _ended(self, job: int, reason: str, *, certain: bool = True) -> None:
        """The engine says that a job has ended: if there is no report by now, the attempt is lost. See EndNotice."""
        if (key := self._keys.get(job)) is not None:
            if not certain:
                self.remarks[key] = reason
            task = asyncio.get_running_loop().create_task(self._lose(job, key, reason, unless_begun=not certain))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    async def _lose(self, job: int, key: AttemptKey, reason: str, *, unless_begun: bool) -> None:
        report = Report(key=key, outcome=Outcome.LOST, at=datetime.now(UTC), reason=reason)
        try:
            async with self.db.transaction() as conn:
                await statements.end_attempts(conn, [(job, report)], unless_begun=unless_begun)
        except Exception as error:  # the lease of its worker decides
            logger.warning("%s: the end of a job could not be stored: %s", self.name, error)


class Engines:
    """The engines among a scheduler's executors, by the names by which tasks choose them."""

    def __init__(self, members: Mapping[str, Executor]) -> None:
        self.members: dict[str, EngineExecutor] = {
            name: one for name, one in members.items() if isinstance(one, EngineExecutor)
        }
        self._default = next(iter(members), None)
        self.adopted_at: float = -math.inf  # monotonic second of the last adoption
        self.without_trace: set[AttemptKey] = set()  # attempts whose row was missing at the last look

    def __bool__(self) -> bool:
        return bool(self.members)

    def runs(self, attempt: Attempt) -> bool:
        """Whether the attempt runs on an engine."""
        return self.name_of(attempt.executor) is not None

    def name_of(self, executor: str | None) -> str | None:
        """The engine that runs tasks with this executor, None for another executor."""
        name = self._default if executor is None else executor
        return name if name in self.members else None

    def have_rows(self, attempts: Iterable[NewAttempt], ids: Mapping[AttemptKey, int]) -> None:
        """These attempts were stored with their claims, and are about to be submitted."""
        for new in attempts:
            self.members[new.executor].has_row(new.attempt.key, ids[new.attempt.key])

    def drop_rows(self) -> None:
        """See EngineExecutor."""
        for member in self.members.values():
            member.drop_rows()

    def partitions_to_keep(self) -> set[int]:
        """Partitions with attempts that are not stored yet: their next owner could not know of them."""
        return {partition_of(each.run.dag_id) for member in self.members.values() for each in member.unstored()}

    def remarked(self, reports: Sequence[Report]) -> list[Report]:
        """The same reports; the reasons of lost attempts with what their engine has said of them."""
        remarks = {key: text for member in self.members.values() for key, text in member.remarks.items()}
        return [_with_remark(report, remarks.get(report.key)) for report in reports]

    def settled(self, key: AttemptKey) -> None:
        """See EngineExecutor."""
        for member in self.members.values():
            member.settled(key)

    def take_over(self, rows: Sequence[SentAttempt]) -> None:
        """Adopt attempts that other schedulers have sent to engines that this one has, too."""
        for name, member in self.members.items():
            member.take_over([row for row in rows if row.executor == name])

    def is_stored(self, key: AttemptKey) -> bool:
        """See EngineExecutor. True of an attempt that another scheduler has sent to an engine that is unknown here."""
        holders = [member for member in self.members.values() if member.holds(key)]
        return holders[0].is_stored(key) if holders else True


def _unbegun(key: AttemptKey) -> Report:
    return Report(key=key, outcome=Outcome.FAILED, at=datetime.now(UTC), reason=_UNBEGUN, unattended=True)


def _with_remark(report: Report, remark: str | None) -> Report:
    if remark is None or report.outcome is not Outcome.LOST or remark in (report.reason or ""):
        return report
    reason = f"{report.reason}: {remark}" if report.reason else remark
    return msgspec.structs.replace(report, reason=reason)


def _failed(key: AttemptKey, reason: str) -> Report:
    return Report(key=key, outcome=Outcome.FAILED, at=datetime.now(UTC), reason=reason, unattended=True)
