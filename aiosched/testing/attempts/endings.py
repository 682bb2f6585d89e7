"""How attempts end in a `World`: after how long, with what.

A script is an `Ending`, a function from an attempt to one, or keyword arguments (`Scripted`).
Nothing here depends on the scheduler: endings become reports in outcomes.py.
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
    """How an attempt ends, `takes` after its start (None: the world's default).

    `outcome` None: it never ends by itself, and never begins if `begins` is False. `pushes` are values that it
    pushes, by key, `events` its events of outlets, `partitions` the partition keys of these. `call_again` is for
    rescheduling: the time from its end to the next call. `branch` are the task ids that a branch follows,
    `skips_downstream` those that it skips.

    For a deferral: its trigger takes `waits_for`, and then fires with `event`, fails with the reason `breaks`, or
    `ends` the task itself. `holds_at` is for sensors: when their condition becomes true. If it `acts`, the
    operator (or trigger) itself runs after `takes` (see acting.py).
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
    partitions: Sequence[str] = ()
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
        """Its deferral: a trigger of this world, which `trigger_ending` decodes."""
        if self.outcome is not Outcome.DEFERRED:
            return None
        args = {"seconds": self.waits_for.total_seconds(), "event": self.event, "breaks": self.breaks}
        if (ends := self.ends) is not None and ends.outcome is not None:
            pushes = dict(ends.pushes) if ends.returns is None else {"return_value": ends.returns, **ends.pushes}
            args["ends"] = {"outcome": ends.outcome.value, "reason": ends.reason, "pushes": pushes}
        seconds = None if self.timeout is None else self.timeout.total_seconds()
        kwargs = dump(args, "the arguments of a scripted trigger")
        return Deferral(classpath=WORLDS_TRIGGER, kwargs=kwargs, next_method="execute_complete", timeout=seconds)

    @property
    def skip(self) -> SkipDecision | None:
        """Its decision about downstream tasks."""
        if self.branch is not None:
            return SkipDecision(followed=tuple(self.branch))
        return None if self.skips_downstream is None else SkipDecision(skipped=tuple(self.skips_downstream))


_ENDS_OF_TRIGGERS: Final = (Outcome.SUCCESS, Outcome.SKIPPED, Outcome.FAILED)

Play = Callable[[Attempt], Ending | None]
"""How the attempts of a task end; None: the default for this one."""


def succeeds(
    returns: Any = None,
    *,
    takes: timedelta | None = None,
    branch: str | Sequence[str] | None = None,
    skips_downstream: Sequence[str] | None = None,
    pushes: Mapping[str, Any] = NOTHING_PUSHED,
    events: Sequence[Metadata] = (),
    partitions: Sequence[str] = (),
) -> Ending:
    """It succeeds. `returns` and `pushes` become XComs; `branch` names the task (or tasks) that a branch follows.

    `events` are what a task would yield for its outlets: `Metadata(asset, extra)`, with `alias=` to resolve an
    alias to an asset. `partitions` are the keys of the partitions that the events are about.
    """
    followed = (branch,) if isinstance(branch, str) else branch
    return Ending(
        takes=takes, returns=returns, branch=followed, skips_downstream=skips_downstream, pushes=pushes,
        events=tuple(events), partitions=tuple(partitions),
    )  # fmt: skip


def fails(
    reason: str = "it failed as its script says",
    *,
    takes: timedelta | None = None,
    now: bool = False,
    pushes: Mapping[str, Any] = NOTHING_PUSHED,
) -> Ending:
    """It fails; with `now` for good, even if retries are left."""
    return Ending(Outcome.FAILED, takes=takes, reason=reason, fail_now=now, pushes=pushes)


def skips(*, takes: timedelta | None = None, pushes: Mapping[str, Any] = NOTHING_PUSHED) -> Ending:
    """It raises the skip signal."""
    return Ending(Outcome.SKIPPED, takes=takes, pushes=pushes)


def reschedules(
    after: timedelta, *, takes: timedelta | None = None, pushes: Mapping[str, Any] = NOTHING_PUSHED
) -> Ending:
    """It releases its slot and is called again `after` its end, like a sensor in mode `reschedule`."""
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
    """It releases its slot until a trigger fires `waits_for` later; then it resumes, with `attempt.resume` set.

    The trigger fires with `event`. Or it fails, with the reason `breaks`. Or it `ends` the task itself, without a
    worker: `ends=succeeds(…)`, `skips()` or `fails(…)`.
    """
    return Ending(
        Outcome.DEFERRED, takes=takes, waits_for=waits_for, timeout=timeout, pushes=pushes, event=event,
        breaks=breaks, ends=ends,
    )  # fmt: skip


def trigger_ending(deferral: Deferral) -> Ending | None:
    """How a scripted trigger ends; None for a trigger that no script made."""
    if deferral.classpath != WORLDS_TRIGGER:
        return None
    args = load(deferral.kwargs)
    if args["seconds"] is None:
        return Ending(None)
    takes = timedelta(seconds=args["seconds"])
    if args["breaks"] is not None:
        return Ending(Outcome.FAILED, takes=takes, reason=args["breaks"])
    if (ends := args.get("ends")) is not None:
        task = Ending(Outcome(ends["outcome"]), reason=ends["reason"], pushes=ends["pushes"])
        return Ending(Outcome.TRIGGERED, takes=takes, ends=task)
    return Ending(Outcome.TRIGGERED, takes=takes, event=args["event"])


def firing(ending: Ending) -> Ending:
    """The ending of a deferred task's trigger, for the task's ending that a test gives."""
    if ending.outcome is not Outcome.SUCCESS:
        return ending
    return Ending(Outcome.TRIGGERED, event=ending.returns)


def dies(reason: str = "its worker died", *, takes: timedelta | None = None) -> Ending:
    """Its worker dies; that costs the task no retry."""
    return Ending(Outcome.LOST, takes=takes, reason=reason)


def never_ends() -> Ending:
    """It runs until it is stopped, or until `World.events` ends it."""
    return Ending(None)


def never_begins() -> Ending:
    """Its executor never starts it: it stays queued until the scheduler revokes it after `task_queued_timeout`."""
    return Ending(None, begins=False)


@dataclass(frozen=True, slots=True)
class Scripted:
    """The keyword arguments of `World.script`.

    fails     how many tries fail before one succeeds; True: all of them
    takes     how long an attempt takes
    returns   what a success returns; pushes: what it pushes, by key
    events    a success's events of outlets, as a list of `Metadata(asset, extra, alias=…)`
    partitions  the keys of the partitions that these events are about
    branch    the task (or tasks) that a branch follows
    skips     it skips itself
    waits     it is not done before this time has passed since its first call. A sensor then waits according to its
              mode, timeout and soft_fail; any other task is called again after `every`
    defers    it waits this long for a trigger, without a slot, before it resumes
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
    partitions: Sequence[str] = ()

    sets_result: bool = True  # False: only duration and number of failures are set; acting operators do the rest

    def ending(self, attempt: Attempt, *, failed_before: int, now: datetime, is_sensor: bool) -> Ending | None:
        """How this attempt ends, if the script sets that. `failed_before` tries of the task instance have failed."""
        if self.defers is not None and attempt.resume is None:
            return defers(self.defers, takes=self.takes)
        if attempt.resume is not None and attempt.resume.error is not None:
            return fails(attempt.resume.error, takes=self.takes) if self.sets_result else None
        if failed_before < (math.inf if self.fails is True else self.fails):
            return fails(takes=self.takes)
        if not self.sets_result:
            return None
        until = None if self.waits is None else (attempt.first_started or now) + self.waits
        if until is not None and not is_sensor and now < until:
            return reschedules(self.every, takes=self.takes)
        if self.skips:
            return skips(takes=self.takes)
        return Ending(
            takes=self.takes, returns=self.returns, branch=self.branch, pushes=self.pushes, events=tuple(self.events),
            holds_at=until, partitions=tuple(self.partitions),
        )  # fmt: skip
