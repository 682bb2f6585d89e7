"""The code of runs on the machine of a worker: versions of bundles that come from a server as archives.

All workers of the machine share the folders. What no attempt has used for a week is removed.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.places import CodeKey, CodePlaces
from aiosched.bundles.zip_files import unpack
from aiosched.core.values.messages import RunInfo
from aiosched.errors import ExecutorError

logger: logging.Logger = logging.getLogger(__name__)

_NOTED_EVERY: Final = 3600.0  # seconds between two notes that a version is in use
_UNUSED_FOR: Final = 7 * 86_400.0  # seconds


class ReceivedCode:
    """`places` says where code belongs on this machine."""

    def __init__(self, places: CodePlaces) -> None:
        self._places = places
        self._receiving: dict[CodeKey, asyncio.Lock] = {}
        self._noted: dict[CodeKey, float] = {}

    async def receive(self, run: RunInfo, ask: Callable[[], Awaitable[bytes]]) -> None:
        """Put the version of a run's bundle here, unless it is; `ask` gets its archive. Raises ExecutorError."""
        version = run.bundle_version
        cache = self._cache(run.code)
        if version is None or cache is None:
            raise ExecutorError(f"there is no place for the code of bundle {run.bundle!r} on this machine")
        async with self._receiving.setdefault(run.code, asyncio.Lock()):
            if await asyncio.to_thread(cache.has, version):
                return
            archive = await ask()
            try:
                await asyncio.to_thread(cache.make, version, lambda folder: unpack(io.BytesIO(archive), folder))
                await asyncio.to_thread(cache.sweep, (), unused_for=_UNUSED_FOR)
            except OSError as error:
                raise ExecutorError(f"the cache {cache.folder} cannot be used: {error.strerror}") from None
            logger.info("received version %s of the bundle %s", version[:12], run.bundle or "of the DAGs folder")

    def note_use(self, run: RunInfo) -> None:
        """Note that an attempt of a run begins."""
        now = time.monotonic()
        if run.bundle_version is not None and now >= self._noted.get(run.code, -_NOTED_EVERY) + _NOTED_EVERY:
            self._noted[run.code] = now
            if (cache := self._cache(run.code)) is not None:
                cache.touch(run.bundle_version)

    def _cache(self, code: CodeKey) -> BundleCache | None:
        folder = self._places.cache(code[0])
        return None if folder is None else BundleCache(folder)
