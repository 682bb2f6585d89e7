"""Databases and connections of tests that are used again: a new one is cold, and each of its first statements is dear.

A process of PostgreSQL that has just begun reads its catalogs anew: when a scheduler starts, that is two thirds of all
work. So what a test leaves in its database is taken out for the next one, and a connection that was closed in order is
given to whoever connects next in the same way. A database whose schema was touched is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import pytest
from asyncpg import connect_utils

# Makes a function that makes the database as it is now. Whatever changes the schema from now on is noted.
PREPARE: Final = """
CREATE SCHEMA kept;
CREATE TABLE kept.touched (by text);
CREATE FUNCTION kept.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN INSERT INTO kept.touched VALUES (tg_tag); END $$;
DO $$
  DECLARE
    t record;
    lines text := '';
    has_rows bool;
  BEGIN
    FOR t IN SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    LOOP
      lines := lines || format('DELETE FROM public.%I;', t.name);
      EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', t.name) INTO has_rows;
      IF has_rows THEN
        EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', t.name, t.name);
        lines := lines || format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE TABLE kept.%I;', t.name, t.name);
      END IF;
    END LOOP;
    FOR t IN SELECT sequencename AS name, last_value, start_value FROM pg_sequences WHERE schemaname = 'public'
    LOOP
      lines := lines || format('PERFORM setval(%L, %s, %L);', format('public.%I', t.name),
                               coalesce(t.last_value, t.start_value), t.last_value IS NOT NULL);
    END LOOP;
    EXECUTE format('CREATE FUNCTION kept.restore() RETURNS void LANGUAGE plpgsql '
                   'SET session_replication_role = replica AS $f$ BEGIN %s END $f$', lines);
  END $$;
CREATE EVENT TRIGGER kept_touched ON ddl_command_end EXECUTE FUNCTION kept.note();
CREATE EVENT TRIGGER kept_dropped ON sql_drop EXECUTE FUNCTION kept.note();
"""
END_OTHERS: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND NOT pid = ANY($1::int[]) AND pid <> pg_backend_pid()
"""
IS_TOUCHED: Final = """
SELECT EXISTS (SELECT FROM kept.touched)
    OR EXISTS (SELECT FROM pg_db_role_setting AS s JOIN pg_database AS d ON d.oid = s.setdatabase
                WHERE d.datname = current_database())
"""
RESTORE: Final = "SELECT kept.restore()"


class Connections:
    """Connections of an event loop that were closed in order: whoever connects in the same way gets one of them."""

    def __init__(self) -> None:
        self.databases: set[str] = set()  # the names of those whose connections are kept
        self._loop = asyncio.get_running_loop()
        self._kept: dict[Any, list[Any]] = defaultdict(list)  # pairs of transport and protocol, by how they were made
        self._made: dict[Any, Any] = {}  # how the connection of a protocol was made

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep connections. They end with this."""
        connect, close = connect_utils._connect_addr, asyncpg.Connection.close

        async def take_or_connect(**asked: Any) -> Any:
            loop, params = asked["loop"], asked["params"]
            if loop is not self._loop or params.database not in self.databases:
                return await connect(**asked)
            settings = frozenset((params.server_settings or {}).items())
            key = (asked["addr"], params.database, params.user, settings, asked["record_class"])
            while self._kept[key]:
                transport, protocol = self._kept[key].pop()
                if protocol.is_connected():
                    conn = asked["connection_class"](protocol, transport, loop, asked["addr"], asked["config"], params)
                    protocol.set_connection(conn)
                    return conn
            conn = await connect(**asked)
            self._made[conn._protocol] = key
            return conn

        async def keep_or_close(conn: Any, *, timeout: float | None = None) -> None:
            protocol, transport = conn._protocol, conn._transport
            key = self._made.get(protocol)
            in_order = key is not None and not conn.is_closed() and not protocol.is_in_transaction()
            if in_order:
                try:
                    await protocol.query("DISCARD ALL", 5.0)
                except asyncio.CancelledError:
                    conn.terminate()
                    raise
                except Exception:  # it is busy or broken
                    in_order = False
            if not in_order:
                await close(conn, timeout=timeout)
                return
            conn._aborted, conn._protocol = True, None
            conn._cleanup()
            self._kept[key].append((transport, protocol))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connect_utils, "_connect_addr", take_or_connect)
            patch.setattr(asyncpg.Connection, "close", keep_or_close)
            yield
        for database in [*self.databases]:
            self.end(database)

    def sessions(self, database: str) -> list[int]:
        """The server's processes of the connections that are kept."""
        return [protocol.get_server_pid() for _, protocol in self._of(database) if protocol.is_connected()]

    def end(self, database: str) -> None:
        """End what is kept of a database, and keep no more of it."""
        self.databases.discard(database)
        for _, protocol in self._of(database):
            protocol.abort()
        for by in (self._kept, self._made):
            gone = [each for each, how in by.items() if database in (each if by is self._kept else how)]
            for each in gone:
                del by[each]

    def _of(self, database: str) -> list[Any]:
        return [pair for key, pairs in self._kept.items() if key[1] == database for pair in pairs]
