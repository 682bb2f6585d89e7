"""The databases of tests: clones of a migrated template, made and dropped beside the tests.

The next clone is ready when a test asks for it, and what a test has left is dropped while the next one runs. Both cost
time at the server, where a test would only wait: it copies files, and it drops no database before its last session has
ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import asyncpg

from aiosched.db.server.dsn import with_database
from aiosched.db.server.engine import Database

TEMPLATE: Final = "aiosched"  # the database that the embedded server makes; nobody may stay connected to it
_OWN: Final = "databases_of_tests"  # its thread is connected to it


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

    async def create(self, template: str) -> str:
        """The address of a new database. The caller drops it."""
        if template != TEMPLATE:
            return await asyncio.wrap_future(self._thread.submit(self._create, template))
        made, self._spare = self._spare, None
        found = await asyncio.wrap_future(made or self._thread.submit(self._create, TEMPLATE))
        self._spare = self._thread.submit(self._create, TEMPLATE)
        return found

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
        name = dsn.partition("?")[0].rpartition("/")[2]
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            self._conn = self._runner.run(self._connect())
        self._runner.run(self._conn.execute(statement))

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
        await self._conn.close()
        last = await asyncpg.connect(with_database(self.dsn, "template1"))
        try:
            await last.execute(f"DROP DATABASE {_OWN} WITH (FORCE)")
        finally:
            await last.close()


@contextlib.contextmanager
def server_at(dsn: str) -> Iterator[Server]:
    """The server whose template is at this address."""
    server = Server(dsn)
    try:
        yield server
    finally:
        server.close()


async def downgrade(db: Database, revision: str) -> None:
    """Take the schema back to a revision, `base` for none."""
    from alembic import command

    from aiosched.db.server.schema_version import migrations_config

    def down(connection: Any) -> None:
        command.downgrade(migrations_config(attributes={"connection": connection}), revision)

    async with db.engine.begin() as conn:
        await conn.run_sync(down)
