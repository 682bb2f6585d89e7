"""How a worker gets the code of a version that its machine does not have yet.

    bundle   {bundle: name or null, version}  -> {}

The scheduler fetches it, because it has the logins; workers of its machine share the folder. Workers on engines get it
from the worker API as an archive. Source: decision 33.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiosched.bundles.zip_files import pack_folder
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.errors import BundleError, Refused
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.scheduler.services.service_calls import ServiceCall
from aiosched.scheduler.services.task_services import Service

_PACKED_AT_ONCE: Final = 2


class CodeArchives:
    """Versions of bundles as zip archives, for workers on engines."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._keeper = BundleKeeper(settings, db)
        self._packing = asyncio.Semaphore(_PACKED_AT_ONCE)

    async def read(self, bundle: str | None, version: str) -> bytes:
        """The archive of a version, which is fetched if this machine does not have it. Raises BundleError."""
        folder = await self._keeper.prepare(bundle, version)
        async with self._packing:
            return await asyncio.to_thread(pack_folder, folder)


def bundle_services(keeper: BundleKeeper) -> Mapping[str, Service]:
    """The service `bundle`, for DatabaseServices."""

    async def bundle(db: Database, call: ServiceCall) -> dict[str, Any]:
        try:
            await keeper.prepare(call.args["bundle"], call.args["version"])
        except BundleError as error:
            raise Refused(str(error)) from error
        return {}

    return {"bundle": bundle}
