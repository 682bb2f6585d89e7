"""Faults on the way to the database: the n-th statement fails, or its answer is lost, or its process dies there.

Every statement of this process passes through one `Faults`. It can break the connection that
carries a statement (the process lives on), or end the whole service that sent it: from then on
nothing of that service reaches the database, and nothing of the database reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import pytest

from aiosched.db.server import engine
from aiosched.db.server.engine import Database

When = Literal["before", "after"]
Call = Callable[[], Awaitable[Any]]

_METHODS = ("execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table")
_TEST, _LEASE = "test", "aiosched lease"
_SPARED = (_TEST, _LEASE)  # our own connections, and those of the lease thread


class Life:
    """The connections of one service: cut by `end`; after `fail_statements` its statements fail."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._fails = asyncio.Event()
        self.backends: list[int] = []  # process ids at the server
        self._connections: list[Any] = []

    def add(self, conn: Any) -> None:
        self.backends.append(conn.get_server_pid())
        self._connections.append(conn)

    def end(self) -> None:
        """Die at once: every connection is gone, whatever is sent from now on is never answered."""
        self.over.set()
        for conn in self._connections:
            with contextlib.suppress(RuntimeError):  # the lease's thread, and its loop, have ended
                conn._loop.call_soon_threadsafe(conn.terminate)

    def fail_statements(self) -> None:
        """Let the rest of the service end: its statements fail from now on."""
        self._fails.set()

    async def never(self, *, wait: bool = True) -> None:
        """What a statement of the dead comes to."""
        if wait:
            await self._fails.wait()
        raise asyncpg.ConnectionDoesNotExistError("sent by a service that has died")


@dataclass
class Faults:
    """What happens to statements. `calls` counts those that a scheduler's loops have sent.

    `fail(conn, statement, call)` may return None (send it as usual), "before" (the connection
    breaks before it is sent) or "after" (it is carried out, its answer is lost). With a
    `victim` only its statements count, and where one would fail, the victim dies instead.
    """

    fail: Callable[[int, str], When | None] = lambda number, statement: None
    calls: int = 0
    fired: list[str] = field(default_factory=list)
    victim: Life | None = None
    lives: dict[Database, Life] = field(default_factory=dict)
    newborn: Life | None = None  # of the service that opens its database next
    _sender: dict[int, Life] = field(default_factory=dict)  # by the id of the connection

    def life_of(self, db: Database) -> Life:
        if db not in self.lives:
            self.lives[db] = Life()
            if self.newborn is not None and db.application_name != _TEST:
                self.lives[db], self.newborn = self.newborn, None
        return self.lives[db]

    def connected(self, db: Database, conn: Any) -> None:
        life = self.life_of(db)
        life.add(conn)
        self._sender[id(conn)] = life
        if life.over.is_set():
            conn.terminate()

    async def pass_on(self, conn: Any, statement: str, call: Call) -> Any:
        name, sender = conn._params.server_settings.get("application_name"), self._sender.get(id(conn))
        if sender is not None and sender.over.is_set():
            await sender.never(wait=name != _LEASE)
        spared = name in _SPARED or (self.victim is not None and sender is not self.victim)
        when = None
        if not spared:
            self.calls += 1
            when = self.fail(self.calls, statement)
        if when is None:
            answer = error = None
            try:
                answer = await call()
            except Exception as failure:
                error = failure
            if sender is not None and sender.over.is_set():  # died meanwhile: the answer reaches nobody
                await sender.never(wait=name != _LEASE)
            if error is not None:
                raise error
            return answer
        self.fired.append(statement)
        if when == "after":
            await call()
        if self.victim is not None:
            self.victim.end()
            await self.victim.never()
        conn.terminate()
        raise asyncpg.ConnectionDoesNotExistError(f"injected {when}: {statement.strip()[:60]}")


@contextlib.contextmanager
def faults() -> Iterator[Faults]:
    """Let every statement of this process pass through a `Faults`."""
    injected = Faults()
    with pytest.MonkeyPatch.context() as patch:
        for name in _METHODS:
            patch.setattr(engine._CountedConnection, name, _wrapped(injected, name))
        connect, prepare = Database.connect, Database._prepare

        async def connect_noted(self: Database, **options: Any) -> Any:
            if injected.life_of(self).over.is_set():
                raise asyncpg.ConnectionDoesNotExistError("a service that has died")
            conn = await connect(self, **options)
            injected.connected(self, conn)
            return conn

        async def prepare_noted(self: Database, conn: Any) -> None:
            injected.connected(self, conn)
            await prepare(self, conn)

        patch.setattr(Database, "connect", connect_noted)
        patch.setattr(Database, "_prepare", prepare_noted)
        yield injected


def _wrapped(injected: Faults, name: str) -> Any:
    original = getattr(engine._CountedConnection, name)

    async def method(self: Any, statement: str, *args: Any, **options: Any) -> Any:
        return await injected.pass_on(self, statement, lambda: original(self, statement, *args, **options))

    return method


def nth(number: int, when: When) -> Callable[[int, str], When | None]:
    """Fail the `number`-th statement."""
    return lambda call, statement: when if call == number else None


def once(part: str, when: When) -> Callable[[int, str], When | None]:
    """Fail the first statement that contains `part`."""
    left = [part]

    def fail(call: int, statement: str) -> When | None:
        if left and part in statement:
            left.clear()
            return when
        return None

    return fail
