"""Options of the local executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.bundles.places import CodePlaces, places_of
from aiosched.config import Settings
from aiosched.executors.attempt.start_notices import DELAY
from aiosched.executors.worker.protocol import WorkerConfig
from aiosched.remote.values import XComRemote, remote_xcoms


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of the local executor. Times in seconds, sizes in bytes."""

    dags_folder: Path
    places: CodePlaces | None = None  # where code is; None: only in the DAGs folder
    logs_folder: Path | None = None
    slots: int | None = None  # concurrent plain functions; None: four per core
    async_slots: int = 1000
    async_workers: int | None = None  # processes for async def tasks; None: one per two cores
    blocked_limit: float = 5.0  # a worker whose event loop is blocked for longer gets no new coroutines
    run_as: str | None = None  # user of this machine as whom workers run; None: that of this process
    run_as_users: frozenset[tuple[str | None, str]] = frozenset()  # other users that tasks may name, of a team or all
    isolation: str = "warm"  # or fresh: a new process for each attempt
    max_xcom_bytes: int = 1_048_576
    max_log_bytes: int = 104_857_600
    max_field_length: int = 4096  # characters of a rendered template field that are stored
    log_level: str = "INFO"
    uploads_logs: bool = False  # this process writes them to remote storage
    xcoms: XComRemote | None = None  # where large XComs go; None: all into the database
    defaults: AuthoringDefaults = field(default_factory=AuthoringDefaults)  # for DAGs and tasks loaded by workers
    import_timeout: float = 30.0
    cleanup_time: float = 60.0  # from the execution timeout to TERM, if a task does not stop by itself
    kill_after: float = 5.0  # from TERM to KILL, unless another grace is given
    notice_delay: float = DELAY  # starts of shorter attempts are not reported
    idle_time: float = 60.0  # idle workers beyond the first end after this
    max_attempts: int = 50_000  # of one worker
    max_growth_bytes: int = 536_870_912  # of one worker
    worker_api: tuple[str, ...] = ()  # on a worker: the servers that it asks, whatever a message names; else those
    memory_limit: int | None = None  # of one worker and the processes that it starts

    @classmethod
    def from_settings(cls, settings: Settings) -> LocalOptions:
        """The options given by the settings."""
        core = settings.core
        return cls(
            dags_folder=core.dags_folder.absolute(),
            places=places_of(settings),
            logs_folder=settings.logs_folder,
            slots=settings.executor.slots,
            async_slots=settings.executor.async_slots,
            isolation=settings.executor.isolation,
            run_as=settings.executor.run_as,
            run_as_users=frozenset(_user_of_a_team(entry) for entry in settings.executor.run_as_users),
            max_xcom_bytes=core.max_xcom_bytes,
            max_log_bytes=core.max_log_bytes,
            max_field_length=core.max_templated_field_length,
            log_level=settings.logs.level,
            uploads_logs=settings.logs.remote is not None,
            xcoms=remote_xcoms(settings.xcom),
            defaults=AuthoringDefaults.of(settings),
            import_timeout=core.dagbag_import_timeout,
            cleanup_time=core.killed_task_cleanup_time,
            worker_api=tuple(url for each in settings.executor.worker_api.split(",") if (url := each.strip())),
            memory_limit=settings.executor.memory_limit,
        )

    def for_workers(self) -> WorkerConfig:
        """The part that workers get."""
        return WorkerConfig(
            places=self.places or CodePlaces({"": str(self.dags_folder)}),
            logs_folder=str(self.logs_folder) if self.logs_folder else None,
            max_xcom_bytes=self.max_xcom_bytes,
            max_log_bytes=self.max_log_bytes,
            max_field_length=self.max_field_length,
            log_level=self.log_level,
            import_timeout=self.import_timeout,
            defaults=self.defaults,
            max_attempts=1 if self.isolation == "fresh" else self.max_attempts,
            max_growth_bytes=self.max_growth_bytes,
            uploads_logs=self.uploads_logs,
            xcoms=self.xcoms,
        )


def _user_of_a_team(entry: str) -> tuple[str | None, str]:
    """The team whose tasks may name a user, None for all, and the user: names of users have no colon."""
    team, colon, user = entry.rpartition(":")
    return (team if colon else None), user
