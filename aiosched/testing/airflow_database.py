"""The database behind `create_session()` in tests of Airflow projects: SQLite, of this process, empty at first.

Only the pytest plugin offers it, and only to what tests and fixtures do themselves: a task, and a DAG file that is
read, are refused a session here as they are in production. Look-ups find the variables and connections in it. The
runs, instances and XComs that tests made are rows of it at each query; a row that is changed or deleted changes them.
Source: the tables of Airflow 2.11 and 3.1 (`airflow_tables.tsv`: `*` a key, `!` unique, then the type).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, orm
from sqlalchemy.orm.instrumentation import manager_of_class

from aiosched.airflow.objects.failures import PoolNotFound  # type: ignore[attr-defined] # defined there by a table
from aiosched.airflow.objects.variables import Variable
from aiosched.authoring.runtime.connections import Connection
from aiosched.authoring.runtime.context import moment
from aiosched.authoring.runtime.lookups import CONNECTION
from aiosched.authoring.runtime.services import Services
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.errors import NotFound, Refused
from aiosched.executors.attempt.runner import drive
from aiosched.testing.airflow_runs import TestedInstance, TestedRun, made_runs

_FILE: Final = Path(__file__).with_name("airflow_tables.tsv")


class Moment(sa.TypeDecorator[datetime]):
    """An instant. What has no time zone is UTC."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """In UTC, as SQLite has no zones."""
        return value.astimezone(UTC).replace(tzinfo=None) if value is not None and value.tzinfo else value

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """With its zone."""
        return None if value is None else moment(value.replace(tzinfo=UTC))


_TYPES: Final[Mapping[str, Any]] = {
    "": sa.Text, "i": sa.Integer, "f": sa.Float, "b": sa.Boolean, "d": Moment, "j": sa.PickleType,
}  # fmt: skip


class Row:
    """A row of a table, with its columns by position (but `id`) and by name."""

    def __init__(self, *values: Any, **named: Any) -> None:
        columns = [name for name in sa.inspect(type(self)).columns.keys() if name != "id"]  # noqa: SIM118
        for name, value in {**dict(zip(columns, values, strict=False)), **named}.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no column {name!r}; it has {', '.join(columns)}.")
            setattr(self, name, value)


class PoolRow(Row):
    """Pools: what tests do with one before a sensor or a task that names it."""

    DEFAULT_POOL_NAME = "default_pool"

    @classmethod
    def get_pool(cls, pool_name: str, session: Any = None) -> Any:
        """The pool of that name, or None."""
        with _within(session) as work:
            return work.scalars(sa.select(cls).filter_by(pool=pool_name)).one_or_none()

    @classmethod
    def get_pools(cls, session: Any = None) -> list[Any]:
        """All pools."""
        with _within(session) as work:
            return list(work.scalars(sa.select(cls)))

    @classmethod
    def create_or_update_pool(
        cls, name: str, slots: int, description: str = "", include_deferred: bool = False, session: Any = None, **_: Any
    ) -> Any:
        """The pool, with these slots."""
        with _within(session) as work:
            found: Any = cls.get_pool(name, work) or cls(pool=name)
            found.slots, found.description, found.include_deferred = slots, description, include_deferred
            work.add(found)
            work.flush()
            return found

    @classmethod
    def delete_pool(cls, name: str, session: Any = None) -> Any:
        """Delete a pool. Raises PoolNotFound."""
        with _within(session) as work:
            found = cls.get_pool(name, work)
            if found is None:
                raise PoolNotFound(f"Pool {name!r} doesn't exist")
            work.delete(found)
            return found

    def open_slots(self, session: Any = None) -> float:
        """All slots: nothing runs in the background of a test."""
        return float("inf") if self.slots == -1 else self.slots  # type: ignore[attr-defined]


_ROWS: Final[Mapping[str, type]] = {"Pool": PoolRow}
_OWN: Final[Mapping[str, type]] = {"Connection": Connection, "Variable": Variable}


class TestSession(orm.Session):
    """A session as tests get it. Runs and instances that they made need not be added, and are not stored twice."""

    __test__ = False

    def add(self, instance: Any, **options: Any) -> None:
        if not isinstance(instance, TestedRun | TestedInstance):
            super().add(_with_state(instance), **options)

    def add_all(self, instances: Iterable[Any]) -> None:
        for instance in instances:
            self.add(instance)

    def merge(self, instance: Any, **options: Any) -> Any:
        if isinstance(instance, TestedRun | TestedInstance):
            return instance
        return super().merge(_with_state(instance), **options)

    def delete(self, instance: Any) -> None:
        if isinstance(instance, TestedRun | TestedInstance):
            instance.forget()
        else:
            super().delete(instance)

    def refresh(self, instance: Any, *args: Any, **options: Any) -> None:
        if not isinstance(instance, TestedRun | TestedInstance):
            super().refresh(instance, *args, **options)

    def get(self, entity: Any, ident: Any, **options: Any) -> Any:
        return super().get(getattr(entity, "__row_class__", entity), ident, **options)


class _Database:
    """The file, its tables, and the class of the rows of each."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="aiosched-tests-")
        self.engine = sa.create_engine(f"sqlite:///{folder}/airflow.db", poolclass=sa.NullPool)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.registry = orm.registry()
        self.classes: dict[str, Any] = {}
        for line in _FILE.read_text(encoding="utf-8").splitlines()[1:]:
            model, name, columns = line.split("\t")
            table = sa.Table(name, self.registry.metadata, *map(_column, columns.split()))
            kind = _OWN.get(model) or type(model, (_ROWS.get(model, Row),), {"__tablename__": name})
            synonyms = {"execution_date": orm.synonym("logical_date")} if "logical_date" in table.c else {}
            self.registry.map_imperatively(kind, table, properties=synonyms)
            self.classes[model] = kind
        event.listen(self.engine, "connect", _set_up)
        self.registry.metadata.create_all(self.engine)
        self.empty()

    def empty(self) -> None:
        """As a database that has just been made."""
        tables = self.registry.metadata.tables
        with self.engine.begin() as connection:
            for table in tables.values():
                connection.execute(sa.delete(table))
            pools = sa.insert(tables["slot_pool"])
            connection.execute(pools.values(pool="default_pool", slots=128, description="Default pool"))

    def session(self) -> TestSession:
        return TestSession(self.engine)


def _set_up(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")  # look-ups read while a test's session writes
    connection.execute("PRAGMA synchronous = OFF")


_one_at_a_time: Final = threading.Lock()  # threads of a test may open its first sessions


def _database() -> _Database:
    with _one_at_a_time:
        return _made()


@functools.cache
def _made() -> _Database:
    return _Database()


def _column(text: str) -> sa.Column[Any]:
    name, _, kind = text.partition(":")
    plain = name.lstrip("*!")
    return sa.Column(plain, _TYPES[kind], primary_key=name.startswith("*"), unique=name.startswith("!") or None)


def session_of_tests() -> TestSession:
    """A new session. Closing it takes back what has not been committed."""
    return _database().session()


def row_class(model: str) -> Any:
    """The class of the rows of a table. Raises Refused for one that is not among them."""
    found = _database().classes.get(model)
    if found is None:
        raise Refused(f"{model} is a table of Airflow's database that the database of tests does not have.")
    return found


def empty_database() -> None:
    """Delete all rows, and forget the runs that tests made."""
    for run in list(made_runs()):
        run.forget()
    _database().empty()


def answer(kind: str, key: str) -> Mapping[str, Any]:
    """What a look-up finds: the text of a variable, or the fields of a connection."""
    with _within(None) as session:
        if kind == CONNECTION.name:
            connection = session.query(Connection).filter_by(conn_id=key).first()
            return {"value": connection and connection.as_fields(), "database": False}
        variable = session.query(Variable).filter_by(key=key).first()
        return {"value": variable and variable.val, "database": False}


class _VariablesOfTests:
    """Changes of variables that a test makes itself. Implements TaskServices."""

    async def get_xcoms(self, run: int, refs: object) -> Any:
        raise AssertionError(refs)

    async def call(self, run: int, name: str, args: str) -> str:
        asked = json.loads(args)
        if "get" in asked:
            return json.dumps(answer(name, asked["get"]))
        with _within(None) as session:
            found = session.query(Variable).filter_by(key=asked.get("set", asked.get("delete"))).first()
            if "set" in asked:
                found = found or Variable(asked["set"])
                found.val, found.description = asked["value"], asked["description"] or found.description
                session.add(found)
            elif found is None:
                raise NotFound(f"There is no variable {asked['delete']!r}.")
            else:
                session.delete(found)
        return "{}"


def services_of_tests() -> Services:
    """For changes of variables outside of tasks."""
    return Services(_VariablesOfTests(), 0, drive)


@contextlib.contextmanager
def _within(session: Any) -> Iterator[Any]:
    """The session of the caller, or one of its own that is committed."""
    if isinstance(session, orm.Session):
        yield session
        return
    with session_of_tests() as own, own.begin():
        own.expire_on_commit = False
        yield own


def _with_state(instance: Any) -> Any:
    """A connection or variable that was made before there was a database, as SQLAlchemy wants it."""
    if isinstance(instance, tuple(_OWN.values())) and not hasattr(instance, "_sa_instance_state"):
        values, manager = dict(vars(instance)), manager_of_class(type(instance))
        vars(instance).clear()
        manager.setup_instance(instance)
        for name, value in values.items():
            setattr(instance, name, value)
    return instance


# ---- the runs that tests made ----


@event.listens_for(TestSession, "do_orm_execute")
def _execute(state: orm.ORMExecuteState) -> Any:
    """Queries see the runs as they are; what changes rows changes the runs."""
    connection = state.session.connection()
    _write_runs(connection)
    if state.is_select:
        return None
    result = state.invoke_statement()
    _read_runs(connection)
    return result


@event.listens_for(TestSession, "after_flush")
def _flushed(session: orm.Session, _: object) -> None:
    _read_runs(session.connection())


def _table(model: str) -> sa.Table:
    table: sa.Table = sa.inspect(row_class(model)).local_table
    return table


def _put(connection: sa.Connection, model: str, place: Mapping[str, Any], **values: Any) -> None:
    table = _table(model)
    here = sa.and_(*(table.c[name] == value for name, value in place.items()))
    if not connection.execute(sa.update(table).where(here).values(values)).rowcount:
        connection.execute(sa.insert(table).values(**place, **values))


def _write_runs(connection: sa.Connection) -> None:
    for run in made_runs():
        place = {"dag_id": run.dag_id, "run_id": run.run_id}
        _put(
            connection, "DagRun", place, state=run.state, run_type=run.run_type, conf=run.conf,
            logical_date=run.logical_date, run_after=run.run_after, start_date=run.start_date,
            data_interval_start=run.data_interval_start, data_interval_end=run.data_interval_end,
        )  # fmt: skip
        instances = {(one.task_id, one.map_index): one for one in run.instances()}
        for task_id, map_index in instances or [(task_id, -1) for task_id in run.dag.task_dict]:
            one = instances.get((task_id, map_index))
            _put(
                connection, "TaskInstance", {**place, "task_id": task_id, "map_index": map_index},
                logical_date=run.logical_date, state=getattr(one, "state", None),
                start_date=getattr(one, "start_date", None), end_date=getattr(one, "end_date", None),
                duration=getattr(one, "duration", None), try_number=getattr(one, "try_number", 0),
                operator=run.dag.task_dict[task_id].task_type, pool=run.dag.task_dict[task_id].pool,
            )  # fmt: skip
        for (task_id, key), texts in run.memory.values.items():
            for map_index, text in texts.items():
                xcom = {**place, "task_id": task_id, "map_index": map_index, "key": key}
                _put(connection, "XCom", xcom, value=read_xcom(text), logical_date=run.logical_date)


def _read_runs(connection: sa.Connection) -> None:
    """States that were changed, and what was deleted; instances and XComs go with their run."""
    runs, instances = _table("DagRun"), _table("TaskInstance")
    for run in list(made_runs()):
        row = connection.execute(sa.select(runs.c.state).where(*_of(run, runs))).first()
        if row is None:
            run.forget()
            for table in (instances, _table("XCom")):
                connection.execute(sa.delete(table).where(*_of(run, table)))
            continue
        run.state = row.state
        query = sa.select(instances.c.task_id, instances.c.map_index, instances.c.state).where(*_of(run, instances))
        states = {(row.task_id, row.map_index): row.state for row in connection.execute(query)}
        for one in run.instances():
            if (place := (one.task_id, one.map_index)) in states:
                one.set_state(states[place])
            else:
                one.forget()


def _of(run: TestedRun, table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.dag_id == run.dag_id, table.c.run_id == run.run_id
