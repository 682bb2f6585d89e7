"""The databases of tests: clones of a migrated template, made, emptied and dropped beside the tests.

The next one is ready when a test asks for it, and what a test has left is taken out while the next one runs. Both cost
time at the server, where a test would only wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import asyncpg

from aiosched.db.server.dsn import with_database
from tests import warm

TEMPLATE: Final = "aiosched"  # the database that the embedded server makes; nobody may stay connected to it
_OWN: Final = "databases_of_tests"  # its thread is connected to it
_USES: Final = 40  # of a database by tests: deleted rows stay in its files


class Server:
    """A session's server: makes and drops the databases of tests. `dsn` is that of the template, migrated already.

    One statement at a time, on one connection of a thread of its own, whose event loop lives as long as the session.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="databases of tests")
        self._runner: asyncio.Runner | None = None  # made in the thread
        self._conn: Any = None
        self._spare: Future[str] | None = None  # a clone of the template that nobody uses yet
        self._dropped: list[Future[None]] = []
        self._used_again: dict[str, Any] = {}  # connections of the thread to databases that are emptied, by their names
        self._uses: Counter[str] = Counter()
        self._emptied: list[str] = []  # addresses
        self.connections: warm.Connections | None = None  # kept ones of tests

    async def create(self, template: str) -> str:
        """The address of a new database. The caller drops it."""
        return await asyncio.wrap_future(self._thread.submit(self._create, template))

    async def take(self) -> str:
        """The address of a database as the template is. The caller gives it back."""
        made, self._spare = self._spare, None
        found = await asyncio.wrap_future(made or self._thread.submit(self._make_ready))
        self._spare = self._thread.submit(self._make_ready)
        if self.connections is not None:
            self.connections.databases.add(_name(found))
        return found

    async def give_back(self, dsn: str) -> None:
        """Empty a database soon, or drop it. What this raises is raised by a later call, or at the end."""
        self._raise_what_failed()
        name = _name(dsn)
        self._uses[name] += 1
        kept = self.connections.sessions(name) if self.connections is not None else []
        if self._uses[name] < _USES and await asyncio.wrap_future(self._thread.submit(self._is_reusable, name, kept)):
            self._dropped.append(self._thread.submit(self._empty, dsn))
            return
        if self.connections is not None:
            self.connections.end(name)
        await self.drop(dsn)

    async def drop(self, dsn: str) -> None:
        """Drop a database soon, with its sessions. What this raises is raised by a later call, or at the end."""
        self._raise_what_failed()
        self._dropped.append(self._thread.submit(self._drop, dsn))

    async def execute(self, statement: str) -> None:
        """Run a statement outside of any transaction and of the databases of tests."""
        await asyncio.wrap_future(self._thread.submit(self._execute, statement))

    def close(self) -> None:
        """Drop what is there, and disconnect."""
        if self._spare is not None:
            self._dropped.append(self._thread.submit(self._drop, self._spare.result()))
        self._dropped += [self._thread.submit(self._drop, dsn) for dsn in self._emptied]
        self._thread.submit(self._disconnect).result()
        self._thread.shutdown()
        self._raise_what_failed()

    def _raise_what_failed(self) -> None:
        ended = [each for each in self._dropped if each.done()]
        self._dropped = [each for each in self._dropped if not each.done()]
        for each in ended:
            each.result()

    # -- in the thread

    def _create(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return with_database(self.dsn, name)

    def _drop(self, dsn: str) -> None:
        name = _name(dsn)
        if name in self._used_again:
            self._used_again.pop(name).terminate()
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _make_ready(self) -> str:
        if self._emptied:
            return self._emptied.pop()
        dsn = self._create(TEMPLATE)
        run = self._runner_of_thread().run
        conn = self._used_again[_name(dsn)] = run(_connect(dsn))
        run(conn.execute(warm.PREPARE))
        return dsn

    def _is_reusable(self, name: str, kept: list[int]) -> bool:
        return self._runner_of_thread().run(_is_reusable(self._used_again[name], kept))

    def _empty(self, dsn: str) -> None:
        self._runner_of_thread().run(self._used_again[_name(dsn)].execute(warm.RESTORE))
        self._emptied.append(dsn)

    def _execute(self, statement: str) -> None:
        run = self._runner_of_thread().run
        run(self._conn.execute(statement))

    def _runner_of_thread(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            self._conn = self._runner.run(self._connect())
        return self._runner

    async def _connect(self) -> Any:
        first = await asyncpg.connect(with_database(self.dsn, "template1"))
        try:
            await first.execute(f"CREATE DATABASE {_OWN} TEMPLATE template0")
        finally:
            await first.close()
        return await asyncpg.connect(with_database(self.dsn, _OWN))

    def _disconnect(self) -> None:
        if self._runner is None:
            return
        self._runner.run(self._leave())
        self._runner.close()

    async def _leave(self) -> None:
        for conn in (self._conn, *self._used_again.values()):
            conn.terminate()
        last = await asyncpg.connect(with_database(self.dsn, "template1"))
        try:
            await last.execute(f"DROP DATABASE {_OWN} WITH (FORCE)")
        finally:
            await last.close()


def _name(dsn: str) -> str:
    return dsn.partition("?")[0].rpartition("/")[2]


async def _connect(dsn: str) -> Any:
    return await asyncpg.connect(dsn)  # a function, since asyncpg wants a running event loop


async def _is_reusable(conn: Any, kept: list[int]) -> bool:
    """Whether a database has the template's schema, and the server was not stopped. Sessions that are not kept end."""
    try:
        await conn.execute("SET statement_timeout = 10000")
        await conn.fetch(warm.END_OTHERS, kept)
        return not await conn.fetchval(warm.IS_TOUCHED)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # a test has ended its sessions, or made it stop
        return False


@contextlib.contextmanager
def server_at(dsn: str) -> Iterator[Server]:
    """The server whose template is at this address."""
    server = Server(dsn)
    try:
        yield server
    finally:
        server.close()
