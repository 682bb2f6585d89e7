"""What modelled sessions said to the modelled database, said again to PostgreSQL, with every answer compared.

Each modelled session gets a connection of its own, and statements come in the order in which the model
carried them out: so PostgreSQL must make the same ones wait, and let them go on when the model does.
Its clock is the virtual one: `now()` and its like are found in the schema `simulated` first.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import msgspec

from aiosched.db.statements import journal
from aiosched.db.statements.ownership import SHORT_LOCK_TIMEOUT
from tests.simulation.answers import Answer, normal
from tests.simulation.store import EPOCH, FLEET, Answered, Asked, Ended, Row, Traffic

_PATIENCE: Final = 0.2  # seconds until somebody looks whether a statement that does not come back waits for a lock
_ALL_ARE_BLOCKED: Final = "SELECT bool_and(cardinality(pg_blocking_pids(pid)) > 0) FROM unnest($1::int[]) AS pid"
_MICROSECOND: Final = timedelta(microseconds=1)
_ORDERED: Final = re.compile(r"ORDER BY [^()]*$")
_ENDED: Final = (
    OSError,
    asyncpg.AdminShutdownError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_GAVE_UP: Final = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)
_NO_LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = 0"  # its time is virtual: what gives up in the model is cancelled
_PLAIN: Final = ("COMMIT", "ROLLBACK", "SET ")  # go without being prepared

_VIRTUAL_TIME: Final = """
    CREATE SCHEMA simulated;
    CREATE SEQUENCE simulated.clock;
    CREATE FUNCTION simulated.now() RETURNS timestamptz STABLE LANGUAGE sql
        AS $$ SELECT current_setting('simulated.now')::timestamptz $$;
    CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
        AS $$ SELECT timestamptz 'epoch' + last_value * interval '1 microsecond' FROM simulated.clock $$;
    CREATE FUNCTION simulated.pg_postmaster_start_time() RETURNS timestamptz IMMUTABLE LANGUAGE sql
        AS $$ SELECT timestamptz 'epoch' $$;
    CREATE FUNCTION simulated.pg_current_xact_id() RETURNS xid8 IMMUTABLE LANGUAGE sql AS $$ SELECT '1'::xid8 $$;
    CREATE FUNCTION simulated.pg_xact_status(xid8) RETURNS text IMMUTABLE LANGUAGE sql
        AS $$ SELECT CASE WHEN $1 IS NOT NULL THEN 'committed' END $$;
    CREATE FUNCTION simulated.pg_current_wal_lsn() RETURNS pg_lsn IMMUTABLE LANGUAGE sql AS $$ SELECT '0/1'::pg_lsn $$;
    CREATE FUNCTION simulated.pg_control_system() RETURNS TABLE (system_identifier bigint) IMMUTABLE LANGUAGE sql
        AS $$ SELECT 1::bigint $$;
    ALTER TABLE scheduler ALTER renewed_at SET DEFAULT simulated.now(), ALTER started_at SET DEFAULT simulated.now();
"""
_SESSION: Final = {
    "timezone": "UTC",
    "jit": "off",
    "search_path": "simulated, public, pg_catalog",
    "deadlock_timeout": "10ms",
}

_KEYS: Final = {
    "scheduler": "incarnation",
    "partition_lease": "partition",
    "dag": "dag_id",
    "dag_version": "id",
    "dag_run": "id",
    "task_instance": "run_id, task_index, map_index",
    "task_try": "run_id, task_index, map_index, try_number",
    "xcom": "run_id, task_index, map_index, key",
    "pool": "name",
    "request": "id",
    "callback_outbox": "id",
    "backfill": "id",
    "dag_quarantine": "dag_id",
    "task_report": "id",
    "deferred_trigger": "run_id, task_index, map_index",
    "deferral": "run_id, task_index, map_index, try_number, since",
}


class Disagreement(AssertionError):
    """The model is not as PostgreSQL is."""


class Overtaken(Exception):
    """Several waited for one lock, and PostgreSQL, which promises no order, let another one go first."""


@dataclass(eq=False)
class _Session:
    """A modelled session's connection."""

    conn: Any
    pid: int
    started: datetime
    prepared: dict[str, Any] = field(default_factory=dict)
    asked: Asked | None = None
    work: asyncio.Task[Answer] | None = None  # the statement under way


class Replay:
    """Plays `traffic` on the empty migrated database at `dsn`; `compared` counts the statements."""

    def __init__(self, dsn: str) -> None:
        self.compared: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()  # those of them that had to wait for a lock
        self.errors: Counter[str] = Counter()
        self._dsn = dsn
        self._control: Any = None
        self._sessions: dict[int, _Session] = {}
        self._ended: dict[int, _Session] = {}
        self.overtaken = False  # it stopped before the end: see Overtaken

    async def play(
        self, rows: Mapping[str, Mapping[Any, Row]], traffic: Sequence[Traffic], tables: Mapping[str, Mapping[Any, Row]]
    ) -> None:
        """Begin with `rows`, say everything, and end with `tables`. Raises Disagreement."""
        self._control = await asyncpg.connect(self._dsn)
        try:
            await self._control.execute(_VIRTUAL_TIME)
            await self._control.execute("UPDATE fleet SET id = $1", FLEET)
            await self._control.execute("INSERT INTO timeline_start VALUES (1, 1, 1)")
            await self._fill(rows)
            for place, event in enumerate(traffic):
                try:
                    await self._step(event, (traffic[later] for later in range(place + 1, len(traffic))))
                except Overtaken:
                    self.overtaken = True
                    return
                except Disagreement as error:
                    before = "\n  ".join(str(earlier)[:300] for earlier in traffic[max(0, place - 12) : place + 1])
                    raise Disagreement(f"{error}\nafter\n  {before}") from None
            await self._compare_tables(tables)
        finally:
            for session in self._sessions.values():
                session.conn.terminate()
                if session.work is not None:
                    await asyncio.wait((session.work,))
                    session.work.exception()
            await self._control.close()

    async def _fill(self, rows: Mapping[str, Mapping[Any, Row]]) -> None:
        for row in rows["pool"].values():
            await self._control.execute(
                "INSERT INTO pool (name, slots, rate) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET slots = $2",
                row["name"], row["slots"], row["rate"],
            )  # fmt: skip
        for row in rows["dag"].values():
            version = rows["dag_version"][row["version_id"]]
            number = await self._control.fetchval(
                "INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ($1, $2, '', $3) RETURNING id",
                row["dag_id"], version["number"], version["spec"],
            )  # fmt: skip
            assert number == version["id"]
            await self._control.execute(
                "INSERT INTO dag (dag_id, partition, version_id) VALUES ($1, $2, $3)",
                row["dag_id"], row["partition"], number,
            )  # fmt: skip

    # -- events

    async def _step(self, event: Traffic, later: Iterable[Traffic]) -> None:
        match event:
            case Asked():
                await self._ask(event, waits=_waits(event, later))
            case Answered():
                if isinstance(event.said, asyncpg.AdminShutdownError):  # who waits for its locks has them from then on
                    await self._set_clock(
                        next(e.at for e in later if isinstance(e, Ended) and e.session == event.session)
                    )
                await self._hear(event)
            case Ended():
                await self._end(event)

    async def _ask(self, event: Asked, *, waits: bool) -> None:
        session = self._sessions.get(event.session) or await self._connect(event.session)
        session.asked = event
        await self._set_clock(event.at)
        if "now()" in event.text and not session.conn.is_in_transaction():
            await session.conn.execute(_set_now(event.at))
        session.work = asyncio.create_task(self._say(session, event, self._translated(event)))
        if waits:
            self.waited[normal(event.text)] += 1
            await self._settle()
            if session.work.done():
                raise Disagreement(f"PostgreSQL carries out at once what waits in the model: {event}")
        elif event.text == journal.END_BACKEND:
            await asyncio.wait((session.work,))  # before the session that it ends is ended

    async def _hear(self, event: Answered) -> None:
        session = self._sessions[event.session]
        asked, work = session.asked, session.work
        assert asked is not None
        assert work is not None
        if isinstance(event.said, asyncpg.AdminShutdownError):
            await self._terminate(session)
        if isinstance(event.said, asyncpg.LockNotAvailableError):
            await self._settle()  # it waits for the lock
            await self._control.execute("SELECT pg_cancel_backend($1)", session.pid)
        await asyncio.wait((work,), timeout=_PATIENCE)
        if not work.done():
            await self._settle()
        if not work.done():
            if any(other.work is not None and other.work.done() for other in self._sessions.values()):
                raise Overtaken
            raise Disagreement(f"PostgreSQL waits with what the model carries out: {asked}")
        session.asked = session.work = None
        text = normal(asked.text)
        real: object = work.exception() or work.result()
        is_ordered = _ORDERED.search(text) is not None
        if asked.text == journal.WHO_AM_I:
            event = event._replace(said=Answer([(session.pid, session.started)], "SELECT 1"))  # type: ignore[list-item]
        if (expected := _comparable(event.said, is_ordered)) != (said := _comparable(real, is_ordered)):
            raise Disagreement(f"{asked}\n  the model:  {expected}\n  PostgreSQL: {said}")
        self.compared[text] += 1
        if isinstance(real, BaseException):
            self.errors[type(real).__name__] += 1
        await self._settle()

    async def _end(self, event: Ended) -> None:
        session = self._sessions.pop(event.session, None)
        if session is None:  # it never said anything
            return
        self._ended[event.session] = session
        await self._set_clock(event.at)
        await self._terminate(session)
        session.conn.terminate()
        await self._settle()

    async def _terminate(self, session: _Session) -> None:
        await self._control.execute("SELECT pg_terminate_backend($1)", session.pid)
        while await self._control.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", session.pid):
            pass

    # -- sessions

    async def _connect(self, number: int) -> _Session:
        conn = await asyncpg.connect(self._dsn, server_settings=_SESSION)
        session = _Session(conn, *await conn.fetchrow(journal.WHO_AM_I))
        self._sessions[number] = session
        return session

    async def _set_clock(self, at: float) -> None:
        """Let it be `at`, if a statement under way reads the clock."""
        if any(s.asked is not None and "clock_timestamp()" in s.asked.text for s in self._sessions.values()):
            since = _instant(at) - datetime(1970, 1, 1, tzinfo=UTC)
            await self._control.execute("SELECT setval('simulated.clock', $1)", since // _MICROSECOND)

    def _translated(self, event: Asked) -> tuple[Any, ...]:
        """The arguments of a statement, a modelled server process being a real one."""
        if event.text != journal.END_BACKEND:
            return event.args
        meant = self._sessions.get(event.args[0]) or self._ended.get(event.args[0])
        return (0, EPOCH) if meant is None else (meant.pid, meant.started)

    async def _say(self, session: _Session, event: Asked, args: tuple[Any, ...]) -> Answer:
        conn, text = session.conn, event.text
        if text.startswith("BEGIN"):
            return Answer([], await conn.execute(f"{_set_now(event.at)}; {text}"))
        if text == SHORT_LOCK_TIMEOUT:
            text = _NO_LOCK_TIMEOUT
        if text.startswith("COPY "):
            records, columns = args
            tag = await conn.copy_records_to_table(text.removeprefix("COPY "), records=records, columns=columns)
            return Answer([], tag)
        if text.lstrip().startswith(_PLAIN):
            return Answer([], await conn.execute(text))
        if text not in session.prepared:
            session.prepared[text] = await conn.prepare(text)
        statement = session.prepared[text]
        rows = await statement.fetch(*args)
        return Answer(rows, statement.get_statusmsg())

    async def _settle(self) -> None:
        """Return when every statement under way is done, or waits for a session that does nothing or waits, too."""
        while waiting := [s.pid for s in self._sessions.values() if s.work is not None and not s.work.done()]:
            if await self._control.fetchval(_ALL_ARE_BLOCKED, waiting):
                return

    # -- in the end

    async def _compare_tables(self, tables: Mapping[str, Mapping[Any, Row]]) -> None:
        for table, keys in _KEYS.items():
            modelled = tables[table]
            columns = [name for name in next(iter(modelled.values()), {}) if name != "key" or table == "xcom"]
            listed = ", ".join([keys, *columns])
            found = await self._control.fetch(f"SELECT {listed} FROM {table}")
            expected = [
                (*(key if isinstance(key, tuple) else (key,)), *(row[name] for name in columns))
                for key, row in modelled.items()
            ]
            missing, other = _difference(_rows(expected), _rows(found))
            if missing or other:
                raise Disagreement(
                    f"in the end {table} ({listed}) differs:\n  the model:  {missing[:3]}\n  PostgreSQL: {other[:3]}"
                )


def _instant(at: float) -> datetime:
    return EPOCH + timedelta(seconds=at)


def _set_now(at: float) -> str:
    """The session's `now()`, of the transaction that begins."""
    return f"SELECT set_config('simulated.now', '{_instant(at)}', false)"


def _waits(event: Asked, later: Iterable[Traffic]) -> bool:
    """Whether the model does not answer a statement at once, ends of sessions apart, which it may bring about."""
    following = next((other for other in later if not isinstance(other, Ended)), None)
    return not (isinstance(following, Answered) and following.session == event.session)


def _comparable(said: object, is_ordered: bool) -> object:
    if isinstance(said, _ENDED):
        return "the session is ended"
    if isinstance(said, _GAVE_UP):
        return "it waited too long for a lock"
    if isinstance(said, BaseException):
        return type(said).__name__
    assert isinstance(said, Answer)
    rows = _rows(said.rows)
    return rows if is_ordered else sorted(rows, key=repr), said.tag


def _rows(rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    return [[_value(value) for value in row] for row in rows]


def _value(value: Any) -> Any:
    """JSON without its spaces and order, seconds to the microsecond, arrays in any order."""
    if isinstance(value, str):
        return _sorted(msgspec.json.decode(value)) if value[:1] in ("{", "[") else str(value)
    if isinstance(value, float):
        return round(value, 6)
    return sorted(value, key=lambda each: (each is None, each)) if isinstance(value, list) else _sorted(value)


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def _difference(expected: list[list[Any]], found: list[list[Any]]) -> tuple[list[list[Any]], list[list[Any]]]:
    """What only one of the two has."""
    here, there = {repr(row): row for row in expected}, {repr(row): row for row in found}
    return [row for text, row in here.items() if text not in there], [
        row for text, row in there.items() if text not in here
    ]
