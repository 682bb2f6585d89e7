"""`Connection`: the address of an external service, and the login.

    Connection.get("sales")                 in a task
    await Connection.aget("sales")          in an `async def` task
    "{{ conn.sales.host }}"                 in an argument of a task

The environment (`AIOSCHED_CONN_SALES`, then `AIRFLOW_CONN_SALES`: a URI or a JSON object) takes
precedence over the database. Once it is read, logs show `***` for its password and for extras with secret names.
"""

from __future__ import annotations

from typing import Any

from aiosched.authoring.runtime.lookups import CONNECTION, Accessor, LookupAnswer, alook_up, look_up, not_found
from aiosched.core.values.connections import ConnectionValue


class Connection(ConnectionValue):
    """A connection: its fields, `extra_dejson` (a dict), `get_uri()`; `get` and `aget` look one up."""

    @classmethod
    def get(cls, conn_id: str) -> Connection:
        """The connection of that id. Raises NotFound, and DagError at the top level of a DAG file."""
        return _read(conn_id, look_up(CONNECTION, conn_id))

    @classmethod
    async def aget(cls, conn_id: str) -> Connection:
        """As `get`, for coroutines."""
        return _read(conn_id, await alook_up(CONNECTION, conn_id))

    @classmethod
    def get_connection_from_secrets(cls, conn_id: str) -> Connection:
        """Airflow's name of `get`."""
        return cls.get(conn_id)


class BaseHook:
    """Airflow's base of hooks, for classes that talk to a service by its connection."""

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """`Connection.get(conn_id)`."""
        return Connection.get(conn_id)

    @classmethod
    async def aget_connection(cls, conn_id: str) -> Connection:
        """`await Connection.aget(conn_id)`."""
        return await Connection.aget(conn_id)


def connection_access() -> Accessor:
    """`conn` of the context: `{{ conn.sales.host }}`."""
    return Accessor(CONNECTION, _connection)


def _read(conn_id: str, answer: LookupAnswer) -> Connection:
    if answer.value is None:
        raise not_found(CONNECTION, conn_id, answer)
    return _connection(conn_id, answer.value)


def _connection(conn_id: str, found: Any) -> Connection:
    read = Connection.from_text if isinstance(found, str) else Connection.from_fields
    connection = read(conn_id, found)
    connection.hide()
    return connection
