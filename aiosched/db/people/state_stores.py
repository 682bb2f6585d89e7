"""Statements on the state stores of tasks and assets. A value that has expired is as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from aiosched.db.server.connection import DatabaseConnection


class StatePlace(NamedTuple):
    """The task instance that a value belongs to; `map_index` None: all instances of the task, to clear them."""

    run: int
    task_id: str
    map_index: int | None


# Index: uq_task_state_run_id_task_id_map_index_key.
GET_TASK_STATE: Final = """
    SELECT value::text FROM task_state
     WHERE run_id = $1 AND task_id = $2 AND map_index = $3 AND key = $4 AND (expires_at IS NULL OR expires_at > now())
"""
SET_TASK_STATE: Final = """
    INSERT INTO task_state (run_id, task_id, map_index, key, value, expires_at)
    VALUES ($1, $2, $3, $4, $5::json, now() + make_interval(secs => $6::float8))
    ON CONFLICT (run_id, task_id, map_index, key)
    DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, updated_at = now()
"""
DELETE_TASK_STATE: Final = """
    DELETE FROM task_state
     WHERE run_id = $1 AND task_id = $2 AND ($3::int IS NULL OR map_index = $3) AND ($4::text IS NULL OR key = $4)
"""

# Index: uq_asset_state_name_key.
GET_ASSET_STATE: Final = """
    SELECT value::text FROM asset_state
     WHERE name = $1 AND key = $2 AND (expires_at IS NULL OR expires_at > now())
"""
SET_ASSET_STATE: Final = """
    INSERT INTO asset_state (name, key, value, expires_at)
    VALUES ($1, $2, $3::json, now() + make_interval(secs => $4::float8))
    ON CONFLICT (name, key)
    DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, updated_at = now()
"""
DELETE_ASSET_STATE: Final = "DELETE FROM asset_state WHERE name = $1 AND ($2::text IS NULL OR key = $2)"

# Indexes: ix_task_state_expires_at, ix_asset_state_expires_at.
EXPIRED: Final[Sequence[str]] = ("task_state", "asset_state")
_DELETE_EXPIRED: Final = """
    DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE expires_at <= now() ORDER BY expires_at LIMIT $1)
"""


async def get_task_state(conn: DatabaseConnection, place: StatePlace, key: str) -> str | None:
    """The JSON text of a value; None if there is none."""
    value: str | None = await conn.fetchval(GET_TASK_STATE, *place, key)
    return value


async def set_task_state(
    conn: DatabaseConnection, place: StatePlace, key: str, value: str, *, seconds: float | None
) -> None:
    """Store a value (JSON text) in place of an earlier one; it expires after so many seconds, None: with its run."""
    await conn.execute(SET_TASK_STATE, *place, key, value, seconds)


async def delete_task_state(conn: DatabaseConnection, place: StatePlace, key: str | None) -> None:
    """Delete a value, or with `key` None all of them."""
    await conn.execute(DELETE_TASK_STATE, *place, key)


async def get_asset_state(conn: DatabaseConnection, name: str, key: str) -> str | None:
    """The JSON text of a value; None if there is none."""
    value: str | None = await conn.fetchval(GET_ASSET_STATE, name, key)
    return value


async def set_asset_state(conn: DatabaseConnection, name: str, key: str, value: str, *, seconds: float | None) -> None:
    """Store a value (JSON text) in place of an earlier one; it expires after so many seconds, None: never."""
    await conn.execute(SET_ASSET_STATE, name, key, value, seconds)


async def delete_asset_state(conn: DatabaseConnection, name: str, key: str | None) -> None:
    """Delete a value, or with `key` None all of them."""
    await conn.execute(DELETE_ASSET_STATE, name, key)


async def delete_expired(conn: DatabaseConnection, *, limit: int) -> int:
    """Delete at most `limit` expired values of each store; returns how many."""
    gone = 0
    for table in EXPIRED:
        status = await conn.execute(_DELETE_EXPIRED.format(table=table), limit)
        gone += int(status.rpartition(" ")[2])
    return gone
