"""Removing the folder of a PostgreSQL that runs: it may make another file while the folder is emptied."""

from __future__ import annotations

import shutil
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove `folder`, however often its server makes new files meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
