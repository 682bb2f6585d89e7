"""Requests to the owner of a DAG: one struct for each verb, tagged by it. Pure.

The fields have the names of the stored arguments (stored.py), except that `from`, a reserved word, is `first`, and `to`
is `final`. Every caller builds one of these: the command line, `Client`'s API, `Scheduler` and `World`; the owner
decodes it again. What a verb does is described where it is applied (scheduler/requests). Instants are aware.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from aiosched.core.creation.backfills import Rerun
from aiosched.core.values.states import RunState, TaskState


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb"):
    """A request to an owner."""


class Trigger(Request, frozen=True, kw_only=True, tag="trigger"):
    """Create a run. `triggered_by` is stored with the run: cli, api, operator."""

    conf: dict[str, Any] = {}
    logical_date: datetime | None = None
    run_id: str | None = None
    run_after: datetime | None = None
    partition_key: str | None = None
    unpause: bool = False
    triggered_by: str = "cli"


class Pause(Request, frozen=True, kw_only=True, tag="pause"):
    """Create and start nothing more of a DAG."""


class Unpause(Request, frozen=True, kw_only=True, tag="unpause"):
    """Undo `Pause`."""


class CancelRun(Request, frozen=True, kw_only=True, tag="cancel_run"):
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
    tasks: dict[str, Any] = {}
    source: str = ""
    unpause: bool = False


class DeleteDag(Request, frozen=True, kw_only=True, tag="delete_dag"):
    """Remove a DAG's rows."""


class ReleaseDag(Request, frozen=True, kw_only=True, tag="release_dag"):
    """Try a DAG that is in quarantine again now."""


class EmitAsset(Request, frozen=True, kw_only=True, tag="emit_asset"):
    """Create an event of an asset. It concerns no DAG: the owner of the partition of the asset's name applies it."""

    name: str
    extra: dict[str, Any] = {}
    partition_key: str | None = None


class TaskChange(Request, frozen=True, kw_only=True):
    """A change of task instances: of all runs and all tasks unless some are named.

    Without `run_ids` the runs with a logical date in [first, final] are selected, and without those all runs; `past`
    and `future` add the runs before and after those named, by logical date. `pattern` is a regular expression for task
    ids. With `dry_run` nothing is changed.
    """

    run_ids: tuple[str, ...] | None = None
    first: datetime | None = msgspec.field(default=None, name="from")
    final: datetime | None = msgspec.field(default=None, name="to")
    task_ids: tuple[str, ...] | None = None
    pattern: str | None = None
    map_index: int | None = None
    upstream: bool = False
    downstream: bool = False
    only_failed: bool = False
    only_running: bool = False
    past: bool = False
    future: bool = False
    prevent_running: bool = False  # refuse if some are running, instead of stopping them
    newest_version: bool = False  # first move their runs to the newest version of the DAG
    dry_run: bool = False


class Clear(TaskChange, frozen=True, kw_only=True, tag="clear"):
    """Clear task instances, so that they run again; with `dependents` also what their markers mark in other DAGs."""

    dependents: bool = True


class MarkTasks(TaskChange, frozen=True, kw_only=True, tag="mark_tasks"):
    """Set task instances to success, failed or skipped."""

    state: TaskState


class MarkRun(Request, frozen=True, kw_only=True, tag="mark_run"):
    """Set a run to success or failed with all that is unfinished in it, or queue it again."""

    run_id: str
    state: RunState


class SetNote(Request, frozen=True, kw_only=True, tag="set_note"):
    """Put a note on a run, or on one of its task instances; an empty one removes it."""

    run_id: str
    note: str | None = None
    task_id: str | None = None
    map_index: int | None = None


class Render(Request, frozen=True, kw_only=True, tag="render"):
    """Render the template fields of a task instance as its next attempt would see them. Nothing is changed."""

    run_id: str
    task_id: str
    map_index: int | None = None


class AnswerInput(Request, frozen=True, kw_only=True, tag="answer_input"):
    """Answer the question of a task instance, which then continues. `by` is named as in the audit log."""

    run_id: str
    task_id: str
    options: tuple[str, ...]
    params: dict[str, Any] = {}
    map_index: int | None = None
    by: str = "cli"


class BackfillCreate(Request, frozen=True, kw_only=True, tag="backfill_create"):
    """Create the runs of past dates, both inclusive. With `dry_run` nothing is created."""

    first: datetime = msgspec.field(name="from")
    final: datetime = msgspec.field(name="to")
    max_active_runs: int = 10
    rerun: Rerun = Rerun.MISSING
    conf: dict[str, Any] = {}
    backwards: bool = False
    dry_run: bool = False


class BackfillPause(Request, frozen=True, kw_only=True, tag="backfill_pause"):
    """Start no more runs of a backfill."""

    id: int


class BackfillResume(Request, frozen=True, kw_only=True, tag="backfill_resume"):
    """Undo `BackfillPause`."""

    id: int


class BackfillCancel(Request, frozen=True, kw_only=True, tag="backfill_cancel"):
    """Fail the queued runs of a backfill; running ones continue."""

    id: int
