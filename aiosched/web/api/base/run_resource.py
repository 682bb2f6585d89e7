"""A run as answers show it."""

from __future__ import annotations

from aiosched.core.run.shown_run import ShownRun
from aiosched.core.values.states import RunState, RunType
from aiosched.web.api.base.models import Instant, Resource, Stored


class RunResource(Resource, ShownRun):
    """A run. `key` is its number in the database, `reason` says why it failed, `seconds` is its duration.

    `dag_display_name` is shown in place of the id of its DAG (null: the id is).

    `partition_key` is that of the partition of assets that it is about, `partition_date` the instant of that key.
    """

    # All fields of ShownRun; those that JSON shows in a way of its own:
    run_type: Stored[RunType]
    state: Stored[RunState]
    logical_date: Instant | None
    data_interval_start: Instant | None
    data_interval_end: Instant | None
    run_after: Instant
    queued_at: Instant | None
    start_date: Instant | None
    end_date: Instant | None
    partition_date: Instant | None
