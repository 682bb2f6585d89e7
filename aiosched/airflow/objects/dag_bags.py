"""What tests of Airflow projects call. `DagBag` reads files as the room `testing` does, so the root registers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosched.airflow.objects.sessions import create_session, is_test
from aiosched.authoring.runtime.connections import Connection
from aiosched.lazy import provided

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG


def __getattr__(name: str) -> Any:
    if name not in {"DagBag", "FileLoadStat"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return provided(name)


def check_cycle(dag: DAG) -> None:
    """Raise AirflowDagCycleException for tasks that wait for each other."""
    dag.check_cycle()


test_cycle = check_cycle  # its name in 1.10
test_cycle.__test__ = False  # type: ignore[attr-defined] # pytest would take it for a test of whoever imports it


def initdb(*_: Any, **__: Any) -> None:
    """Nothing is to be prepared: reading DAG files needs no database here."""


def resetdb(*_: Any, **__: Any) -> None:
    """Empty the database of a test; that of a scheduler is no matter of tests (`aiosched db reset`)."""
    if is_test():
        provided("empty_database")()


def merge_conn(conn: Connection, session: Any = None) -> None:
    """Add a connection in a test, unless there is one of that id."""
    if session is None:
        with create_session() as session:
            merge_conn(conn, session)
    elif session.query(Connection).filter_by(conn_id=conn.conn_id).first() is None:
        session.add(conn)
        session.commit()
