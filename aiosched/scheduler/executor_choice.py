"""From the settings to an executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiosched.config import Settings
from aiosched.core.messages import Executor
from aiosched.errors import ConfigError

if TYPE_CHECKING:
    from aiosched.authoring import DAG


def make_executor(kind: str, settings: Settings, dags: Mapping[str, DAG]) -> Executor:
    """The executor of this name. `dags` are those that the process registers; the others come from files."""
    core, executor = settings.core, settings.executor
    logs_folder = (settings.logs.folder or core.home / "logs").absolute()
    if kind == "local":
        if dags:
            raise ConfigError(
                "DAGs given as objects run with executor='inline': worker processes load DAGs from files. "
                "Use dags_folder=… for executor='local'."
            )
        from aiosched.executors.local import LocalExecutor, LocalOptions

        return LocalExecutor(LocalOptions.from_settings(settings))
    if kind == "inline":
        from aiosched.executors.dag_cache import FileDags
        from aiosched.executors.inline import InlineExecutor

        return InlineExecutor(
            dags or FileDags.of(settings),
            slots=executor.slots,
            async_slots=executor.async_slots,
            logs_folder=logs_folder,
            max_xcom_bytes=core.max_xcom_bytes,
            max_log_bytes=core.max_log_bytes,
            max_map_length=core.max_map_length,
            cleanup_time=core.killed_task_cleanup_time,
        )
    raise ConfigError(f"There is no executor {kind!r}: use 'local' (worker processes) or 'inline' (this process).")
