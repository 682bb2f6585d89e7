"""Faults on the way to the database: the n-th statement fails, or its answer is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from aiosched.db import engine

When = Literal["before", "after"]
Call = Callable[[], Awaitable[Any]]

_METHODS = ("execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table")
_SPARED = ("test", "aiosched lease")  # our own connections, and those of the lease thread


@dataclass
class Faults:
    """What happens to statements. `calls` counts those that a scheduler's loops have sent.

    `fail(conn, statement, call)` may return None (send it as usual), "before" (the connection
    breaks before it is sent) or "after" (it is carried out, its answer is lost).
    """

    fail: Callable[[int, str], When | None] = lambda number, statement: None
    calls: int = 0
    fired: list[str] = field(default_factory=list)

    async def pass_on(self, conn: Any, statement: str, call: Call) -> Any:
        if conn._params.server_settings.get("application_name") in _SPARED:
            return await call()
        self.calls += 1
        when = self.fail(self.calls, statement)
        if when is None:
            return await call()
        self.fired.append(statement)
        if when == "after":
            await call()
        conn.terminate()
        raise ConnectionResetError(f"injected {when}: {statement.strip()[:60]}")


@contextlib.contextmanager
def faults() -> Iterator[Faults]:
    """Let every statement of this process pass through a `Faults`."""
    injected = Faults()
    with pytest.MonkeyPatch.context() as patch:
        for name in _METHODS:
            patch.setattr(engine._CountedConnection, name, _wrapped(injected, name))
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
