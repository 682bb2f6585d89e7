"""How attempts end in a `World`: after how long, with what.

A script is an `Ending`, a function from an attempt to one, or the usual words (`Scripted`).
Nothing here knows about the scheduler: endings become reports in outcomes.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.triggers.encoding import dump, load
from aiosched.core.values.messages import Attempt, Deferral, Outcome, SkipDecision

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import Metadata

NO_TIME: Final = timedelta()
NOTHING_PUSHED: Final[Mapping[str, Any]] = MappingProxyType({})
WORLDS_TRIGGER: Final = "aiosched.testing.World"
FOR_EVER: Final = '{"seconds": null}'  # the arguments of a trigger that never fires by itself


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of an attempt, `takes` after its start (None: what is usual in this world).

    `outcome` None: it never ends by itself, and never begins where `begins` is False. `pushes` are values
    that it pushed by key, `events` what it said about its outlets. `call_again` is for rescheduling: how long after
    the end. A `branch` follows these task ids, `skips_downstream` skips these.

    For a deferral: its trigger takes `waits_for`, and then fires with `event`, fails with the reason `breaks`, or
    `ends` the task itself. `holds_at` is for sensors: when what they wait for is the case. Where it `acts`, the
    operator (or trigger) itself goes on after `takes` (see acting.py).
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
    pushes: Mapping[str, Any] = field(default_factory=lambda: NOTHING_PUSHED)
    events: Sequence[Metadata] = ()
    event: Any = None
    breaks: str | None = None
    ends: Ending | None = None
    begins: bool = True
    holds_at: datetime | None = None
    acts: bool = False

    def __post_init__(self) -> None:
        if self.takes is not None and self.takes < NO_TIME:
            raise ValueError(f"takes={self.takes} is negative: nothing ends before it starts.")
        if self.ends is not None and (self.ends.outcome not in _ENDS_OF_TRIGGERS or self.breaks is not None):
            raise ValueError("A trigger ends its task by succeeds(…), skips() or fails(…), and does not fail then.")

    @property
    def deferral(self) -> Deferral | None:
        """What it waits for: a trigger of this world, which `trigger_ending` understands."""
        if self.outcome is not Outcome.DEFERRED:
            return None
        told = {"seconds": self.waits_for.total_seconds(), "event": self.event, "breaks": self.breaks}
        if (ends := self.ends) is not None and ends.outcome is not None:
            pushes = dict(ends.pushes) if ends.returns is None else {"return_value": ends.returns, **ends.pushes}
            told["ends"] = {"outcome": ends.outcome.value, "reason": ends.reason, "pushes": pushes}
        seconds = None if self.timeout is None else self.timeout.total_seconds()
        kwargs = dump(told, "what the trigger of a script tells")
        return Deferral(classpath=WORLDS_TRIGGER, kwargs=kwargs, next_method="execute_complete", timeout=seconds)

    @property
    def skip(self) -> SkipDecision | None:
        """What it decides about its downstream tasks."""
        if self.branch is not None:
            return SkipDecision(followed=tuple(self.branch))
        return None if self.skips_downstream is None else SkipDecision(skipped=tuple(self.skips_downstream))


_ENDS_OF_TRIGGERS: Final = (Outcome.SUCCESS, Outcome.SKIPPED, Outcome.FAILED)

Play = Callable[[Attempt], Ending | None]
"""How the attempts of a task end; None: nothing is said about this one."""


def succeeds(
    returns: Any = None,
    *,
    takes: timedelta | None = None,
    branch: str | Sequence[str] | None = None,
    skips_downstream: Sequence[str] | None = None,
    pushes: Mapping[str, Any] = NOTHING_PUSHED,
    events: Sequence[Metadata] = (),
) -> Ending:
    """It succeeds. `returns` and `pushes` become XComs; `branch` names the task (or tasks) that a branch follows.

    `events` is what a task would yield about its outlets: `Metadata(asset, extra)`, and with `alias=` which asset
    an alias leads to.
    """
    followed = (branch,) if isinstance(branch, str) else branch
    return Ending(
        takes=takes, returns=returns, branch=followed, skips_downstream=skips_downstream, pushes=pushes,
        events=tuple(events),
    )  # fmt: skip


def fails(
    reason: str = "it failed as its script says",
    *,
    takes: timedelta | None = None,
    now: bool = False,
    pushes: Mapping[str, Any] = NOTHING_PUSHED,
) -> Ending:
    """It fails; with `now` for good, whatever retries are left."""
    return Ending(Outcome.FAILED, takes=takes, reason=reason, fail_now=now, pushes=pushes)


def skips(*, takes: timedelta | None = None, pushes: Mapping[str, Any] = NOTHING_PUSHED) -> Ending:
    """It raises the skip signal."""
    return Ending(Outcome.SKIPPED, takes=takes, pushes=pushes)


def reschedules(
    after: timedelta, *, takes: timedelta | None = None, pushes: Mapping[str, Any] = NOTHING_PUSHED
) -> Ending:
    """It gives its slot back and asks to be called again `after` its end, as a sensor does."""
    return Ending(Outcome.RESCHEDULED, takes=takes, call_again=after, pushes=pushes)


def defers(
    waits_for: timedelta,
    *,
    timeout: timedelta | None = None,
    takes: timedelta | None = None,
    pushes: Mapping[str, Any] = NOTHING_PUSHED,
    event: Any = None,
    breaks: str | None = None,
    ends: Ending | None = None,
) -> Ending:
    """It gives its slot back until a trigger fires `waits_for` later; `attempt.resume` tells that it goes on.

    The trigger fires with `event`. Or it fails, with the reason `breaks`. Or it `ends` the task itself, without a
    worker: `ends=succeeds(…)`, `skips()` or `fails(…)`.
    """
    return Ending(
        Outcome.DEFERRED, takes=takes, waits_for=waits_for, timeout=timeout, pushes=pushes, event=event,
        breaks=breaks, ends=ends,
    )  # fmt: skip


def trigger_ending(deferral: Deferral) -> Ending | None:
    """How the trigger of a script ends, when its time has come; None for a trigger that no script made."""
    if deferral.classpath != WORLDS_TRIGGER:
        return None
    told = load(deferral.kwargs)
    if told["seconds"] is None:
        return Ending(None)
    takes = timedelta(seconds=told["seconds"])
    if told["breaks"] is not None:
        return Ending(Outcome.FAILED, takes=takes, reason=told["breaks"])
    if (ends := told.get("ends")) is not None:
        task = Ending(Outcome(ends["outcome"]), reason=ends["reason"], pushes=ends["pushes"])
        return Ending(Outcome.TRIGGERED, takes=takes, ends=task)
    return Ending(Outcome.TRIGGERED, takes=takes, event=told["event"])


def firing(ending: Ending) -> Ending:
    """How the trigger of a task ends that is told to end so by hand."""
    if ending.outcome is not Outcome.SUCCESS:
        return ending
    return Ending(Outcome.TRIGGERED, event=ending.returns)


def dies(reason: str = "its worker died", *, takes: timedelta | None = None) -> Ending:
    """Its worker dies; that does not spend the task's retries."""
    return Ending(Outcome.LOST, takes=takes, reason=reason)


def never_ends() -> Ending:
    """It runs until it is stopped, or until `World.events` says how it ends."""
    return Ending(None)


def never_begins() -> Ending:
    """Its executor leaves it lying: it stays queued, until the scheduler revokes it after `task_queued_timeout`."""
    return Ending(None, begins=False)


@dataclass(frozen=True, slots=True)
class Scripted:
    """What the words of `World.script` mean.

    fails     so many tries fail before one succeeds; True: all of them
    takes     how long an attempt takes
    returns   what a success returns; pushes: what it pushes by key
    events    what a success says about its outlets, as a list of `Metadata(asset, extra, alias=…)`
    branch    the task (or tasks) that a branch follows
    skips     it skips itself
    waits     it is not done before this time has passed since its first call. A sensor then waits as its own mode,
              timeout and soft_fail say; any other task asks to be called again `every` so often
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
    pushes: Mapping[str, Any] = field(default_factory=lambda: NOTHING_PUSHED)
    events: Sequence[Metadata] = ()

    says_how: bool = True  # False: only when or how often it fails; operators that decide by themselves do the rest

    def ending(self, attempt: Attempt, *, failed_before: int, now: datetime, is_sensor: bool) -> Ending | None:
        """How this attempt ends, if that is said. `failed_before` tries of the task instance have failed."""
        if self.defers is not None and attempt.resume is None:
            return defers(self.defers, takes=self.takes)
        if attempt.resume is not None and attempt.resume.error is not None:
            return fails(attempt.resume.error, takes=self.takes) if self.says_how else None
        if failed_before < (math.inf if self.fails is True else self.fails):
            return fails(takes=self.takes)
        if not self.says_how:
            return None
        until = None if self.waits is None else (attempt.first_started or now) + self.waits
        if until is not None and not is_sensor and now < until:
            return reschedules(self.every, takes=self.takes)
        if self.skips:
            return skips(takes=self.takes)
        return Ending(
            takes=self.takes, returns=self.returns, branch=self.branch, pushes=self.pushes, events=tuple(self.events),
            holds_at=until,
        )  # fmt: skip
