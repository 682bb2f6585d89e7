"""Reads the metadata database of an Airflow from 1.10 to 3, in one read-only transaction.

Its tables have changed over the years, so each statement names only columns that the database has. PostgreSQL and
SQLite work as they are; MySQL needs a driver (`pip install pymysql`).
Does not live here: what becomes of the rows (planning.py).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from aiosched.errors import ConfigError, DatabaseError, DatabaseUnreachable
from aiosched.migration.rows import (
    AirflowConnection,
    AirflowDag,
    AirflowPool,
    AirflowRows,
    AirflowRun,
    AirflowVariable,
)

T = TypeVar("T")

ALIVE: Final = timedelta(minutes=1)  # after this time without a heartbeat a scheduler counts as stopped
_SCHEDULED: Final = ("scheduled", "backfill")  # the types of runs that move Airflow's schedule
_PREFIXES: Final = ("scheduled__", "backfill_")  # of their run ids, in versions without types
_UNFINISHED: Final = ("queued", "running")
_NEEDED: Final = ("dag", "dag_run", "task_instance")


async def read_airflow(url: str, *, dag_ids: Sequence[str] | None = None) -> AirflowRows:
    """The rows of the database at `url`, as `sql_alchemy_conn` of Airflow has it; only of the DAGs `dag_ids`, if given.

    Raises ConfigError for an address that cannot be read, DatabaseUnreachable, and DatabaseError if it is not the
    database of an Airflow.
    """
    try:
        address = sa.make_url(url)
    except ArgumentError:
        raise ConfigError(
            "The address of Airflow's database cannot be read; write it as postgresql://user:password@host:5432/airflow."
        ) from None
    kind = address.get_backend_name()
    try:
        if kind in ("postgresql", "postgres"):
            return await _from_postgresql(address, dag_ids)
        return await asyncio.to_thread(_from_other, address, kind, dag_ids)
    except (OSError, DBAPIError) as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error).splitlines()[0]
        where = address.render_as_string(hide_password=True)
        raise DatabaseUnreachable(f"Airflow's database {where} cannot be read: {reason}") from error


async def _from_postgresql(address: sa.URL, dag_ids: Sequence[str] | None) -> AirflowRows:
    from sqlalchemy.ext.asyncio import create_async_engine

    query = {name: value for name, value in address.query.items() if name in ("host", "port", "ssl")}
    if "sslmode" in address.query:
        query["ssl"] = address.query["sslmode"]
    engine = create_async_engine(
        address.set(drivername="postgresql+asyncpg", query=query),
        execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    )
    try:
        async with engine.connect() as conn:
            return await conn.run_sync(read_rows, dag_ids)
    finally:
        await engine.dispose()


def _from_other(address: sa.URL, kind: str, dag_ids: Sequence[str] | None) -> AirflowRows:
    if kind == "sqlite":
        address = address.set(database=f"file:{address.database}", query={"mode": "ro", "uri": "true"})
    try:
        engine = sa.create_engine(address)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"Reading a {kind} database needs a driver that is not installed ({error}). "
            "For MySQL: pip install pymysql, and write the address as mysql+pymysql://…"
        ) from None
    try:
        with engine.connect() as conn:
            if kind in ("mysql", "mariadb"):
                conn.execute(sa.text("SET TRANSACTION READ ONLY"))
            return read_rows(conn, dag_ids)
    finally:
        engine.dispose()


def read_rows(conn: sa.Connection, dag_ids: Sequence[str] | None = None) -> AirflowRows:
    """The rows, on an open connection. Raises DatabaseError if it is not the database of an Airflow."""
    found = _FoundTables(conn)
    if missing := [name for name in _NEEDED if name not in found.tables]:
        raise DatabaseError(
            f"This is not the metadata database of an Airflow: it has no table {missing[0]!r}. "
            "Give the address that [database] sql_alchemy_conn has in airflow.cfg."
        )
    return found.rows(dag_ids)


class _FoundTables:
    """The tables of one database, with the columns that they have."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        inspector = sa.inspect(conn)
        self.tables: dict[str, Any] = {}
        for name in ("variable", "connection", "slot_pool", "dag", "dag_run", "task_instance", "job"):
            if inspector.has_table(name):
                columns = (sa.column(each["name"], each["type"]) for each in inspector.get_columns(name))
                self.tables[name] = sa.table(name, *columns)
        self._problems: list[tuple[str, str]] = []

    def rows(self, dag_ids: Sequence[str] | None) -> AirflowRows:
        dags = self._dags(dag_ids)
        return AirflowRows(
            variables=self._each("variable", "key", _variable),
            connections=self._each("connection", "conn_id", _connection),
            pools=self._each("slot_pool", "pool", _pool),
            dags=dags,
            scheduler_alive=self._scheduler_alive(),
            problems=tuple(self._problems),
            generation=3 if "logical_date" in self.tables["dag_run"].c else 2,
        )

    def _each(self, table: str, key: str, make: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
        """The rows of a small table; one that cannot be read becomes a problem, and the others are read."""
        if table not in self.tables:
            return ()
        found = []
        for row in self._conn.execute(sa.select(self.tables[table]).order_by(self.tables[table].c[key])).mappings():
            try:
                found.append(make(dict(row)))
            except (TypeError, ValueError, KeyError) as error:
                self._problems.append((f"{table} {row.get(key)!r}", f"its row cannot be read ({error!r})"))
        return tuple(found)

    def _dags(self, dag_ids: Sequence[str] | None) -> tuple[AirflowDag, ...]:
        table = self.tables["dag"]
        wanted = sa.select(table.c.dag_id, table.c.is_paused).order_by(table.c.dag_id)
        if "is_subdag" in table.c:
            wanted = wanted.where(sa.or_(table.c.is_subdag.is_(None), sa.not_(table.c.is_subdag)))
        if "is_stale" in table.c:
            wanted = wanted.where(sa.not_(table.c.is_stale))
        elif "is_active" in table.c:
            wanted = wanted.where(table.c.is_active)
        if dag_ids is not None:
            wanted = wanted.where(table.c.dag_id.in_(dag_ids))
        rows = self._conn.execute(wanted).all()
        last, unfinished = self._last_runs(), self._unfinished()
        return tuple(
            AirflowDag(dag_id, bool(paused), last.get(dag_id), unfinished.get(dag_id, 0)) for dag_id, paused in rows
        )

    def _of_the_schedule(self) -> Any:
        runs = self.tables["dag_run"]
        if "run_type" in runs.c:
            return runs.c.run_type.in_(_SCHEDULED)
        return sa.or_(*(runs.c.run_id.startswith(prefix, autoescape=True) for prefix in _PREFIXES))

    def _last_runs(self) -> dict[str, AirflowRun]:
        """The run with the latest logical date of each DAG's schedule, with its task instances."""
        runs = self.tables["dag_run"]
        date = runs.c.logical_date if "logical_date" in runs.c else runs.c.execution_date
        latest = (
            sa.select(runs.c.dag_id, sa.func.max(date).label("latest"))
            .where(self._of_the_schedule(), date.is_not(None))
            .group_by(runs.c.dag_id)
            .subquery()
        )
        chosen = sa.select(runs).join(latest, sa.and_(runs.c.dag_id == latest.c.dag_id, date == latest.c.latest))
        rows = [dict(row) for row in self._conn.execute(chosen.where(self._of_the_schedule())).mappings()]
        states = self._states(rows, date.name)
        found = {}
        for row in rows:
            try:
                found[row["dag_id"]] = _run(row, date.name, states[row["dag_id"]])
            except (TypeError, ValueError, KeyError) as error:
                what = f"dag_run {row['run_id']!r} of {row['dag_id']!r}"
                self._problems.append((what, f"its row cannot be read ({error!r})"))
        return found

    def _states(self, runs: Iterable[Mapping[str, Any]], date: str) -> defaultdict[str, dict[str, str]]:
        tasks = self.tables["task_instance"]
        by = "run_id" if "run_id" in tasks.c else date
        columns = [tasks.c.task_id, tasks.c.state, *([tasks.c.map_index] if "map_index" in tasks.c else [])]
        found: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for run in runs:
            of_run = sa.select(*columns).where(tasks.c.dag_id == run["dag_id"], tasks.c[by] == run[by])
            for row in self._conn.execute(of_run).mappings():
                index = row.get("map_index", -1)
                found[run["dag_id"]][row["task_id"] if index < 0 else f"{row['task_id']}[{index}]"] = row["state"] or ""
        return found

    def _unfinished(self) -> dict[str, int]:
        runs = self.tables["dag_run"]
        counted = sa.select(runs.c.dag_id, sa.func.count()).where(runs.c.state.in_(_UNFINISHED)).group_by(runs.c.dag_id)
        return {row[0]: row[1] for row in self._conn.execute(counted)}

    def _scheduler_alive(self) -> bool:
        jobs = self.tables.get("job")
        if jobs is None or "latest_heartbeat" not in jobs.c:
            return False
        latest = self._conn.execute(
            sa.select(sa.func.max(jobs.c.latest_heartbeat), sa.func.current_timestamp()).where(
                jobs.c.job_type == "SchedulerJob", jobs.c.state == "running"
            )
        ).one()
        beat, now = _instant(latest[0]), _instant(latest[1])
        return beat is not None and now is not None and now - beat < ALIVE


def _variable(row: Mapping[str, Any]) -> AirflowVariable:
    return AirflowVariable(row["key"], row["val"], bool(row.get("is_encrypted")), row.get("description"))


def _connection(row: Mapping[str, Any]) -> AirflowConnection:
    names = ("conn_type", "host", "schema", "login", "password", "port", "extra", "description")
    values: dict[str, Any] = {name: row.get(name) for name in names}
    return AirflowConnection(
        row["conn_id"],
        **values,
        is_encrypted=bool(row.get("is_encrypted")),
        is_extra_encrypted=bool(row.get("is_extra_encrypted")),
    )


def _pool(row: Mapping[str, Any]) -> AirflowPool:
    return AirflowPool(row["pool"], int(row["slots"]), row.get("description"), bool(row.get("include_deferred")))


def _run(row: Mapping[str, Any], date: str, tasks: Mapping[str, str]) -> AirflowRun:
    logical_date = _instant(row[date])
    if logical_date is None:
        raise ValueError(date)
    return AirflowRun(
        run_id=row["run_id"],
        logical_date=logical_date,
        state=row["state"],
        run_after=_instant(row.get("run_after") or row.get("data_interval_end")),
        start_date=_instant(row.get("start_date")),
        end_date=_instant(row.get("end_date")),
        tasks=dict(tasks),
    )


def _instant(value: Any) -> datetime | None:
    """An instant in UTC: SQLite and MySQL store them without a zone, or as text."""
    if value is None:
        return None
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
