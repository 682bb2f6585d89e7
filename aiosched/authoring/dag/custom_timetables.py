"""Custom timetables: `class AfterWorkday(Timetable): ...` and `DAG(schedule=AfterWorkday())`.

The runs of a custom timetable are computed where the DAG file is imported, never in the scheduler, and stored as a
list. The length of the list depends on how dense the runs are. It is extended in steps (four weeks, a day, an hour),
so that parsing a file twice does not create two versions of its DAG.
Source: the semantics reference, section 11.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from aiosched.authoring.runtime.context import moment
from aiosched.core.timetables import DataInterval, Restriction
from aiosched.core.timetables.custom import CustomTimetable, ListedRun, ManualStep
from aiosched.errors import TimetableError

if TYPE_CHECKING:
    from pendulum import DateTime

STEPS: Final = (timedelta(days=28), timedelta(days=1), timedelta(hours=1))  # in which the list is extended
STEPS_AHEAD: Final = 3  # steps from the start of the current one that are listed
MIN_RUNS_AHEAD: Final = 10  # runs after that start that are listed, however far ahead
MAX_RUNS_AHEAD: Final = 1_000  # runs after it, at most
MAX_RUNS_PAST: Final = 400  # runs before it, without catchup
MAX_RUNS_COMPUTED: Final = 10_000  # computed in all
_MANUAL_RUNS_PAST: Final = 50  # past runs for which intervals of manual runs are computed


class TimeRestriction(NamedTuple):
    """The limits of a schedule: both dates are inclusive, in UTC, or None."""

    earliest: DateTime | None
    latest: DateTime | None
    catchup: bool


class DagRunInfo(NamedTuple):
    """A scheduled run: the earliest instant at which it may start, and its data interval."""

    run_after: datetime
    data_interval: DataInterval

    @classmethod
    def exact(cls, at: datetime) -> DagRunInfo:
        """A run at `at`, with an interval of length zero."""
        return cls(at, DataInterval(at, at))

    @classmethod
    def interval(cls, start: datetime, end: datetime) -> DagRunInfo:
        """A run at the end of its interval."""
        return cls(end, DataInterval(start, end))

    @property
    def logical_date(self) -> datetime:
        """The start of the interval."""
        return self.data_interval.start


class Timetable:
    """Base class of custom timetables. All instants are aware; arguments are pendulum's, in UTC.

    When the DAG file is parsed, all runs from the start date on are computed one by one; without catchup, aiosched
    drops past runs itself. So the results must not depend on the current time, or on anything else that changes
    between two parses.
    """

    description: str = ""  # to display; by default the name of the class
    periodic: bool = True  # backfills are possible
    can_be_scheduled: bool = True
    active_runs_limit: int | None = None
    partitioned_at_runtime: bool = False  # tasks, or whoever triggers a run, choose the keys of partitions

    @property
    def summary(self) -> str:
        """A short text to display."""
        return self.description or type(self).__name__

    def validate(self) -> None:
        """Raise an exception if the arguments of the timetable are invalid."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The run after the one with that interval, or the first run if it is None; None for no run.

        `restriction.earliest` is the start date, or a time before now for a DAG without one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no next_dagrun_info(): implement it.")

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        """The interval of a manual run: either at a fixed distance from `run_after`, or that of an earlier run."""
        return DataInterval(run_after, run_after)

    def to_timetable(self) -> CustomTimetable:
        """The timetable for the scheduler, without its runs."""
        name = type(self).__name__
        limit = self.active_runs_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise _wrong(self, f"has active_runs_limit={limit!r}. Use a whole number above 0, or None")
        try:
            self.validate()
            return CustomTimetable(
                name,
                description=str(self.summary),
                periodic=bool(self.periodic),
                can_be_scheduled=bool(self.can_be_scheduled),
                active_runs_limit=limit,
                partitioned_at_runtime=bool(self.partitioned_at_runtime),
            )
        except TimetableError:
            raise
        except Exception as error:
            raise _wrong(self, f"is not valid: {error!r}. Correct its arguments") from error


def list_runs(author: Timetable, restriction: Restriction, now: datetime) -> CustomTimetable:
    """The timetable with the list of runs to store at `now`.

    Raises TimetableError when the custom timetable raises, returns something else than a run, goes backwards, or has
    too many runs since the start date.
    """
    timetable = author.to_timetable()
    now = now.astimezone(UTC)
    step, runs = _runs_to_list(author, restriction, now) if timetable.can_be_scheduled else (STEPS[0], [])
    begin = _floor(now, step)
    current = next((position for position, run in enumerate(runs) if run.run_after > begin), len(runs))
    samples = [run.run_after for run in runs[max(0, current - _MANUAL_RUNS_PAST) :]] or [begin, begin + step]
    shift, steps = _manual_rule(author, samples)
    kept = runs if restriction.catchup else runs[max(0, current - MAX_RUNS_PAST) :]
    return msgspec.structs.replace(timetable, runs=tuple(kept), manual_steps=steps, manual_shift=shift)


def _runs_to_list(author: Timetable, restriction: Restriction, now: datetime) -> tuple[timedelta, list[ListedRun]]:
    """The runs from the start date to some steps ahead, and the step in which the list is extended."""
    if restriction.earliest is not None:
        runs, is_complete = _compute_runs(author, restriction.earliest, restriction, now)
        if runs is not None:
            for step in STEPS:
                if (found := _part_to_list(runs, step, now, is_complete)) is not None:
                    return step, found
        elif restriction.catchup:
            raise _wrong(
                author,
                f"has more than {MAX_RUNS_COMPUTED} runs between {restriction.earliest:%Y-%m-%d} and now. "
                "Use a later start_date, or catchup=False",
            )
    for step in STEPS:
        runs, is_complete = _compute_runs(author, _floor(now, step) - step, restriction, now)
        if runs is not None and (found := _part_to_list(runs, step, now, is_complete)) is not None:
            return step, found
    raise _wrong(author, f"has more than {MAX_RUNS_AHEAD} runs in {STEPS_AHEAD} hours. Let it make fewer")


def _part_to_list(runs: list[ListedRun], step: timedelta, now: datetime, is_complete: bool) -> list[ListedRun] | None:
    """The part of `runs` that is listed during one step; None when they are too many, or not all computed."""
    begin = _floor(now, step)
    end = begin + STEPS_AHEAD * step
    current = sum(run.run_after <= begin for run in runs)
    inside = sum(run.run_after <= end for run in runs) - current
    wanted = max(inside, MIN_RUNS_AHEAD)
    if wanted > MAX_RUNS_AHEAD or (not is_complete and len(runs) < current + wanted):
        return None
    return runs[: current + wanted]


def _compute_runs(
    author: Timetable, earliest: datetime, restriction: Restriction, now: datetime
) -> tuple[list[ListedRun] | None, bool]:
    """All runs from `earliest` to the longest possible list; and whether there is none after them.

    None when they are too many to compute.
    """
    runs: list[ListedRun] = []
    ahead, horizon = 0, now + STEPS_AHEAD * STEPS[0]
    for run in _runs_of(author, Restriction(earliest, restriction.latest, catchup=True)):
        runs.append(run)
        ahead += run.run_after > now
        if ahead > 2 * MAX_RUNS_AHEAD or (ahead > MIN_RUNS_AHEAD and run.run_after > horizon):
            return runs, False
        if len(runs) >= MAX_RUNS_COMPUTED:
            return None, False
    return runs, True


def _runs_of(author: Timetable, restriction: Restriction) -> Iterator[ListedRun]:
    """The runs of the custom timetable, checked."""
    limits = TimeRestriction(moment(restriction.earliest), moment(restriction.latest), restriction.catchup)
    last: ListedRun | None = None
    while True:
        before = None if last is None else DataInterval(moment(last.start), moment(last.end))  # type: ignore[arg-type]
        try:
            info = author.next_dagrun_info(last_automated_data_interval=before, restriction=limits)
        except Exception as error:
            after = "the first run" if last is None else f"the run after {last.start.isoformat()}"
            raise _wrong(author, f"raised {error!r} for {after}. Correct next_dagrun_info") from error
        if info is None:
            return
        run = _checked(author, info)
        if last is not None and (run.start <= last.start or run.run_after < last.run_after):
            raise _wrong(
                author,
                f"goes backwards: after the run of {last.start.isoformat()} comes one of {run.start.isoformat()}, to "
                f"start at {run.run_after.isoformat()}. Let next_dagrun_info return a later one, or None for no run",
            )
        if restriction.latest is not None and run.start > restriction.latest:
            return
        yield run
        last = run


def _checked(author: Timetable, info: Any) -> ListedRun:
    try:
        start, end = info.data_interval
        return ListedRun(*(_aware(author, at) for at in (start, end, info.run_after)))
    except (AttributeError, TypeError, ValueError):
        raise _wrong(author, f"answered {info!r:.200}. Let next_dagrun_info return a DagRunInfo, or None") from None


def _aware(author: Timetable, at: Any) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise _wrong(author, f"answered with {at!r:.100}, which is not an aware datetime. Give it a time zone")
    return datetime.combine(at.astimezone(UTC).date(), at.astimezone(UTC).time(), UTC)


def _manual_rule(author: Timetable, samples: Sequence[datetime]) -> tuple[tuple[float, float], tuple[ManualStep, ...]]:
    """The intervals of manual runs, computed at `samples` and between them: a distance, or one for each sample."""
    intervals = [_manual_interval(author, at) for at in samples]
    between = [one + (other - one) / 2 for one, other in pairwise(samples)]
    shifts = {
        (start - at, end - at)
        for at, (start, end) in [
            *zip(samples, intervals, strict=True),
            *((at, _manual_interval(author, at)) for at in between),
        ]
    }
    if len(shifts) == 1:
        ((before, after),) = shifts
        return (before.total_seconds(), after.total_seconds()), ()
    steps: list[ManualStep] = []
    for at, (start, end) in zip(samples, intervals, strict=True):
        if not steps or steps[-1][1:] != (start, end):
            steps.append(ManualStep(at, start, end))
    return (0.0, 0.0), tuple(steps)


def _manual_interval(author: Timetable, at: datetime) -> tuple[datetime, datetime]:
    try:
        start, end = author.infer_manual_data_interval(run_after=moment(at))  # type: ignore[arg-type]
    except Exception as error:
        raise _wrong(
            author,
            f"raised {error!r} for a manual run at {at.isoformat()}. Correct infer_manual_data_interval",
        ) from error
    return _aware(author, start), _aware(author, end)


def _wrong(author: Timetable, what: str) -> TimetableError:
    return TimetableError(f"The timetable {type(author).__name__} {what}.")


def _floor(at: datetime, step: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (at - epoch) // step * step
