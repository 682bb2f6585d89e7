"""Statements on output of tries that could not be written to their logs. No decisions live here."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aiosched.core.values.messages import AttemptKey
from aiosched.db.server.connection import Connections, DatabaseConnection, Queryable


class UnwrittenRow(NamedTuple):
    """Why output of a try is lost, on which machine, how many bytes, and the last of them."""

    hostname: str
    why: str
    lost: int
    tail: str

    @property
    def text(self) -> str:
        """What the log of the try ends with."""
        which = "these are the last of them" if len(self.tail) < self.lost else "these are they"
        said = f"... {self.loss('this log')}"
        return f"{said}; {which}:\n{self.tail}" if self.tail else f"{said}\n"

    def loss(self, log: str) -> str:
        """How much of it is lost, where and why."""
        return f"{self.lost:,} bytes of {log} could not be written on {self.hostname} ({self.why})"


# A try that is called again (after a deferral, or a reschedule) may lose more: the last call counts, and a question
# that is asked again changes nothing. A row of a run that is gone must not stay. Index: primary keys.
STORE: Final = """
    INSERT INTO unwritten_log (run_id, task_index, map_index, try_number, hostname, why, lost, tail)
    SELECT id, $2, $3, $4, $5, $6, $7, $8 FROM dag_run WHERE id = $1
    ON CONFLICT (run_id, task_index, map_index, try_number) DO UPDATE
       SET hostname = excluded.hostname, why = excluded.why, lost = excluded.lost, tail = excluded.tail,
           created_at = now()
"""


async def store(conn: Queryable, attempt: AttemptKey, row: UnwrittenRow) -> None:
    """Keep what a call of a try could not write."""
    await conn.execute(STORE, *attempt, *row)


# Index: primary key.
FIND: Final = """
    SELECT hostname, why, lost, tail FROM unwritten_log
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3 AND try_number = $4
"""


async def find(db: Connections, attempt: AttemptKey) -> UnwrittenRow | None:
    """What a try could not write, if there is some."""
    row = await db.fetchrow(FIND, *attempt)
    return None if row is None else UnwrittenRow(*row)


# Index: primary key.
NEWEST: Final = """
    SELECT try_number, hostname, why, lost, tail FROM unwritten_log
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3
     ORDER BY try_number DESC LIMIT 3
"""


async def newest(conn: DatabaseConnection, run: int, task_index: int, map_index: int) -> dict[int, UnwrittenRow]:
    """What the newest tries of a task instance could not write, by try; at most three."""
    rows = await conn.fetch(NEWEST, run, task_index, map_index)
    return {number: UnwrittenRow(*row) for number, *row in rows}


COUNT: Final = """
    SELECT count(*) AS number, array_agg(DISTINCT hostname || ': ' || why) AS reasons FROM unwritten_log
     WHERE created_at > now() - interval '1 day'
"""


async def recent(conn: DatabaseConnection) -> str | None:
    """Of how many tries output was lost within a day, on which machines and why; None: of none."""
    return _counted(await conn.fetchrow(COUNT), " within a day")


# Index: primary key.
COUNT_OF_RUN: Final = """
    SELECT count(*) AS number, array_agg(DISTINCT hostname || ': ' || why) AS reasons
      FROM (SELECT hostname, why FROM unwritten_log WHERE run_id = $1 LIMIT 1000) AS counted
"""


async def of_run(conn: DatabaseConnection, run: int) -> str | None:
    """Of how many tries of a run (at most 1,000 are counted) output was lost, on which machines and why."""
    return _counted(await conn.fetchrow(COUNT_OF_RUN, run), "")


def _counted(row: Any, when: str) -> str | None:
    if not (number := row["number"]):
        return None
    tries = "1 try" if number == 1 else f"{number:,} tries"
    return f"output of {tries} could not be written{when} ({'; '.join(sorted(row['reasons']))})"
