"""What decides who may see a DAG: tags, where its file lies, the team, what its author gives. Makes no decisions."""

from __future__ import annotations

from typing import Any, Final

from aiosched.core.access.grants import FilePlace, GuardedDag
from aiosched.core.access.roles import find_role
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.server.engine import Database

_DAG: Final = """
    SELECT d.dag_id, d.tags, d.team, d.file, v.bundle, d.access_control
      FROM dag AS d LEFT JOIN dag_version AS v ON v.id = d.version_id
"""
ALL: Final = f"{_DAG} ORDER BY d.dag_id"
# Index: primary key.
ONE: Final = f"{_DAG} WHERE d.dag_id = $1"


async def read_guarded_dags(db: Database) -> list[GuardedDag]:
    """All DAGs, by id."""
    return [_guarded(row) for row in await db.fetch(ALL)]


async def read_guarded_dag(db: Database, dag_id: str) -> GuardedDag | None:
    """One DAG; None if there is none with that id."""
    if "\0" in dag_id:  # no text that the database can compare with
        return None
    row = await db.fetchrow(ONE, dag_id)
    return None if row is None else _guarded(row)


def _guarded(row: Any) -> GuardedDag:
    control = {} if row["access_control"] is None else shown_object(row["access_control"])
    roles = {name: role for name, word in control.items() if isinstance(word, str) and (role := find_role(word))}
    return GuardedDag(row["dag_id"], frozenset(filter(None, row["tags"])), _place(row), roles)


def _place(row: Any) -> FilePlace | None:
    if row["file"] is None:
        return None
    if row["bundle"] is None:
        return FilePlace("", row["file"], row["team"])
    return FilePlace(row["bundle"], row["file"].removeprefix(f"{row['bundle']}:"), row["team"])
