"""Which files are here, and which of them are this scheduler's: what follows from one listing after another."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.parsing.check import problem_result
from aiosched.parsing.discovery import Listing
from aiosched.parsing.result import ParsedFile


class OwnedFiles:
    """The files of the folder as of the latest listing. `owns` says whether a partition is this scheduler's now."""

    def __init__(self, owns: Callable[[int], bool], began: datetime) -> None:
        self.began = began
        self.partitions: frozenset[int] = frozenset()  # as of the latest listing
        self.present: frozenset[str] = frozenset()  # every file that exists, owned or not
        self.problems: dict[str, str] = {}  # entries that cannot be read, with what is wrong
        self._owns = owns
        self._absent: dict[str, datetime] = {}  # files that were here, and since when they are not
        self._hidden: frozenset[str] = frozenset()  # files below a folder that cannot be read now

    @property
    def owns_the_same(self) -> bool:
        """Whether the partitions are those of the latest listing."""
        return self.partitions == self._owned()

    def take_partitions(self) -> frozenset[int]:
        """Use the partitions of now; returns those that have come."""
        owned = self._owned()
        gained, self.partitions = owned - self.partitions, owned
        return gained

    def _owned(self) -> frozenset[int]:
        return frozenset(partition for partition in range(PARTITIONS) if self._owns(partition))

    def is_mine(self, name: str) -> bool:
        return partition_of(name) in self.partitions

    def see(self, listing: Listing, sought: Collection[str], now: datetime) -> frozenset[str]:
        """Take in a listing. Returns which of the files `sought`, and of those that could not be read, are gone."""
        left = frozenset(filter(self.is_mine, {*sought, *self.problems, *self._hidden}))
        missing = left - listing.files.keys() - listing.problems.keys()
        self._hidden = frozenset(name for name in missing if listing.hides(name))
        present = frozenset(listing.files) | listing.problems.keys() | self._hidden
        self._absent = {name: at for name, at in self._absent.items() if name not in present}
        self._absent |= dict.fromkeys(self.present - present, now)
        self.present = present
        return missing - self._hidden

    def take_problems(self, listing: Listing) -> list[ParsedFile]:
        """The entries that cannot be read, as files with an error, if that is new or another error than before."""
        found = {name: one.message for name, one in listing.problems.items() if self.is_mine(name)}
        changed = [problem_result(name, said) for name, said in found.items() if self.problems.get(name) != said]
        self.problems = found
        return changed

    def absent_since(self, name: str) -> datetime | None:
        """Since when a file that another scheduler reads is not here."""
        return None if self.is_mine(name) else self._absent.get(name, self.began)
