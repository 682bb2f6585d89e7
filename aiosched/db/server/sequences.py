"""The numbers that the database issues for rows, and putting forward sequences that are behind their rows.

A cut-over by logical replication copies rows and no sequences, and people set them by hand. The next number is then one
that a row has. Nothing may take that for "this row exists already", and no incarnation may be issued twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

import asyncpg

from aiosched.db.server.connection import DatabaseConnection

logger: logging.Logger = logging.getLogger(__name__)

# Tables with an identity: `id`, but for one.
NUMBERED: Final = (
    "alert", "alert_rule", "alert_silence", "api_token", "asset", "asset_check", "asset_event", "asset_partition",
    "asset_state", "audit_log", "backfill", "callback_outbox", "dag_run", "dag_schedule", "dag_version",
    "engine_attempt", "list_view", "lost_span", "request", "scheduler", "set_aside_report", "sla_miss", "task_report",
    "task_state", "user_grant", "web_session", "web_user",
)  # fmt: skip
# The constraints that a number in use violates.
CONSTRAINTS: Final = frozenset({*(f"pk_{table}" for table in NUMBERED), "uq_web_user_id"} - {"pk_web_user"})
_KEYS: Final = {"scheduler": "incarnation"}
# Where numbers are named whose own rows may be gone. The first ones are small, and looked at each time.
_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "scheduler": (
        "lost_scheduler.incarnation", "figures_minute.incarnation", "engine_attempt.queued_by", "task_report.queued_by",
    ),
}  # fmt: skip
_NAMED_BY_MANY: Final[Mapping[str, tuple[str, ...]]] = {"scheduler": ("task_instance.queued_by", "task_try.queued_by")}
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('aiosched sequences'))"


class SequenceBehind(NamedTuple):
    """A sequence and the largest number that is in use."""

    table: str
    issued: int
    used: int


def _statement(*others: Mapping[str, tuple[str, ...]]) -> str:
    parts = []
    for table in NUMBERED:
        key = _KEYS.get(table, "id")
        places = [f"{table}.{key}", *(place for named in others for place in named.get(table, ()))]
        largest = [f"(SELECT max({column}) FROM {name})" for name, _, column in (p.partition(".") for p in places)]
        sequence = f"pg_get_serial_sequence('{table}', '{key}')"
        parts.append(
            f"SELECT '{table}' AS name, {sequence} AS sequence, greatest({', '.join(largest)}) AS used,"
            f" coalesce(pg_sequence_last_value({sequence}::regclass), 0) AS issued"
        )
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS s WHERE used > issued ORDER BY name"


# A role that may not put them forward may not read all of these tables either.
MAY_PUT_FORWARD: Final = "SELECT " + " AND ".join(
    f"has_sequence_privilege(pg_get_serial_sequence('{table}', '{_KEYS.get(table, 'id')}'), 'UPDATE')"
    for table in NUMBERED
)
BEHIND: Final = _statement(_NAMED)
PUT_FORWARD: Final = (
    f"SELECT name, issued, used, setval(sequence, used) FROM ({_statement(_NAMED, _NAMED_BY_MANY)}) AS b"
)


def is_number_taken(error: BaseException) -> bool:
    """Whether a row was refused because a number that was issued for it is in use: its sequence is behind."""
    return isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name in CONSTRAINTS


async def find_behind(conn: DatabaseConnection) -> list[SequenceBehind]:
    """The sequences that are behind their rows; none for a role that may not put them forward."""
    if not await conn.fetchval(MAY_PUT_FORWARD):
        return []
    return [SequenceBehind(row["name"], row["issued"], row["used"]) for row in await conn.fetch(BEHIND)]


async def put_forward(conn: DatabaseConnection) -> list[SequenceBehind]:
    """Put forward the sequences that are behind their rows, say so, and return them. Call it outside a transaction.

    Nothing happens for a role that may not: the tables' owner does it with the next `aiosched db migrate`.
    """
    if not await find_behind(conn):
        return []
    async with conn.transaction():  # one at a time, so that none puts back what another one has issued since
        await conn.execute(_LOCK)
        found = [SequenceBehind(name, issued, used) for name, issued, used, _ in await conn.fetch(PUT_FORWARD)]
    for each in found:
        logger.warning(
            "the database was about to issue numbers of %s that are in use (the last one was %d, rows have up to %d); "
            "its sequence was put forward. Were rows restored or replicated without their sequences?",
            each.table, each.issued, each.used,
        )  # fmt: skip
    return found
