"""What people are told of the disk that the logs lie on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.cli.base.session import shown_path

if TYPE_CHECKING:
    from aiosched.config import Settings

LEAST_FREE: Final = 1 << 30  # bytes


def logs_summary(settings: Settings) -> str:
    """Where logs lie and how long they stay, with a warning when the disk runs low: for the banner."""
    days = settings.logs.retention_days
    folder = settings.logs.folder or settings.core.home / "logs"
    kept = f"kept for {days:g} days after a run" if days else "kept for ever"
    low = low_disk(settings.logs_folder)
    return f"{shown_path(folder)}, {kept}" + (f"   WARNING: {low}" if low else "")


def low_disk(folder: Path) -> str | None:
    """How little is free on the disk of `folder` (which may not be there yet); None when it is enough."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return None if free >= LEAST_FREE else f"only {free >> 20} MiB are free on the disk of the logs"
