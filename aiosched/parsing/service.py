"""The parser of one scheduler: watches the DAGs folder or the bundles, parses what changed, stores what it found.

Lives here: the coroutines and their shared state. Does not live here: the order of parsing (parse_queue.py), processes
(pool.py), the transaction (store.py). The story:

    watch ──► list ──► queue ──► parse (a few at a time) ──► store, commit ──► on_change, NOTIFY

Neither errors in a file nor database failures end these coroutines.
Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

import asyncpg

from aiosched.backends.backend import as_kind
from aiosched.backends.kinds import backends_of
from aiosched.backends.values import SecretValues, Value
from aiosched.bundles.names import file_place
from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.db.access.owners import reader_of_file
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import Withheld
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import DRIVER_ERRORS
from aiosched.db.statements import dags as dag_statements
from aiosched.db.statements.inbox import notify
from aiosched.errors import DatabaseError
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.parsing.bundle_sources import keep_tidy, list_all, sources_of
from aiosched.parsing.check import problem_result
from aiosched.parsing.claims import Conflict
from aiosched.parsing.discovery import DagFile, Listing
from aiosched.parsing.parse_queue import ParseQueue, Rank, order_of
from aiosched.parsing.pool import ParsingPool, user_of
from aiosched.parsing.result import FileError, ParsedFile
from aiosched.parsing.store import StoredFiles, remove_files, store_results
from aiosched.parsing.values import ValueServer

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

BATCH_FILES: Final = 200
GATHER: Final = 0.2  # seconds; a cold start stores many files per transaction
BATCH_BYTES: Final = 16_777_216  # bytes of documents per transaction
LIST_EVERY: Final = 5.0  # seconds between two listings without a notification,
LISTING_SHARE: Final = 0.005  # unless listing would take more than this share of the time
LIST_AGAIN: Final = 0.5  # seconds until a new listing, if a file changed between listing and reading
TIDY_EVERY: Final = 600.0  # seconds between two removals of old versions of bundles
IDLE: Final = 60.0  # seconds without a file, after which the supervisors end
RETRY: Final = (0.5, 30.0)  # seconds between attempts to reach the database: first, maximum

_DATABASE_TROUBLE: Final = (*DRIVER_ERRORS, DatabaseError, OSError)
# The content can never be stored: an error of one file.
_UNSTORABLE: Final = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)


@dataclass(frozen=True, slots=True)
class ParserStats:
    """Counts for the files that this scheduler owns; `elsewhere`: those of the folder that other schedulers own.

    `dags` and `errors` are those of the files that it parsed itself; `seconds` is the duration of the first pass,
    and `busy_seconds` is how long all parses since the start took.
    """

    files: int
    dags: int
    errors: int
    seconds: float
    elsewhere: int
    busy_seconds: float = 0.0


class _Stopped(Exception):
    """Ends the task group from inside."""


class Parser:
    """Parses the DAG files whose partition this scheduler owns.

    Create it in a running event loop. `owns` is called at every listing; call `refresh` when its results change.
    `on_change` gets the ids of DAGs whose version, definition or health changed, after the commit, on the event loop.
    """

    def __init__(
        self,
        settings: Settings,
        db: Database,
        *,
        clock: Clock | None = None,
        owns: Callable[[int], bool] = lambda _: True,
        on_change: Callable[[frozenset[str]], None] = lambda _: None,
        executors: Collection[str] | None = None,
        keeper: BundleKeeper | None = None,
    ) -> None:
        self._settings = settings
        self._executors = executors  # those of its scheduler; None: unknown
        self._db = db
        self._clock = clock or SystemClock()
        self._owns = owns
        self._on_change = on_change
        self._keeper = keeper or BundleKeeper(settings, db, clock=clock)
        self._sources = sources_of(settings, self._keeper)
        self._values = SecretValues(db, Keyring.of(settings), backends_of(settings))
        parsing = settings.parsing
        every = parsing.reparse_interval
        user = user_of(settings)
        self._pool = ParsingPool(settings, values=ValueServer(self._look_up, user=user), user=user)
        self._parse_queue = ParseQueue(
            reparse_every=max(every, parsing.min_file_process_interval) if every else 0.0,
            readers_every=parsing.min_file_process_interval,
            order=order_of(parsing.file_parsing_sort_mode, socket.gethostname()),
            processes=self._pool.size,
        )
        self._partitions: frozenset[int] = frozenset()
        self._present: frozenset[str] = frozenset()  # every file that exists, owned or not
        self._problems: dict[str, str] = {}
        self._hidden: frozenset[str] = frozenset()  # files below a folder that cannot be read now
        self._listed = False
        self._listing: Listing | None = None  # the latest one, None until it is applied
        self._storing = False
        self._began = self._clock.now()
        self._outcomes: dict[str, ParsedFile] = {}  # what was stored last, without documents
        self._conflicts: dict[str, tuple[Conflict, ...]] = {}
        self._warned: set[str] = set()  # files whose warnings may be outdated although the files are unchanged
        self._unchanged: dict[str, tuple[str, datetime, float]] = {}  # to be applied at the next listing
        self._results: list[ParsedFile] = []
        self._busy = 0
        self._idle_since = time.monotonic()
        self._stopping = asyncio.Event()
        self._list_requested = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None  # schedules a listing for files written while being read
        self._work_changed = asyncio.Event()
        self._results_arrived = asyncio.Event()
        self._first: set[str] | None = None  # files of the first listing that are not stored yet
        self._first_pass: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._started = time.monotonic()
        self._seconds = self._busy_seconds = 0.0

    @property
    def first_pass(self) -> asyncio.Future[None]:
        """Done once every file that was present at the start was parsed and stored. Await it as often as needed."""
        return asyncio.shield(self._first_pass)

    @property
    def unread_files(self) -> int:
        """How many files of the first pass are not stored yet; 0 until the folder was listed."""
        return len(self._first or ())

    @property
    def stats(self) -> ParserStats:
        errors = sum(o.error is not None or name in self._conflicts for name, o in self._outcomes.items())
        return ParserStats(
            files=len(self._parse_queue),
            dags=sum(len(o.dags) - len(self._conflicts.get(name, ())) for name, o in self._outcomes.items()),
            errors=errors,
            seconds=self._seconds,
            elsewhere=sum(name not in self._parse_queue for name in self._listing.files) if self._listing else 0,
            busy_seconds=self._busy_seconds,
        )

    async def unread(self, conn: DatabaseConnection) -> str | None:
        """The part of the folder whose current content is not yet read and stored; None if there is none.

        A file that belongs to another scheduler counts as read once that scheduler has stored this content, or has read
        the file since this parser started: the folders of two machines may differ for a while.
        """
        listing = self._listing
        outdated = self._list_requested.is_set() or self._again is not None or self._partitions != self._owned()
        if listing is None or outdated:
            return "the DAGs folder is being read"
        if waiting := [source.name for source in self._sources if source.waiting]:
            return f"the bundle {waiting[0]} is being fetched"
        if "" in listing.unknown:
            return "the DAGs folder cannot be read"
        if unfinished := self._parse_queue.unfinished:
            return f"the file {min(unfinished)} is being read"
        if self._results or self._storing:
            return "results of parsing DAG files are being stored"
        others = {name: file.digest for name, file in listing.files.items() if not self._is_mine(name)}
        read = await dag_statements.files_read_since(conn, others, since=self._began) if others else frozenset()
        left = others.keys() - read
        return f"the file {min(left)} has not been read by the scheduler that it belongs to" if left else None

    def stop(self) -> None:
        """End `run` soon: files being parsed are dropped, earlier results are stored or recomputed later."""
        self._stopping.set()

    def refresh(self) -> None:
        """Request a new listing of the folder now."""
        self._list_requested.set()

    def request(self, names: Collection[str]) -> None:
        """Parse these files (names as in `dag_file`) again, changed or not, and store the outcome."""
        for name in names:
            self._outcomes.pop(name, None)
        self._parse_queue.request(names)
        self._work_changed.set()

    async def run(self) -> None:
        """Watch, parse and store until cancelled or stopped. Call it once."""
        self._started = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._stop(), name="parsing: stop")
                for source in self._sources:
                    group.create_task(source.watch(self.refresh), name=f"parsing: watch {source.name or 'folder'}")
                group.create_task(keep_tidy(self._keeper, every=TIDY_EVERY), name="parsing: tidy")
                group.create_task(self._list(), name="parsing: list")
                for number in range(self._pool.size):
                    group.create_task(self._parse(), name=f"parsing: files {number}")
                group.create_task(self._store(), name="parsing: store")
                group.create_task(self._release_when_idle(), name="parsing: idle")
        except* _Stopped:
            pass
        finally:
            self._forget_again()
            await self._pool.close()
            if not self._first_pass.done():
                self._first_pass.set_result(None)

    async def _stop(self) -> None:
        await self._stopping.wait()
        raise _Stopped

    # ---- listing ----

    async def _list(self) -> None:
        while True:
            self._list_requested.clear()  # before the listing, so that no later change is lost
            self._forget_again()
            began = time.monotonic()
            await self._list_once()
            pause = max(LIST_EVERY, (time.monotonic() - began) / LISTING_SHARE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, self._settings.parsing.refresh_interval)):
                    await self._list_requested.wait()

    def _forget_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = None

    async def _list_once(self) -> None:
        self._listing = None
        complete = not any(source.waiting for source in self._sources)
        listing = await list_all(self._sources, self._parse_queue.unlisted)
        partitions = self._owned()
        gained, self._partitions = partitions - self._partitions, partitions
        known = await self._in_database(lambda conn: dag_statements.files_of(conn, gained)) if gained else {}
        taking_over, self._listed = self._listed, True  # at the start all files are parsed
        adopted = {n: f for n, f in known.items() if taking_over and f.content_hash and not f.has_error}

        gone = self._parse_queue.update(listing, owned=self._is_mine, adopted=adopted, now=time.monotonic())
        missing = gone | known.keys() | self._problems.keys() | self._hidden
        missing = frozenset(filter(self._is_mine, missing)) - listing.files.keys() - listing.problems.keys()
        self._hidden = frozenset(n for n in missing if listing.hides(n))
        self._present = frozenset(listing.files) | listing.problems.keys() | self._hidden
        await self._forget(missing - self._hidden)
        self._outcomes = {n: o for n, o in self._outcomes.items() if n in self._parse_queue or n in listing.problems}
        self._conflicts = {n: c for n, c in self._conflicts.items() if n in self._parse_queue}
        self._warned = {n for n in self._warned if n in self._parse_queue}
        self._take_problems(listing)
        await self._note_unchanged()
        if complete:
            self._begin_first_pass(self._parse_queue.unfinished | self._problems.keys())
        self._finished_first([n for n in self._first or () if n not in self._parse_queue and n not in self._problems])
        self._listing = listing
        self._work_changed.set()

    def _owned(self) -> frozenset[int]:
        return frozenset(p for p in range(PARTITIONS) if self._owns(p))

    def _is_mine(self, name: str) -> bool:
        return partition_of(name) in self._partitions

    async def _forget(self, names: Collection[str]) -> None:
        """The files `names` no longer exist."""
        if not names:
            return
        stored = await self._in_database(lambda conn: remove_files(conn, names))
        for name in names:
            self._outcomes.pop(name, None)
        self._finished_first(names)
        await self._announce(stored)

    def _take_problems(self, listing: Listing) -> None:
        """Store unreadable entries like files with an error, if they have changed."""
        found = {n: p.message for n, p in listing.problems.items() if self._is_mine(n)}
        changed = [problem_result(n, message) for n, message in found.items() if self._problems.get(n) != message]
        self._problems = found
        self._results += changed
        if changed:
            self._results_arrived.set()

    async def _note_unchanged(self) -> None:
        batch, self._unchanged = list(self._unchanged.values()), {}
        if batch:
            intact = await self._in_database(lambda conn: dag_statements.touch_files(conn, batch))
            self.request({name for name, _, _ in batch} - intact)  # their rows were deleted

    def _begin_first_pass(self, names: Collection[str]) -> None:
        if self._first is None:
            self._first = set(names)
            self._finished_first(())

    def _finished_first(self, names: Collection[str]) -> None:
        if self._first is None or self._first_pass.done():
            return
        self._first.difference_update(names)
        if not self._first:
            self._seconds = time.monotonic() - self._started
            self._first_pass.set_result(None)

    # ---- parsing ----

    async def _parse(self) -> None:
        while True:
            file, rank = await self._next_file()
            self._busy += 1
            try:
                result = await self._pool.parse(file)
                self._busy_seconds += result.seconds
            finally:
                self._busy -= 1
                self._idle_since = time.monotonic()
            if self._parse_queue.finish(result, time.monotonic()):
                loop = asyncio.get_running_loop()
                if not self._parse_queue.is_as_listed(result) and self._again is None:
                    self._again = loop.call_later(LIST_AGAIN, self.refresh)
                if result.unanswered:  # the database is gone: what is stored about the file stays as it is
                    loop.call_later(RETRY[0], self.request, [file.name])
                else:
                    self._take_result(result, rank)
            else:
                self._finished_first([file.name])
            self._work_changed.set()  # one routine file at a time: the next may have to wait for this one

    async def _next_file(self) -> tuple[DagFile, Rank]:
        while True:
            self._work_changed.clear()
            now = time.monotonic()
            if (found := self._parse_queue.take(now)) is not None:
                return found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._parse_queue.seconds_to_routine(now)):
                    await self._work_changed.wait()

    def _take_result(self, result: ParsedFile, rank: Rank) -> None:
        stored = self._outcomes.get(result.name)
        settled = result.name not in self._conflicts and result.name not in self._warned
        if stored is not None and settled and stored.fingerprint == result.fingerprint:
            self._unchanged[result.name] = (result.name, self._clock.now(), result.seconds)
            self._finished_first([result.name])
        else:
            self._results.append(result)
            self._results_arrived.set()

    async def _release_when_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE)
            if self._busy == 0 and time.monotonic() - self._idle_since >= IDLE and self._pool.pids:
                await self._pool.release()

    # ---- storing ----

    async def _store(self) -> None:
        """Store all results since the last commit; while more files wait, collect their results for a moment."""
        while True:
            self._results_arrived.clear()
            if not self._results:
                await self._results_arrived.wait()
            if self._parse_queue.has_waiting:
                await asyncio.sleep(GATHER)
            batch = self._next_batch()
            if not batch:
                continue
            self._storing = True
            stored = await self._store_batch(batch)
            for result in batch:
                self._remember(result, stored)
            await self._announce(stored)
            self._storing = False
            self._finished_first([r.name for r in batch])

    def _next_batch(self) -> list[ParsedFile]:
        """The oldest results; for each file the latest one."""
        newest: dict[str, ParsedFile] = {}
        size = taken = 0
        for result in self._results:
            size += sum(len(d.document) for d in result.dags)
            if newest and (len(newest) == BATCH_FILES or size > BATCH_BYTES):
                break
            newest[result.name] = result
            taken += 1
        del self._results[:taken]
        return [r for n, r in newest.items() if n in self._parse_queue or n in self._problems]

    async def _store_batch(self, batch: Sequence[ParsedFile]) -> StoredFiles:
        async def work(conn: DatabaseConnection) -> StoredFiles:
            return await store_results(
                conn,
                batch,
                now=self._clock.now(),
                paused_at_creation=self._settings.core.dags_are_paused_at_creation,
                present=self._present,
                executors=self._executors,
            )

        try:
            return await self._in_database(work)
        except _UNSTORABLE as error:
            if len(batch) == 1:
                if batch[0].error is not None and batch[0].error.type == "Unstorable":
                    raise
                return await self._store_batch([_unstorable(batch[0], error)])
        parts = [await self._store_batch([result]) for result in batch]
        return StoredFiles(
            frozenset().union(*(p.changed for p in parts)),
            frozenset().union(*(p.withdrawn for p in parts)),
            {name: conflicts for part in parts for name, conflicts in part.conflicts.items()},
            frozenset().union(*(p.warned for p in parts)),
        )

    def _remember(self, result: ParsedFile, stored: StoredFiles) -> None:
        name = result.name
        self._outcomes[name] = result.without_documents()
        if conflicts := stored.conflicts.get(name):
            self._conflicts[name] = conflicts
        else:
            self._conflicts.pop(name, None)
        if name in stored.warned:
            self._warned.add(name)
        else:
            self._warned.discard(name)

    async def _announce(self, stored: StoredFiles) -> None:
        """After a commit: notify this scheduler and the DAGs' owners, and request files that can take freed DAG ids."""
        if stored.withdrawn:
            waiting = [n for n, found in self._conflicts.items() if any(c.dag_id in stored.withdrawn for c in found)]
            self.request(waiting)
        if not stored.changed:
            return
        self._on_change(stored.changed)
        try:
            async with self._db.acquire() as conn:
                await notify(conn, "dags", {partition_of(dag_id) for dag_id in stored.changed})
        except _DATABASE_TROUBLE as error:  # the owners also poll
            log.warning("the owners of %d DAGs could not be notified: %s", len(stored.changed), error)

    async def _look_up(self, kind: str, name: str, file: str) -> Value:
        """A variable or connection that a file reads while it is imported."""
        bundle, path = file_place(file, [known.name for known in self._settings.dags.bundles])
        async with self._db.acquire() as conn:
            reader = await reader_of_file(conn, bundle, path)
        try:
            return await self._values.look_up(as_kind(kind), name, reader)
        except Withheld as error:
            log.warning("refused: the DAG file %s asked for %s", file, error.what)
            raise

    async def _in_database(self, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        """The result of `work`, run in one transaction; retries while the database is unavailable."""
        pause, most = RETRY
        while True:
            try:
                async with self._db.transaction() as conn:
                    return await work(conn)
            except _UNSTORABLE:
                raise
            except _DATABASE_TROUBLE as error:
                log.warning("parsing cannot use the database, trying again in %g s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)


def _unstorable(result: ParsedFile, error: Exception) -> ParsedFile:
    return ParsedFile(
        name=result.name,
        digest=result.digest,
        seconds=result.seconds,
        error=FileError(type="Unstorable", message=f"PostgreSQL cannot store the DAGs of this file: {error}"),
        sources=result.sources,
    )
