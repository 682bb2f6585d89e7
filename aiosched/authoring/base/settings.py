"""The configurable defaults of DAGs and tasks.

A process that loads DAG files calls `use_defaults` once, before it loads the first one, and installs the finder that
answers `import airflow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiosched.core.values.retries import MAX_TASK_RETRY_DELAY

if TYPE_CHECKING:
    from aiosched.config import Settings


@dataclass(frozen=True, slots=True)
class AuthoringDefaults:
    """The values of parameters that an author leaves out. Durations in seconds."""

    timezone: str = "UTC"
    max_active_runs: int = 16
    max_active_tasks: int = 16
    max_consecutive_failed_dag_runs: int = 0
    retries: int = 0
    retry_delay: float = 300.0
    max_retry_delay: float = MAX_TASK_RETRY_DELAY  # the limit of a growing delay
    execution_timeout: float | None = None
    weight_rule: str = "downstream"
    catchup: bool = False
    catchup_is_set: bool = False  # by a setting: then it is also that of files that import airflow
    airflow: str = "compat"  # who answers `import airflow`: compat, installed, off
    airflow_defaults: str = "by file"  # those of files that import it: by file, 2, 3
    conf_overrides_params: bool = True
    plugins_folder: str | None = None  # absolute; None: only plugins of installed packages
    module_folders: tuple[str, ...] = ()  # absolute; where modules are that nothing else finds
    max_map_length: int = 1024  # items of a value that tasks are mapped over
    max_tested_xcom_bytes: int = 1_048_576  # of one value in dag.test(), which keeps all in memory
    backends_first: bool = False  # there are backends of secrets: what they have counts before the environment
    base_url: str = "http://127.0.0.1:8484"  # of the web server, for people; without a slash at the end

    @classmethod
    def of(cls, settings: Settings, dags_folder: Path | None = None) -> AuthoringDefaults:
        """The defaults from the settings, in the project of `dags_folder` (None: of the settings)."""
        core, xcom, web = settings.core, settings.xcom, settings.web
        return cls(
            timezone=core.default_timezone,
            max_active_runs=core.max_active_runs_per_dag,
            max_active_tasks=core.max_active_tasks_per_dag,
            max_consecutive_failed_dag_runs=core.max_consecutive_failed_dag_runs_per_dag,
            retries=core.default_task_retries,
            retry_delay=core.default_task_retry_delay,
            max_retry_delay=core.max_task_retry_delay,
            execution_timeout=core.default_task_execution_timeout,
            weight_rule=core.default_task_weight_rule,
            catchup=settings.scheduler.catchup_by_default,
            catchup_is_set="catchup_by_default" in settings.scheduler.model_fields_set,
            airflow=core.airflow,
            airflow_defaults=core.airflow_defaults,
            conf_overrides_params=core.dag_run_conf_overrides_params,
            plugins_folder=str(settings.plugins_folder(dags_folder)),
            module_folders=tuple(map(str, settings.module_folders(dags_folder))),
            max_map_length=core.max_map_length,
            max_tested_xcom_bytes=max(core.max_xcom_bytes, xcom.max_remote_bytes if xcom.remote else 0),
            backends_first=bool(settings.secrets.backends),
            base_url=(web.base_url or f"http://{web.host}:{web.port}{web.prefix}").rstrip("/"),
        )


_current = AuthoringDefaults()


def defaults() -> AuthoringDefaults:
    """The defaults of this process."""
    return _current


def use_defaults(new: AuthoringDefaults) -> None:
    """Replace the defaults of this process, for DAGs that are built later."""
    global _current
    _current = new
