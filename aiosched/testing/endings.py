"""How attempts end in a `World`: after how long, with what.

A script is a function from an attempt to an `Ending`; `scripted` makes one of the usual
words. Nothing here knows about the scheduler: endings become reports in executor.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from aiosched.core.messages import Attempt, Deferral, Outcome, SkipDecision, XComValue

NO_TIME: Final = timedelta()
_TRIGGER: Final = "aiosched.testing.World"


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of an attempt, `takes` after its start (None: what is usual in this world).

    `outcome` None: it never ends by itself. `call_again` is for rescheduling: how long after
    the end. `waits_for` is for a deferral: how long its trigger takes. A `branch` follows these
    task ids, `skips_downstream` skips these.
    """

    outcome: Outcome | None = Outcome.SUCCESS
    takes: timedelta | None = None
    returns: Any = None
    branch: Sequence[str] | None = None
    skips_downstream: Sequence[str] | None = None
    reason: str | None = None
    fail_now: bool = False
    call_again: timedelta = field(default=NO_TIME)
    waits_for: timedelta = field(default=NO_TIME)
    timeout: timedelta | None = None  # of the deferral

    def __post_init__(self) -> None:
        if self.takes is not None and self.takes < NO_TIME:
            raise ValueError(f"takes={self.takes} is negative: nothing ends before it starts.")

    @property
    def xcoms(self) -> tuple[XComValue, ...]:
        """What it pushes; raises TypeError for a value that is not JSON."""
        return () if self.returns is None else (XComValue("return_value", json.dumps(self.returns)),)

    @property
    def deferral(self) -> Deferral | None:
        """What it waits for: a trigger of this world, which `trigger_ending` understands."""
        if self.outcome is not Outcome.DEFERRED:
            return None
        kwargs = json.dumps({"seconds": self.waits_for.total_seconds()})
        seconds = None if self.timeout is None else self.timeout.total_seconds()
        return Deferral(classpath=_TRIGGER, kwargs=kwargs, next_method="execute_complete", timeout=seconds)

    @property
    def skip(self) -> SkipDecision | None:
        """What it decides about its downstream tasks."""
        if self.branch is not None:
            return SkipDecision(followed=tuple(self.branch))
        return None if self.skips_downstream is None else SkipDecision(skipped=tuple(self.skips_downstream))


Play = Callable[[Attempt], Ending | None]
"""How the attempts of a task end; None means: they succeed."""


def succeeds(
    returns: Any = None,
    *,
    takes: timedelta | None = None,
    branch: str | Sequence[str] | None = None,
    skips_downstream: Sequence[str] | None = None,
) -> Ending:
    """It succeeds. `returns` is JSON; `branch` names the task (or tasks) that a branch follows."""
    followed = (branch,) if isinstance(branch, str) else branch
    return Ending(takes=takes, returns=returns, branch=followed, skips_downstream=skips_downstream)


def fails(reason: str = "it failed as its script says", *, takes: timedelta | None = None, now: bool = False) -> Ending:
    """It fails; with `now` for good, whatever retries are left."""
    return Ending(Outcome.FAILED, takes=takes, reason=reason, fail_now=now)


def skips(*, takes: timedelta | None = None) -> Ending:
    """It raises the skip signal."""
    return Ending(Outcome.SKIPPED, takes=takes)


def reschedules(after: timedelta, *, takes: timedelta | None = None) -> Ending:
    """It gives its slot back and asks to be called again `after` its end, as a sensor does."""
    return Ending(Outcome.RESCHEDULED, takes=takes, call_again=after)


def defers(waits_for: timedelta, *, timeout: timedelta | None = None, takes: timedelta | None = None) -> Ending:
    """It gives its slot back until a trigger fires `waits_for` later; `attempt.resume` tells that it goes on."""
    return Ending(Outcome.DEFERRED, takes=takes, waits_for=waits_for, timeout=timeout)


def trigger_ending(deferral: Deferral, *, usual: timedelta) -> Ending:
    """How a trigger ends: it fires when its time has come. One that no script made takes what is `usual`."""
    if deferral.classpath != _TRIGGER:
        return Ending(Outcome.TRIGGERED, takes=usual)
    return Ending(Outcome.TRIGGERED, takes=timedelta(seconds=json.loads(deferral.kwargs)["seconds"]))


def dies(reason: str = "its worker died", *, takes: timedelta | None = None) -> Ending:
    """Its worker dies; that does not spend the task's retries."""
    return Ending(Outcome.LOST, takes=takes, reason=reason)


def never_ends() -> Ending:
    """It runs until it is stopped, or until `World.events` says how it ends."""
    return Ending(None)


@dataclass(frozen=True, slots=True)
class Scripted:
    """What the words of `World.script` mean.

    fails     so many tries fail before one succeeds; True: all of them
    waits     it is not done before this time has passed since its first call: until then it
              asks to be called again `every` so often
    defers    it waits this long for a trigger, without a slot, before it goes on
    """

    fails: int | bool = 0
    takes: timedelta | None = None
    returns: Any = None
    branch: Sequence[str] | None = None
    skips: bool = False
    waits: timedelta | None = None
    every: timedelta = timedelta(minutes=1)
    defers: timedelta | None = None

    def ending(self, attempt: Attempt, *, failed_before: int, now: datetime) -> Ending:
        """How this attempt ends. `failed_before` is how many tries of the task instance have failed."""
        if self.defers is not None and attempt.resume is None:
            return defers(self.defers, takes=self.takes)
        if attempt.resume is not None and attempt.resume.error is not None:
            return fails(attempt.resume.error, takes=self.takes)
        if failed_before < (math.inf if self.fails is True else self.fails):
            return fails(takes=self.takes)
        if self.waits is not None and now < (attempt.first_started or now) + self.waits:
            return reschedules(self.every, takes=self.takes)
        if self.skips:
            return skips(takes=self.takes)
        return succeeds(self.returns, takes=self.takes, branch=self.branch)
