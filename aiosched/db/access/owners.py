"""Teams that own variables, connections and pools: whose they are, the team of a run's DAG and that of a DAG file.

Makes no decisions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from aiosched.core.values.secret_names import Reader
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean

OwnedKind = Literal["variable", "connection", "pool"]
_KEYS: Final[dict[OwnedKind, str]] = {"variable": "key", "connection": "conn_id", "pool": "name"}
# Index: primary key.
OWNERS: Final = {
    kind: f"SELECT {key} AS name, team FROM {kind} WHERE {key} = ANY ($1::text[])" for kind, key in _KEYS.items()
}

# Index: primary keys.
TEAM_OF_RUN: Final = "SELECT d.team FROM dag_run AS r JOIN dag AS d ON d.dag_id = r.dag_id WHERE r.id = $1"

# Index: primary key.
TEAM_OF_DAG: Final = "SELECT team FROM dag WHERE dag_id = $1"

# Of the folders that hold a file the longest decides. Index: the primary key; a team has few folders.
TEAM_OF_FILE: Final = """
    SELECT team FROM team_folder
     WHERE bundle = $1 AND (folder = '' OR folder = $2 OR starts_with($2, folder || '/'))
     ORDER BY length(folder) DESC LIMIT 1
"""

KNOWN_TEAMS: Final = "SELECT name FROM team"
LOCK_TEAM: Final = "SELECT 1 FROM team WHERE name = $1 FOR KEY SHARE"


async def read_owners(db: Database, kind: OwnedKind, names: Collection[str]) -> dict[str, str | None]:
    """The team of each of `names` that exists; None: it belongs to nobody."""
    return {row["name"]: row["team"] for row in await db.fetch(OWNERS[kind], list(names))}


async def check_team(conn: DatabaseConnection, team: str | None) -> None:
    """Keep a team (not None, not empty) from being deleted in this transaction. Raises NotFound with similar names."""
    if team and await conn.fetchval(LOCK_TEAM, team) is None:
        known = [row["name"] for row in await conn.fetch(KNOWN_TEAMS)]
        raise NotFound(f"There is no team {team!r}.{did_you_mean(team, known)}")


async def reader_of_run(conn: DatabaseConnection, run: int) -> Reader:
    """For a task of the run with this key. One without a row reads only what belongs to nobody."""
    return Reader(await conn.fetchval(TEAM_OF_RUN, run))


async def owner_of_dag(conn: DatabaseConnection, dag_id: str) -> str | None:
    """The team of a DAG; None if it belongs to nobody. Raises NotFound."""
    row = await conn.fetchrow(TEAM_OF_DAG, dag_id)
    if row is None:
        raise NotFound(f"There is no DAG {dag_id!r}; see `aiosched dags list`.")
    team: str | None = row["team"]
    return team


async def reader_of_file(conn: DatabaseConnection, bundle: str, path: str) -> Reader:
    """For a DAG file of a bundle (empty: of the DAGs folder), by its path there."""
    return Reader(await conn.fetchval(TEAM_OF_FILE, bundle, path))
