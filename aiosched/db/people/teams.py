"""Teams and their folders. Makes no decisions.

A DAG gets its team when it is stored, and all of them again when folders change, which their owners are told.
Source: docs/access.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from aiosched.core.access.grants import GrantKind, checked_name, split_folder
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.owners import check_team
from aiosched.db.access.team_folders import team_of
from aiosched.db.audit.entries import record
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import notify
from aiosched.errors import NotFound, Refused, did_you_mean


@dataclass(frozen=True, slots=True)
class StoredTeam:
    """A team, its folders (`sales`, or `bundle:sales`), and the number of DAGs in them that are not stale."""

    name: str
    description: str | None
    folders: tuple[str, ...]
    dags: int
    created_at: datetime


# Sequential scan: teams change rarely. The order of ids is that of parsers, which lock the same rows.
LOCK_ALL: Final = "SELECT FROM dag ORDER BY dag_id FOR NO KEY UPDATE"
ASSIGN: Final = f"""
    UPDATE dag AS d SET team = n.team
      FROM (SELECT dag.dag_id, {team_of("dag.file", "v.bundle")} AS team
              FROM dag LEFT JOIN dag_version AS v ON v.id = dag.version_id) AS n
     WHERE d.dag_id = n.dag_id AND d.team IS DISTINCT FROM n.team
"""
LIST: Final = """
    SELECT t.name, t.description, t.created_at,
           ARRAY(SELECT CASE f.bundle WHEN '' THEN f.folder ELSE f.bundle || ':' || f.folder END
                   FROM team_folder AS f WHERE f.team = t.name ORDER BY f.bundle, f.folder) AS folders,
           (SELECT count(*) FROM dag WHERE dag.team = t.name AND NOT dag.is_stale)::int AS dags
      FROM team AS t WHERE t.name > $1 AND ($2::text IS NULL OR t.name = $2) ORDER BY t.name LIMIT $3
"""
CREATE: Final = "INSERT INTO team (name, description) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1"
DELETE: Final = "DELETE FROM team WHERE name = $1 RETURNING 1"
ADD_FOLDER: Final = """
    INSERT INTO team_folder (bundle, folder, team) VALUES ($1, $2, $3)
    ON CONFLICT (bundle, folder) DO NOTHING RETURNING 1
"""
REMOVE_FOLDER: Final = "DELETE FROM team_folder WHERE bundle = $1 AND folder = $2 AND team = $3 RETURNING 1"
MOVE_DAG: Final = "UPDATE dag SET team = $2 WHERE dag_id = $1 AND is_stale RETURNING 1"
FILE_OF_DAG: Final = "SELECT file FROM dag WHERE dag_id = $1"
OWNER_OF_FOLDER: Final = "SELECT team FROM team_folder WHERE bundle = $1 AND folder = $2"


async def list_teams(db: Database, *, after: str = "", limit: int = 1000) -> list[StoredTeam]:
    """Teams by name, after `after`."""
    rows = await db.fetch(LIST, after, None, limit)
    return [_stored(row) for row in rows]


async def get_team(db: Database, name: str) -> StoredTeam:
    """One team. Raises NotFound."""
    row = await db.fetchrow(LIST, "", name, 1)
    if row is None:
        raise await _unknown(db, name)
    return _stored(row)


def _stored(row: Mapping[str, Any]) -> StoredTeam:
    return StoredTeam(**dict(row) | {"folders": tuple(row["folders"])})


async def create_team(
    db: Database, name: str, description: str | None = None, folders: Sequence[str] = ()
) -> StoredTeam:
    """Add a team with its folders, or nothing. Returns it.

    Raises Refused if there is one of that name, or a folder belongs to another one; ConfigError for an unusable name.
    """
    checked = checked_name(GrantKind.TEAM, name)
    async with db.transaction() as conn:
        if await conn.fetchval(CREATE, checked, description) is None:
            raise Refused(f"There is a team {name!r} already.")
        await record(conn, AuditKind.TEAM_CREATED, checked)
        for folder in folders:
            await _give_folder(conn, checked, folder)
        if folders:
            await _assign(conn)
        return _stored(await conn.fetchrow(LIST, "", checked, 1))


async def delete_team(db: Database, name: str) -> None:
    """Remove a team and its folders. Raises NotFound; Refused while a connection, variable or pool belongs to it."""
    async with db.transaction() as conn:
        try:
            gone = await conn.fetchval(DELETE, name)
        except asyncpg.ForeignKeyViolationError:
            raise Refused(f"Connections, variables or pools belong to the team {name!r}: move them first.") from None
        await _assign(conn)
        if gone is not None:
            await record(conn, AuditKind.TEAM_DELETED, name)
    if gone is None:
        raise await _unknown(db, name)


async def add_folder(db: Database, team: str, folder: str) -> None:
    """Give a team a folder: `sales`, `bundle:sales`, empty for the DAGs folder. Raises NotFound, Refused."""
    async with db.transaction() as conn:
        await check_team(conn, team)
        await _give_folder(conn, team, folder)
        await _assign(conn)


async def _give_folder(conn: DatabaseConnection, team: str, folder: str) -> None:
    bundle, path = split_folder(checked_name(GrantKind.FOLDER, folder))
    if await conn.fetchval(ADD_FOLDER, bundle, path, team) is None:
        owner = await conn.fetchval(OWNER_OF_FOLDER, bundle, path)
        if owner is None:
            raise Refused(f"The folder {folder!r} was just taken from another team: try again.")
        raise Refused(f"The folder {folder!r} belongs to the team {owner!r} already: remove it there first.")
    await record(conn, AuditKind.FOLDER_ADDED, team, folder=folder)


async def remove_folder(db: Database, team: str, folder: str) -> None:
    """Take a folder from a team. Raises NotFound."""
    bundle, path = split_folder(checked_name(GrantKind.FOLDER, folder))
    async with db.transaction() as conn:
        if await conn.fetchval(REMOVE_FOLDER, bundle, path, team) is None:
            raise NotFound(f"The team {team!r} has no folder {folder!r}; see `aiosched teams list`.")
        await _assign(conn)
        await record(conn, AuditKind.FOLDER_REMOVED, team, folder=folder)


async def move_dag(db: Database, dag_id: str, team: str | None) -> None:
    """Give a DAG that no file defines any more, with its history, to another team (None: to nobody).

    Its files then may define it. Raises NotFound; Refused for a DAG that a file defines: move that, or its folder.
    """
    async with db.transaction() as conn:
        await check_team(conn, team)
        if await conn.fetchval(MOVE_DAG, dag_id, team) is None:
            file = await conn.fetchrow(FILE_OF_DAG, dag_id)
            if file is None:
                raise NotFound(f"There is no DAG {dag_id!r}; see `aiosched dags list --stale`.")
            raise Refused(
                f"DAG {dag_id!r} is defined in {file['file'] or 'a program'}: remove or rename it there first."
            )
        await record(conn, AuditKind.DAG_MOVED, dag_id, team=team)


async def _assign(conn: DatabaseConnection) -> None:
    await conn.execute(LOCK_ALL)
    await conn.execute(ASSIGN)
    await notify(conn, "dags", ())  # pools of a team are for its DAGs


async def _unknown(db: Database, name: str) -> NotFound:
    names = [team.name for team in await list_teams(db)]
    return NotFound(f"There is no team {name!r}.{did_you_mean(name, names)}")
