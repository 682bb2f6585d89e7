"""What a bundle is: a source of versions, and what is known about its newest one.

A version is a text: the commit of a git repository, else the hash of the content. `Newest` is what a bundle knows about
its newest version, kept on disk beside the versions, so that a start without a network goes on with the last good one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from aiosched.bundles.cache import BundleCache


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
