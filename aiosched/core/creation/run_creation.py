"""Which runs should exist and which of them can start: the decisions of run creation.

Lives here: a DAG's next run, which DAGs are due, what a new run looks like and which tasks it has, which queued runs
start, and which schedules are invalid. Does not live here: when ticks happen (core.timetables), storing and wake-ups
(scheduler).

Source: the semantics reference, sections 10.1, 11.1, 13, 14, 29.1 and 34.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from aiosched.core.assets.conditions import DEFINED_BY_NOBODY
from aiosched.core.creation.awaited import NONE_AWAITED, AwaitedRuns
from aiosched.core.creation.partitions import manual_partition
from aiosched.core.creation.run_keys import KeyRoom
from aiosched.core.graph.instances import Run
from aiosched.core.graph.spec import AIRFLOW_2, DagSpec, TaskSpec
from aiosched.core.timetables import (
    DataInterval,
    NextRun,
    Partition,
    Restriction,
    first_unfinished,
    is_trigger,
    scheduled_between,
)
from aiosched.core.timetables.days import DayOrInstant, Period, is_day, period_of
from aiosched.core.values.commands import command_line
from aiosched.core.values.ids import ALLOWED_RUN_ID, RUN_WORDS, check_new_name, make_run_id
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import RunType
from aiosched.errors import DagError, ParamError, Refused, TimetableError

MAX_RUN_ID: Final = 250
_AUTOMATED_PREFIXES: Final = tuple(f"{kind}__" for kind in RunType if kind is not RunType.MANUAL)
_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


# Which types of runs a DAG allows


def allows(dag: DagSpec | DagStatus, run_type: RunType) -> bool:
    """Whether the DAG's `allowed_run_types` allow runs of this type."""
    return dag.allowed_run_types is None or run_type in dag.allowed_run_types


def check_run_type(spec: DagSpec, run_type: RunType) -> None:
    """Raise Refused for a run of a type that the DAG does not allow. Source: the semantics reference, section 29.1."""
    if not allows(spec, run_type):
        raise Refused(
            f"DAG {spec.dag_id!r} takes no {run_type} runs: its allowed_run_types are "
            f"{', '.join(spec.allowed_run_types or ())}. Add {str(run_type)!r} to them in its file."
        )


# The next run of a DAG


def restriction_of(spec: DagSpec) -> Restriction:
    """The dates that limit the DAG's schedule, both inclusive.

    The earliest start date of the DAG and its tasks; the DAG's end date, or the latest
    end date of all when every task has one.
    """
    dated: tuple[DagSpec | TaskSpec, ...] = (spec, *spec.tasks)
    starts = [one.start_date for one in dated if one.start_date is not None]
    latest = spec.end_date
    ends = [task.end_date for task in spec.tasks if task.end_date is not None]
    if ends and len(ends) == len(spec.tasks):
        latest = max(ends if latest is None else [*ends, latest])
    return Restriction(min(starts, default=None), latest, spec.catchup)


def compute_next(spec: DagSpec, last: DataInterval | None, now: datetime) -> NextRun | None:
    """The next scheduled run of the DAG, None if there is none.

    `last` is the interval of the latest run that the schedule has created, or of a run that exists at its next date
    (see next_run.py). Any error inside the timetable becomes a TimetableError: log it, it means "no run".
    """
    if not allows(spec, RunType.SCHEDULED):
        return None
    try:
        return spec.timetable.next_run(last=last, restriction=restriction_of(spec), now=now)
    except TimetableError:
        raise
    except Exception as problem:
        raise TimetableError(
            f"The schedule {spec.timetable.summary!r} of DAG {spec.dag_id!r} gives no next run: {problem!r}; "
            "the DAG is not scheduled until its file is corrected."
        ) from problem


def active_runs_limit(spec: DagSpec) -> int:
    """`max_active_runs`, or the timetable's limit if that is lower (`@continuous`: 1)."""
    limit = spec.timetable.active_runs_limit
    return spec.max_active_runs if limit is None else min(limit, spec.max_active_runs)


# Which DAGs are due


@dataclass(frozen=True, slots=True)
class DagStatus:
    """The facts that decide whether a DAG gets its next scheduled run."""

    dag_id: str
    next_run: NextRun | None
    max_active_runs: int  # see active_runs_limit
    active_runs: int  # queued and running; runs of backfills do not count (14.3)
    is_paused: bool = False
    is_stale: bool = False
    has_import_errors: bool = False
    allowed_run_types: tuple[str, ...] | None = None  # see allows
    failures: int = 0  # of `@continuous`: the number of consecutive failures


def due_questions(dag: DagStatus, now: datetime) -> dict[str, str | None]:
    """The checks before a scheduled run is created, in order: the reason against it, None if the check passes."""
    next_run = dag.next_run
    schedule = None
    if not allows(dag, RunType.SCHEDULED):
        schedule = "its allowed_run_types leave out 'scheduled'"
    elif next_run is None:
        schedule = "its schedule has no further run"
    elif next_run.run_after > now:
        schedule = f"its next run is due at {stamp(next_run.run_after)}"
        if dag.failures:
            failed = "its last run" if dag.failures == 1 else f"its last {dag.failures} runs"
            schedule = f"it pauses because {failed} failed; the next is due at {stamp(next_run.run_after)}"
    limit = None
    if dag.active_runs >= dag.max_active_runs:
        limit = f"max_active_runs={dag.max_active_runs} reached: {dag.active_runs} runs are queued or running"
    return {
        "file": DEFINED_BY_NOBODY if dag.is_stale and not dag.has_import_errors else None,
        "import": "its file cannot be imported: see `aiosched dags errors`" if dag.has_import_errors else None,
        "paused": f"the DAG is paused: `{command_line('dags unpause', dag.dag_id)}`" if dag.is_paused else None,
        "schedule": schedule,
        "max_active_runs": limit,
    }


# New runs and their tasks


class PlannedRun(NamedTuple):
    """A run to create, in state queued. Instants are UTC; `interval` is None without a logical date.

    `partition` is the partition of assets that it is about, if any.
    """

    run_id: str
    run_type: RunType
    run_after: datetime
    logical_date: datetime | None
    interval: DataInterval | None
    partition: Partition | None = None


def automated_run(run: NextRun, run_type: RunType = RunType.SCHEDULED) -> PlannedRun:
    """The scheduled (or backfill) run that the timetable requires."""
    run_id = make_run_id(run_type, logical_date=run.logical_date, run_after=run.run_after)
    return PlannedRun(run_id, run_type, run.run_after, run.logical_date, run.interval, run.partition)


def asset_run(at: datetime, partition: Partition | None = None) -> PlannedRun:
    """The run that asset events trigger at this instant: without logical date and interval (decision 4)."""
    run_id = make_run_id(RunType.ASSET_TRIGGERED, logical_date=None, run_after=at)
    return PlannedRun(run_id, RunType.ASSET_TRIGGERED, at.astimezone(UTC), None, None, partition)


def manual_run(
    spec: DagSpec,
    *,
    now: datetime,
    run_id: str | None = None,
    logical_date: datetime | None = None,
    run_after: datetime | None = None,
    allowed_run_id: re.Pattern[str] = ALLOWED_RUN_ID,
    partition_key: str | None = None,
) -> PlannedRun:
    """The run that a user requests; it can start from `run_after` on, by default from `now`.

    The logical date is truncated to whole seconds; without one the run has no data interval (decision 8), unless the
    DAG has the defaults of Airflow 2: then it is the instant of the request (38.2). Raises Refused for an invalid
    run id, date or partition key.

    Source: the semantics reference, section 13.4.
    """
    at = now.astimezone(UTC) if run_after is None else _aware(run_after, "run_after")
    interval = None
    if logical_date is not None:
        logical_date = _aware(logical_date, "logical date").replace(microsecond=0)
    elif spec.defaults_of == AIRFLOW_2:
        logical_date = at
    if logical_date is not None:
        try:
            interval = spec.timetable.manual_interval(logical_date)
        except OverflowError as error:
            raise _at_the_edge(logical_date, "logical date") from error
    if run_id is None:
        run_id = make_run_id(RunType.MANUAL, logical_date=logical_date, run_after=at)
    else:
        check_run_id(run_id, allowed_run_id)
    partition = None if partition_key is None else manual_partition(spec.dag_id, spec.timetable, partition_key)
    return PlannedRun(run_id, RunType.MANUAL, at, logical_date, interval, partition)


def check_manual_run(dag_id: str, *, is_stale: bool, has_import_errors: bool, import_error: str | None = None) -> None:
    """Raise Refused if no manual run can be created.

    A paused DAG accepts manual runs: they wait. A DAG whose file cannot be imported is stale, too; `import_error` names
    the file and the error, if known.
    """
    if has_import_errors:
        reason = "" if import_error is None else f": {import_error}"
        raise Refused(
            f"The file of DAG {dag_id!r} cannot be imported{reason}. "
            "Correct the file, then trigger the DAG again; `aiosched dags errors` shows the place."
        )
    if is_stale:
        raise Refused(
            f"DAG {dag_id!r} is defined by no file and no application any more; bring it back, then trigger it again."
        )


def check_run_id(run_id: str, allowed: re.Pattern[str] = ALLOWED_RUN_ID) -> None:
    """Raise Refused for a run id that users must not choose; `allowed` can only narrow what the database takes."""
    if prefix := next((prefix for prefix in _AUTOMATED_PREFIXES if run_id.startswith(prefix)), None):
        raise Refused(f"The run id {run_id!r} has the prefix {prefix!r}, which is reserved: choose another.")
    if unmatched := next((one for one in (ALLOWED_RUN_ID, allowed) if not one.fullmatch(run_id)), None):
        raise Refused(
            f"The run id {run_id!r} does not match {unmatched.pattern}; use only the characters that it allows."
        )
    if run_id in RUN_WORDS:
        raise Refused(f"The run id {run_id!r} names a run by what it is, in commands and addresses: choose another.")
    check_new_name("run id", run_id)
    if len(run_id) > MAX_RUN_ID:
        raise Refused(f"The run id {run_id[:20]!r}… has {len(run_id)} characters; use at most {MAX_RUN_ID}.")


def tasks_of_run(spec: DagSpec, run: PlannedRun) -> tuple[int, ...]:
    """The indexes of the tasks that get an instance when `run` is created.

    A task whose date window (inclusive, never wider than the DAG's) excludes the logical date gets none; for a
    scheduled run of a trigger timetable the tick is compared, as for its schedule. Backfill runs and runs without a
    logical date have all tasks.

    Source: the semantics reference, section 10.1.
    """
    date = run.logical_date
    if date is None or run.run_type is RunType.BACKFILL:
        return tuple(range(len(spec.tasks)))
    if run.run_type is RunType.SCHEDULED and run.interval is not None and is_trigger(spec.timetable):
        date = run.interval.end
    if not _in_window(spec, date):
        return ()
    tasks = enumerate(spec.tasks)
    return tuple(i for i, task in tasks if task.start_date is task.end_date is None or _in_window(task, date))


def tasks_of_manual_run(spec: DagSpec, run: PlannedRun) -> tuple[int, ...]:
    """As `tasks_of_run`, for a run that a user requests: Refused if it would have none of the DAG's tasks."""
    found, date = tasks_of_run(spec, run), run.logical_date
    if found or not spec.tasks or date is None:
        return found
    limits = restriction_of(spec)
    named = (("first start_date", limits.earliest), ("last end_date", limits.latest))
    dates = " and ".join(f"its {name} is {stamp(limit)}" for name, limit in named if limit is not None)
    other = "a later date" if limits.earliest is not None and date < limits.earliest else "another date"
    if spec.timetable.periodic and allows(spec, RunType.BACKFILL):
        other += ", or backfill this one: a backfill ignores these dates"
    name = f"DAG {spec.dag_id!r}"
    raise Refused(f"No task of {name} can run with the logical date {stamp(date)}: {dates}; choose {other}.")


def _in_window(of: DagSpec | TaskSpec, date: datetime) -> bool:
    return (of.start_date is None or of.start_date <= date) and (of.end_date is None or date <= of.end_date)


# Starting queued runs


@dataclass(frozen=True, slots=True)
class StartDecision:
    """The runs to start, in order, and by key why each of the others waits."""

    started: tuple[Run, ...]
    waiting: Mapping[int, str]


def runs_to_start(
    queued: Iterable[Run],
    *,
    now: datetime,
    limits: Mapping[int | None, int],
    running: Mapping[int | None, int],
    blocked: str | None = None,
    paused_backfills: Iterable[int] = (),
    backfill_order: Mapping[int, int] = _NOTHING,
    awaited: AwaitedRuns = NONE_AWAITED,
    keys: KeyRoom | None = None,
) -> StartDecision:
    """Which queued runs of one DAG start now.

    `limits` and `running` are by backfill id, None for runs without a backfill: `max_active_runs` of the DAG or of the
    backfill, and how many are running. The limits are independent. `blocked` says why no run of the DAG can start (`the
    DAG is paused`). Normal runs go first, by priority and run_after; then backfill runs by `backfill_order` (run key to
    order number). A limit of 0 starts nothing. Runs whose backfill is not in `limits` wait. Under each limit the
    `awaited` runs go first. If all runs under a limit are blocked, one awaited run starts even though the limit is
    reached: otherwise they would wait for it for ever. `keys` limits runs with the same key, whatever their backfill;
    it is used up.

    Source: the semantics reference, sections 14.1 to 14.3.
    """
    count, still = dict(running), set(awaited.still)
    closed: dict[int | None, str] = {backfill: f"backfill {backfill} is paused" for backfill in paused_backfills}
    started: list[Run] = []
    waiting: dict[int, str] = {}

    def turn(run: Run) -> tuple[bool, int, int, datetime, int]:
        return (run.backfill_id is not None, backfill_order.get(run.key, 0), -run.priority, run.run_after, run.key)

    ordered = sorted(queued, key=turn)
    if awaited.by:
        places = {key: place for place, key in enumerate(awaited.by)}
        ordered.sort(key=lambda run: (run.backfill_id is not None, places.get(run.key, len(places))))
    for run in ordered:
        group = run.backfill_id
        if blocked is not None:
            waiting[run.key] = blocked
        elif run.run_after > now:
            waiting[run.key] = f"may start at {stamp(run.run_after)}"
        elif group in closed:
            waiting[run.key] = closed[group]
        elif keys is not None and (held := keys.held(run.conf)) is not None:
            waiting[run.key] = keys.explained(held)
        elif (runs := count.get(group, 0)) >= (limit := limits.get(group, 0)) and not (
            group in still and limit > 0 and run.key in awaited.first
        ):
            owner = "the DAG" if group is None else f"backfill {group}"
            waiting[run.key] = f"max_active_runs={limit} of {owner} reached: {runs} running"
            if group not in still:
                closed[group] = waiting[run.key]
        else:
            count[group] = runs + 1
            still.discard(group)
            started.append(run)
            if keys is not None:
                keys.take(run.conf)
    return StartDecision(tuple(started), waiting)


# Backfills


def backfill_period(spec: DagSpec, first: DayOrInstant, final: DayOrInstant) -> Period:
    """The instants of a backfill from `first` to `final`, both inclusive; a day is one of the DAG's time zone.

    Raises Refused for an instant without a time zone or outside the calendar.
    """
    return period_of(_checked(first, "first date"), _checked(final, "last date"), spec.timezone)


def backfill_runs(
    spec: DagSpec, first: DayOrInstant, final: DayOrInstant, *, now: datetime, most: int, backwards: bool = False
) -> Iterator[NextRun]:
    """The runs of a backfill over [first, final], computed one by one, by logical date.

    Raises Refused for a range that has none (reversed, in the future, or of a schedule that is not periodic) or more
    than `most`; for a DAG that forbids backfills; and for `backwards` with a task that depends on its past.

    Source: the semantics reference, section 29.1.
    """
    check_run_type(spec, RunType.BACKFILL)
    name = f"DAG {spec.dag_id!r}"
    if not spec.timetable.periodic:
        raise Refused(
            f"{name} has the schedule {spec.timetable.summary!r}, which has no dates to backfill; trigger it."
        )
    period = backfill_period(spec, first, final)
    begin, end = period
    if begin > end and is_day(first) and is_day(final) and first <= final:
        raise Refused(f"{first} does not exist in {spec.timezone}, whose clocks skip that day; choose another one.")
    if begin > end:
        raise Refused(f"The backfill ends at {stamp(end)}, before it begins ({stamp(begin)}); swap the two dates.")
    if begin > now:
        raise Refused(f"The backfill begins at {stamp(begin)}, in the future; choose dates that have passed.")
    past = next((task.task_id for task in spec.tasks if task.depends_on_past), None)
    if backwards and past is not None:
        raise Refused(f"Task {past!r} of {name} depends on its past; it cannot be backfilled backwards.")
    anchor = restriction_of(spec).earliest
    last: NextRun | None = None
    dates = _within_the_calendar(scheduled_between(spec.timetable, begin, end, now=now, anchor=anchor), begin)
    for number, run in enumerate(dates):
        if last is not None and number == most:
            raise Refused(
                f"{name} has more than {most:,} dates between {stamp(begin)} and {stamp(end)}; "
                f"backfill up to {stamp(last.logical_date)} first, or raise scheduler.max_backfill_runs."
            )
        yield run
        last = run
    if last is None:
        unfinished = unfinished_date(spec, period, None, now)
        raise Refused(
            f"{name} has no complete data interval that starts between {stamp(begin)} and {stamp(end)}"
            + (
                f": that of {stamp(unfinished.logical_date)} ends at {stamp(unfinished.interval.end)}"
                if unfinished
                else ""
            )
            + f"; see `{command_line('dags next', spec.dag_id)}`."
        )


def unfinished_date(spec: DagSpec, period: Period, last: NextRun | None, now: datetime) -> NextRun | None:
    """The first date of a period that a backfill leaves out because its data interval has not ended; None: there is
    none.

    `last` is the last date that it has.
    """
    first = period.first if last is None else last.logical_date
    try:
        return first_unfinished(spec.timetable, first, period.final, now=now, anchor=restriction_of(spec).earliest)
    except OverflowError:  # after the end of the calendar
        return None


def _within_the_calendar(runs: Iterator[NextRun], first: datetime) -> Iterator[NextRun]:
    """The same runs; Refused if the timetable asks for an instant before the first one or after the last one."""
    try:
        yield from runs
    except OverflowError as error:
        raise _at_the_edge(first, "first date") from error


# Which schedules are invalid


def check_schedule(spec: DagSpec) -> None:
    """Raise DagError if the DAG can never be scheduled as written.

    Source: the semantics reference, section 11.1.
    """
    try:
        spec.timetable.validate()
    except TimetableError as problem:
        raise TimetableError(f"DAG {spec.dag_id!r}: {problem}") from None
    name, timetable = f"DAG {spec.dag_id!r}", spec.timetable
    limit = timetable.active_runs_limit
    if limit is not None and spec.max_active_runs > limit:
        raise DagError(
            f"{name} has the schedule {timetable.summary!r}, which allows {limit} active run, "
            f"but max_active_runs={spec.max_active_runs}; set max_active_runs={limit}."
        )
    if not timetable.can_be_scheduled:
        return
    if spec.catchup and restriction_of(spec).earliest is None:
        raise DagError(
            f"{name} has catchup=True but no start date to catch up from; give it a start_date, or set catchup=False."
        )
    required = [key for key, param in spec.params.items() if param.required]
    if required:
        raise ParamError(
            f"{name} has a schedule, but scheduled runs have no value for its required param {_listed(required)}; "
            "give it a default value, or set schedule=None."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _checked(given: DayOrInstant, name: str) -> DayOrInstant:
    return _aware(given, name) if isinstance(given, datetime) else given


def _aware(value: datetime, name: str) -> datetime:
    if value.tzinfo is None:
        raise Refused(f"The {name} {value.isoformat()} has no time zone; add one, e.g. {value.isoformat()}+00:00.")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise _at_the_edge(value, name) from error


def _at_the_edge(value: datetime, name: str) -> Refused:
    return Refused(f"The {name} {value.isoformat()} is at the edge of the calendar: give another one.")


def as_planned(run: Run) -> PlannedRun:
    """The plan that the run was created by."""
    interval = None
    if run.interval_start is not None and run.interval_end is not None:
        interval = DataInterval(run.interval_start, run.interval_end)
    partition = None if run.partition_key is None else Partition(run.partition_key, run.partition_date)
    return PlannedRun(run.run_id, RunType(run.run_type), run.run_after, run.logical_date, interval, partition)
