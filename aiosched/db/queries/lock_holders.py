"""Sessions that keep aiosched from its tables by a lock. Read only; needs no lock on a table itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiosched.core.values.durations import duration
from aiosched.db.server.connection import DatabaseConnection


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session that keeps one of aiosched waiting, `waiting`, or that has locked a table for which nobody waits yet.

    `state` and `open_seconds`, the age of its transaction, are None if our user may not see them.
    """

    pid: int
    program: str  # its application_name, else what kind of process it is
    username: str | None  # None: a process of the server
    state: str | None
    open_seconds: float | None
    relation: str | None  # the table, if it is known
    waiting: str | None  # the application_name of the one that has waited longest
    waited_seconds: float | None

    def __str__(self) -> str:
        facts = (
            self.program,
            self.username and f"user {self.username}",
            self.state,
            self.open_seconds is not None and f"transaction open for {duration(self.open_seconds)}",
        )
        who = f"session {self.pid} ({', '.join(fact for fact in facts if fact)})"
        if self.waiting is None:
            return f"{who} has locked {self.relation}"
        lock = f"a lock on {self.relation}" if self.relation else "a lock"
        return f"{who} keeps {self.waiting} waiting for {lock}, for {duration(self.waited_seconds)} now"

    @property
    def release(self) -> str:
        """How its locks are released."""
        return f"end its transaction, or SELECT pg_terminate_backend({self.pid})"


# Who waits for a row waits for the transaction that has changed it, and holds a lock of type `tuple` meanwhile.
# Sessions of ours that wait themselves are not listed. Advisory locks are left out: migrations wait by them.
LOCK_HOLDERS: Final = """
    WITH locks AS MATERIALIZED (SELECT * FROM pg_locks),
    held AS (
        SELECT blocking.pid, coalesce(wanted.relation, awaited_row.relation) AS relation,
               waiting.application_name AS waiting, wanted.waitstart AS since
          FROM locks AS wanted
          JOIN pg_stat_activity AS waiting ON waiting.pid = wanted.pid
         CROSS JOIN unnest(pg_blocking_pids(wanted.pid)) AS blocking (pid)
          LEFT JOIN locks AS awaited_row ON awaited_row.pid = wanted.pid AND awaited_row.locktype = 'tuple'
         WHERE NOT wanted.granted AND wanted.locktype <> 'advisory'
           AND waiting.datname = current_database() AND waiting.application_name LIKE 'aiosched%'
        UNION ALL
        SELECT locks.pid, locks.relation, NULL, activity.xact_start
          FROM locks JOIN pg_stat_activity AS activity USING (pid)
         WHERE locks.granted AND locks.mode = 'AccessExclusiveLock' AND activity.datname = current_database()
           AND locks.relation IN (SELECT to_regclass(name) FROM unnest($2::text[]) AS name)
    )
    SELECT DISTINCT ON (held.pid)
           held.pid, coalesce(nullif(holder.application_name, ''), holder.backend_type, '') AS program,
           holder.usename AS username, holder.state,
           extract(epoch FROM now() - holder.xact_start)::float8 AS open_seconds, held.relation::regclass::text,
           held.waiting, CASE WHEN held.waiting <> '' THEN extract(epoch FROM now() - held.since)::float8 END AS waited
      FROM held JOIN pg_stat_activity AS holder USING (pid)
     WHERE held.since <= now() - make_interval(secs => $1)
       AND NOT (holder.application_name LIKE 'aiosched%'
                AND EXISTS (SELECT FROM locks WHERE locks.pid = holder.pid AND NOT locks.granted))
     ORDER BY held.pid, held.waiting IS NULL, held.since
"""


async def list_lock_holders(conn: DatabaseConnection, *, seconds: float) -> list[LockHolder]:
    """The sessions for which one of aiosched has waited so many `seconds`, or that have locked a table for so long."""
    from aiosched.db.schema.schema import metadata  # imports SQLAlchemy

    return [LockHolder(*row) for row in await conn.fetch(LOCK_HOLDERS, seconds, list(metadata.tables))]
