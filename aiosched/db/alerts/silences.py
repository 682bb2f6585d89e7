"""Statements on silences of alerts. No decisions live here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from aiosched.core.alerts.rules import Labels
from aiosched.core.alerts.silences import Silence, silent_until
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.alerts.facts import labels_of
from aiosched.db.server.connection import DatabaseConnection, Queryable

MOST_ACTIVE: Final = 1_000  # at a time
# Index: ix_alert_silence_ends_at.
ACTIVE: Final = "SELECT ends_at, rule_id AS rule, subject, dag_id, tag FROM alert_silence WHERE ends_at > $1"
Silenced = Callable[[int, str, Collection[str]], datetime | None]  # until when, of a rule, a subject and its DAGs


async def read_silences(conn: DatabaseConnection, dag_ids: Collection[str], now: datetime) -> Silenced:
    """Until when something about these DAGs, or about none, is silenced."""
    active = [Silence(**dict(row)) for row in await conn.fetch(ACTIVE, now)]
    labels: Labels = {}
    if dag_ids and any(silence.tag is not None for silence in active):
        labels = await labels_of(conn, dag_ids)

    def until(rule: int, subject: str, dag_ids: Collection[str]) -> datetime | None:
        return silent_until(active, rule, subject, dag_ids, labels, now) if active else None

    return until


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """A silence, for people: of one alert (`rule` and `subject`), of a DAG, or of a tag."""

    id: int
    rule: str | None
    subject: str | None
    dag_id: str | None
    tag: str | None
    dag_ids: tuple[str, ...]
    reason: str
    created_by: str
    created_at: datetime
    ends_at: datetime
    ended_by: str | None

    @property
    def about(self) -> str:
        """What it silences."""
        if self.dag_id is not None:
            return f"DAG {self.dag_id}"
        return f"tag {self.tag}" if self.tag is not None else f"{self.subject} ({self.rule})"


_SHOWN: Final = ", ".join(
    {"rule": "r.name AS rule", "dag_ids": "array_remove(s.dag_ids, NULL) AS dag_ids"}.get(field.name, f"s.{field.name}")
    for field in fields(SilenceRow)
)
_FROM: Final = "alert_silence AS s LEFT JOIN alert_rule AS r ON r.id = s.rule_id"
# Those of DAGs that are seen; one of a tag is about DAGs of others, too. Index: the primary key, backwards.
LIST: Final = ScopedStatement.of(
    f"""
    SELECT {_SHOWN} FROM {_FROM}
     WHERE s.id < $1 AND ($2::timestamptz IS NULL OR s.ends_at > $2) [seen] ORDER BY s.id DESC LIMIT $3
""",
    "cardinality(s.dag_ids) > 0 AND s.dag_ids <@ ?::text[]",
)
GET: Final = f"SELECT {_SHOWN} FROM {_FROM} WHERE s.id = $1"
# The table of DAGs is read as a whole.
KNOWN_DAGS: Final = "SELECT dag_id FROM dag"
KNOWN_TAGS: Final = "SELECT DISTINCT unnest(tags) FROM dag WHERE NOT is_stale"
NUMBER_ACTIVE: Final = "SELECT count(*) FROM alert_silence WHERE ends_at > $1"
ADD: Final = """
    INSERT INTO alert_silence (rule_id, subject, dag_id, tag, dag_ids, reason, created_by, created_at, ends_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id
"""
# Guard: one that has ended stays as it was.
END: Final = "UPDATE alert_silence SET ends_at = $2, ended_by = $3 WHERE id = $1 AND ends_at > $2"
PURGE: Final = """
    DELETE FROM alert_silence WHERE id IN (SELECT id FROM alert_silence WHERE ends_at < $1 ORDER BY ends_at LIMIT $2)
"""


async def list_silences(
    conn: Queryable,
    *,
    before: int | None = None,
    active_at: datetime | None = None,
    limit: int = 100,
    seen: Seen = None,
) -> list[SilenceRow]:
    """Silences, newest first, before the id `before`; with `active_at` those that have not ended then."""
    return [_row(row) for row in await LIST.fetch(conn, before or 2**62, active_at, limit, seen=seen)]


async def get_silence(conn: Queryable, number: int) -> SilenceRow | None:
    """One silence."""
    row = await conn.fetchrow(GET, number)
    return None if row is None else _row(row)


def _row(row: Any) -> SilenceRow:
    return SilenceRow(**{**dict(row), "dag_ids": tuple(row["dag_ids"])})


async def add_silence(
    conn: DatabaseConnection, silence: Silence, dag_ids: Collection[str], reason: str, by: str, now: datetime
) -> int:
    """Store a silence; its id."""
    number: int = await conn.fetchval(
        ADD, silence.rule, silence.subject, silence.dag_id, silence.tag, list(dag_ids), reason, by, now, silence.ends_at
    )
    return number


async def names_of(conn: DatabaseConnection, *, tags: bool) -> list[str]:
    """The ids, or the tags, of DAGs."""
    return [name for (name,) in await conn.fetch(KNOWN_TAGS if tags else KNOWN_DAGS) if name is not None]


async def number_active(conn: DatabaseConnection, now: datetime) -> int:
    """How many have not ended."""
    number: int = await conn.fetchval(NUMBER_ACTIVE, now)
    return number


async def end_silence(conn: DatabaseConnection, number: int, by: str, now: datetime) -> bool:
    """End a silence now; False if it had ended."""
    tag: str = await conn.execute(END, number, now, by)
    return tag == "UPDATE 1"


async def purge_silences(conn: DatabaseConnection, before: datetime, *, limit: int) -> None:
    """Remove silences that ended before that."""
    await conn.execute(PURGE, before, limit)
