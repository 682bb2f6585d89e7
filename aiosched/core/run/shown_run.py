"""What people see of a run: in answers of the API, for the client, on the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class ShownRun:
    """A run. `key` is its number in the database, `reason` says why it failed, `seconds` is its duration.

    `dag_display_name` is shown in place of the id of its DAG; None: the id is.
    """

    key: int
    dag_id: str
    dag_display_name: str | None
    run_id: str
    run_type: str
    state: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    seconds: float | None = field(init=False)  # from its start to its end; None while it runs or waits
    triggered_by: str
    reason: str | None
    note: str | None
    conf: dict[str, Any]
    version: int
    partition_key: str | None
    partition_date: datetime | None

    def __post_init__(self) -> None:
        self.seconds = (self.end_date - self.start_date).total_seconds() if self.start_date and self.end_date else None
