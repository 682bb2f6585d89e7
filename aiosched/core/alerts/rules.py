"""Alert rules: what each kind watches, which DAGs a rule selects, and what is wrong with a rule. Pure."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from aiosched.core.values.states import RunType

LEAST_REMINDER: Final = 60.0  # seconds between two reminders
_TIME: Final = re.compile(r"^([01]\d|2[0-3]):[0-5]\d$")


class AlertKind(StrEnum):
    """What a rule watches."""

    RUN_FAILED = "run_failed"
    RUN_LATE = "run_late"
    RUN_LONG = "run_long"
    DEADLINE_MISSED = "deadline_missed"  # or an SLA
    IMPORT_ERROR = "import_error"
    SCHEDULER_GONE = "scheduler_gone"
    PARSER_SILENT = "parser_silent"  # one that runs alone
    POOL_STARVING = "pool_starving"
    DAG_QUARANTINED = "dag_quarantined"
    COMMITS_LOST = "commits_lost"  # by the database
    MACHINES_DIFFER = "machines_differ"  # those of schedulers: their DAG files, their clocks


class Severity(StrEnum):
    """How bad what a rule watches is; messages have it."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


# Something that happened: it counts even if it is over when it is read. All others last, and recover when they end.
EVENTS: Final = frozenset(
    {AlertKind.RUN_FAILED, AlertKind.DEADLINE_MISSED, AlertKind.SCHEDULER_GONE, AlertKind.COMMITS_LOST}
)
# They concern no DAG: a rule of theirs selects by no DAG, tag or owner.
OF_THE_FLEET: Final = frozenset(
    {
        AlertKind.SCHEDULER_GONE,
        AlertKind.PARSER_SILENT,
        AlertKind.POOL_STARVING,
        AlertKind.COMMITS_LOST,
        AlertKind.MACHINES_DIFFER,
    }
)
# They concern runs, of which a rule may leave out some types.
OF_RUNS: Final = frozenset({AlertKind.RUN_FAILED, AlertKind.RUN_LONG, AlertKind.DEADLINE_MISSED})
# Seconds that something of the kind lasts before it is one, unless the rule says so.
DEFAULT_SECONDS: Final = {AlertKind.RUN_LATE: 60.0, AlertKind.POOL_STARVING: 300.0}
DEFAULT_FACTOR: Final = 1.5  # times the usual p95, of a rule on long runs that gives neither a factor nor seconds


@dataclass(frozen=True, slots=True)
class DagLabels:
    """What rules select by, besides the id of a DAG."""

    tags: Collection[str] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class DagSelection:
    """DAGs: those whose id matches one of the globs, with one of the tags, of one of the owners; an empty list: any."""

    dags: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether every DAG is selected."""
        return not (self.tags or self.owners) and (not self.dags or "*" in self.dags)

    def has(self, dag_id: str, labels: DagLabels) -> bool:
        """Whether it selects the DAG."""
        return (
            (not self.dags or any(_glob(glob)(dag_id) is not None for glob in self.dags))
            and (not self.tags or not set(self.tags).isdisjoint(labels.tags))
            and (not self.owners or labels.owner in self.owners)
        )


@functools.lru_cache(maxsize=1_000)
def _glob(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(fnmatch.translate(pattern)).match


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` until `end` (exclusive) of the local time of `zone`; over midnight if the end is the earlier one."""

    begin: time
    end: time
    zone: ZoneInfo

    def until(self, now: datetime) -> datetime | None:
        """When the quiet hours end that `now` is in, in UTC; None if it is in none."""
        local = now.astimezone(self.zone)
        if not self._contains(local.time()):
            return None
        days = 1 if local.time() >= self.end else 0
        end = datetime.combine(local.date() + timedelta(days=days), self.end, tzinfo=self.zone)
        return max(end.astimezone(UTC), now)

    def _contains(self, at: time) -> bool:
        if self.begin <= self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end


def quiet_hours(begin: str | None, end: str | None, zone: str) -> QuietHours | None:
    """Those from HH:MM until HH:MM; None without both. Raises ValueError, which says what is wrong."""
    if begin is None and end is None:
        return None
    if begin is None or end is None:
        raise ValueError("quiet hours need both quiet_from and quiet_until, such as 22:00 and 07:00")
    for text in (begin, end):
        if not _TIME.match(text):
            raise ValueError(f"{text!r} is no time of day: write it as HH:MM, such as 22:00")
    if begin == end:
        raise ValueError("quiet hours that begin and end at the same time are never over: pause the rule instead")
    try:
        return QuietHours(time.fromisoformat(begin), time.fromisoformat(end), ZoneInfo(zone))
    except (LookupError, OSError, ValueError):
        raise ValueError(f"{zone!r} is no time zone of the IANA database, such as UTC or Europe/Amsterdam") from None


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule. `since`: events before it do not count; `looked_until`: all events until then were considered."""

    id: int
    name: str
    kind: AlertKind
    notifier: str
    since: datetime
    selection: DagSelection = DagSelection()
    run_types: tuple[str, ...] = ()  # empty: all
    seconds: float | None = None
    factor: float | None = None
    remind_seconds: float | None = None
    quiet: QuietHours | None = None
    looked_until: datetime | None = None

    @property
    def least_seconds(self) -> float:
        """How long something lasts at least before the rule is met."""
        return DEFAULT_SECONDS.get(self.kind, 0.0) if self.seconds is None else self.seconds

    def allows(self, now: datetime) -> datetime:
        """When something may be delivered that is to be said now: at once, or when the quiet hours are over."""
        return (self.quiet and self.quiet.until(now)) or now


def problem_of(
    kind: str,
    selection: DagSelection,
    *,
    run_types: Collection[str] = (),
    severity: str = Severity.WARNING,
    seconds: float | None = None,
    factor: float | None = None,
    remind_seconds: float | None = None,
    quiet_from: str | None = None,
    quiet_until: str | None = None,
    time_zone: str = "UTC",
) -> str | None:
    """What is wrong with a rule, and what to do; None if it is right."""
    if kind not in set(AlertKind):
        return f"there is no kind {kind!r}; these are {', '.join(AlertKind)}"
    if AlertKind(kind) in OF_THE_FLEET and not selection.is_all:
        return f"a rule on {kind} concerns no DAG: leave dags, tags and owners out"
    if severity not in set(Severity):
        return f"there is no severity {severity!r}; these are {', '.join(Severity)}"
    if run_types and AlertKind(kind) not in OF_RUNS:
        return f"a rule on {kind} takes no run_types: leave them out"
    if unknown := sorted(set(run_types) - set(RunType)):
        return f"there is no run type {unknown[0]!r}; these are {', '.join(RunType)}"
    if factor is not None and kind != AlertKind.RUN_LONG:
        return f"factor is for rules on {AlertKind.RUN_LONG}: leave it out"
    if seconds is not None and kind not in _TAKES_SECONDS:
        return f"a rule on {kind} takes no seconds: leave them out"
    if remind_seconds is not None and remind_seconds < LEAST_REMINDER:
        return f"reminders every {remind_seconds:g} seconds are too many: give at least {LEAST_REMINDER:g}"
    try:
        quiet_hours(quiet_from, quiet_until, time_zone)
    except ValueError as error:
        return str(error)
    return None


_TAKES_SECONDS: Final = frozenset({AlertKind.RUN_LATE, AlertKind.RUN_LONG, AlertKind.POOL_STARVING})
Labels = Mapping[str, DagLabels]  # by DAG id
