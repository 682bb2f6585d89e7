"""Where the code of bundles is on this machine: their folders, and the caches with their versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.bundles.cache import BundleCache

if TYPE_CHECKING:
    from aiosched.config import BundleSettings, Settings

CodeKey = tuple[str | None, str | None]  # a bundle (None: the DAGs folder) and its version (None: as it is now)
NEWEST: Final[CodeKey] = (None, None)  # the DAGs folder as it is now


@dataclass(frozen=True, slots=True)
class CodePlaces:
    """Folders by the name of a bundle, "" for the DAGs folder; paths as text. Is sent to worker processes.

    `folders` are those that are read as they are, `caches` have a folder for each version. `received` has the versions
    of all other bundles, on the machine of a worker that gets them from a server; empty: there are none.
    """

    folders: dict[str, str] = field(default_factory=dict)
    caches: dict[str, str] = field(default_factory=dict)
    received: str = ""

    def path(self, code: CodeKey) -> Path | None:
        """The folder of this code, which may be missing; None if there is no such bundle."""
        bundle, version = code
        if version is None:
            folder = self.folders.get(bundle or "")
            return None if folder is None else Path(folder)
        cache = self.cache(bundle)
        return None if cache is None else cache / version

    def cache(self, bundle: str | None) -> Path | None:
        """The folder with the versions of a bundle."""
        if (folder := self.caches.get(bundle or "")) is not None:
            return Path(folder)
        return Path(self.received, bundle or "dags_folder") if self.received else None


def places_of(settings: Settings) -> CodePlaces:
    """Where processes of this machine find the code of runs."""
    bundles = settings.dags.bundles
    folders = {name or "": str(path) for name, path in folders_of(settings).items()}
    caches = {one.name: str(cache_of(settings, one).folder) for one in bundles}
    if not bundles:
        caches[""] = str(cache_of(settings, None).folder)
    return CodePlaces(folders, caches, str(_root(settings) / "received"))


def folders_of(settings: Settings) -> dict[str | None, Path]:
    """The folders that are read as they are, by bundle; None: the DAGs folder, of an installation without bundles."""
    if not settings.dags.bundles:
        return {None: settings.core.dags_folder.absolute()}
    return {one.name: one.path.absolute() for one in settings.dags.bundles if one.path is not None}


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


def _root(settings: Settings) -> Path:
    return settings.core.home.absolute() / "bundles"
