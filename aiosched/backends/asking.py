"""Asks the backends in turn, and keeps what they answered for a while.

Backends block, so each has threads of its own. A call that takes too long is an error of whoever asked, and its thread
is left alone. Those who ask for the same name at the same time share one call.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from aiosched.backends.backend import Kind, ListingBackend, SecretBackend, UncachedBackend
from aiosched.clock import Clock, SystemClock
from aiosched.core.values.masking import secrets
from aiosched.core.values.secret_names import names_to_ask
from aiosched.errors import AioschedError, SecretBackendError

_MOST_THREADS: Final = 8  # of one backend
_MOST_KEPT: Final = 10_000  # answers of one backend
_FAILURE_KEPT: Final = 1.0  # seconds for which a failing backend is not asked again for the same name

T = TypeVar("T")


class FoundSecret(NamedTuple):
    """The text of a variable, or a connection as URI or JSON object; `backend` is the name of where it was."""

    text: str
    backend: str


class _KeptAnswer(NamedTuple):
    until: float
    text: str | None
    error: SecretBackendError | None


class AskedBackend:
    """One backend, with its threads and the answers that it gave. It is opened by the first call, in a thread.

    `name` is shown to people. Thread-safe; it can be used by several event loops.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], SecretBackend],
        *,
        team_names: str | None = None,
        timeout: float = 10.0,
        cache_seconds: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._open = opened
        self._team_names = team_names
        self._timeout, self._cache_seconds = timeout, cache_seconds
        self._clock = clock or SystemClock()
        self._threads = CallThreads(f"secrets {name}", _MOST_THREADS)
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._backend: SecretBackend | None = None
        self._kept: dict[tuple[Kind, str], _KeptAnswer] = {}
        self._asked: dict[tuple[Kind, str], Future[str | None]] = {}

    async def find(self, kind: Kind, name: str, team: str | None) -> str | None:
        """The text of `name` for DAGs of `team`; None if there is none. Raises SecretBackendError."""
        for one in names_to_ask(name, team, self._team_names):
            if (text := await self._answer(kind, one)) is not None:
                return text
        return None

    async def names(self, kind: Kind) -> Collection[str] | None:
        """The names that it has; None if it cannot tell. Raises SecretBackendError."""

        def listed() -> Collection[str] | None:
            backend = self._opened()
            return sorted(backend.names(kind)) if isinstance(backend, ListingBackend) else None

        return await self._finished(self._threads.submit(listed), "its names")

    async def check(self) -> None:
        """Ask for a name that is most likely not there. Raises SecretBackendError if that fails."""
        await self._finished(self._threads.submit(lambda: self._opened().get("variable", "aiosched-check")), "anything")

    async def _answer(self, kind: Kind, name: str) -> str | None:
        key = (kind, name)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.until > self._clock.monotonic():
                if kept.error is not None:
                    raise SecretBackendError(str(kept.error))
                return kept.text
            future = self._asked.get(key)
            if future is None:
                future = self._asked[key] = self._threads.submit(lambda: self._opened().get(kind, name))
        try:
            text = await self._finished(future, f"the {kind} {name!r}")
        except SecretBackendError as error:
            self._keep(key, None, error)
            raise
        finally:
            if self._asked.get(key) is future:
                del self._asked[key]
        if text is not None and not isinstance(text, str):
            raise SecretBackendError(
                f"The backend {self.name} has returned {type(text).__name__} for the {kind} {name!r}, which is no text."
            )
        self._keep(key, text, None)
        return text

    def _keep(self, key: tuple[Kind, str], text: str | None, error: SecretBackendError | None) -> None:
        seconds = self._cache_seconds if error is None else min(_FAILURE_KEPT, self._cache_seconds)
        if seconds <= 0 or isinstance(self._backend, UncachedBackend):
            return
        with self._lock:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept.pop(key, None)
            self._kept[key] = _KeptAnswer(self._clock.monotonic() + seconds, text, error)

    def _opened(self) -> SecretBackend:
        with self._opening:
            if self._backend is None:
                self._backend = self._open()
            return self._backend

    async def _finished(self, future: Future[T], what: str) -> T:
        """The result of a call. Whoever waits for it may give up; the call goes on for the others."""
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # if nobody waits any more
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await asyncio.shield(waiting)
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                raise SecretBackendError(
                    f"The backend {self.name} was asked for {what} and has not answered within {self._timeout:g} s. "
                    "Check that it can be reached, or give it more time (secrets.timeout)."
                ) from None
            reason = str(error) if isinstance(error, AioschedError) else f"{type(error).__name__}: {error}"
            raise SecretBackendError(
                f"The backend {self.name} was asked for {what} and has failed: {secrets.redact(reason)}"
            ) from error


class Backends:
    """All backends of a process, in the order in which they are asked."""

    def __init__(self, backends: Iterable[AskedBackend] = ()) -> None:
        self.all: Sequence[AskedBackend] = tuple(backends)

    def __bool__(self) -> bool:
        return bool(self.all)

    async def find(self, kind: Kind, name: str, *, team: str | None = None) -> FoundSecret | None:
        """What the first backend has that has it, for DAGs of `team`. Raises SecretBackendError.

        If a backend fails, those after it are not asked: what they have may not be what is meant.
        """
        for backend in self.all:
            if (text := await backend.find(kind, name, team)) is not None:
                return FoundSecret(text, backend.name)
        return None


NO_BACKENDS: Final[Backends] = Backends()


_MOST_WAITING: Final = 1000


class CallThreads:
    """Runs calls of one backend in up to `most` daemon threads, first come first served. Thread-safe.

    A call may hang: it keeps nobody's event loop, and not the end of the process.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0  # calls that wait or run

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` as soon as a thread is free. Raises SecretBackendError if very many wait for one already."""
        future: Future[T] = Future()
        with self._lock:
            if self._unfinished >= _MOST_WAITING:
                raise SecretBackendError(f"{self._unfinished:,} earlier calls still wait for it.")
            self._unfinished += 1
            starts = self._threads < min(self._most, self._unfinished)
            self._threads += starts
        self._calls.put((future, call))
        if starts:
            threading.Thread(target=self._work, name=f"aiosched {self._name}", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():  # nobody can cancel it from now on
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._unfinished -= 1
            del future, call  # they may hold a secret
