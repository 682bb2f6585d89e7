"""The parser of one scheduler: watches the DAGs folder or the bundles, parses what changed, stores what it found.

Lives here: the coroutines, and what follows from one for another. Does not live here: which files there are
(owned_files.py), the order of parsing (parse_queue.py), processes (pool.py), what is stored already (progress.py),
transactions (storing.py). The story:

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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.backends.backend import as_kind
from aiosched.backends.kinds import backends_of
from aiosched.backends.values import SecretValues, Value
from aiosched.bundles.names import file_place
from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.values.ids import partition_of
from aiosched.db.access.owners import reader_of_file
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import OfAnotherTeam
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import dags as dag_statements
from aiosched.db.statements.dags import StoredFile
from aiosched.db.statements.inbox import notify
from aiosched.parsing.author_files import AuthorFiles
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.parsing.bundle_sources import keep_tidy, list_all, sources_of
from aiosched.parsing.discovery import DagFile, FileSelection, Listing
from aiosched.parsing.import_errors import ImportErrors
from aiosched.parsing.other_folders import ADVICE, COMPARE_EVERY, OtherFolders, listed
from aiosched.parsing.owned_files import OwnedFiles
from aiosched.parsing.parse_queue import ParseQueue, order_of
from aiosched.parsing.pool import ParsingPool, user_of
from aiosched.parsing.progress import FirstPass, Outcomes
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.store import StoredFiles, remove_files
from aiosched.parsing.storing import ResultQueue, Storage
from aiosched.parsing.values import LookUp, ValueServer

log: Final = logging.getLogger(__name__)

GATHER: Final = 0.2  # seconds; a cold start stores many files per transaction
LIST_EVERY: Final = 5.0  # seconds between two listings without a notification,
LISTING_SHARE: Final = 0.005  # unless listing would take more than this share of the time
LIST_AGAIN: Final = 0.5  # seconds until a new listing, if a file changed between listing and reading
TIDY_EVERY: Final = 600.0  # seconds between two removals of old versions of bundles
ASK_AGAIN: Final = 0.5  # seconds until a file is parsed again whose questions the database did not answer


@dataclass(frozen=True, slots=True)
class ParserStats:
    """Counts for the files that this scheduler owns; `elsewhere`: those of the folder that other schedulers own.

    `dags` and `errors` are those of its files, also of those that another one has read; `seconds` is how long the first
    pass took, and `busy_seconds` all parses since the start. `differences` are from what others have read.
    """

    files: int
    dags: int
    errors: int
    seconds: float
    elsewhere: int
    busy_seconds: float = 0.0
    differences: tuple[str, ...] = ()


class _Stopped(Exception):
    """Ends the task group from inside."""


class Parser:
    """Parses the DAG files whose partition this scheduler owns.

    Create it in a running event loop. `owns` is called at every listing; call `refresh` when its results change. The
    first pass does not begin while it is not known (`knows_owned`) which partitions are owned.
    `on_change` gets the ids of DAGs whose version, definition or health changed, after the commit, on the event loop.
    """

    def __init__(
        self,
        settings: Settings,
        db: Database,
        *,
        clock: Clock | None = None,
        owns: Callable[[int], bool] = lambda _: True,
        knows_owned: Callable[[], bool] = lambda: True,
        on_change: Callable[[frozenset[str]], None] = lambda _: None,
        executors: Collection[str] | None = None,
        keeper: BundleKeeper | None = None,
    ) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._keeper = keeper or BundleKeeper(settings, db, clock=clock)
        parsing, user = settings.parsing, user_of(settings)
        every = parsing.reparse_interval
        self._list_every = parsing.refresh_interval
        self._files = AuthorFiles(FileSelection.of(settings), user=user)
        self._sources = sources_of(settings, self._keeper, self._files)
        self._folders = frozenset(source.name or "." for source in self._sources)
        self._import_errors = ImportErrors()
        self._pool = ParsingPool(settings, values=ValueServer(_look_up(settings, db), user=user), user=user)
        self._parse_queue = ParseQueue(
            reparse_every=max(every, parsing.min_file_process_interval) if every else 0.0,
            readers_every=parsing.min_file_process_interval,
            order=order_of(parsing.file_parsing_sort_mode, socket.gethostname()),
            processes=self._pool.size,
        )
        paused = settings.core.dags_are_paused_at_creation
        self._storage = Storage(db, self._clock, paused=paused, executors=executors)
        self._here = OwnedFiles(owns, self._clock.now())
        self._knows_owned = knows_owned
        self._results = ResultQueue()
        self._outcomes = Outcomes()
        self._first = FirstPass()
        self._others = OtherFolders()
        self._listed = False
        self._listing: Listing | None = None  # the latest one, None until it is applied
        self.listed_at: datetime | None = None  # when all files were last looked at
        self._stopping = asyncio.Event()
        self._list_requested = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None  # schedules a listing for files written while being read
        self._work_changed = asyncio.Event()

    @property
    def first_pass(self) -> asyncio.Future[None]:
        """Done once every file that was present at the start was parsed and stored, or when the parser ends before.
        Await it as often as needed."""
        return self._first.wait()

    @property
    def has_read_all(self) -> bool:
        """Whether every file that was present at the start was parsed and stored."""
        return self._first.is_complete

    @property
    def waits_for(self) -> str | None:
        """What keeps the first pass from its end, besides files that are being read: a bundle that was never here."""
        waiting = [source.name for source in self._sources if source.waiting]
        return f"the bundle {waiting[0]} is being fetched" if waiting else None

    @property
    def unread_files(self) -> int:
        """How many files of the first pass are not stored yet; 0 until the folder was listed."""
        return len(self._first.left or ())

    @property
    def stats(self) -> ParserStats:
        return ParserStats(
            files=len(self._parse_queue),
            dags=self._outcomes.dags,
            errors=self._outcomes.errors,
            seconds=self._first.seconds,
            elsewhere=sum(name not in self._parse_queue for name in self._listing.files) if self._listing else 0,
            busy_seconds=self._pool.busy_seconds,
            differences=self._others.texts,
        )

    async def unread(self, conn: DatabaseConnection) -> str | None:
        """The part of the folder whose current content is not yet read and stored; None if there is none.

        A file that belongs to another scheduler counts as read once that scheduler has stored this content, or has read
        the file since this parser started: the folders of two machines may differ for a while.
        """
        listing = self._listing
        outdated = self._list_requested.is_set() or self._again is not None or not self._here.owns_the_same
        if listing is None or outdated:
            return "the DAGs folder is being read"
        if (waits := self.waits_for) is not None:
            return waits
        if "" in listing.unknown:
            return "the DAGs folder cannot be read"
        if unfinished := self._parse_queue.unfinished:
            return f"the file {min(unfinished)} is being read"
        if self._results:
            return "results of parsing DAG files are being stored"
        others = {name: file.digest for name, file in listing.files.items() if not self._here.is_mine(name)}
        read = await dag_statements.files_read_since(conn, others, since=self._here.began) if others else frozenset()
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
        self._outcomes.forget(names)
        self._parse_queue.request(names)
        self._work_changed.set()

    async def run(self) -> None:
        """Watch, parse and store until cancelled or stopped. Call it once."""
        self._first.start()
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
                group.create_task(self._pool.release_when_idle(), name="parsing: idle")
                group.create_task(self._compare_for_ever(), name="parsing: compare")
        except* _Stopped:
            pass
        finally:
            self._forget_again()
            await self._pool.close()
            await self._files.close()
            self._first.end()

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
                async with asyncio.timeout(min(pause, self._list_every)):
                    await self._list_requested.wait()

    def _forget_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = None

    async def _list_once(self) -> None:
        self._listing = None
        complete = not any(source.waiting for source in self._sources)
        listing = await list_all(self._sources, self._parse_queue.unlisted)
        gained = self._here.take_partitions()
        complete = complete and self._knows_owned()
        known = await self._storage.transaction(lambda conn: dag_statements.files_of(conn, gained)) if gained else {}
        taking_over, self._listed = self._listed, True  # at the start all files are parsed
        adopted = {n: f for n, f in known.items() if taking_over and f.content_hash and not f.has_error}

        gone = self._parse_queue.update(listing, owned=self._here.is_mine, adopted=adopted, now=time.monotonic())
        await self._forget(self._here.see(listing, gone | known.keys(), self._clock.now()), known)
        self._outcomes.adopt(adopted)
        self._outcomes.keep(self._parse_queue, listing.problems)
        self._results.add(self._here.take_problems(listing))
        await self._note_unchanged()
        if complete:
            unstored = {name for name in self._here.problems if name not in self._outcomes}
            self._first.begin(self._parse_queue.unfinished | unstored)
        self._first.finished([name for name in self._first.left or () if not self._is_here(name)])
        self._listing, self.listed_at = listing, self._clock.now()
        self._work_changed.set()

    def _is_here(self, name: str) -> bool:
        """Whether a file is one of this scheduler's."""
        return name in self._parse_queue or name in self._here.problems

    async def _forget(self, names: Collection[str], known: Mapping[str, StoredFile]) -> None:
        """The files `names` do not exist any more; those of them that are `known` were read before this parser came."""
        if not names:
            return
        stored = await self._storage.transaction(lambda conn: remove_files(conn, names))
        if stored.withdrawn:
            others = await self._storage.transaction(dag_statements.living_owners) if names & known.keys() else {}
            level = logging.WARNING if others.keys() - self._here.partitions else logging.INFO
            hint = f". If another scheduler has them: {ADVICE}" if level == logging.WARNING else ""
            log.log(level, "DAG files are not here any more: %s; no new runs of %s%s",
                    listed(names), listed(stored.withdrawn), hint)  # fmt: skip
        self._outcomes.forget(names)
        self._import_errors.forget(names)
        self._first.finished(names)
        await self._announce(stored)

    async def _compare_for_ever(self) -> None:
        while True:
            await asyncio.sleep(COMPARE_EVERY)
            await self.compare()

    async def compare(self) -> None:
        """Compare the files with those that other schedulers have read; what lasts is said. A timer calls it."""
        listing = self._listing
        if listing is None or not self._first.has_ended or not self._here.owns_the_same:
            return
        try:
            async with self._db.acquire() as conn:
                owners = await dag_statements.living_owners(conn)
                others = {number: name for number, name in owners.items() if number not in self._here.partitions}
                read = await dag_statements.digests_of(conn, others) if others else {}
        except Exception as error:
            if not is_of_database(error):
                raise
            return
        self._others.compare(listing, read, others, self._clock.monotonic())

    async def _note_unchanged(self) -> None:
        if batch := self._outcomes.take_unchanged():
            intact = await self._storage.transaction(lambda conn: dag_statements.touch_files(conn, batch))
            self.request({name for name, _, _ in batch} - intact)  # their rows were deleted

    # ---- parsing ----

    async def _parse(self) -> None:
        while True:
            file = await self._next_file()
            result = await self._pool.parse(file)
            if self._parse_queue.finish(result, time.monotonic()):
                loop = asyncio.get_running_loop()
                if not self._parse_queue.is_as_listed(result) and self._again is None:
                    self._again = loop.call_later(LIST_AGAIN, self.refresh)
                if result.unanswered:  # the database is gone: what is stored about the file stays as it is
                    loop.call_later(ASK_AGAIN, self.request, [file.name])
                else:
                    self._take_result(result)
            else:
                self._first.finished([file.name])
            self._work_changed.set()  # one routine file at a time: the next may have to wait for this one

    async def _next_file(self) -> DagFile:
        while True:
            self._work_changed.clear()
            now = time.monotonic()
            if (found := self._parse_queue.take(now)) is not None:
                return found[0]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._parse_queue.seconds_to_routine(now)):
                    await self._work_changed.wait()

    def _take_result(self, result: ParsedFile) -> None:
        if self._outcomes.confirm(result, self._clock.now()):
            self._first.finished([result.name])
        else:
            self._results.add([result])

    # ---- storing ----

    async def _store(self) -> None:
        """Store all results since the last commit; while more files wait, collect their results for a moment."""
        while True:
            await self._results.wait()
            if self._parse_queue.has_waiting:
                await asyncio.sleep(GATHER)
            if not (batch := self._results.take(still=self._is_here)):
                continue
            stored = await self._storage.store(batch, self._here, self._files.texts)
            for result in batch:
                self._outcomes.remember(result, stored)
                if result.name not in self._folders:  # whose sources say it themselves
                    self._import_errors.note_stored(result, stored.conflicts.get(result.name, ()))
            await self._announce(stored)
            self._first.finished([result.name for result in batch])

    async def _announce(self, stored: StoredFiles) -> None:
        """After a commit: notify this scheduler and the DAGs' owners, and request files that can take freed DAG ids."""
        if stored.withdrawn:
            self.request(self._outcomes.waiting_for(stored.withdrawn))
        if not stored.changed:
            return
        self._on_change(stored.changed)
        try:
            await notify(self._db, "dags", {partition_of(dag_id) for dag_id in stored.changed})
        except Exception as error:  # the owners also poll
            if not is_of_database(error):
                raise
            log.warning("the owners of %d DAGs could not be notified: %s", len(stored.changed), error)


def _look_up(settings: Settings, db: Database) -> LookUp:
    """What answers the variables and connections that files read while they are imported."""
    values = SecretValues(db, Keyring.of(settings), backends_of(settings))
    bundles = [known.name for known in settings.dags.bundles]

    async def look_up(kind: str, name: str, file: str) -> Value:
        bundle, path = file_place(file, bundles)
        async with db.acquire() as conn:
            reader = await reader_of_file(conn, bundle, path)
        try:
            return await values.look_up(as_kind(kind), name, reader)
        except OfAnotherTeam as error:
            log.warning("refused: the DAG file %s asked for %s", file, error.what)
            raise

    return look_up
