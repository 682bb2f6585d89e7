"""Threads for calls of one backend, which may hang: they keep nobody's event loop, and not the end of the process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from aiosched.errors import SecretBackendError

T = TypeVar("T")

_MOST_WAITING: Final = 1000


class CallThreads:
    """Runs calls in up to `most` daemon threads, first come first served. Thread-safe."""

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
