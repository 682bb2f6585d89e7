"""The way between a scheduler and the modelled database, and all that can happen on it.

`ModelledDatabase` and `ModelledConnection` stand in for `aiosched.db.server.engine`'s. A statement travels
to the server, is carried out there whatever becomes of its sender, and its answer travels back. On
either way the connection may break: the sender then cannot know what became of its statement.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from aiosched.config import DatabaseSettings
from aiosched.db.server.connection import Connections
from aiosched.errors import DatabaseUnreachable
from tests.simulation.answers import Answer, UnknownStatement
from tests.simulation.dialects import Dialects
from tests.simulation.loop import NODE, WORLD, VirtualLoop
from tests.simulation.statements import carry_out
from tests.simulation.store import Backend, Store


class Weather(Protocol):
    """How the network is; each call may draw."""

    def delay(self, node: int) -> float:
        """Seconds for one way of one message."""
        ...

    def cuts(self, node: int, text: str) -> str | None:
        """Whether the connection breaks "before" the statement arrives, or "after" it was carried out.

        Or "late": its sender hears of the break, and then the statement arrives all the same.
        """
        ...

    def notices(self, node: int) -> int:
        """How often a notification arrives: 0, 1 or 2 times."""
        ...

    def notices_death(self) -> float:
        """Seconds until the server learns that a client is gone."""
        ...


@dataclass(eq=False)
class Network:
    """All connections, by node."""

    loop: VirtualLoop
    store: Store
    weather: Weather
    dialects: Dialects | None = None
    closed: bool = False  # at the end: everything fails at once
    on_cut: Callable[[int, str, str], None] = lambda node, when, text: None
    connections: dict[int, list[ModelledConnection]] = field(default_factory=dict)
    unreachable: dict[int, asyncio.Event] = field(default_factory=dict)  # nodes cut off, until the event
    _helpers: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store.on_notice = self._notify

    def run_at_server(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self.loop.spawn(WORLD, work)
        self._helpers.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._helpers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.call_exception_handler({"message": "the server failed", "exception": error})

    def _notify(self, backend: Backend, channel: str, payload: str) -> None:
        times = self.weather.notices(backend.node)
        for _ in range(times):
            self.run_at_server(self._deliver(backend, channel, payload))

    async def _deliver(self, backend: Backend, channel: str, payload: str) -> None:
        await asyncio.sleep(self.weather.delay(backend.node))
        connection = next((c for c in self.connections.get(backend.node, ()) if c.backend is backend), None)
        if connection is not None and not connection.lost:
            connection.notify(channel, payload)

    def disconnect(self, node: int) -> None:
        """Every connection of a node breaks."""
        for connection in list(self.connections.get(node, ())):
            connection.break_()


class ModelledConnection:
    """What statements need of an asyncpg connection."""

    def __init__(self, network: Network, node: int, name: str) -> None:
        self.network, self.node, self.name = network, node, name
        self.backend = network.store.connect(node, name)
        self.lost = False
        self._waiting: dict[asyncio.Future[Answer], None] = {}
        self._on_end: list[Callable[..., None]] = []
        self._listeners: list[tuple[str, Callable[..., None]]] = []
        self._loop = network.loop
        network.connections.setdefault(node, []).append(self)

    # -- statements

    async def _send(self, text: str, *args: Any) -> Answer:
        if self.lost or self.network.closed:
            raise asyncpg.ConnectionDoesNotExistError("connection is closed")
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[answer] = None
        self.network.run_at_server(self._carry_out(text, args, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self.break_()  # whoever does not wait for the answer cannot ask anything else
            raise
        finally:
            self._waiting.pop(answer, None)

    async def _carry_out(self, text: str, args: Sequence[Any], answer: asyncio.Future[Answer]) -> None:
        network, backend, weather = self.network, self.backend, self.network.weather
        await self._travel()
        cut = weather.cuts(self.node, text)
        if cut is not None:
            network.on_cut(self.node, cut, text)
        if cut == "late":  # its sender knows of the break before it arrives
            self.break_()
            await self._travel()
        await network.store.catch_up()
        if cut == "before" or not backend.alive or backend.ending:
            self.break_()
            return
        assert not backend.busy, "one statement at a time"
        if network.dialects is not None:
            args = network.dialects.sent(self.node, text, args)
        network.store.resumed(backend, text, args)
        result: Answer | Exception
        try:
            result = await carry_out(backend, network.store, text, args)
        except Exception as error:
            result = error
            if isinstance(error, UnknownStatement):  # its sender may well go on without it
                self._loop.call_exception_handler({"message": "the server failed", "exception": error})
        network.store.finished(backend, result)
        if cut == "after" or not backend.alive:
            self.break_()
            return
        if network.dialects is not None and isinstance(result, Answer):
            result = network.dialects.heard(self.node, text, result)
        await self._travel()
        if not answer.done():
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    async def _travel(self) -> None:
        if (back := self.network.unreachable.get(self.node)) is not None:
            await back.wait()
        await asyncio.sleep(self.network.weather.delay(self.node))

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        return (await self._send(query, *args)).tag

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Any]:
        return list((await self._send(query, *args)).rows)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        rows = (await self._send(query, *args)).rows
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        row = await self.fetchrow(query, *args)
        return None if row is None else row[column]

    async def copy_records_to_table(
        self, table_name: str, *, records: Any, columns: Iterable[str] | None = None, **options: Any
    ) -> str:
        return (await self._send(f"COPY {table_name}", list(records), list(columns or ()))).tag

    @contextlib.asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[None]:
        await self.execute("BEGIN")
        try:
            yield
        except BaseException:
            if not self.lost:
                with contextlib.suppress(asyncpg.PostgresConnectionError):
                    await self.execute("ROLLBACK")
            raise
        await self.execute("COMMIT")

    # -- the session

    async def add_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        self._listeners.append((channel, callback))
        self.backend.listens[channel] = callback
        await asyncio.sleep(self.network.weather.delay(self.node))

    def notify(self, channel: str, payload: str) -> None:
        for listened, callback in self._listeners:
            if listened == channel:
                self._at_home(callback, self, self.backend.pid, channel, payload)

    def add_termination_listener(self, callback: Callable[..., Any]) -> None:
        self._on_end.append(callback)

    def get_server_pid(self) -> int:
        return self.backend.pid

    def is_closed(self) -> bool:
        return self.lost

    def terminate(self) -> None:
        self.break_()

    async def close(self, *, timeout: float | None = None) -> None:
        self.break_()

    def break_(self) -> None:
        """Break: who waits for an answer gets none, and the server learns of it a little later."""
        if self.lost:
            return
        self.lost = True
        self.network.connections[self.node].remove(self)
        for answer in self._waiting:
            self._at_home(_fail, answer)
        for callback in self._on_end:
            self._at_home(callback, self)
        self.network.run_at_server(self._fall())

    async def _fall(self) -> None:
        await asyncio.sleep(self.network.weather.notices_death())
        self.network.store.end(self.backend)

    def _at_home(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call something at the client, in its own time."""

        async def call() -> None:
            callback(*args)

        self._loop.spawn(self.node, call())


def _fail(answer: asyncio.Future[Answer]) -> None:
    if not answer.done():
        answer.set_exception(asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"))


class ModelledDatabase(Connections):
    """What the scheduler needs of a `Database`."""

    where = "the model"

    def __init__(self, network: Network, node: int) -> None:
        self.network, self.node = network, node
        self.dsn, self.application_name = "postgresql://model@model/model", "model"
        self.settings, self.statements = DatabaseSettings(), None
        self._idle: list[ModelledConnection] = []

    async def connect(self, *, application_name: str | None = None) -> ModelledConnection:
        network = self.network
        if network.closed:
            raise asyncpg.ConnectionDoesNotExistError("the simulation is over")
        if (back := network.unreachable.get(self.node)) is not None:
            try:
                async with asyncio.timeout(self.settings.connect_timeout):
                    await back.wait()
            except TimeoutError as error:
                raise DatabaseUnreachable("no answer in time") from error
        await asyncio.sleep(network.weather.delay(self.node))
        if network.closed:
            raise asyncpg.ConnectionDoesNotExistError("the simulation is over")
        assert NODE.get() == self.node
        return ModelledConnection(network, self.node, application_name or self.application_name)

    @contextlib.asynccontextmanager
    async def acquire(self, *, unhurried: bool = False) -> AsyncIterator[ModelledConnection]:
        conn = None
        while self._idle and conn is None:
            conn = self._idle.pop()
            if conn.lost:
                conn = None
        conn = conn or await self.connect()
        try:
            yield conn
        finally:
            transaction = conn.backend.transaction
            if conn.backend.busy or conn._waiting or (transaction is not None and transaction.explicit):
                conn.break_()
            elif not conn.lost:
                self._idle.append(conn)

    @contextlib.asynccontextmanager
    async def transaction(self, *, unhurried: bool = False) -> AsyncIterator[ModelledConnection]:
        async with self.acquire() as conn, conn.transaction():
            yield conn

    def drop_connections(self) -> None:
        for conn in self._idle:
            conn.break_()
        self._idle.clear()

    def before_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Nothing waits to be stored here."""

    def allow_longer_statements(self) -> None:
        """It has no limit."""

    async def close(self) -> None:
        self.drop_connections()
