"""Where the code of a run is on this machine. Small and plain, so that it can be sent to worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CodeKey = tuple[str | None, str | None]  # a bundle (None: the DAGs folder) and its version (None: as it is now)
NEWEST: Final[CodeKey] = (None, None)  # the DAGs folder as it is now


@dataclass(frozen=True, slots=True)
class CodePlaces:
    """Folders by the name of a bundle, "" for the DAGs folder; paths as text.

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
