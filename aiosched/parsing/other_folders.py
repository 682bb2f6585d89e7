"""Compares the DAG files of this machine with those that other schedulers have read: all should have the same.

Each scheduler reads the files of its partitions only. If folders differ, which files make up the DAGs follows from who
has which partition. Pure: rows and instants are arguments. Elsewhere: when it is compared (service.py).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from aiosched.core.values.ids import partition_of
from aiosched.parsing.discovery import Listing

log: Final = logging.getLogger(__name__)

COMPARE_EVERY: Final = 60.0  # seconds
TOLERATED: Final = 300.0  # seconds: new code reaches all machines one after the other
_MOST_NAMES: Final = 3  # of files, in one text
ADVICE: Final = "give all schedulers the same DAG files, or the same bundles"

_WORDS: Final = {
    "lacks": "lacks {files}, which {owner} has",
    "has": "has {files}, which {owner} lacks",
    "other": "has another text of {files} than {owner}",
}


class Difference(NamedTuple):
    """A file of which another scheduler has read something else than is here, by the contents' digests."""

    name: str
    what: Literal["lacks", "has", "other"]
    here: str | None
    there: str | None


def differences(listing: Listing, read: Mapping[str, str | None], others: Collection[int]) -> set[Difference]:
    """The files of the partitions `others` that are not here as they were `read` there: digests by name."""
    found = set[Difference]()
    for name, there in read.items():
        here = listing.files.get(name)
        if here is None:
            if name not in listing.problems and not listing.hides(name):
                found.add(Difference(name, "lacks", None, there))
        elif there is not None and here.digest != there:
            found.add(Difference(name, "other", here.digest, there))
    for name, here in listing.files.items():
        if name not in read and partition_of(name) in others:
            found.add(Difference(name, "has", here.digest, None))
    return found


class OtherFolders:
    """What differs, and for how long; says so once."""

    def __init__(self) -> None:
        self._since: dict[Difference, float] = {}
        self._said: set[Difference] = set()
        self.texts: tuple[str, ...] = ()  # what differs for too long, to be read after the name of this scheduler

    def compare(self, listing: Listing, read: Mapping[str, str | None], others: Mapping[int, str], now: float) -> None:
        """Compare once more; `others` are partitions and the living schedulers that have them, `now` is monotonic."""
        found = differences(listing, read, others.keys())
        self._since = {each: self._since.get(each, now) for each in found}
        lasting = {each for each, since in self._since.items() if now - since >= TOLERATED}
        self.texts = in_words(lasting, others)
        if new := lasting - self._said:
            log.warning("the DAG files here differ from those of other schedulers: this one %s: %s",
                        "; ".join(in_words(new, others)), ADVICE)  # fmt: skip
        elif self._said and not lasting:
            log.info("the DAG files here are those of the other schedulers again")
        self._said = lasting


def in_words(found: Iterable[Difference], others: Mapping[int, str]) -> tuple[str, ...]:
    """One text for each kind of difference and each scheduler."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in sorted(found):
        groups.setdefault((each.what, others[partition_of(each.name)]), []).append(each.name)
    return tuple(_WORDS[what].format(files=listed(names), owner=owner) for (what, owner), names in groups.items())


def listed(names: Collection[str]) -> str:
    """`a.py, b.py, c.py and 4 more`."""
    some = sorted(names)
    more = f" and {len(some) - _MOST_NAMES:,} more" if len(some) > _MOST_NAMES else ""
    return f"{', '.join(some[:_MOST_NAMES])}{more}"
