"""What the simulated executors do with triggers: they let time pass, and fire with an event that is like no other.

A trigger runs on the machine that was given it, and ends with it without a word; now and then its
worker dies alone, never so often in a row that the task would fail by it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Final, NamedTuple

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Deferral, Outcome, Report
from tests.simulation.history import Fired, Handed, History
from tests.simulation.shapes import Wait, arguments, wait_for

MOST_LOSSES: Final = 1  # of one trigger; the third one in a row would end its task, and each may be reported twice
_DIES: Final = 0.1  # share of triggers whose worker dies


class Event(NamedTuple):
    """What a trigger fires with: which one of its try it was, and a number of its own."""

    place: int
    number: int


@dataclass(frozen=True)
class Triggers:
    """What is known of the triggers of all machines."""

    seed: int
    waits: dict[tuple[str, str], Wait]  # by DAG and task
    retries: dict[tuple[str, str], int]
    history: History
    random: Random
    now: Callable[[], float]
    calm: Callable[[], bool] = lambda: False  # no worker dies any more
    _handed: Counter[tuple[AttemptKey, int]] = field(default_factory=Counter)
    _lost: Counter[tuple[AttemptKey, int]] = field(default_factory=Counter)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def next_of(self, attempt: Attempt) -> Deferral | None:
        """What the attempt waits for now; None: it has waited for everything."""
        wait = self.waits.get((attempt.run.dag_id, attempt.task_id))
        done = event_of(attempt)
        place = 1 if done is None else done.place + 1
        if wait is None or place > wait.triggers:
            return None
        timeout = wait.timeout if wait.is_late(self.real_try(attempt), place) else None
        return wait_for(place, timeout)

    def real_try(self, attempt: Attempt) -> int:
        """The number of a try, or of a trigger's try, among those that were not lost."""
        lost = attempt.max_tries - self.retries[attempt.run.dag_id, attempt.task_id]
        return abs(attempt.key.try_number) - lost

    def seconds(self, attempt: Attempt, place: int) -> float:
        """How long the trigger waits, wherever it does; infinite for one that never fires."""
        wait = self.waits[attempt.run.dag_id, attempt.task_id]
        is_late = wait.is_late(self.real_try(attempt), place)
        if is_late and not wait.fires:
            return math.inf
        text = (
            f"{self.seed} {attempt.run.dag_id} {attempt.run.run_id} {attempt.task_id} {attempt.key.try_number} {place}"
        )
        share = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32
        return wait.timeout + 0.1 * share if is_late else 0.1 + wait.seconds * share**2

    def handed(self, which: tuple[AttemptKey, int]) -> None:
        """A trigger was handed out."""
        self._handed[which] += 1
        if self._handed[which] > 1:
            self.history.seen["triggers handed out again"] += 1

    def fire(self, which: tuple[AttemptKey, int]) -> str | None:
        """The event of a trigger whose time has come; None: its worker dies instead."""
        if not self.calm() and self._lost[which] < MOST_LOSSES and self.random.random() < _DIES:
            self._lost[which] += 1
            return None
        return msgspec.json.encode(Event(which[1], next(self._numbers))).decode()


def event_of(attempt: Attempt) -> Event | None:
    """What an attempt goes on with; None: it begins, or goes on by failing."""
    resume = attempt.resume
    if resume is None or resume.error is not None:
        return None
    event = msgspec.json.decode(resume.event, type=Event)
    assert resume.next_kwargs == arguments(-event.place), f"goes on with {resume.next_kwargs}"
    return event


def plain(key: AttemptKey) -> tuple[int, int, int, int]:
    """A key as histories have it."""
    return key.run, key.task_index, key.map_index, key.try_number


class VirtualTriggers:
    """The triggers of one machine; `report` hears of those that have ended."""

    def __init__(
        self, node: int, triggers: Triggers, clock: Callable[[], datetime], report: Callable[[Report], None]
    ) -> None:
        self._node, self._triggers, self._clock, self._report = node, triggers, clock, report
        self._waiting: dict[AttemptKey, tuple[int, asyncio.Task[None]]] = {}  # which of its try it is, and its task
        self._stopping = False

    def start(self, attempt: Attempt, incarnation: int) -> None:
        """Let a trigger wait; one that waits under the same key already is dropped, as real executors do."""
        if self._stopping:
            asyncio.get_running_loop().call_soon(self._send, attempt.key, Outcome.LOST)
            return
        assert attempt.trigger is not None
        self._stop(attempt.key)
        place = int(attempt.trigger.next_method.removeprefix("after_"))
        assert attempt.trigger.kwargs == arguments(place), f"trigger {place} has {attempt.trigger.kwargs}"
        which, at = (attempt.key, place), self._triggers.now()
        self._triggers.history.events.append(Handed(at, self._node, incarnation, plain(attempt.key), place))
        self._triggers.handed(which)
        work = asyncio.create_task(self._wait(which, self._triggers.seconds(attempt, place)))
        self._waiting[attempt.key] = (place, work)

    async def _wait(self, which: tuple[AttemptKey, int], seconds: float) -> None:
        if seconds == math.inf:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(seconds)
        event = self._triggers.fire(which)
        outcome = Outcome.LOST if event is None else Outcome.TRIGGERED
        del self._waiting[which[0]]
        self._note(which, outcome.value, event)
        self._send(which[0], outcome, event)

    def _note(self, which: tuple[AttemptKey, int], outcome: str, event: str | None = None) -> None:
        at, (key, place) = self._triggers.now(), which
        self._triggers.history.events.append(Fired(at, self._node, plain(key), place, outcome, event))

    def _send(self, key: AttemptKey, outcome: Outcome, event: str | None = None) -> None:
        self._report(Report(key=key, outcome=outcome, at=self._clock(), event=event))

    def _stop(self, key: AttemptKey) -> bool:
        place, work = self._waiting.pop(key, (0, None))
        if work is None:
            return False
        work.cancel()
        self._note((key, place), "forgotten")
        return True

    def forget(self, keys: Sequence[AttemptKey]) -> None:
        """They wait elsewhere from now on."""
        for key in keys:
            self._stop(key)

    def cancel(self, key: AttemptKey) -> None:
        """Their task does not wait any more."""
        if self._stop(key):
            self._send(key, Outcome.FAILED)

    def stop(self) -> None:
        """The machine ends in good order."""
        self._stopping = True
        for key in list(self._waiting):
            if self._stop(key):
                self._send(key, Outcome.LOST)
