"""Keeps the code of bundles on this machine: fetches new versions, older ones on request, and removes unneeded ones.

The logins of bundles are connections in the database, decrypted here and given to the bundle that fetches. Nothing here
imports DAG files. Source: decision 33.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Final

from aiosched.backends.kinds import backends_of
from aiosched.backends.values import SecretValues
from aiosched.bundles.cache import BundleCache
from aiosched.bundles.kinds import fetched_bundles
from aiosched.bundles.places import cache_of
from aiosched.bundles.snapshots import FolderReader, pack, write_files
from aiosched.bundles.types import Bundle, BundleLogin, Newest, newest_in
from aiosched.bundles.zip_files import unpack
from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.engine import Database
from aiosched.db.upkeep import bundle_versions
from aiosched.errors import AioschedError, BundleError, VersionGone

log: Final = logging.getLogger(__name__)

UNUSED_FOR: Final = 3600.0  # seconds; code that was made or used since is not removed
_VERSION: Final = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SNAPSHOTS_STAY: Final = timedelta(days=1)


class BundleKeeper:
    """The bundles of one process. Its coroutines raise BundleError with a text for people."""

    def __init__(self, settings: Settings, db: Database, *, clock: Clock | None = None) -> None:
        self._settings, self._db, self._clock = settings, db, clock or SystemClock()
        self._values = SecretValues(db, Keyring.of(settings), backends_of(settings))
        self.fetched: dict[str | None, Bundle] = {bundle.name: bundle for bundle in fetched_bundles(settings)}
        self.caches: dict[str | None, BundleCache] = {
            one.name: cache_of(settings, one) for one in settings.dags.bundles
        } or {None: cache_of(settings, None)}
        self._making: dict[tuple[str | None, str], asyncio.Lock] = {}

    async def newest(self, bundle: Bundle) -> Newest:
        """The newest version of a bundle, after it was fetched."""
        try:
            known = await asyncio.to_thread(newest_in, bundle.cache)
            found = await bundle.newest(known, await self._login(bundle))
            if found != known:
                await asyncio.to_thread(bundle.cache.write_state, found.as_state())
        except OSError as error:
            raise BundleError(f"the cache {bundle.cache.folder} cannot be used: {error.strerror}") from None
        return found

    async def probe(self, bundle: Bundle) -> str:
        """Check that the source of a bundle can be read; returns what to say about it."""
        return await bundle.probe(await self._login(bundle))

    async def snapshot(self, name: str | None, reader: FolderReader) -> str:
        """The version of a folder as it is now, stored on this machine and in the database. Raises OSError, too."""
        version, files = await asyncio.to_thread(reader.read)
        cache = self.caches[name]
        if files is None and not await asyncio.to_thread(cache.has, version):
            reader.forget()
            version, files = await asyncio.to_thread(reader.read)
        if files is not None:
            try:
                found = files
                await asyncio.to_thread(cache.make, version, lambda folder: write_files(found, folder))
                await self._store(version, files)
            except BaseException:
                reader.forget()
                raise
        return version

    async def _store(self, version: str, files: dict[str, tuple[bytes, bool]]) -> None:
        async with self._db.acquire() as conn:
            stored = await bundle_versions.has_snapshot(conn, version)
        if not stored:
            archive = await asyncio.to_thread(pack, files)
            async with self._db.acquire() as conn:
                await bundle_versions.store_snapshot(conn, version, archive)

    async def prepare(self, name: str | None, version: str) -> Path:
        """Put a version that a run needs onto this machine; returns its folder. Raises VersionGone, too."""
        if (cache := self.caches.get(name)) is None:
            raise BundleError(f"there is no bundle {name!r} in the settings of this machine: add it to dags.bundles")
        if not _VERSION.fullmatch(version):  # it becomes part of a path, and tasks can ask for anything
            raise BundleError(f"{version!r:.100} is no version of a bundle")
        place = (name, version)
        async with self._making.setdefault(place, asyncio.Lock()):
            try:
                if not await asyncio.to_thread(cache.has, version):
                    await self._fetch(name, version, cache)
                await asyncio.to_thread(cache.touch, version)
            except OSError as error:
                raise BundleError(f"the cache {cache.folder} cannot be used: {error.strerror}") from None
            finally:
                self._making.pop(place, None)
        return cache.path(version)

    async def _fetch(self, name: str | None, version: str, cache: BundleCache) -> None:
        if (bundle := self.fetched.get(name)) is not None:
            log.info("version %s of the bundle %s is fetched for a run", version[:12], name)
            await bundle.fetch(version, await self._login(bundle))
            return
        async with self._db.acquire() as conn:
            archive = await bundle_versions.read_snapshot(conn, version)
        if archive is None:
            raise VersionGone(name or "of the DAGs folder", version, "the database has no such snapshot")
        packed = io.BytesIO(archive)
        await asyncio.to_thread(cache.make, version, lambda folder: unpack(packed, folder))

    async def _login(self, bundle: Bundle) -> BundleLogin | None:
        if (conn_id := bundle.connection) is None:
            return None
        try:
            value = (await self._values.look_up("connection", conn_id)).value
        except AioschedError as error:  # of the keys, or of a backend
            raise BundleError(f"its login, the connection {conn_id!r}, cannot be read: {error}") from None
        if value is None:
            raise BundleError(f"there is no connection {conn_id!r} with its login: set it with `connections set`")
        found = ConnectionValue.from_fields(conn_id, value)
        return BundleLogin(found.login or "", found.password or "")

    async def sweep(self) -> None:
        """Remove the versions that no unfinished or recent run needs."""
        now = self._clock.now()
        since = now - timedelta(days=self._settings.dags.keep_days)
        here = [version for cache in self.caches.values() for version in await asyncio.to_thread(cache.versions)]
        if not here:
            return
        async with self._db.acquire() as conn:
            needed = await bundle_versions.needed_versions(conn, here, since=since)
        for name, cache in self.caches.items():
            versions = {version for bundle, version in needed if bundle == name}
            if (known := await asyncio.to_thread(newest_in, cache)) is not None:
                versions.add(known.version)
            for version in await asyncio.to_thread(cache.sweep, versions, unused_for=UNUSED_FOR):
                log.info("the code of version %s of the bundle %s is removed: no run needs it", version[:12], name)
        async with self._db.acquire() as conn:
            await bundle_versions.forget_snapshots(conn, before=now - _SNAPSHOTS_STAY)
