"""Messages about the disk of the logs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.cli.base.session import shown_path
from aiosched.config import hide_password

if TYPE_CHECKING:
    from aiosched.config import Settings

LEAST_FREE: Final = 1 << 30  # bytes


def logs_summary(settings: Settings) -> str:
    """For the banner: where logs are, how long they are kept, and what is wrong with that place."""
    days = settings.logs.retention_days
    folder = settings.logs.folder or settings.core.home / "logs"
    kept = f"kept for {days:g} days after a run" if days else "kept for ever"
    problem = problem_with(settings.logs_folder)
    remote = "" if settings.logs.remote is None else f" and {hide_password(settings.logs.remote)}"
    return f"{shown_path(folder)}{remote}, {kept}" + (f"   WARNING: {problem}" if problem else "")


def problem_with(folder: Path) -> str | None:
    """What is wrong with the place of the logs, which need not exist yet: it cannot be made, or little is free."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = shutil.disk_usage(place)
    if not place.is_dir() or usage.total == 0:  # a file, or a file system of the kernel
        return f"the folder of the logs cannot be made: {place} holds no files of users"
    return None if usage.free >= LEAST_FREE else f"only {usage.free >> 20} MiB are free on the disk of the logs"
