"""Names of DAGs, tasks, runs, assets and pools that match what somebody types. Read only, and bounded.

Each statement reads a table whose size is that of the definitions, not of the history; of runs it reads the newest.
Letters are compared in the collation C, where both cases of ASCII letters are the same: ten times as fast. The order
of the results is decided in core/values/matching.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection

MOST: Final = 100  # names of one kind that are read
NEWEST: Final = 2_000  # runs that are looked at


@dataclass(frozen=True, slots=True)
class FoundDag:
    """A DAG with the state of its newest run."""

    dag_id: str
    is_paused: bool
    state: str | None
    display_name: str | None


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run."""

    dag_id: str
    run_id: str
    state: str


# The best matches first, so that the limit cuts off the others: the parts before the letters, short before long.
# Display names are sentences in any language, and few.
DAGS: Final = ScopedStatement.of("""
    SELECT d.*, r.state
      FROM (SELECT dag_id, is_paused, display_name
              FROM (SELECT *, lower(dag_id COLLATE "C") || coalesce(chr(10) || lower(display_name), '') AS words
                      FROM dag WHERE NOT is_stale [seen]) AS dag
             WHERE words LIKE ALL ($1::text[])
             ORDER BY strpos(words, $2) = 0, length(dag_id), dag_id LIMIT $3) AS d
      LEFT JOIN LATERAL (SELECT state FROM dag_run WHERE dag_run.dag_id = d.dag_id ORDER BY id DESC LIMIT 1) AS r
        ON true
     ORDER BY d.dag_id
""")
# `task_ids` has a line for each task.
TASKS: Final = ScopedStatement.of("""
    SELECT dag_id, task_ids FROM dag
     WHERE lower((dag_id || chr(10) || task_ids) COLLATE "C") LIKE ALL ($1::text[])
       AND lower(task_ids COLLATE "C") LIKE ANY ($1::text[]) AND NOT is_stale [seen]
     ORDER BY dag_id LIMIT $2
""")
# Index: the primary key of dag_run, backwards.
RUNS: Final = ScopedStatement.of("""
    SELECT dag_id, run_id, state
      FROM (SELECT id, dag_id, run_id, state FROM dag_run WHERE true [seen] ORDER BY id DESC LIMIT $3) AS newest
     WHERE lower((dag_id || chr(10) || run_id) COLLATE "C") LIKE ALL ($1::text[])
       AND lower(run_id COLLATE "C") LIKE ANY ($1::text[])
     ORDER BY id DESC LIMIT $2
""")
# Index: ix_asset_reference_name_role.
ASSETS: Final = ScopedStatement.of(
    """
    SELECT a.name, a.uri FROM asset AS a
     WHERE lower((a.name || chr(10) || a.uri) COLLATE "C") LIKE ALL ($1::text[]) AND a.is_active [seen]
     ORDER BY length(a.name), a.name LIMIT $2
""",
    """EXISTS (SELECT FROM asset_reference AS f
                WHERE f.name IN (a.name, a.uri) AND f.role IN ('outlet', 'schedule') AND f.dag_id = ANY (?::text[])
                  AND f.name = CASE f.kind WHEN 'uri' THEN a.uri WHEN 'alias' THEN NULL ELSE a.name END)""",
)
POOLS: Final = """
    SELECT name FROM pool WHERE lower(name COLLATE "C") LIKE ALL ($1::text[]) ORDER BY length(name), name LIMIT $2
"""


async def find_dags(conn: DatabaseConnection, words: tuple[str, ...], *, seen: Seen = None) -> list[FoundDag]:
    """DAGs with these words in their ids or display names, or with the letters of a single one."""
    patterns = [_letters(words[0])] if len(words) == 1 else _parts(words)
    rows = await DAGS.fetch(conn, patterns, words[0], MOST, seen=seen)
    return [FoundDag(**dict(row)) for row in rows]


async def find_tasks(
    conn: DatabaseConnection, words: tuple[str, ...], *, seen: Seen = None
) -> list[tuple[str, tuple[str, ...]]]:
    """DAGs with their task ids, if these or the id of the DAG have all words."""
    rows = await TASKS.fetch(conn, _parts(words), MOST, seen=seen)
    return [(row["dag_id"], tuple(row["task_ids"].split("\n"))) for row in rows]


async def find_runs(conn: DatabaseConnection, words: tuple[str, ...], *, seen: Seen = None) -> list[FoundRun]:
    """The newest runs with these words in their ids and in those of their DAGs."""
    rows = await RUNS.fetch(conn, _parts(words), MOST, NEWEST, seen=seen)
    return [FoundRun(row["dag_id"], row["run_id"], row["state"]) for row in rows]


async def find_assets(conn: DatabaseConnection, words: tuple[str, ...], *, seen: Seen = None) -> list[tuple[str, str]]:
    """Names and URIs of assets with these words."""
    rows = await ASSETS.fetch(conn, _parts(words), MOST, seen=seen)
    return [(row["name"], row["uri"]) for row in rows]


async def find_pools(conn: DatabaseConnection, words: tuple[str, ...]) -> list[str]:
    """Pools with these words in their names."""
    return [row["name"] for row in await conn.fetch(POOLS, _parts(words), MOST)]


def _parts(words: tuple[str, ...]) -> list[str]:
    return [f"%{_escaped(word)}%" for word in words]


def _letters(word: str) -> str:
    return f"%{'%'.join(_escaped(letter) for letter in word)}%"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
