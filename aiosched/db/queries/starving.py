"""What tasks wait for that is not to be had: full pools, and pools and executors that can never give them a slot.

Read only, no SQLAlchemy. The figures are as of the schedulers' last heartbeats.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aiosched.core.slots.allocation import full_pool_words, waiting_words
from aiosched.db.server.connection import DatabaseConnection

MOST: Final = 2_000  # of each kind


class Starving(NamedTuple):
    """A pool or an executor that tasks wait for; `words` say why, and how many they are."""

    kind: str  # pool, executor
    name: str
    exists: bool  # as a pool
    words: str

    @property
    def subject(self) -> str:
        """What an alert about it is about."""
        return self.name if self.kind == "pool" else f"{self.kind} {self.name}"


# What another version has stored is passed over.
IN_VAIN: Final = """
    SELECT w.kind, w.name, w.reason, w.waiting, p.name IS NOT NULL AS is_pool
      FROM (SELECT told.value ->> 0 AS kind, told.value ->> 1 AS name, min(told.value ->> 2) AS reason,
                   sum(CASE WHEN json_typeof(told.value -> 3) = 'number'
                            THEN (told.value ->> 3)::numeric END)::bigint AS waiting
              FROM scheduler
             CROSS JOIN json_array_elements(CASE WHEN json_typeof(figures -> 'in_vain') = 'array'
                                                 THEN figures -> 'in_vain' END) AS every (entry)
             CROSS JOIN LATERAL (SELECT CASE WHEN json_typeof(every.entry) = 'array' THEN every.entry ELSE '[]' END)
                        AS told (value)
             WHERE lease_expires_at > now() GROUP BY 1, 2) AS w
      LEFT JOIN pool AS p ON w.kind = 'pool' AND p.name = w.name
     WHERE w.waiting > 0 AND w.kind IN ('pool', 'executor') AND w.name IS NOT NULL AND w.reason IS NOT NULL
     ORDER BY w.kind DESC, w.name LIMIT $1
"""
FULL_POOLS: Final = """
    SELECT p.name, p.slots, w.waiting
      FROM (SELECT told.key AS name, sum(CASE WHEN json_typeof(told.value) = 'number'
                                              THEN (told.value #>> '{}')::numeric END)::bigint AS waiting
              FROM scheduler
             CROSS JOIN json_each(CASE WHEN json_typeof(figures -> 'waiting') = 'object'
                                       THEN figures -> 'waiting' END) AS told
             WHERE lease_expires_at > now() GROUP BY told.key) AS w
      JOIN pool AS p ON p.name = w.name
     WHERE w.waiting > 0 AND p.slots > 0 AND p.used >= p.slots ORDER BY p.name LIMIT $1
"""


async def read_starving(conn: DatabaseConnection) -> list[Starving]:
    """First what can never be had, then the pools that are full while others of their tasks wait; each by name.

    A pool can be both.
    """
    in_vain = await conn.fetch(IN_VAIN, MOST)
    found = [
        Starving(row["kind"], row["name"], row["is_pool"], f"{row['reason']}; {waiting_words(row['waiting'])}")
        for row in in_vain
    ]
    lost = {row["name"]: row["waiting"] for row in in_vain if row["kind"] == "pool"}
    for name, slots, waiting in await conn.fetch(FULL_POOLS, MOST):
        if (left := waiting - lost.get(name, 0)) > 0:
            found.append(Starving("pool", name, True, f"pool {name!r}: {full_pool_words(slots, left)}"))
    return found
