"""Detects changes of the DAGs folder through the operating system (watchfiles).

A change is reported once the folder has been quiet for a moment, so that a file is rarely read while an editor writes
it; the end of a long write is reported again. Watching only reduces latency: changes that it misses, as on a mount
without change notifications, are found by the next listing (service.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from watchfiles import Change, awatch

from aiosched.parsing.ignore_files import IGNORE_FILES

log: Final = logging.getLogger(__name__)

_DEBOUNCE_MS: Final = 500  # a burst of changes becomes one notification; its maximum length
_STEP_MS: Final = 100  # a burst ends after this quiet time
_POLL_SECONDS: Final = 5.0  # how often the folder itself is checked: it can be replaced as a whole
AGAIN: Final = (1.0, 300.0)  # seconds until watching is tried again: first, at most


async def watch_folder(
    root: Path,
    changed: Callable[[], None],
    *,
    poll_every: float = _POLL_SECONDS,
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `changed` after every burst of changes below `root`, until cancelled.

    A folder that does not exist yet, or is replaced by another one (a link switched to the next release), is noticed
    within `poll_every` seconds. If the folder cannot be watched, a warning says why, and it is tried again after pauses
    that grow; `changed` is called after each of them, since what changed meanwhile was not seen.
    """
    logging.getLogger("watchfiles.main").setLevel(logging.WARNING)  # it logs each change as INFO
    pause, told = AGAIN[0], ""
    while True:
        identity = _identity(root)
        if identity is None:
            await asyncio.sleep(poll_every)
            if _identity(root) is not None:
                changed()
            continue
        try:
            async for is_change in _watch_one(root, identity, poll_every):
                if told:
                    log.info("%s is watched again", root)
                pause, told = AGAIN[0], ""
                if is_change:
                    changed()
        except Exception as error:  # any error of the watcher's native code
            if _identity(root) == identity:  # else the folder has been removed
                if (why := _reason(error)) != told:
                    log.warning(
                        "%s cannot be watched (%s): this is tried again; until then changes are found by periodic "
                        "listings, at the latest after parsing.refresh_interval seconds",
                        root,
                        why,
                    )
                told = why
                await rest(pause)
                pause = min(2 * pause, AGAIN[1])
        changed()  # and without waiting the folder is watched again, so that the listing misses nothing


async def _watch_one(root: Path, identity: tuple[int, int], poll_every: float) -> AsyncIterator[bool]:
    """Watch until `root` is no longer the folder `identity`, or a link in it points to another folder.

    Yields True after a change, and False now and then while there is none.
    """
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
            return  # its target is not watched yet
        yield bool(changes)


def _reason(error: Exception) -> str:
    """What went wrong, and what to do about it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if "Unable to decode path" in str(error):
        return f"{error}: rename the file, its name is not UTF-8"
    return str(error)


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_link_to_a_folder(path: str) -> bool:
    return Path(path).is_symlink() and Path(path).is_dir()


def _matters(_: Change, path: str) -> bool:
    """Whether a change of `path` can change the listing: not byte code, not an editor's hidden files.

    Hidden folders, and links to them, can be targets of visible links: Kubernetes switches `..data` to the new folder.
    """
    name = path.rpartition("/")[2]
    if "__pycache__" in path or name.endswith((".pyc", "~")):
        return False
    return not name.startswith(".") or name in IGNORE_FILES or Path(path).is_dir()
