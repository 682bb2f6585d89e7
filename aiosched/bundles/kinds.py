"""The bundles of the settings, as objects that fetch versions.

A version is a text: the commit of a git repository, else the hash of the content. `Newest` is what a bundle knows about
its newest version, kept on disk beside the versions, so that a start without a network goes on with the last good one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.places import CodePlaces
from aiosched.errors import BundleError

if TYPE_CHECKING:
    from aiosched.config import BundleSettings, Settings


@dataclass(frozen=True, slots=True)
class BundleLogin:
    """The name and password (or token) for an address. Never shown."""

    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of a bundle, and what its source said then (a commit, an ETag), to notice a change."""

    version: str
    mark: str = ""
    tree: str = ""  # of git: the content of the version

    def as_state(self) -> dict[str, str]:
        """As `BundleCache.write_state` stores it."""
        return {"version": self.version, "mark": self.mark, "tree": self.tree}


class Bundle(Protocol):
    """A source of versions outside of this machine. Its methods raise BundleError and OSError, and can be cancelled."""

    name: str
    cache: BundleCache
    interval: float  # seconds between two checks
    connection: str | None  # id of the connection with the login

    async def newest(self, known: Newest | None, login: BundleLogin | None) -> Newest:
        """Look for a new version, and fetch it; `known` if nothing has changed."""
        ...

    async def probe(self, login: BundleLogin | None) -> str:
        """Check that the source can be read, without fetching it; returns what to say about it."""
        ...

    async def fetch(self, version: str, login: BundleLogin | None) -> None:
        """Put an older version into the cache. Raises VersionGone."""
        ...


def newest_in(cache: BundleCache) -> Newest | None:
    """The last good version, if it is still in the cache."""
    state = cache.read_state()
    if not (version := state.get("version")) or not cache.has(version):
        return None
    return replace(Newest(version), mark=state.get("mark", ""), tree=state.get("tree", ""))


def fetched_bundles(settings: Settings) -> list[Bundle]:
    """The bundles that are fetched: those of the kinds git and archive."""
    from aiosched.bundles.archive import ArchiveBundle
    from aiosched.bundles.git import GitBundle

    made: list[Bundle] = []
    for one in settings.dags.bundles:
        if one.kind == "git":
            made.append(GitBundle(one, cache_of(settings, one)))
        elif one.kind == "archive":
            made.append(ArchiveBundle(one, cache_of(settings, one)))
    return made


def folders_of(settings: Settings) -> dict[str | None, Path]:
    """The folders that are read as they are, by bundle; None: the DAGs folder, of an installation without bundles."""
    if not settings.dags.bundles:
        return {None: settings.core.dags_folder.absolute()}
    return {one.name: one.path.absolute() for one in settings.dags.bundles if one.path is not None}


async def code_here(settings: Settings) -> tuple[dict[str | None, Path], dict[str, BundleError]]:
    """The folders with the newest code on this machine, by bundle; for commands without a scheduler.

    A bundle that is not here yet is fetched if that needs no login. The second dict has those that cannot be used.
    """
    found, broken = folders_of(settings), dict[str, BundleError]()
    for bundle in fetched_bundles(settings):
        known = newest_in(bundle.cache)
        try:
            if known is None and bundle.connection is not None:
                raise BundleError("it is not on this machine yet, and needs a login: start `aiosched serve`")
            if known is None:
                known = await bundle.newest(None, None)
                bundle.cache.write_state(known.as_state())
        except BundleError as error:
            broken[bundle.name] = error
        else:
            found[bundle.name] = bundle.cache.path(known.version)
    return found, broken


def cache_of(settings: Settings, bundle: BundleSettings | None) -> BundleCache:
    """The versions of a bundle on this machine (None: of the DAGs folder).

    Another address or subfolder means another cache: its folders have other content.
    """
    root = _root(settings)
    if bundle is None:
        return BundleCache(root / "dags_folder")
    if bundle.kind == "folder":
        return BundleCache(root / f"{bundle.name}-folder")
    identity = hashlib.sha256(f"{bundle.kind}\0{bundle.url}\0{bundle.subfolder}".encode()).hexdigest()[:8]
    return BundleCache(root / f"{bundle.name}-{identity}")


def places_of(settings: Settings) -> CodePlaces:
    """Where processes of this machine find the code of runs."""
    bundles = settings.dags.bundles
    folders = {name or "": str(path) for name, path in folders_of(settings).items()}
    caches = {one.name: str(cache_of(settings, one).folder) for one in bundles}
    if not bundles:
        caches[""] = str(cache_of(settings, None).folder)
    return CodePlaces(folders, caches, str(_root(settings) / "received"))


def _root(settings: Settings) -> Path:
    return settings.core.home.absolute() / "bundles"
