"""What statements need: a connection, or the object that provides connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Queryable(Protocol):
    """What one statement needs. Rows support `row["name"]` and `row[0]`."""

    async def execute(self, query: str, *args: Any) -> str: ...
    async def fetch(self, query: str, *args: Any) -> list[Any]: ...
    async def fetchrow(self, query: str, *args: Any) -> Any: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...


class DatabaseConnection(Queryable, Protocol):
    """The part of an asyncpg connection that statements use."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str: ...
    async def executemany(
        self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> None: ...
    async def copy_records_to_table(
        self,
        table_name: str,
        *,
        records: Any,
        columns: Iterable[str] | None = None,
        schema_name: str | None = None,
        timeout: float | None = None,
    ) -> str: ...
    def transaction(
        self, *, isolation: Any = None, readonly: bool = False, deferrable: bool = False
    ) -> AbstractAsyncContextManager[Any]: ...
    async def prepare(self, query: str, *, timeout: float | None = None) -> Any: ...
    def cursor(self, query: str, *args: Any, prefetch: int | None = None, timeout: float | None = None) -> Any: ...
    async def add_listener(self, channel: str, callback: Callable[..., Any]) -> None: ...
    def add_termination_listener(self, callback: Callable[..., Any]) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    async def close(self, *, timeout: float | None = None) -> None: ...


class Connections(Queryable, Protocol):
    """An open database: pooled connections and dedicated ones (see `Database`).

    It carries out one statement alone on a pooled connection.
    """

    dsn: str

    @property
    def keeps_sessions(self) -> bool: ...
    def acquire(self) -> AbstractAsyncContextManager[DatabaseConnection]: ...
    async def connect(self, *, application_name: str | None = None) -> DatabaseConnection: ...

    async def execute(self, query: str, *args: Any) -> str:
        async with self.acquire() as conn:
            return await conn.execute(query, *args)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        async with self.acquire() as conn:
            return await conn.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> Any:
        async with self.acquire() as conn:
            return await conn.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        async with self.acquire() as conn:
            return await conn.fetchval(query, *args)
