"""Imports of DAG files for attempts on a loop: each in a thread of its own, while other attempts run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aiosched.core.values.messages import RunInfo
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import DagSource, DagUnavailable, drive

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG

T = TypeVar("T")


@dataclass(slots=True)
class _Load:
    """What a thread does, which nobody can end."""

    begun: asyncio.Future[float]  # second of the loop at which the import began, after the version was fetched
    ended: asyncio.Future[Any]


class InBackground:
    """Wraps a source with blocking loads for attempts on a loop: each in a thread of its own, once for all waiters.

    An import of a FileDags that takes too long is given up. Its thread goes on, and `hanging` is the name of its file.
    """

    def __init__(self, source: DagSource) -> None:
        self._source = source
        self._timeout = source.import_timeout if isinstance(source, FileDags) else None
        self._loading: dict[tuple[object, ...], _Load] = {}
        self.hanging: str | None = None

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if it is already loaded."""
        return self._source.cached(run)

    async def load(self, run: RunInfo) -> DAG:
        """Like the source's; other attempts run meanwhile."""
        return await self._in_thread(run, self._source.load, lambda: self.cached(run))

    async def warm(self, run: RunInfo) -> None:
        """Import the file of a run that is expected; see FileDags. Attempts run meanwhile. Raises DagUnavailable."""
        if isinstance(self._source, FileDags):
            await self._in_thread(run, self._source.warm, lambda: None)

    def forget(self, run: RunInfo) -> None:
        """Like the source's."""
        self._source.forget(run)

    async def _in_thread(
        self, run: RunInfo, load: Callable[[RunInfo], Coroutine[Any, Any, T]], known: Callable[[], T | None]
    ) -> T:
        """Call `load`, which blocks, unless the result is `known`; one call at a time for each file."""
        place = (run.code, run.file)
        while (found := known()) is None:
            if (other := self._loading.get(place)) is None:
                ours = self._loading[place] = self._begin(run, load)
                ours.ended.add_done_callback(lambda ended: self._ended(place, ended))
                await self._wait_for(ours, run)
                result: T = ours.ended.result()
                return result
            await self._wait_for(other, run)
        return found

    def _begin(self, run: RunInfo, load: Callable[[RunInfo], Coroutine[Any, Any, T]]) -> _Load:
        loop, source = asyncio.get_running_loop(), self._source
        new = _Load(loop.create_future(), loop.create_future())

        def tell(what: Callable[..., object], *values: object) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(what, *values)

        def work() -> None:
            try:
                if isinstance(source, FileDags):
                    source.prepare(run)  # has time limits of its own
                tell(lambda: new.begun.set_result(loop.time()))
                result = drive(load(run))
            except BaseException as error:
                tell(new.ended.set_exception, error)
            else:
                tell(new.ended.set_result, result)

        threading.Thread(target=copy_context().run, args=(work,), name="aiosched-import", daemon=True).start()
        return new

    def _ended(self, place: tuple[object, ...], ended: asyncio.Future[Any]) -> None:
        del self._loading[place]
        ended.exception()  # whoever waited may be gone

    async def _wait_for(self, load: _Load, run: RunInfo) -> None:
        """Wait for the end of a load. Raises DagUnavailable if it takes too long."""
        await asyncio.wait({load.begun, load.ended}, return_when=asyncio.FIRST_COMPLETED)
        if load.ended.done():
            return
        timeout = self._timeout
        left = None if timeout is None else load.begun.result() + timeout - asyncio.get_running_loop().time()
        await asyncio.wait({load.ended}, timeout=left)
        if not load.ended.done():
            self.hanging = run.file
            reason = f"{run.file} cannot be imported: it took longer than {timeout:g} s"
            raise DagUnavailable(f"{reason} (core.dagbag_import_timeout)", passing=True)
