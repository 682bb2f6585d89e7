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
    """For the banner: where logs are and how long they are kept, with a warning if the disk runs low."""
    days = settings.logs.retention_days
    folder = settings.logs.folder or settings.core.home / "logs"
    kept = f"kept for {days:g} days after a run" if days else "kept for ever"
    low = low_disk(settings.logs_folder)
    remote = "" if settings.logs.remote is None else f" and {hide_password(settings.logs.remote)}"
    return f"{shown_path(folder)}{remote}, {kept}" + (f"   WARNING: {low}" if low else "")


def low_disk(folder: Path) -> str | None:
    """A message if little is free on the disk of `folder` (which need not exist yet); None if it is enough."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return None if free >= LEAST_FREE else f"only {free >> 20} MiB are free on the disk of the logs"
