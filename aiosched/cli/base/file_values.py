"""Variables and connections for DAG files that a command imports: from backends, and the database, if there is one.

It is opened with the first look-up. Without a database only backends and the environment have values. Whoever runs a
command has the keys, so what belongs to a team is not withheld.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiosched.cli.base.progress import said_if_slow
from aiosched.cli.base.session import has_database, open_database

if TYPE_CHECKING:
    from aiosched.backends.values import Value
    from aiosched.config import Settings
    from aiosched.parsing.result import ParsedFile
    from aiosched.parsing.values import LookUp


@contextlib.asynccontextmanager
async def opened_late(settings: Settings) -> AsyncIterator[LookUp]:
    """A function that reads a variable or connection by kind and name. It raises NoDatabase, and DatabaseError."""
    from aiosched.backends.backend import as_kind
    from aiosched.backends.kinds import backends_of
    from aiosched.backends.values import SecretValues, look_up_in_backends
    from aiosched.core.values.secret_names import EVERYTHING
    from aiosched.db.crypto.keyring import Keyring
    from aiosched.parsing.values import NoDatabase

    opening, backends = asyncio.Lock(), backends_of(settings)
    values: SecretValues | None = None
    async with contextlib.AsyncExitStack() as stack:

        async def look_up(kind: str, name: str, file: str) -> Value:
            nonlocal values
            if not has_database(settings):
                found = await look_up_in_backends(backends, as_kind(kind), name, EVERYTHING)
                if found is None:
                    raise NoDatabase("There is no database here.")
                return found
            async with opening:
                if values is None:
                    db = await stack.enter_async_context(open_database(settings))
                    values = SecretValues(db, Keyring.of(settings), backends)
            return await values.look_up(as_kind(kind), name)

        yield look_up


class MoreValues(NamedTuple):
    """Values by kind and name, for DAG files; `is_first`: also in place of those that there are."""

    values: Mapping[tuple[str, str], Any]
    is_first: bool

    def beside(self, look_up: LookUp) -> LookUp:
        """What reads these and others."""
        from aiosched.backends.values import Value
        from aiosched.parsing.values import NoDatabase

        async def either(kind: str, name: str, file: str) -> Value:
            given = self.values.get((kind, name))
            if given is None:
                return await look_up(kind, name, file)
            if self.is_first:
                return Value(given)
            try:
                found = await look_up(kind, name, file)
            except NoDatabase:
                return Value(given)
            return found if found.value is not None else Value(given)

        return either


async def parse(paths: Sequence[Path], settings: Settings, more: MoreValues | None = None) -> list[ParsedFile]:
    """The outcomes of parsing files and folders (none: the DAGs folder or the bundles). Stores nothing."""
    from aiosched.parsing.check import check_paths

    async with said_if_slow("reading DAG files"), opened_late(settings) as look_up:
        return await check_paths(paths, settings, look_up=look_up if more is None else more.beside(look_up))


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
            found: Value = self._thread.submit(self._read, kind, name).result()
            return found.as_answer()
        except NoDatabase:
            return {"value": None, "database": False}

    def _open(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._source = opened_late(self._settings)
        self._look_up = self._runner.run(self._source.__aenter__())

    def _read(self, kind: str, name: str) -> Value:
        async def look_up() -> Value:
            return await self._look_up(kind, name, "")

        return self._runner.run(look_up())

    def _close(self) -> None:
        async def close() -> None:
            await self._source.__aexit__(None, None, None)

        self._runner.run(close())
        self._runner.close()
