"""Paths of the logs of attempts on this machine, and their removal.

    <logs>/dag_id=sales/run_id=manual__2026-.../task_id=load[/map_index=3]/attempt=1.log
    <logs>/dag_id=sales/run_id=manual__2026-.../callback=dag_failure/attempt=<its id>.log

Computes paths and removes files; executors/attempt/logs.py writes them, logs.py reads them. An attempt without output
has no file.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiosched.core.values.messages import Attempt
from aiosched.core.values.run_folders import folder_of_run, folder_part


def log_folder(logs: Path, *, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Path:
    """The folder with the logs of all tries of a task instance. `map_index` is -1 for an unmapped task."""
    folder = run_folder(logs, dag_id=dag_id, run_id=run_id) / folder_part("task_id", task_id)
    return folder / f"map_index={map_index}" if map_index >= 0 else folder


def log_path(logs: Path, attempt: Attempt) -> Path:
    """The log file of `attempt`, whether it exists or not."""
    run, key = attempt.run, attempt.key
    if attempt.callback is not None:
        folder = run_folder(logs, dag_id=run.dag_id, run_id=run.run_id)
        return folder / folder_part("callback", attempt.callback.kind) / f"attempt={attempt.callback.id}.log"
    folder = log_folder(logs, dag_id=run.dag_id, run_id=run.run_id, task_id=attempt.task_id, map_index=key.map_index)
    return folder / f"attempt={abs(key.try_number)}.log"  # the number of a trigger is negated


def count_logs(logs: Path, *, dag_id: str, run_id: str) -> int:
    """The number of log files of a run's attempts and callbacks on this machine."""
    return sum(1 for _ in run_folder(logs, dag_id=dag_id, run_id=run_id).rglob("attempt=*.log"))


def remove_logs(logs: Path, *, dag_id: str, run_id: str) -> int:
    """Remove the log files of a run; returns their number. Files that cannot be removed stay."""
    number = count_logs(logs, dag_id=dag_id, run_id=run_id)
    shutil.rmtree(run_folder(logs, dag_id=dag_id, run_id=run_id), ignore_errors=True)
    return number - count_logs(logs, dag_id=dag_id, run_id=run_id) if number else 0


def old_run_folders(logs: Path, before: float) -> Iterator[Path]:
    """The folders of runs without writes since `before` (seconds since 1970, as in file timestamps), one by one."""
    return (folder for folder in logs.glob("dag_id=*/run_id=*") if _last_written(folder, before) < before)


def remove_run_folders(folders: Iterable[Path]) -> int:
    """Remove folders of runs, and DAG folders that become empty; returns the number of runs. Skips failures."""
    number = 0
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        number += not folder.exists()
        with contextlib.suppress(OSError):  # other runs of the DAG have logs
            folder.parent.rmdir()
    return number


def run_folder(logs: Path, *, dag_id: str, run_id: str) -> Path:
    """The folder with all logs of a run."""
    return logs / folder_of_run(dag_id, run_id)


def _last_written(folder: Path, before: float) -> float:
    """The time of the last write in `folder`; stops at the first time that is not before `before`."""
    newest = 0.0
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            newest = max(newest, path.stat().st_mtime)
        if newest >= before:
            break
    return newest
