"""What completes a word in a shell: ids of DAGs, runs and tasks that begin with it, as fast as an index answers."""

from __future__ import annotations

from typing import Final

from aiosched.db.server.connection import DatabaseConnection

MOST: Final = 100  # words that a shell is offered

# Index: primary key of dag.
DAGS_THAT_BEGIN: Final = """
    SELECT dag_id FROM dag WHERE starts_with(dag_id, $1) AND NOT is_stale ORDER BY dag_id LIMIT $2
"""

# The newest runs of the DAG. Index: (dag_id, id).
RUNS_THAT_BEGIN: Final = """
    SELECT run_id
      FROM (SELECT id, run_id FROM dag_run WHERE dag_id = $1 ORDER BY id DESC LIMIT 1000) AS newest
     WHERE starts_with(run_id, $2)
     ORDER BY id DESC LIMIT $3
"""

# The tasks of the newest version of the DAG. Index: primary keys.
TASKS_THAT_BEGIN: Final = """
    SELECT task ->> 'task_id' AS task_id
      FROM dag JOIN dag_version AS version ON version.id = dag.version_id,
           json_array_elements(version.spec -> 'tasks') AS task
     WHERE dag.dag_id = $1 AND starts_with(task ->> 'task_id', $2)
     LIMIT $3
"""


async def dags_that_begin(conn: DatabaseConnection, word: str) -> list[str]:
    """Ids of DAGs, in their order."""
    return [row["dag_id"] for row in await conn.fetch(DAGS_THAT_BEGIN, word, MOST)]


async def runs_that_begin(conn: DatabaseConnection, dag_id: str, word: str) -> list[str]:
    """Ids of runs of a DAG, newest first."""
    return [row["run_id"] for row in await conn.fetch(RUNS_THAT_BEGIN, dag_id, word, MOST)]


async def tasks_that_begin(conn: DatabaseConnection, dag_id: str, word: str) -> list[str]:
    """Ids of tasks of a DAG, in the order of the DAG."""
    return [row["task_id"] for row in await conn.fetch(TASKS_THAT_BEGIN, dag_id, word, MOST)]
