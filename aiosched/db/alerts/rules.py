"""Statements on alert rules. No decisions live here.

A rule of the settings is stored like any other one, by the scheduler that evaluates, and changed only in the settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from aiosched.core.alerts.rules import AlertKind, AlertRule, DagSelection, Severity, problem_of, quiet_hours
from aiosched.db.names.existing import etag_of
from aiosched.db.server.connection import DatabaseConnection, Queryable


@dataclass(frozen=True, slots=True)
class RuleFields:
    """What people say of a rule."""

    name: str
    kind: str
    notifier: str
    dags: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    run_types: tuple[str, ...] = ()
    severity: str = Severity.WARNING
    seconds: float | None = None
    factor: float | None = None
    remind_seconds: float | None = None
    quiet_from: str | None = None
    quiet_until: str | None = None
    time_zone: str = "UTC"

    @property
    def selection(self) -> DagSelection:
        """The DAGs that it selects."""
        return DagSelection(tuple(self.dags), tuple(self.tags), tuple(self.owners))

    def problem(self) -> str | None:
        """What is wrong with it, and what to do; None if it is right."""
        return problem_of(
            self.kind, self.selection, run_types=self.run_types, severity=self.severity, seconds=self.seconds,
            factor=self.factor, remind_seconds=self.remind_seconds, quiet_from=self.quiet_from,
            quiet_until=self.quiet_until, time_zone=self.time_zone,
        )  # fmt: skip


def fields_of(values: Mapping[str, Any]) -> RuleFields:
    """What a table of the settings, or a request, says of a rule."""
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return RuleFields(**given)


@dataclass(frozen=True, slots=True)
class RuleRow(RuleFields):
    """A stored rule. `error` is why its last delivery, or its evaluation, failed."""

    id: int = 0
    is_paused: bool = False
    from_settings: bool = False
    since: datetime | None = None
    looked_until: datetime | None = None
    error: str | None = None
    failed_at: datetime | None = None
    open_alerts: int = 0

    @property
    def etag(self) -> str:
        """The version of what people say of it."""
        return etag_of(_said(self), self.from_settings)

    def rule(self) -> AlertRule:
        """The rule as decisions see it. Raises ValueError if the row is not one that this aiosched knows."""
        assert self.since is not None
        return AlertRule(
            id=self.id,
            name=self.name,
            kind=AlertKind(self.kind),
            notifier=self.notifier,
            since=self.since,
            selection=self.selection,
            run_types=tuple(self.run_types),
            seconds=self.seconds,
            factor=self.factor,
            remind_seconds=self.remind_seconds,
            quiet=quiet_hours(self.quiet_from, self.quiet_until, self.time_zone),
            looked_until=self.looked_until,
        )


_GIVEN: Final = ", ".join(field.name for field in fields(RuleFields))
_ARRAYS: Final = ("dags", "tags", "owners", "run_types")  # they may hold NULL
_READ: Final = ", ".join(
    f"array_remove({field.name}, NULL) AS {field.name}" if field.name in _ARRAYS else field.name
    for field in fields(RuleFields)
)
_COLUMNS: Final = f"{_READ}, id, is_paused, from_settings, since, looked_until, error, failed_at"

# The table has few rows.
_RULES: Final = f"""
    SELECT {_COLUMNS}, (SELECT count(*)::int FROM alert WHERE rule_id = r.id AND recovered_at IS NULL) AS open_alerts
      FROM alert_rule AS r
"""
LIST_RULES: Final = f"{_RULES} WHERE name > $1 ORDER BY name LIMIT $2"
GET_RULE: Final = f"{_RULES} WHERE name = $1"
LOCK_RULE: Final = f"{GET_RULE} FOR UPDATE OF r"


async def list_rules(conn: Queryable, *, after: str = "", limit: int | None = None) -> list[RuleRow]:
    """The rules by name, after the name `after`."""
    return [RuleRow(**dict(row)) for row in await conn.fetch(LIST_RULES, after, limit)]


async def get_rule(conn: Queryable, name: str, *, lock: bool = False) -> RuleRow | None:
    """The rule of this name; `lock` as in `changes.get_rule`."""
    row = await conn.fetchrow(LOCK_RULE if lock else GET_RULE, name)
    return None if row is None else RuleRow(**dict(row))


_VALUES: Final = ", ".join(f"${number}" for number, _ in enumerate(fields(RuleFields), start=1))
_FROM_SETTINGS, _NOW, _IS_NEW = (f"${len(fields(RuleFields)) + more}" for more in (1, 2, 3))
# What happened before the rule was made, changed or taken up again does not concern it.
SET_RULE: Final = f"""
    INSERT INTO alert_rule ({_GIVEN}, from_settings, since)
    VALUES ({_VALUES}, {_FROM_SETTINGS}, {_NOW})
    ON CONFLICT (name) DO UPDATE
       SET ({_GIVEN}, from_settings, since, error, failed_at) = ({_VALUES}, {_FROM_SETTINGS}, {_NOW}, NULL, NULL)
     WHERE alert_rule.from_settings <= {_FROM_SETTINGS} AND NOT {_IS_NEW}::boolean
"""


async def set_rule(
    conn: DatabaseConnection, rule: RuleFields, now: datetime, *, from_settings: bool = False, is_new: bool = False
) -> bool:
    """Create or change the rule of this name; False if it is in the settings, and must be changed there.

    With `is_new` it is only created; False also if it exists.
    """
    values = [getattr(rule, field.name) for field in fields(RuleFields)]
    tag: str = await conn.execute(SET_RULE, *values, from_settings, now, is_new)
    return tag == "INSERT 0 1"


# Alerts whose kind has changed, or that the rule no longer selects, are closed in silence: they are not its own.
CLOSE_ALERTS: Final = """
    UPDATE alert SET recovered_at = $2, owes = NULL
     WHERE rule_id = (SELECT id FROM alert_rule WHERE name = $1) AND recovered_at IS NULL
"""


async def close_alerts(conn: DatabaseConnection, name: str, now: datetime) -> None:
    """Close the open alerts of a rule that changes or is paused, without a message."""
    await conn.execute(CLOSE_ALERTS, name, now)


PAUSE_RULE: Final = """
    UPDATE alert_rule SET is_paused = $2, since = $3, error = NULL, failed_at = NULL WHERE name = $1 AND is_paused <> $2
"""


async def pause_rule(conn: DatabaseConnection, name: str, now: datetime, *, paused: bool) -> bool:
    """Pause a rule or take it up again; False if there was nothing to change."""
    tag: str = await conn.execute(PAUSE_RULE, name, paused, now)
    return tag == "UPDATE 1"


DELETE_RULES: Final = "DELETE FROM alert_rule WHERE name = ANY($1::text[]) AND from_settings = $2"


async def delete_rules(conn: DatabaseConnection, names: Collection[str], *, from_settings: bool = False) -> int:
    """Delete rules with their alerts; returns how many there were."""
    tag: str = await conn.execute(DELETE_RULES, list(names), from_settings)
    return int(tag.split()[-1])


async def take_from_settings(conn: DatabaseConnection, rules: Iterable[RuleFields], now: datetime) -> None:
    """Store the rules of the settings, and delete those that are no longer there. Call it inside a transaction."""
    wanted = {rule.name: rule for rule in rules}
    there = {row.name: row for row in await list_rules(conn) if row.from_settings}
    await delete_rules(conn, sorted(there.keys() - wanted.keys()), from_settings=True)
    for name, rule in wanted.items():
        if name not in there or _said(there[name]) != _said(rule):
            await close_alerts(conn, name, now)
            await set_rule(conn, rule, now, from_settings=True)


def _said(rule: RuleFields) -> dict[str, object]:
    values = asdict(rule)
    return {
        field.name: list(value) if isinstance(value := values[field.name], tuple) else value
        for field in fields(RuleFields)
    }


NOT_EVALUATED: Final = "it cannot be evaluated: "  # begins the error of such a rule
LOOKED: Final = f"""
    UPDATE alert_rule
       SET looked_until = $2,
           error = CASE WHEN starts_with(error, '{NOT_EVALUATED}') THEN NULL ELSE error END
     WHERE id = ANY($1::bigint[])
"""


async def note_looked(conn: DatabaseConnection, rules: Collection[int], until: datetime) -> None:
    """These rules have been evaluated until then."""
    await conn.execute(LOOKED, sorted(rules), until)


NOTE_ERROR: Final = """
    UPDATE alert_rule SET error = $2, failed_at = $3
     WHERE id = $1 AND ($2 IS DISTINCT FROM error OR $2 IS NOT NULL)
"""


async def note_error(conn: DatabaseConnection, rule: int, error: str | None, now: datetime) -> None:
    """Show on the rule why it failed; None: it works again."""
    await conn.execute(NOTE_ERROR, rule, error, now if error is not None else None)
