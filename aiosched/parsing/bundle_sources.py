"""The bundles as the parser sees them: each has a folder with its newest code, a listing, and perhaps a problem.

    FolderSource     a folder that is read as it is
    PinnedSource     a folder of which each state is a version
    FetchedSource    a git repository or an archive

A bundle with a problem keeps its last good listing, and harms no other one. Names of files are those of names.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiosched.bundles.names import path_in, prefix_of, short_version
from aiosched.bundles.places import folders_of
from aiosched.bundles.snapshots import FolderReader
from aiosched.bundles.types import Bundle, newest_in
from aiosched.config import Settings
from aiosched.errors import BundleError
from aiosched.parsing.author_files import AuthorFiles
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.parsing.discovery import DagFile, FileProblem, Listing
from aiosched.parsing.watcher import watch_folder

log: Final = logging.getLogger(__name__)

AGAIN_AFTER_FAILURE: Final = 5.0  # seconds, doubled with each failure, at most the interval


class _Listed:
    """Lists a folder with whole names, and keeps the last good listing.

    `name` is None for the DAGs folder of an installation without bundles. Its `watch` calls `changed` when a new
    listing is needed, until cancelled; its `list` never raises for a problem of the bundle.
    """

    def __init__(self, name: str | None, files: AuthorFiles) -> None:
        self.name: str | None = name
        self._files = files
        self._last: Listing | None = None
        self._problem: str | None = None  # as it was logged
        self._why: str | None = None  # why there is no newer code
        self.waiting: bool = False  # its first version is being fetched

    async def _list_folder(self, root: Path, version: str | None, imported: Collection[str]) -> Listing:
        """The listing of `root`; the last good one if it cannot be read."""
        ours = [path_in(self.name, n) for n in imported if self._is_mine(n)]
        try:
            found = await self._files.list(self.name, root, ours)
        except OSError as error:
            return self._failed(f"{root} cannot be read ({error.strerror}): its DAGs remain unchanged")
        self._last = self._named(found, root, version)
        if self._why is not None:
            return self._failed(self._why)
        if self._problem is not None:
            log.info("%s can be read again", "the DAGs folder" if self.name is None else f"bundle {self.name}")
        self._problem = None
        return self._last

    def _is_mine(self, name: str) -> bool:
        return self.name is None or name.startswith(prefix_of(self.name))

    def _named(self, found: Listing, root: Path, version: str | None) -> Listing:
        prefix, bundle = prefix_of(self.name), self.name
        return Listing(
            {
                prefix + n: replace(f, name=prefix + n, root=root, bundle=bundle, version=version)
                for n, f in found.files.items()
            },
            {prefix + n: digest for n, digest in found.modules.items()},
            {prefix + n: FileProblem(prefix + n, p.message) for n, p in found.problems.items()},
            frozenset(prefix + n for n in found.unknown),
        )

    def _failed(self, text: str) -> Listing:
        """The last good listing with this problem."""
        if text != self._problem:
            log.warning("%s: %s", "the DAGs folder" if self.name is None else f"bundle {self.name}", text)
        self._problem = text
        return self._with_problem()

    def _with_problem(self) -> Listing:
        last = self._last or Listing(unknown=frozenset({prefix_of(self.name)}))
        if self._problem is None:
            return last
        name = self.name or "."  # the DAGs folder
        return replace(last, problems={**last.problems, name: FileProblem(name, self._problem)})


class FolderSource(_Listed):
    """A folder that is read as it is."""

    def __init__(self, name: str | None, root: Path, files: AuthorFiles) -> None:
        super().__init__(name, files)
        self._root = root

    async def watch(self, changed: Callable[[], None]) -> None:
        """Watch the folder."""
        await watch_folder(self._root, changed)

    async def list(self, imported: Collection[str]) -> Listing:
        """The files of the folder."""
        return await self._list_folder(self._root, None, imported)


class PinnedSource(FolderSource):
    """A folder of which each state is a version: what is listed and parsed is a copy of it."""

    def __init__(self, name: str | None, root: Path, keeper: BundleKeeper, files: AuthorFiles) -> None:
        super().__init__(name, root, files)
        self._keeper, self._reader = keeper, FolderReader(root)

    async def list(self, imported: Collection[str]) -> Listing:
        """The files of the folder as they are now."""
        try:
            version = await self._keeper.snapshot(self.name, self._reader)
        except OSError as error:
            return self._failed(f"{self._root} cannot be copied ({error.strerror}): its DAGs remain unchanged")
        except BundleError as error:
            return self._failed(f"{error}. Its DAGs remain unchanged.")
        except Exception as error:  # of the database
            return self._failed(f"its copy cannot be stored ({error}): its DAGs remain unchanged")
        return await self._list_folder(self._keeper.caches[self.name].path(version), version, imported)


class FetchedSource(_Listed):
    """A bundle that is fetched."""

    def __init__(self, bundle: Bundle, keeper: BundleKeeper, files: AuthorFiles) -> None:
        super().__init__(bundle.name, files)
        self._bundle, self._keeper = bundle, keeper
        known = newest_in(bundle.cache)
        self._version = None if known is None else known.version
        self.waiting = known is None

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look for new versions, at the bundle's interval."""
        pause = AGAIN_AFTER_FAILURE
        while True:
            before = (self._version, self._why, self.waiting)
            try:
                self._version, self._why = (await self._keeper.newest(self._bundle)).version, None
                pause, rest = AGAIN_AFTER_FAILURE, self._bundle.interval
            except Exception as error:  # of the bundle, of the database, or an unforeseen one: asked again
                known = "Its DAGs remain unchanged." if self._version is None else f"It stays at {self._shown()}."
                self._why = f"The newest version cannot be fetched: {error}. {known}"
                rest = min(pause, self._bundle.interval)
                pause *= 2
            self.waiting = False
            if before != (self._version, self._why, self.waiting):
                if self._why is None:
                    log.info("bundle %s is at %s", self.name, self._shown())
                changed()
            await asyncio.sleep(rest)

    def _shown(self) -> str:
        return "no version" if self._version is None else f"version {short_version(self._version)}"

    async def list(self, imported: Collection[str]) -> Listing:
        """The files of the newest version that is here."""
        if (version := self._version) is not None:
            return await self._list_folder(self._bundle.cache.path(version), version, imported)
        return self._with_problem() if self._why is None else self._failed(self._why)


BundleSource = FolderSource | FetchedSource


def sources_of(settings: Settings, keeper: BundleKeeper, files: AuthorFiles) -> list[BundleSource]:
    """The bundles of the settings, read by `files`; without bundles, the DAGs folder."""
    found: list[BundleSource] = [FetchedSource(one, keeper, files) for one in keeper.fetched.values()]
    for name, root in folders_of(settings).items():
        if settings.dags.pin_code:
            found.append(PinnedSource(name, root, keeper, files))
        else:
            found.append(FolderSource(name, root, files))
    return found


async def list_all(sources: Collection[BundleSource], imported: Collection[str]) -> Listing:
    """One listing of all bundles."""
    listings = await asyncio.gather(*(source.list(imported) for source in sources))
    files, modules, problems = dict[str, DagFile](), dict[str, str](), dict[str, FileProblem]()
    unknown = set[str]()
    for one in listings:
        files.update(one.files)
        modules.update(one.modules)
        problems.update(one.problems)
        unknown |= one.unknown
    return Listing(files, modules, problems, frozenset(unknown))


async def keep_tidy(keeper: BundleKeeper, *, every: float) -> None:
    """Remove unneeded versions now and then, until cancelled."""
    while True:
        await asyncio.sleep(every)
        try:
            await keeper.sweep()
        except Exception as error:  # of the database or the disk: tried again
            log.warning("old versions of bundles could not be removed: %s", error)
