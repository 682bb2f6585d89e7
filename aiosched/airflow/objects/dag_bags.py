"""What tests of Airflow projects call. `DagBag` reads files as the room `testing` does, so the root registers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosched.errors import Refused
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
    """Nothing is reset: the database of a scheduler is no matter of tests (`aiosched db reset`)."""


def merge_conn(conn: Any, session: object = None) -> None:
    """Refuse it: tests give connections by AIRFLOW_CONN_ID in the environment."""
    raise Refused("merge_conn() writes to Airflow's database: set AIRFLOW_CONN_… in the environment of the test.")
