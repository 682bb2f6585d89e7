"""Waits for answers to requests: one connection of a `Database` listens for all of them.

It is opened for the first waiter and closed after a while without waiters. It only reduces latency: waiters also poll
(`inbox.wait_applied`), so a lost NOTIFY or connection loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiosched.db.server.connection import Connections, DatabaseConnection

logger: logging.Logger = logging.getLogger(__name__)

APPLIED_CHANNEL: Final = "aiosched_applied"  # payload: numbers of requests, comma separated

POLL_SECONDS: Final = 1.0
REST_SECONDS: Final = 10.0  # how long the connection is kept without waiters
_MOST_EARLY: Final = 1000


def read_numbers(payload: str) -> list[int]:
    """The numbers of a payload, which commas separate; whatever else it has is ignored."""
    return [int(number) for number in payload.split(",") if number.isascii() and number.isdecimal()]


class RequestAnswers:
    """Listens for answers on behalf of one `Database`, which closes it."""

    def __init__(self, db: Connections) -> None:
        self.closing: bool = False
        self._db = db
        self._waiting: dict[int, set[asyncio.Event]] = {}  # by request
        self._no_waiters = asyncio.Event()  # set while there are no waiters
        self._no_waiters.set()
        self._left = 0.0  # when a waiter last left
        self._listening: asyncio.Task[None] | None = None
        self._is_listening = False
        self._early: deque[int] = deque(maxlen=_MOST_EARLY)  # announced while nobody waited for them

    def will_tell(self, number: int) -> bool:
        """Whether the answer to a request that was sent just now is still to be announced, so that a look is in vain.

        An answer can be announced before its waiter is there, and an announcement can get lost.
        """
        return self._is_listening and not self.closing and number not in self._early

    @contextlib.contextmanager
    def awaited(self, numbers: Collection[int]) -> Iterator[asyncio.Event]:
        """An event that is set whenever the answer to one of these requests may have arrived."""
        notified = asyncio.Event()
        for number in numbers:
            self._waiting.setdefault(number, set()).add(notified)
        self._no_waiters.clear()
        try:
            yield notified
        finally:
            for number in numbers:
                self._waiting[number].remove(notified)
                if not self._waiting[number]:
                    del self._waiting[number]
            self._left = time.monotonic()
            if not self._waiting:
                self._no_waiters.set()

    def listen(self) -> None:
        """Start listening if the connection supports it; returns at once."""
        if self._db.keeps_sessions and not self.closing and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._listen(), name="answers")

    async def close(self) -> None:
        """Close the connection, and return when all waiters have polled once more and left."""
        self.closing = True
        self._wake_all()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
        await self._no_waiters.wait()

    async def _listen(self) -> None:
        while self._waiting:
            try:
                await self._listen_once()
            except Exception as error:  # waiters poll meanwhile
                logger.warning("cannot listen for answers: %s", error)
                await asyncio.sleep(POLL_SECONDS)

    async def _listen_once(self) -> None:
        conn = await self._db.connect(application_name="aiosched answers")
        try:
            await conn.add_listener(APPLIED_CHANNEL, self._on_notification)
            self._is_listening = True
            self._wake_all()  # for answers that arrived earlier
            while not conn.is_closed() and (self._waiting or time.monotonic() < self._left + REST_SECONDS):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._is_listening = False
            with contextlib.suppress(OSError):
                await conn.close(timeout=1.0)

    def _on_notification(self, _: DatabaseConnection, __: int, ___: str, payload: str) -> None:
        for number in read_numbers(payload):
            if number not in self._waiting:
                self._early.append(number)
            for notified in self._waiting.get(number, ()):
                notified.set()

    def _wake_all(self) -> None:
        for events in self._waiting.values():
            for notified in events:
                notified.set()
