"""Requests to the owner of a DAG: one struct for each kind, tagged with its name, the `verb`. Pure.

A struct is all that is said of a request: its options with type, default, limits (of the API and the command line) and
the help of the command line. `Scheduler`, `Client`, `World`, the bodies of the API and the commands take their options
from it (options.py), so that a new field is offered everywhere.

The fields have the names of the stored arguments (stored.py), except that `from`, a reserved word, is `first`, and `to`
is `final`. What a request does is described where it is applied (scheduler/requests). Instants are aware.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from aiosched.core.creation.backfills import Rerun
from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.states import RunState, TaskState


class Help(NamedTuple):
    """What is said of an option beside its type and default: its help, and its limits in the API and in commands.

    `short`, `flag` and `metavar` are how commands spell it, where that does not follow from its name and type.
    """

    text: str
    short: str | None = None
    flag: str | None = None
    metavar: str | None = None
    ge: int | None = None
    le: int | None = None
    lt: int | None = None
    max_length: int | None = None


_ENDS: Final = {"first": "from", "final": "to"}
_KEPT: Final = frozenset(
    {NoneType, bool, int, float, str, datetime, tuple, dict}
)  # types of values that stay as they are

MapIndex = Annotated[int | None, Help("The instance of a mapped task.", ge=-1, lt=2**31)]
PartitionKey = Annotated[str | None, Help("The partition of assets that it is about.", metavar="KEY")]


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb"):
    """A request to an owner. `reason` is kept in the audit log; neither it nor `key` is stored as an argument.

    A repeated request with the same `key` is the same request: its sender gets the answer to the first one.
    """

    reason: Annotated[str | None, Help("The reason, kept in the audit log.")] = None
    key: Annotated[str | None, Help("Of the sender: a request that is repeated with it is done once.")] = None

    def __post_init__(self) -> None:
        """Keep sequences as tuples and mappings as dicts."""
        for name in self.__struct_fields__:
            if type(value := getattr(self, name)) in _KEPT:
                continue
            if isinstance(value, Mapping):
                msgspec.structs.force_setattr(self, name, dict(value))
            elif isinstance(value, Sequence) and not isinstance(value, str):
                msgspec.structs.force_setattr(self, name, tuple(value))


class Trigger(Request, frozen=True, kw_only=True, tag="trigger"):
    """Create a run. `triggered_by` is stored with the run: cli, api, operator."""

    conf: Mapping[str, Any] = {}
    logical_date: Annotated[datetime | None, Help("The run's logical date; of a day its beginning.", short="-e")] = None
    run_id: Annotated[str | None, Help("The run's id.", short="-r", metavar="R")] = None
    run_after: Annotated[datetime | None, Help("The earliest start of the run; UTC without a zone.")] = None
    partition_key: PartitionKey = None
    unique: Annotated[
        str | None,
        Help("A key: while a run with it is unfinished, it is the answer instead of another run.", metavar="KEY"),
    ] = None
    debounce: Annotated[
        float | None,
        Help("With a unique key: start so long after the last such request, with its conf.", metavar="SECONDS", ge=0),
    ] = None
    expires: Annotated[datetime | None, Help("The run fails if it has not started by then; UTC without a zone.")] = None
    priority: Annotated[
        int,
        Help("Start before runs of less, and go first in pools: added to the weights of its tasks.", metavar="N"),
    ] = 0
    traceparent: Annotated[
        str | None,
        Help("The trace that the run continues, as W3C writes it; in Python by default that of the caller's span."),
    ] = None
    unpause: Annotated[bool, Help("Unpause the DAG first.")] = False
    triggered_by: str = "cli"


class Pause(Request, frozen=True, kw_only=True, tag="pause"):
    """Create and start nothing more of a DAG."""


class Unpause(Request, frozen=True, kw_only=True, tag="unpause"):
    """Undo `Pause`."""


class CancelRun(Request, frozen=True, tag="cancel_run"):
    """End a run as failed."""

    run_id: str


class ContinueSchedule(Request, frozen=True, kw_only=True, tag="continue_schedule"):
    """Go on after a run that another scheduler has made: store that run, with its results.

    `run_after` is when it was due; None: unknown, then it is the end of the period that begins at `logical_date`.
    `tasks` are the final states of its task instances, by `task` or `task[map index]`. `source` names the run there.
    With `unpause` the DAG is unpaused in the same step.
    """

    logical_date: datetime
    state: RunState
    run_after: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    tasks: Mapping[str, Any] = {}
    source: str = ""
    unpause: bool = False


class DeleteDag(Request, frozen=True, kw_only=True, tag="delete_dag"):
    """Remove a DAG's rows."""


class ReleaseDag(Request, frozen=True, kw_only=True, tag="release_dag"):
    """Try a DAG that is in quarantine again now."""


class EmitAsset(Request, frozen=True, tag="emit_asset"):
    """Create an event of an asset. It concerns no DAG: the owner of the partition of the asset's name applies it."""

    name: str
    extra: Mapping[str, Any] = {}
    partition_key: PartitionKey = None


class Reach(Request, frozen=True, kw_only=True):
    """How far a change of task instances reaches from those that are named.

    `map_index` selects the instances with that index, None all. `upstream` and `downstream` add the tasks before and
    after those named, `past` and `future` the runs before and after, by logical date. With `dry_run` nothing is
    changed.
    """

    map_index: MapIndex = None
    upstream: Annotated[bool, Help("Also all tasks upstream of the chosen ones.", short="-u")] = False
    downstream: Annotated[bool, Help("Also all tasks downstream of the chosen ones.", short="-d")] = False
    only_failed: Annotated[bool, Help("Only what failed, and what a stop of its run left undone.", short="-f")] = False
    only_running: Annotated[bool, Help("Only running ones.")] = False
    past: Annotated[bool, Help("Also in all runs with an earlier logical date.")] = False
    future: Annotated[bool, Help("Also in all runs with a later logical date.")] = False
    dry_run: Annotated[bool, Help("Only show what would change.")] = False


class OfRuns(Reach, frozen=True):
    """A request about the runs with these ids; None: about all runs."""

    run_ids: Annotated[
        Sequence[str] | None,
        Help(
            "Run id, logical date, latest, latest-failed or latest-backfill; may be repeated.",
            short="-r", flag="--run", metavar="RUN", max_length=1000,
        ),
    ] = None  # fmt: skip


class TaskChange(OfRuns, frozen=True, kw_only=True, rename=_ENDS):
    """A change of task instances: of all runs and all tasks unless some are named.

    Without `run_ids` the runs with a logical date in [first, final] are selected, days being whole days of the DAG's
    time zone, and without those all runs. `pattern` is a regular expression for task ids. `prevent_running` refuses
    the request if some are running, instead of stopping them. `newest_version` first moves their runs to the newest
    version of the DAG.
    """

    first: Annotated[DayOrInstant | None, Help("Runs from this day (in the DAG's zone) or date on.")] = None
    final: Annotated[DayOrInstant | None, Help("Runs up to this day or logical date, inclusive.")] = None
    task_ids: Annotated[
        Sequence[str] | None,
        Help(
            "This task, group or instance (load[3]); may be repeated.",
            flag="--task-id", metavar="TASK", max_length=5000,
        ),
    ] = None  # fmt: skip
    pattern: Annotated[str | None, Help("Tasks whose id matches in some part.", metavar="REGEX", max_length=1000)] = (
        None
    )
    prevent_running: Annotated[bool, Help("Refuse if tasks are running, instead of stopping them.")] = False
    newest_version: Annotated[
        bool, Help("Run them with the newest version of the DAG; not for runs that are running.")
    ] = False


class Clear(TaskChange, frozen=True, kw_only=True, tag="clear"):
    """Clear task instances, so that they run again; with `dependents` also what their markers mark in other DAGs."""

    dependents: Annotated[bool, Help("Also the tasks in other DAGs that ExternalTaskMarkers point to.")] = True


class MarkTasks(TaskChange, frozen=True, kw_only=True, tag="mark_tasks"):
    """Set task instances to success, failed or skipped."""

    state: TaskState | str


class MarkTask(Reach, frozen=True):
    """`MarkTasks` for a task of one run, as people ask for it."""

    run_id: str
    task_id: str
    state: TaskState | str

    def of_many(self) -> MarkTasks:
        """The request to the owner."""
        reach = {name: getattr(self, name) for name in Reach.__struct_fields__}
        return MarkTasks((self.run_id,), task_ids=(self.task_id,), state=self.state, **reach)


class MarkRun(Request, frozen=True, tag="mark_run"):
    """Set a run to success or failed with all that is unfinished in it, or queue it again."""

    run_id: str
    state: RunState | str


class SetNote(Request, frozen=True, tag="set_note"):
    """Put a note on a run, or on one of its task instances; an empty one removes it.

    With `was`, the note as it was read (empty: none), it is refused if the note is another one by now.
    """

    run_id: str
    note: str | None = None
    task_id: str | None = None
    map_index: MapIndex = None
    was: str | None = None


class Render(Request, frozen=True, kw_only=True, tag="render"):
    """Render the template fields of a task instance as its next attempt would see them. Nothing is changed."""

    run_id: str
    task_id: str
    map_index: MapIndex = None


class AnswerInput(Request, frozen=True, tag="answer_input"):
    """Answer the question of a task instance, which then continues. `by` is named as in the audit log."""

    run_id: str
    task_id: str
    options: Sequence[str]
    params: Mapping[str, Any] = {}
    map_index: MapIndex = None
    by: str = "cli"


class SetSchedule(Request, frozen=True, tag="schedule_set"):
    """Start runs of a DAG by a schedule that is data: one of `cron`, `every` and `at`. One of that name is changed.

    Its runs have `conf`, no logical date, and the ids `NAME__INSTANT`. Their params are checked when they are created.
    """

    name: str
    cron: Annotated[str | None, Help("At the ticks of a cron expression.", metavar="CRON")] = None
    every: Annotated[float | None, Help("Every so many seconds, from its start on.", metavar="SECONDS")] = None
    at: Annotated[datetime | None, Help("Once, at this instant; UTC without a zone.")] = None
    timezone: Annotated[str, Help("The time zone of the cron expression.", metavar="ZONE")] = "UTC"
    conf: Mapping[str, Any] = {}
    start: Annotated[datetime | None, Help("No run before; by default now.")] = None
    end: Annotated[datetime | None, Help("No run after.")] = None
    catchup: Annotated[bool, Help("After a pause or a stop run each missed instant, not only the last.")] = False
    paused: Annotated[bool | None, Help("Whether it is paused; by default as it was.")] = None


class RemoveSchedule(Request, frozen=True, tag="schedule_remove"):
    """Remove a schedule of a DAG; its runs stay."""

    name: str


class PauseSchedule(Request, frozen=True, tag="schedule_pause"):
    """Start no runs by a schedule."""

    name: str


class ResumeSchedule(Request, frozen=True, tag="schedule_resume"):
    """Undo `PauseSchedule`."""

    name: str


class BackfillCreate(Request, frozen=True, tag="backfill_create", rename=_ENDS):
    """Create the runs of past dates, both inclusive, days as in `TaskChange`. With `dry_run` nothing is created."""

    first: Annotated[DayOrInstant, Help("First day (in the DAG's time zone) or instant.")]
    final: Annotated[DayOrInstant, Help("Last day or instant, inclusive.")]
    rerun: Annotated[Rerun | str, Help("Existing runs to run again.")] = Rerun.MISSING
    max_active_runs: Annotated[
        int, Help("Maximum number of concurrent runs.", flag="--max-active", ge=1, le=10_000)
    ] = 10
    backwards: Annotated[bool, Help("From the newest date to the oldest.")] = False
    conf: Mapping[str, Any] = {}
    dry_run: Annotated[bool, Help("Only show what would happen at each date.")] = False


class BackfillPause(Request, frozen=True, tag="backfill_pause"):
    """Start no more runs of a backfill."""

    id: int


class BackfillResume(Request, frozen=True, tag="backfill_resume"):
    """Undo `BackfillPause`."""

    id: int


class BackfillCancel(Request, frozen=True, tag="backfill_cancel"):
    """Fail the queued runs of a backfill; running ones continue."""

    id: int


KINDS: Final = (
    Trigger, Pause, Unpause, CancelRun, DeleteDag, ReleaseDag, EmitAsset, Clear, MarkTasks, MarkRun, SetNote,
    AnswerInput, Render, BackfillCreate, BackfillPause, BackfillResume, BackfillCancel, ContinueSchedule,
    SetSchedule, PauseSchedule, ResumeSchedule, RemoveSchedule,
)  # fmt: skip
