"""Statements for notes that users write on runs and task instances. Makes no decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiosched.db.server.connection import DatabaseConnection

# Index: primary key.
SET_RUN_NOTE: Final = "UPDATE dag_run SET note = $2 WHERE id = $1"


RUN_NOTE: Final = "SELECT note FROM dag_run WHERE id = $1"
TASK_NOTE: Final = "SELECT note FROM task_note WHERE run_id = $1 AND task_index = $2 AND map_index = $3"


async def run_note(conn: DatabaseConnection, run: int) -> str | None:
    """The note of the run with this key."""
    note: str | None = await conn.fetchval(RUN_NOTE, run)
    return note


async def task_note(conn: DatabaseConnection, instance: tuple[int, int, int]) -> str | None:
    """The note of a task instance: (run key, task index, map index)."""
    note: str | None = await conn.fetchval(TASK_NOTE, *instance)
    return note


async def set_run_note(conn: DatabaseConnection, run: int, note: str | None) -> None:
    """Set the note of the run with this key, replacing any previous one; None removes it."""
    await conn.execute(SET_RUN_NOTE, run, note)


SET_TASK_NOTE: Final = """
    INSERT INTO task_note (run_id, task_index, map_index, note) VALUES ($1, $2, $3, $4)
    ON CONFLICT (run_id, task_index, map_index) DO UPDATE SET note = excluded.note
"""
DELETE_TASK_NOTE: Final = "DELETE FROM task_note WHERE run_id = $1 AND task_index = $2 AND map_index = $3"


async def set_task_note(conn: DatabaseConnection, instance: tuple[int, int, int], note: str | None) -> None:
    """Set the note of a task instance: (run key, task index, map index)."""
    if note is None:
        await conn.execute(DELETE_TASK_NOTE, *instance)
    else:
        await conn.execute(SET_TASK_NOTE, *instance, note)


# Index: primary key.
MAP_INDEXES: Final = "SELECT map_index FROM task_instance WHERE run_id = $1 AND task_index = $2 ORDER BY map_index"


async def map_indexes(conn: DatabaseConnection, run: int, task_index: int) -> Sequence[int]:
    """The map indexes of a task's instances in a run, in order; -1 for an unmapped task."""
    return [row["map_index"] for row in await conn.fetch(MAP_INDEXES, run, task_index)]
