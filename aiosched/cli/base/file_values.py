"""Variables and connections for DAG files that a command imports: from the database, if there is one.

It is opened with the first look-up. Without a database only the environment has values.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiosched.cli.base.session import has_database, open_database

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.db.people.secrets import SecretStore
    from aiosched.parsing.result import ParsedFile


@contextlib.asynccontextmanager
async def opened_late(settings: Settings) -> AsyncIterator[Callable[[str, str], Awaitable[Any]]]:
    """A function that reads a variable or connection by kind and name. It raises NoDatabase, and DatabaseError."""
    from aiosched.db.crypto.keyring import Keyring
    from aiosched.db.people.secrets import SecretStore
    from aiosched.parsing.values import NoDatabase

    opening = asyncio.Lock()
    store: SecretStore | None = None
    async with contextlib.AsyncExitStack() as stack:

        async def look_up(kind: str, name: str) -> Any:
            nonlocal store
            if not has_database(settings):
                raise NoDatabase("There is no database here.")
            async with opening:
                if store is None:
                    db = await stack.enter_async_context(open_database(settings))
                    store = SecretStore(db, Keyring.of(settings))
            return await store.look_up(kind, name)

        yield look_up


async def parse(paths: Sequence[Path], settings: Settings) -> list[ParsedFile]:
    """The outcomes of parsing files and folders (none: the DAGs folder or the bundles). Stores nothing."""
    from aiosched.parsing import check_paths

    async with opened_late(settings) as look_up:
        return await check_paths(paths, settings, look_up=look_up)


@contextlib.contextmanager
def file_values(settings: Settings) -> Iterator[None]:
    """Answers the look-ups of DAG files that this thread imports in the block. It may run on an event loop."""
    from aiosched.authoring.runtime.lookups import answering

    with _ThreadOfLookUps(settings) as thread, answering(thread.answer):
        yield


class _ThreadOfLookUps:
    """A thread with an event loop that has the database open, since the caller may run on a loop of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> _ThreadOfLookUps:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.submit(self._close).result()
            self._thread.shutdown()

    def answer(self, kind: str, name: str) -> Mapping[str, Any]:
        """The answer to one look-up; waits for it. Raises DatabaseError."""
        from aiosched.parsing.values import NoDatabase

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="aiosched-values")
            self._thread.submit(self._open).result()
        try:
            return {"value": self._thread.submit(self._read, kind, name).result()}
        except NoDatabase:
            return {"value": None, "database": False}

    def _open(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._source = opened_late(self._settings)
        self._look_up = self._runner.run(self._source.__aenter__())

    def _read(self, kind: str, name: str) -> Any:
        async def look_up() -> Any:
            return await self._look_up(kind, name)

        return self._runner.run(look_up())

    def _close(self) -> None:
        async def close() -> None:
            await self._source.__aexit__(None, None, None)

        self._runner.run(close())
        self._runner.close()
