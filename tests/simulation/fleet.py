"""Simulated machines: the real scheduler on the modelled database, with an executor whose tasks only take time.

Everything of `aiosched.scheduler` runs as it is, apart from three places: the lease has its loop
on the machine's own instead of a thread of its own, clocks are virtual, and `Database` is the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import msgspec

from aiosched.config import Settings
from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, SkipDecision, TaskServices, XComValue
from aiosched.db.statements import ownership as lease_statements
from aiosched.scheduler import service
from aiosched.scheduler.concurrency import slices, supervision
from aiosched.scheduler.membership import incarnation
from aiosched.scheduler.membership import lease as lease_module
from aiosched.scheduler.membership.lease import Lease
from aiosched.scheduler.memory import known_position
from aiosched.scheduler.partitions import ownership
from aiosched.scheduler.service import Scheduler
from aiosched.scheduler.session import session
from tests.simulation.history import Began, CallbackRan, Ended, Handed, History
from tests.simulation.loop import VirtualLoop
from tests.simulation.network import ModelledDatabase, Network
from tests.simulation.shapes import Wait
from tests.simulation.store import EPOCH
from tests.simulation.waits import Triggers, VirtualTriggers, plain


class VirtualClock:
    """The clock of the machines: that of the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()


class VirtualLease(Lease):
    """A lease that is kept on the machine's loop."""

    _keeping: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self, *, leave: bool) -> None:
        self._end(leave=leave)
        if self._keeping is not None:
            await asyncio.wait((self._keeping,))


class VirtualScheduler(Scheduler):
    """A scheduler on the modelled database."""

    network: Network
    node: int

    async def _open_database(self) -> None:
        self._db = ModelledDatabase(self.network, self.node)  # type: ignore[assignment]

    async def _observe(self) -> None:
        """Not here: no figures are kept, and the modelled database does not say who holds a lock."""


@contextlib.contextmanager
def virtual_time(loop: VirtualLoop) -> Iterator[None]:
    """Let the modules of the scheduler read the loop's clock, and keep leases on it.

    Nothing that a seed decides depends on how fast the machine is: each look at the time that a computation takes finds
    two milliseconds more.
    """
    clock = SimpleNamespace(monotonic=loop.time, perf_counter=map((0.002).__mul__, count()).__next__)
    with contextlib.ExitStack() as stack:
        for module in (
            lease_module,
            known_position,
            incarnation,
            ownership,
            lease_statements,
            session,
            supervision,
            slices,
        ):
            stack.enter_context(mock.patch.object(module, "time", clock))
        stack.enter_context(mock.patch.object(service, "Lease", VirtualLease))
        yield


# -- tasks ------------------------------------------------------------------------------------

# The same key is handed out again after these: what comes late would be taken for news of that.
_CALLED_AGAIN: Final = frozenset({Outcome.RESCHEDULED, Outcome.DEFERRED})


@dataclass(frozen=True)
class Behaviour:
    """How the attempts of tasks go, decided by the seed, the task and the number of its real try.

    Where and when an attempt runs makes no difference to how it ends.
    """

    seed: int
    failures: dict[tuple[str, str], int] = field(default_factory=dict)  # (DAG, task): how many real tries fail
    reschedules: dict[tuple[str, str], float] = field(default_factory=dict)  # until this second
    branches: dict[tuple[str, str], str] = field(default_factory=dict)  # which task is followed
    silent: frozenset[tuple[str, str]] = frozenset()  # fail without a word: the scheduler calls their callbacks
    slowest: float = 2.0
    waits: dict[tuple[str, str], Wait] = field(default_factory=dict)  # for triggers, in each real try
    lengths: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # of what is returned, try by try
    broken: dict[tuple[str, str], int] = field(default_factory=dict)  # the map index that always fails

    def seconds(self, attempt: Attempt) -> float:
        """How long it takes."""
        which = "" if attempt.key.map_index < 0 else f"[{attempt.key.map_index}]"
        task = f"{attempt.run.dag_id} {attempt.run.run_id} {attempt.task_id}{which}"
        text = f"{self.seed} {task} {attempt.key.try_number}"
        share = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32
        return self.slowest * share**3

    def length(self, dag_id: str, task_id: str, try_number: int) -> int | None:
        """How many values a task returns in that try; None: it returns no list for others to be mapped over."""
        lengths = self.lengths.get((dag_id, task_id))
        return None if lengths is None else lengths[try_number % len(lengths)]


class VirtualExecutor:
    """Runs attempts by letting time pass. Reports may come twice; a worker dies with its machine."""

    name = "virtual"

    def __init__(
        self,
        node: int,
        clock: VirtualClock,
        behaviour: Behaviour,
        history: History,
        twice: Callable[[], bool],
        slots: int,
        triggers: Triggers,
    ) -> None:
        self.node, self.clock, self.behaviour, self.history = node, clock, behaviour, history
        self.twice, self.slots = twice, slots
        self.incarnation: Callable[[], int] = lambda: 0
        self.running: dict[AttemptKey, asyncio.Task[None]] = {}
        self.triggers, self.waiting = triggers, VirtualTriggers(node, triggers, clock.now, self._say)
        self._report: Callable[[Report], None] = lambda report: None

    @property
    def open_slots(self) -> int:
        return max(0, self.slots - len(self.running))

    open_async_slots = open_slots

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        self._report = report

    def submit(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if attempt.trigger is not None:
                self.waiting.start(attempt, self.incarnation())
                continue
            if attempt.callback is None:
                handed = Handed(self.clock.monotonic(), self.node, self.incarnation(), plain(attempt.key))
                self.history.events.append(handed)
            self.running[attempt.key] = asyncio.create_task(self._work(attempt))

    async def _work(self, attempt: Attempt) -> None:
        key, short = attempt.key, plain(attempt.key)
        if attempt.callback is not None:
            await asyncio.sleep(self.behaviour.slowest / 4)
            call = attempt.callback
            self.history.events.append(CallbackRan(self.clock.monotonic(), self.node, call.id, call.kind, key.run))
            self._end(Report(key=key, outcome=Outcome.SUCCESS, at=self.clock.now()))
            return
        outcome = "died"
        error = None if attempt.resume is None else attempt.resume.error
        event = None if attempt.resume is None or error is not None else attempt.resume.event
        self.history.events.append(Began(self.clock.monotonic(), self.node, short, event, error))
        if event is not None:
            self.history.seen["tasks that went on after a trigger"] += 1
        try:
            self._say(Report(key=key, outcome=Outcome.STARTED, at=self.clock.now()))
            await asyncio.sleep(self.behaviour.seconds(attempt))
            report = self._result(attempt)
            outcome = report.outcome.value
        except asyncio.CancelledError:
            outcome = "cancelled"
            report = Report(key=key, outcome=Outcome.LOST, at=self.clock.now(), reason="was stopped on request")
        finally:
            self.history.events.append(Ended(self.clock.monotonic(), self.node, short, outcome))
        self._end(report)

    def _end(self, report: Report) -> None:
        self.running.pop(report.key, None)
        self._say(report)

    def _say(self, report: Report) -> None:
        self._report(report)
        if self.twice():
            delay = self.behaviour.slowest * 2 if self.twice() else 0.01
            if report.outcome in _CALLED_AGAIN or is_trigger(report.key):
                delay = 0.0  # the same key may run again in a moment, and reports do not tell which call they are of
            asyncio.get_running_loop().call_later(delay, self._report, report)

    def _result(self, attempt: Attempt) -> Report:
        task, now = (attempt.run.dag_id, attempt.task_id), self.clock.now()
        key = attempt.key
        if attempt.resume is not None and attempt.resume.error is not None:
            return Report(key=key, outcome=Outcome.FAILED, at=now, reason=attempt.resume.error)
        real_try = self.triggers.real_try(attempt)
        until = self.behaviour.reschedules.get(task, 0.0)
        if self.clock.monotonic() < until:
            again = now + timedelta(seconds=1.5)
            return Report(key=key, outcome=Outcome.RESCHEDULED, at=now, reschedule_at=again)
        if (deferral := self.triggers.next_of(attempt)) is not None:
            return Report(key=key, outcome=Outcome.DEFERRED, at=now, deferral=deferral)
        if real_try <= self.behaviour.failures.get(task, 0) or self.behaviour.broken.get(task) == key.map_index:
            silent = task in self.behaviour.silent
            return Report(key=key, outcome=Outcome.FAILED, at=now, reason="boom", unattended=silent)
        followed = self.behaviour.branches.get(task)
        skip = None if followed is None else SkipDecision(followed=(followed,))
        length = self.behaviour.length(*task, key.try_number)
        returned = [task[1], real_try] if length is None else list(range(length))
        value = XComValue("return_value", msgspec.json.encode(returned).decode())
        return Report(key=key, outcome=Outcome.SUCCESS, at=now, xcoms=(value,), skip=skip)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        self.waiting.cancel(attempt)
        if (work := self.running.get(attempt)) is not None:
            work.cancel()
            await asyncio.wait((work,))

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        self.waiting.forget(triggers)

    async def stop(self, grace: float) -> None:
        self.waiting.stop()
        for work in list(self.running.values()):
            work.cancel()
        if self.running:
            await asyncio.wait(list(self.running.values()))


# -- machines ---------------------------------------------------------------------------------


@dataclass(eq=False)
class Machine:
    """One process with one scheduler."""

    number: int
    scheduler: VirtualScheduler
    executor: VirtualExecutor
    life: asyncio.Task[None]
    state: str = "up"  # up, frozen, leaving, dead, gone

    @property
    def incarnation(self) -> int:
        session = self.scheduler.session
        return 0 if session is None else session.env.incarnation


def make_scheduler(
    network: Network,
    node: int,
    clock: VirtualClock,
    executor: VirtualExecutor,
    *,
    fernet_keys: str = "",
    **values: Any,
) -> VirtualScheduler:
    """A scheduler on node `node`; `values` are settings of [core] and [scheduler]."""
    settings = Settings()
    settings.database.dsn = "postgresql://model/model"  # not an embedded one, which would make itself a key
    settings.secrets.fernet_keys = fernet_keys or None
    settings.core.killed_task_cleanup_time = 0.0
    settings.logs.retention_days = 0.0
    settings.alerts.interval = 0.0
    settings.figures.keep_minutes_days = 0
    settings.audit.retention_days = 0.0
    settings.core.num_dag_runs_to_retain_rendered_fields = 0
    for name, value in {"name": f"n{node}", **values}.items():
        section = settings.core if name in type(settings.core).model_fields else settings.scheduler
        setattr(section, name, value)
    scheduler = VirtualScheduler(executor=executor, clock=clock, settings=settings, parse=False)
    scheduler.network, scheduler.node = network, node

    def current() -> int:
        session = scheduler.session
        return 0 if session is None else session.env.incarnation

    executor.incarnation = current
    return scheduler
