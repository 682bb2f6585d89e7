"""Removes files of large XComs from remote storage: of XComs that are gone, and of attempts that never reported them.

Which files these are is in the table `unreferenced_xcom`. The owner of partition 0 removes them, in small batches; what
cannot be removed stays in the table.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiosched.db.server.engine import Database
from aiosched.db.upkeep import remote_xcoms
from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder, open_folder
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

RELEASED_FOR: Final = 60.0  # seconds: an attempt that was told where the XCom is may read it
RESERVED_FOR: Final = 3600.0  # seconds
_REST: Final = 30.0  # seconds between two passes
_AFTER_FAILURE: Final = 300.0
_BATCH: Final = 100
_LIMIT: Final = 60.0  # seconds that one call of the store may take


async def remove_stored_xcoms(session: Session) -> float | None:
    """One pass; returns how long to rest: None if no XComs are in remote storage."""
    settings = session.env.settings.xcom
    if settings.remote is None:
        return None
    if 0 not in session.cache.partitions:
        return _REST
    try:
        folder = await asyncio.to_thread(
            open_folder, settings.remote, settings.remote_options, setting="xcom.remote", limit=_LIMIT
        )
        assert folder is not None
        removed = await remove_batch(session.env.db, folder)
    except RemoteStorageError as error:
        logger.warning("files of XComs that are gone cannot be removed, this is tried again later: %s", error)
        return _AFTER_FAILURE
    return 0 if removed else _REST


async def remove_batch(db: Database, folder: RemoteFolder, *, released_for: float = RELEASED_FOR) -> int:
    """Remove some files; returns how many. Raises RemoteStorageError, and then none of them counts as removed."""
    async with db.transaction(unhurried=True) as conn:
        paths = await remote_xcoms.take_unreferenced(
            conn, released_for=released_for, reserved_for=RESERVED_FOR, most=_BATCH
        )
        if paths:
            await asyncio.to_thread(folder.remove, paths)
    return len(paths)
