"""Notices changes of the DAGs folder through the operating system (watchfiles).

A change is reported once the folder was quiet for a moment, so that a file is rarely read while an editor writes it;
the end of the writing is reported again. Watching only makes parsing quick: whatever it misses, as on a mount that
reports no changes, the next listing finds (service.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from watchfiles import Change, awatch

from aiosched.parsing.discovery import IGNORE_FILES

log: Final = logging.getLogger(__name__)

_DEBOUNCE_MS: Final = 500  # a burst of changes is one notification, at most this long
_STEP_MS: Final = 100  # quiet for so long: the burst is over
_POLL_SECONDS: Final = 5.0  # how often the folder itself is checked: it may be replaced as a whole


async def watch_folder(root: Path, changed: Callable[[], None], *, poll_every: float = _POLL_SECONDS) -> None:
    """Call `changed` after every burst of changes below `root`, until cancelled.

    A folder that does not exist yet, or is replaced by another one (a link that is moved
    to the next release), is noticed within `poll_every` seconds. Returns, with a warning in
    the log, when this file system cannot be watched.
    """
    logging.getLogger("watchfiles.main").setLevel(logging.WARNING)  # it reports each change as INFO
    while True:
        identity = _identity(root)
        if identity is None:
            await asyncio.sleep(poll_every)
            if _identity(root) is not None:
                changed()
            continue
        try:
            await _watch_one(root, identity, changed, poll_every)
        except Exception as error:  # whatever the watcher's native part raises
            if _identity(root) != identity:
                continue  # the folder was removed meanwhile
            log.warning(
                "%s cannot be watched (%s): changes are found by listing it again and again, at the latest after "
                "parsing.refresh_interval seconds",
                root,
                error,
            )
            return
        changed()


async def _watch_one(root: Path, identity: tuple[int, int], changed: Callable[[], None], poll_every: float) -> None:
    """Watch until `root` is another folder than `identity`, or a link in it leads to another one."""
    async for changes in awatch(
        root,
        watch_filter=_matters,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=int(poll_every * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        if _identity(root) != identity:
            return
        if any(_is_link_to_a_folder(path) for _, path in changes):
            return  # what it leads to is not watched yet
        if changes:
            changed()


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_link_to_a_folder(path: str) -> bool:
    return Path(path).is_symlink() and Path(path).is_dir()


def _matters(_: Change, path: str) -> bool:
    """Whether a change of `path` may change the listing: not byte code, not an editor's hidden files.

    Hidden folders, and links to them, may be where visible links lead to: Kubernetes moves `..data` to what is new.
    """
    name = path.rpartition("/")[2]
    if "__pycache__" in path or name.endswith((".pyc", "~")):
        return False
    return not name.startswith(".") or name in IGNORE_FILES or Path(path).is_dir()
