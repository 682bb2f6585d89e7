"""Connections: pooled, single and SQLAlchemy's; sessions in UTC; statements counted on request."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest
from sqlalchemy import text

from aiosched.config import DatabaseSettings
from aiosched.db.server import engine as engine_module
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_connection_failure
from aiosched.errors import ConfigError, TooManyConnections
from tests.db.conftest import ExternalServer
from tests.patience import PATIENCE

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_a_transaction_is_committed_at_its_end(db: Database) -> None:
    async with db.transaction() as conn:
        await conn.execute("INSERT INTO pool (name, slots) VALUES ('etl', 4)")

    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT slots FROM pool WHERE name = 'etl'") == 4


async def test_a_transaction_that_fails_leaves_nothing(db: Database) -> None:
    async def fail_half_way() -> None:
        async with db.transaction() as conn:
            await conn.execute("INSERT INTO pool (name, slots) VALUES ('etl', 4)")
            raise LookupError

    with pytest.raises(LookupError):
        await fail_half_way()

    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT count(*) FROM pool WHERE name = 'etl'") == 0


@pytest.mark.parametrize("query", ["SELECT $1::int + 41", "SELECT '{1}'::shades[], $1::int"])
@pytest.mark.parametrize("use", ["fetch", "prepare", "executemany"])
async def test_a_connection_that_is_ended_between_two_steps_of_a_statement_is_a_lost_one(
    db: Database, use: str, query: str
) -> None:
    """asyncpg raises an AttributeError of its own then."""
    arguments: dict[str, Any] = {"fetch": (1,), "prepare": (), "executemany": ([(1,)],)}

    class Ends:
        """The protocol of a connection, which is ended when a statement has been prepared."""

        def __init__(self, conn: Any) -> None:
            self._conn, self._protocol = conn, conn._protocol

        def __getattr__(self, name: str) -> Any:
            return getattr(self._protocol, name)

        async def prepare(self, *args: Any, **kwargs: Any) -> Any:
            state = await self._protocol.prepare(*args, **kwargs)
            self._conn._protocol = self._protocol
            self._conn.terminate()
            return state

    async with db.acquire() as conn:
        await conn.execute("CREATE DOMAIN shades AS int")
    conn: Any = await db.connect()
    conn._protocol = Ends(conn)

    async def use_it() -> None:
        await getattr(conn, use)(query, *arguments[use])
        await conn.fetchval("SELECT 1")

    with pytest.raises((OSError, asyncpg.InterfaceError)) as caught:
        await use_it()

    assert is_connection_failure(caught.value)


async def test_json_is_text_both_ways(db: Database) -> None:
    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT $1::json", '{"a": 1}') == '{"a": 1}'


async def test_a_session_is_in_utc_and_says_who_it_is(db: Database) -> None:
    async with db.acquire() as conn:
        row = await conn.fetchrow(
            "SELECT current_setting('timezone') AS zone, current_setting('application_name') AS name,"
            " current_setting('jit') AS jit, '2026-01-01 00:00+02'::timestamptz AS instant"
        )

    assert (row["zone"], row["name"], row["jit"]) == ("UTC", "test", "off")
    assert row["instant"] == datetime(2025, 12, 31, 22, tzinfo=UTC)


async def test_single_connections_listen_and_lock_on_their_own(db: Database) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    conn = await db.connect(application_name="ear")
    await conn.add_listener("news", lambda *call: heard.put_nowait(call[-1]))
    await conn.execute("SELECT pg_advisory_lock(7)")

    async with db.acquire() as other:
        await other.execute("SELECT pg_notify('news', 'hello')")
        free = await other.fetchval("SELECT pg_try_advisory_lock(7)")

    assert await heard.get() == "hello"
    assert free is False
    await conn.close()


async def test_people_query_with_sqlalchemy_on_the_same_address(db: Database) -> None:
    async with db.engine.connect() as conn:
        row = (await conn.execute(text("SELECT name, slots FROM pool"))).one()
        document = (await conn.execute(text("""SELECT '{"a": 1}'::json"""))).scalar_one()

    assert tuple(row) == ("default_pool", 128)
    assert document == {"a": 1}
    assert db.engine is db.engine


@pytest.mark.parametrize("count", [True, False])
async def test_statements_are_counted_only_on_request(dsn: str, count: bool) -> None:
    async with await Database.open(dsn, count_statements=count, check=False) as db:
        async with db.transaction() as conn:  # BEGIN and COMMIT
            await conn.fetchval("SELECT 1")
            await conn.copy_records_to_table("pool", records=[("etl", 4)], columns=["name", "slots"])
            await conn.executemany("SELECT $1::int", [(1,), (2,)])
        await asyncio.sleep(0)  # the driver tells its loggers in the loop's next round
        total = db.statements.total if db.statements is not None else None

    assert total == (5 if count else None)


async def test_giving_a_connection_back_costs_no_statement(dsn: str) -> None:
    async with await Database.open(dsn, count_statements=True, check=False) as db:
        for _ in range(3):
            async with db.acquire():
                pass
        await asyncio.sleep(0)

        assert db.statements is not None
        assert db.statements.total == 0


async def test_a_server_describes_its_array_types_once_and_types_of_people_on_each_connection(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[frozenset[int]] = []
    ask = asyncpg.Connection._introspect_types

    async def note(conn: asyncpg.Connection, oids: set[int], timeout: float) -> Any:
        asked.append(frozenset(oids))
        return await ask(conn, oids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", note)
    monkeypatch.setattr(engine_module, "KNOWN_TYPES", {})
    async with db.acquire() as conn:
        await conn.execute("CREATE TYPE mood AS ENUM ('calm', 'busy')")

    for _ in range(3):
        conn = await db.connect()
        try:
            values = await conn.fetchrow("SELECT $1::bigint[], $2::timestamptz[], $3::json[]", [1, 2], [NOON], ["{}"])
            assert tuple(values) == ([1, 2], [NOON], ["{}"])
            assert await conn.fetchval("SELECT $1::mood[]", ["busy"]) == ["busy"]
        finally:
            await conn.close()

    assert [max(oids) < 10_000 for oids in asked] == [True, False, False, False]


async def test_a_pool_keeps_to_its_size(dsn: str) -> None:
    async with await Database.open(dsn, settings=DatabaseSettings(pool_size=2)) as db:
        async with db.acquire(), db.acquire():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), db.acquire():
                    pass
        async with db.acquire() as conn:
            assert await conn.fetchval("SELECT 1") == 1


async def test_a_statement_works_again_after_the_server_cut_the_connection(db: Database) -> None:
    closed = asyncio.Event()
    async with db.acquire() as conn:
        pid = conn.get_server_pid()
        conn.add_termination_listener(lambda _: closed.set())
    killer = await db.connect()
    await killer.execute("SELECT pg_terminate_backend($1, 5000)", pid)
    await killer.close()
    await closed.wait()

    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT 1") == 1


async def test_a_query_works_again_after_the_server_cut_the_connection(db: Database) -> None:
    async with db.engine.connect() as conn:
        pid = await conn.scalar(text("SELECT pg_backend_pid()"))
        closed = asyncio.Event()
        raw = await conn.get_raw_connection()
        assert raw.driver_connection is not None
        raw.driver_connection.add_termination_listener(lambda _: closed.set())
    async with db.acquire() as killer:
        await killer.execute("SELECT pg_terminate_backend($1, 5000)", pid)
    await closed.wait()

    async with db.engine.connect() as conn:
        assert await conn.scalar(text("SELECT 1")) == 1


async def read_only(dsn: str, value: str) -> None:
    """Set what new sessions of this database may do: `on` lets them only read."""
    conn = await asyncpg.connect(dsn, server_settings={"default_transaction_read_only": "off"})
    name = await conn.fetchval("SELECT current_database()")
    await conn.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
    await conn.close()


@pytest.mark.fresh_database
async def test_sessions_that_began_on_a_read_only_server_are_not_kept(dsn: str) -> None:
    await read_only(dsn, "on")
    async with await Database.open(dsn, check=False) as db:
        async with db.acquire() as conn, db.engine.connect() as people:
            assert await conn.fetchval("SHOW transaction_read_only") == "on"
            assert await people.scalar(text("SHOW transaction_read_only")) == "on"
        await read_only(dsn, "off")

        async with db.acquire() as conn, db.engine.connect() as people:
            assert await conn.fetchval("SHOW transaction_read_only") == "off"
            assert await people.scalar(text("SHOW transaction_read_only")) == "off"


async def test_acquiring_from_a_server_that_has_become_full_says_so(tcp_server: ExternalServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        db = await stack.enter_async_context(await Database.open(tcp_server.dsn(), check=False))
        others = [await db.connect() for _ in range(3)]
        for conn in others:
            stack.push_async_callback(conn.close)

        async with db.acquire():
            with pytest.raises(TooManyConnections):
                async with db.acquire():
                    pass


async def test_closing_does_not_wait_forever_for_a_connection_that_is_not_given_back(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "CLOSE_SECONDS", 0.05)
    db = await Database.open(dsn)

    async with asyncio.timeout(PATIENCE), db.acquire():
        await db.close()


async def test_closing_twice_is_fine(dsn: str) -> None:
    db = await Database.open(dsn)

    await db.close()
    await db.close()


async def test_a_tcp_server_with_a_password_and_the_driver_s_scheme_work(tcp_server: ExternalServer) -> None:
    dsn = tcp_server.dsn().replace("postgresql://", "postgresql+asyncpg://")

    async with await Database.open(dsn, check=False) as db, db.acquire() as conn:
        assert await conn.fetchval("SELECT current_user") == "postgres"
        assert db.where == f"127.0.0.1:{tcp_server.port}"


async def test_behind_a_transaction_pooler_nothing_is_prepared(dsn: str) -> None:
    async with await Database.open(dsn, settings=DatabaseSettings(pgbouncer=True)) as db:
        async with db.acquire() as conn:
            await conn.fetchval("SELECT 1")
            prepared = await conn.fetch("SELECT name FROM pg_prepared_statements")
        async with db.engine.connect() as people:
            answer = (await people.execute(text("SELECT :n + 1"), {"n": 1})).scalar_one()

    assert prepared == []
    assert answer == 2


async def test_an_address_that_is_none_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="postgresql://user:password@host"):
        await Database.open("sqlite:///aiosched.db")
