"""Logs of attempts as processes write them, and passes of the uploader without its threads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.attempt.logs import AttemptLog
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_files import log_folder
from aiosched.remote.logs import AttemptLogs
from aiosched.remote.uploads import LogUploader

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOLDER = log_folder(Path(), dag_id="d", run_id="r", task_id="t").as_posix()
RUN = "dag_id=d/run_id=r"


def attempt(try_number: int = 1) -> Attempt:
    run = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOW)
    return Attempt(key=AttemptKey(1, 0, -1, try_number), run=run, task_id="t", is_async=False, max_tries=0)


def new_log(logs: Path, try_number: int = 1) -> AttemptLog:
    """The log of an attempt on the machine with these logs, which uploads them."""
    return AttemptLog(logs, attempt(try_number), 10**9, uploaded=True)


def local(logs: Path, try_number: int = 1) -> bytes:
    """What the log file says."""
    return (logs / FOLDER / f"attempt={try_number}.log").read_bytes()


def upload(uploader: LogUploader) -> None:
    """One pass, of everything that is due."""
    for one in uploader.due():
        uploader.advance(one)


def uploader_of(logs: Path, store: RemoteFolder, **options: Any) -> LogUploader:
    return LogUploader(logs, store, **options)


def read(logs: Path, store: RemoteFolder | None, try_number: int = 1) -> bytes:
    """The log as a reader with these local logs sees it: looked up anew."""
    with AttemptLogs(logs, store).view(FOLDER, try_number).open() as file:
        return file.read()


def names(store: RemoteFolder) -> list[str]:
    """The ranges in the store, such as `0-81920`, of all tries."""
    return sorted(file.path.rpartition(".log")[0].rpartition(".")[2] for file in store.find(""))
