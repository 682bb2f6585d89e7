"""Scratch folders of commands, in the system's temporary folder, and removal of those left behind.

A folder's name identifies its owner: `aiosched-MARK-PID-…`, the mark of the scheduler (leftovers.py) and the process
that created it. Folders of a killed process are found by its mark or its process id.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Final

_NAME: Final = re.compile(r"aiosched-(\d+\.\d+\.\d+\.\d+)-(\d+)-\w+")


def scratch_folder(mark: str) -> tempfile.TemporaryDirectory[str]:
    """A new folder of this process, to be used in a `with`; `mark` names the scheduler that the process belongs to."""
    return tempfile.TemporaryDirectory(prefix=f"aiosched-{mark}-{os.getpid()}-", ignore_cleanup_errors=True)


def remove_scratch_folders(is_left: Callable[[str, int], bool]) -> None:
    """Remove the folders whose mark and process id `is_left` accepts, if they belong to this user."""
    for name, path in _folders():
        if (parts := _NAME.fullmatch(name)) is not None and is_left(parts[1], int(parts[2])):
            shutil.rmtree(path, ignore_errors=True)


def _folders() -> list[tuple[str, str]]:
    me, found = os.geteuid(), list[tuple[str, str]]()
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # its process has removed it meanwhile
                is_ours = entry.name.startswith("aiosched-") and entry.is_dir(follow_symlinks=False)
                if is_ours and entry.stat(follow_symlinks=False).st_uid == me:
                    found.append((entry.name, entry.path))
    return found
