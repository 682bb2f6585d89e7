"""`aiosched alerts`: what is wrong now, the rules that say so, silences, and a test of where rules tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import MOST_BIGINT, Dsn, Output, UsageProblem, Yes, confirm
from aiosched.cli.base.output import Columns, report, show_list, show_one, talk
from aiosched.cli.base.session import with_database
from aiosched.core.alerts.rules import AlertKind, Severity
from aiosched.core.values.durations import duration, read_duration
from aiosched.core.values.states import RunType
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.db.alerts.alerts import AlertRow
    from aiosched.db.alerts.changes import TestOutcome
    from aiosched.db.alerts.rules import RuleRow
    from aiosched.db.alerts.silences import SilenceRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Alerts and their rules."
)

Number = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=MOST_BIGINT, help="The alert's number.", show_default=False)
]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The rule's name.", show_default=False)]

_ALERTS: Final[Columns[AlertRow]] = {
    "ID": lambda alert: alert.id,
    "STATE": lambda alert: _state(alert),
    "SEVERITY": lambda alert: alert.severity,
    "RULE": lambda alert: alert.rule,
    "SINCE": lambda alert: alert.opened_at,
    "UNTIL": lambda alert: alert.recovered_at,
    "TEXT": lambda alert: alert.text,
    "ERROR": lambda alert: alert.error,
}
_RULES: Final[Columns[RuleRow]] = {
    "RULE": lambda rule: rule.name,
    "KIND": lambda rule: rule.kind,
    "DAGS": lambda rule: ", ".join((*rule.dags, *(f"tag:{tag}" for tag in rule.tags), *rule.owners)) or "all",
    "RUNS": lambda rule: ", ".join(rule.run_types),
    "SEVERITY": lambda rule: rule.severity,
    "NOTIFIER": lambda rule: rule.notifier,
    "STATE": lambda rule: "paused" if rule.is_paused else "failing" if rule.error else "active",
    "OPEN": lambda rule: rule.open_alerts,
    "FROM": lambda rule: "settings" if rule.from_settings else "people",
    "ERROR": lambda rule: rule.error,
}


_SILENCES: Final[Columns[SilenceRow]] = {
    "ID": lambda silence: silence.id,
    "ABOUT": lambda silence: silence.about,
    "UNTIL": lambda silence: silence.ends_at,
    "BY": lambda silence: silence.created_by,
    "ENDED BY": lambda silence: silence.ended_by,
    "REASON": lambda silence: silence.reason,
}


def _state(alert: AlertRow) -> str:
    if alert.recovered_at is not None:
        return "recovered"
    if alert.silenced_until is not None:
        return "silenced"
    return "open" if alert.acknowledged_by is None else f"acknowledged by {alert.acknowledged_by}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that have recovered.")] = False,
    rule: Annotated[str | None, typer.Option("--rule", metavar="RULE", help="Only those of this rule.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Number of alerts.")] = 50,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List open alerts, newest first."""
    from aiosched.db.alerts.changes import list_alerts

    is_open = None if everything else True
    rows = with_database(dsn, lambda db: list_alerts(db, datetime.now(UTC), is_open=is_open, rule=rule, limit=limit))
    show_list(rows, _ALERTS, output, empty="no alerts" if everything else "no open alerts")


@app.command()
def rules(dsn: Dsn = None, output: Output = None) -> None:
    """List alert rules, and why one fails."""
    from aiosched.db.alerts.changes import list_rules

    rows = with_database(dsn, list_rules)
    show_list(rows, _RULES, output, empty="no alert rules; create one: aiosched alerts set --help")


@app.command("set")
def set_(
    rule: RuleName,
    kind: Annotated[AlertKind, typer.Option("--kind", help="What it watches.", show_default=False)],
    notifier: Annotated[
        str, typer.Option("--notifier", metavar="NAME", help="A notifier of the settings.", show_default=False)
    ],
    dags: Annotated[str, typer.Option("--dags", metavar="GLOBS", help="Only these DAGs, as a,b_*.")] = "",
    tags: Annotated[str, typer.Option("--tags", metavar="TAGS", help="Only DAGs with one of these tags.")] = "",
    owners: Annotated[str, typer.Option("--owners", metavar="NAMES", help="Only DAGs of these owners.")] = "",
    run_type: Annotated[
        list[RunType] | None,
        typer.Option("--run-type", help="Only runs of this type; repeatable.", show_default=False),
    ] = None,
    severity: Annotated[Severity, typer.Option("--severity", help="How bad it is.")] = Severity.WARNING,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="How long it lasts at least.", show_default=False)
    ] = None,
    factor: Annotated[
        float | None, typer.Option("--factor", min=1, help="Times the usual duration.", show_default=False)
    ] = None,
    remind: Annotated[
        str | None,
        typer.Option("--remind", metavar="DURATION", help="Remind so often, as 1h.", show_default=False),
    ] = None,
    quiet: Annotated[
        str | None,
        typer.Option("--quiet", metavar="FROM-UNTIL", help="Quiet hours, as 22:00-07:00.", show_default=False),
    ] = None,
    time_zone: Annotated[str, typer.Option("--time-zone", help="That of the quiet hours.")] = "UTC",
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create or change a rule; idempotent. What is not given is as for a new one."""
    from aiosched.db.alerts.changes import set_rule
    from aiosched.db.alerts.rules import RuleFields

    quiet_from, _, quiet_until = (quiet or "").partition("-")
    wanted = RuleFields(
        rule, kind, notifier, _words(dags), _words(tags), _words(owners), tuple(run_type or ()), severity, seconds,
        factor, None if remind is None else _seconds(remind, "--remind"), quiet_from.strip() or None,
        quiet_until.strip() or None, time_zone,
    )  # fmt: skip
    row = with_database(dsn, lambda db: set_rule(db, wanted, datetime.now(UTC)))
    talk(f"{row.name} watches {row.kind} and tells {row.notifier}")
    show_one({name.lower(): read(row) for name, read in _RULES.items()}, output, data=row)


@app.command()
def delete(rule: RuleName, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a rule with its alerts."""
    from aiosched.db.alerts.changes import delete_rule

    confirm(f"Delete the rule {rule} with its alerts?", yes=yes)
    with_database(dsn, lambda db: delete_rule(db, rule))
    talk(f"deleted the rule {rule}")
    report({"rule": rule, "deleted": True}, output)


@app.command()
def acknowledge(alert: Number, dsn: Dsn = None, output: Output = None) -> None:
    """Say that you have an open alert in hand: there are no more reminders of it."""
    from aiosched.db.alerts.changes import acknowledge as change

    row = with_database(dsn, lambda db: change(db, alert, datetime.now(UTC)))
    talk(f"{row.acknowledged_by} has the alert {row.id}: {row.text}")
    report({"alert": row.id, "acknowledged_by": row.acknowledged_by}, output)


@app.command()
def silences(
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Number of silences.")] = 50,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List silences, newest first."""
    from aiosched.db.alerts.silences import list_silences

    active_at = None if everything else datetime.now(UTC)
    rows = with_database(dsn, lambda db: list_silences(db, active_at=active_at, limit=limit))
    show_list(rows, _SILENCES, output, empty="no silences" if everything else "nothing is silenced")


@app.command()
def silence(
    time: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, as 30m, 2h or 1d.", show_default=False)
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; others read it.", show_default=False)],
    alert: Annotated[
        int | None, typer.Option("--alert", metavar="ID", min=1, max=MOST_BIGINT, help="One alert.", show_default=False)
    ] = None,
    dag_id: Annotated[str | None, typer.Option("--dag", metavar="DAG", help="A DAG.", show_default=False)] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="TAG", help="The DAGs with a tag.", show_default=False)
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Send nothing for a time about an alert, a DAG or a tag. Alerts open and recover as ever.

    It ends by itself; what is still open then is sent.
    """
    from aiosched.db.alerts.changes import silence as change

    seconds = _seconds(time, "--for")
    row = with_database(
        dsn, lambda db: change(db, seconds, reason, datetime.now(UTC), alert=alert, dag_id=dag_id, tag=tag)
    )
    talk(f"nothing is sent about {row.about} for {duration(seconds)}; end it: aiosched alerts unsilence {row.id}")
    report({"silence": row.id, "about": row.about, "ends_at": row.ends_at}, output)


@app.command()
def unsilence(
    number: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=MOST_BIGINT, help="Its number.", show_default=False)
    ],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """End a silence before its time: what is open is sent at the next evaluation."""
    from aiosched.db.alerts.changes import end_silence

    row = with_database(dsn, lambda db: end_silence(db, number, datetime.now(UTC)))
    by = f" by {row.ended_by}" if row.ended_by else ""
    talk(f"the silence of {row.about} has ended{by}")
    report({"silence": row.id, "ends_at": row.ends_at, "ended_by": row.ended_by}, output)


def _seconds(text: str, option: str) -> float:
    try:
        return read_duration(text)
    except ValueError as error:
        raise UsageProblem(f"{option}: {error}") from None


@app.command()
def pause(rule: RuleName, dsn: Dsn = None, output: Output = None) -> None:
    """Pause a rule: it opens and delivers nothing, and its open alerts are closed without a message."""
    _pause(rule, dsn, output, paused=True)


@app.command()
def resume(rule: RuleName, dsn: Dsn = None, output: Output = None) -> None:
    """Take up a paused rule again."""
    _pause(rule, dsn, output, paused=False)


@app.command("test")
def send_test(
    rule: RuleName,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="Seconds to wait for the delivery.")
    ] = 90.0,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Send a test message by the notifier of a rule, and wait until a scheduler has delivered it."""
    from aiosched.db.alerts.changes import test_rule, wait_for_test

    async def send(db: Database) -> TestOutcome:
        return await wait_for_test(db, await test_rule(db, rule, datetime.now(UTC)), wait)

    outcome = with_database(dsn, send)
    report({"rule": rule, "delivered": outcome.delivered, "error": outcome.error}, output)
    if outcome.error is not None:
        raise AioschedError(f"The test message of {rule} could not be delivered: {outcome.error}")
    if outcome.delivered:
        talk(f"the test message of {rule} was delivered")
    else:
        talk(f"the test message of {rule} waits: a scheduler delivers it at its next evaluation (alerts.interval)")


def _pause(rule: str, dsn: str | None, output: Output, *, paused: bool) -> None:
    from aiosched.db.alerts.changes import pause_rule

    row = with_database(dsn, lambda db: pause_rule(db, rule, datetime.now(UTC), paused=paused))
    talk(f"{row.name} is {'paused' if row.is_paused else 'active'}")
    report({"rule": row.name, "is_paused": row.is_paused}, output)
