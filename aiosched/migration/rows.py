"""What is read from the metadata database of an Airflow, whatever its version: plain rows. Instants are aware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class AirflowVariable:
    """A row of `variable`; `value` is a Fernet token if it is encrypted."""

    key: str
    value: str | None
    is_encrypted: bool
    description: str | None = None


@dataclass(frozen=True, slots=True)
class AirflowConnection:
    """A row of `connection`; password and extra are Fernet tokens if they are encrypted."""

    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = None
    port: int | None = None
    extra: str | None = None
    description: str | None = None
    is_encrypted: bool = False
    is_extra_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class AirflowPool:
    """A row of `slot_pool`."""

    name: str
    slots: int
    description: str | None = None
    include_deferred: bool = False


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """The last run of a schedule. `run_after` is None where Airflow did not store it (before 2.2).

    `tasks` are the states of its task instances, by `task` or `task[map index]`.
    """

    run_id: str
    logical_date: datetime
    state: str
    run_after: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    tasks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AirflowDag:
    """A DAG. `unfinished` counts its runs that are queued or running."""

    dag_id: str
    is_paused: bool
    last: AirflowRun | None = None
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class AirflowRows:
    """The rows of one database. `problems` are rows that could not be read: the row, and why.

    `generation` is that of its tables: 2 (also for 1.10) or 3.
    """

    variables: tuple[AirflowVariable, ...] = ()
    connections: tuple[AirflowConnection, ...] = ()
    pools: tuple[AirflowPool, ...] = ()
    dags: tuple[AirflowDag, ...] = ()
    scheduler_alive: bool = False  # a scheduler of Airflow has shown itself within the last minute
    problems: tuple[tuple[str, str], ...] = ()
    generation: Literal[2, 3] | None = None
