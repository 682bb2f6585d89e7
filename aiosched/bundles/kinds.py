"""The bundles of the settings that are fetched, as objects that fetch versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiosched.bundles.archive import ArchiveBundle
from aiosched.bundles.git import GitBundle
from aiosched.bundles.places import cache_of, folders_of
from aiosched.bundles.types import Bundle, newest_in
from aiosched.errors import BundleError

if TYPE_CHECKING:
    from aiosched.config import Settings


def fetched_bundles(settings: Settings) -> list[Bundle]:
    """The bundles that are fetched: those of the kinds git and archive."""
    made: list[Bundle] = []
    for one in settings.dags.bundles:
        if one.kind == "git":
            made.append(GitBundle(one, cache_of(settings, one)))
        elif one.kind == "archive":
            made.append(ArchiveBundle(one, cache_of(settings, one)))
    return made


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
