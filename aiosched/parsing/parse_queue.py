"""Decides which file is parsed next; the state of the parser between two listings. Pure.

Three ranks: changed (a new, changed or requested file), dependants (a file whose imports have changed since), and
routine: files may depend on external state, so an unchanged one is parsed again from time to time, and more often if it
reads variables or connections. Routine takes at most one per cent of a core. Within a rank the newest file goes first,
or as `order` says; files whose last parse took long go last, and one process is kept for the others. A file is never
parsed twice at a time.

Instants are readings of the monotonic clock, in seconds.
Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.2.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from aiosched.db.statements.dags import StoredFile
from aiosched.parsing.discovery import DagFile, Listing
from aiosched.parsing.result import ParsedFile

ROUTINE_SHARE: Final = 0.01  # of one core
SLOW: Final = 3.0  # seconds of its last parse from which on a file is slow


class Rank(IntEnum):
    """Lower values go first."""

    CHANGED = 0
    DEPENDANT = 1
    ROUTINE = 2


@dataclass(slots=True)
class _QueuedFile:
    file: DagFile
    waiting: Rank | None = None
    running: Rank | None = None
    digest: str | None = None  # of the content that was parsed last
    version: str | None = None  # of its bundle, with that content
    failed: bool = False
    slow: bool = False  # its last parse took long
    sources: Mapping[str, str] | None = None  # the files that its import loaded, with their hashes; None: unknown
    data: Mapping[str, str] = field(default_factory=dict)  # other files that its import read, with their hashes
    reads_values: bool = False  # its import looked up variables or connections
    parsed_at: float = 0.0
    due_at: float = 0.0  # of its next routine parse


def newest_first(file: DagFile) -> int:
    return -file.mtime_ns


def order_of(mode: str, host: str) -> Callable[[DagFile], int]:
    """The order of a `file_parsing_sort_mode`; a random order differs between hosts, but is stable."""
    if mode == "alphabetical":
        return lambda file: 0  # ties are broken by name
    if mode == "random_seeded_by_host":
        return lambda file: zlib.crc32(f"{host}/{file.name}".encode())
    return newest_first


class ParseQueue:
    """The files of one scheduler.

    `reparse_every` seconds, 0 for never; `readers_every` those for files that read variables or connections (None: the
    same); `order`: the lowest value goes first in its rank; `processes`: how many files are parsed at a time.
    """

    def __init__(
        self,
        *,
        reparse_every: float,
        readers_every: float | None = None,
        order: Callable[[DagFile], int] | None = None,
        processes: int = 1_000,
    ) -> None:
        self._reparse_every = reparse_every
        self._readers_every = reparse_every if readers_every is None else min(readers_every, reparse_every)
        self._most_slow = max(processes - 1, 1)
        self._slow: set[str] = set()  # slow files that are being parsed
        self._order = order or newest_first
        self._entries: dict[str, _QueuedFile] = {}
        self._modules: Mapping[str, str] | None = None
        self._unchecked: dict[str, None] = {}  # files whose sources have not been compared with a listing yet
        self._unlisted: set[str] = set()  # imported files that a listing would not include
        self._queue: list[tuple[Rank, bool, int, str]] = []  # can contain outdated items: the entry's rank counts
        self._routine: list[tuple[float, str]] = []  # due times; can contain outdated items
        self._routine_from = 0.0  # no routine before this instant

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    @property
    def has_waiting(self) -> bool:
        """Whether files are ready to be taken."""
        return any(self._is_current(name, rank) for rank, _, _, name in self._queue)

    @property
    def unfinished(self) -> frozenset[str]:
        """The files that wait or are being parsed."""
        return frozenset(n for n, e in self._entries.items() if e.waiting is not None or e.running is not None)

    @property
    def unlisted(self) -> frozenset[str]:
        """Imported files that a listing must include, since their folder may be ignored."""
        return frozenset(self._unlisted)

    def update(
        self, listing: Listing, *, owned: Callable[[str], bool], adopted: Mapping[str, StoredFile], now: float
    ) -> frozenset[str]:
        """Apply a new listing; returns the known files that no longer exist.

        Only `owned` names are kept. `adopted` are files that other schedulers parsed successfully: with unchanged
        content they are not parsed again just because their owner changed.
        """
        gone = frozenset(name for name in self._entries if name not in listing.files)
        for name in [n for n in self._entries if n in gone or not owned(n)]:
            del self._entries[name]
        for name, file in listing.files.items():
            if not owned(name):
                continue
            entry = self._entries.get(name)
            if entry is None:
                entry = self._entries[name] = _QueuedFile(file)
                if (known := adopted.get(name)) is not None and known.content_hash == file.digest:
                    entry.digest, entry.sources, entry.version = file.digest, known.sources, known.bundle_version
                    self._finish(entry, now)
                    if entry.version != file.version:
                        self._add(entry, Rank.DEPENDANT)
                else:
                    self._add(entry, Rank.CHANGED)
            else:
                settled = entry.running is None and entry.waiting is None
                before = entry.digest if settled else entry.file.digest
                version = entry.version if settled else entry.file.version
                entry.file = file
                if before != file.digest:
                    self._add(entry, Rank.CHANGED)
                elif version != file.version:  # whatever else is new in the bundle
                    self._add(entry, Rank.DEPENDANT)
        self._take_in_modules(listing, now)
        return gone

    def request(self, names: Iterable[str]) -> None:
        """Parse these files again soon; unknown names are ignored."""
        for name in names:
            if (entry := self._entries.get(name)) is not None:
                self._add(entry, Rank.CHANGED)

    def take(self, now: float) -> tuple[DagFile, Rank] | None:
        """The next file, marked as being parsed; None if nothing is due."""
        if (waiting := self._take_waiting()) is not None:
            return waiting
        while self._routine and self._routine[0][0] <= now and self._routine_from <= now:
            due, name = heapq.heappop(self._routine)
            entry = self._entries.get(name)
            if entry is None or entry.running is not None or entry.due_at != due:
                continue
            self._routine_from = float("inf")  # one at a time
            return self._start(entry, Rank.ROUTINE)
        return None

    def _take_waiting(self) -> tuple[DagFile, Rank] | None:
        skipped, found = [], None
        while self._queue and found is None:
            item = heapq.heappop(self._queue)
            rank, slow, _, name = item
            if not self._is_current(name, rank):
                continue
            if slow and len(self._slow) >= self._most_slow:
                skipped.append(item)
            else:
                found = self._start(self._entries[name], rank)
        for item in skipped:
            heapq.heappush(self._queue, item)
        return found

    def finish(self, result: ParsedFile, now: float) -> bool:
        """Record the end of a parse; returns False if the file is gone, so that its result is void."""
        entry = self._entries.get(result.name)
        self._slow.discard(result.name)
        if entry is None or entry.running is None:
            self._routine_from = min(self._routine_from, now)
            return False
        if entry.running is Rank.ROUTINE:
            self._routine_from = now + result.seconds / ROUTINE_SHARE
        entry.running = None
        entry.digest, entry.version = result.digest, result.bundle_version
        entry.failed, entry.slow = result.error is not None, result.seconds >= SLOW
        entry.sources, entry.data, entry.reads_values = result.sources, result.data, result.reads_values
        entry.parsed_at = now
        self._finish(entry, now)
        if entry.waiting is not None:  # it has changed since
            self._push(entry)
        return True

    def is_as_listed(self, result: ParsedFile) -> bool:
        """Whether a parse read the content in the latest listing; else a new listing must decide which is older."""
        entry, modules = self._entries.get(result.name), self._modules or {}
        if entry is None or not result.digest:
            return True
        sources = result.sources or {}
        return entry.file.digest == result.digest and all(modules.get(p, d) == d for p, d in sources.items())

    def seconds_to_routine(self, now: float) -> float | None:
        """Seconds until a routine parse is due; None if none is scheduled."""
        if not self._routine or self._routine_from == float("inf"):
            return None
        return max(0.0, max(self._routine[0][0], self._routine_from) - now)

    def _take_in_modules(self, listing: Listing, now: float) -> None:
        """Queue the dependants of changed modules.

        These are the files that imported them, files that failed, and files with unknown imports if the module is not a
        DAG file itself. Files that have read data are parsed at most as often as those that read variables.
        """
        before, self._modules = self._modules, listing.modules
        modules = listing.modules
        changed = set[str]()
        if before is not None and before != modules:
            changed = {n for n in before.keys() | modules.keys() if before.get(n) != modules.get(n)}
        gone = changed - modules.keys()
        names, self._unchecked = self._entries.keys() if changed else self._unchecked.keys(), {}
        for name in list(names):
            entry = self._entries.get(name)
            if entry is None or entry.digest is None:
                continue
            others = changed - {name}
            if entry.sources is None:
                outdated = bool(others - listing.files.keys())
            else:
                outdated = any(modules.get(path, digest) != digest for path, digest in entry.sources.items())
                outdated |= bool(others & entry.sources.keys())
            if outdated or (others and entry.failed):
                self._add(entry, Rank.DEPENDANT)
            elif any(p in gone or modules.get(p, d) != d for p, d in entry.data.items()):
                self._parse_not_before(entry, entry.parsed_at + self._readers_every, now)

    def _parse_not_before(self, entry: _QueuedFile, instant: float, now: float) -> None:
        if instant <= now:
            self._add(entry, Rank.DEPENDANT)
        elif instant < entry.due_at:
            entry.due_at = instant
            heapq.heappush(self._routine, (instant, entry.file.name))

    def _is_current(self, name: str, rank: Rank) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.waiting is rank and entry.running is None

    def _add(self, entry: _QueuedFile, rank: Rank) -> None:
        if entry.waiting is None or rank < entry.waiting:
            entry.waiting = rank
            if entry.running is None:
                self._push(entry)

    def _push(self, entry: _QueuedFile) -> None:
        assert entry.waiting is not None
        heapq.heappush(self._queue, (entry.waiting, entry.slow, self._order(entry.file), entry.file.name))

    def _start(self, entry: _QueuedFile, rank: Rank) -> tuple[DagFile, Rank]:
        entry.running, entry.waiting = rank, None
        if entry.slow:
            self._slow.add(entry.file.name)
        return entry.file, rank

    def _finish(self, entry: _QueuedFile, now: float) -> None:
        self._unchecked[entry.file.name] = None
        self._unlisted.update(((entry.sources or {}).keys() | entry.data.keys()) - (self._modules or {}).keys())
        if self._reparse_every > 0:
            entry.due_at = now + (self._readers_every if entry.reads_values else self._reparse_every)
            heapq.heappush(self._routine, (entry.due_at, entry.file.name))
