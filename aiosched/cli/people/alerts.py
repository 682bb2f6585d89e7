"""`aiosched alerts`: what is wrong now, the rules that say so, and a test of where they tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import Dsn, Output
from aiosched.cli.base.output import Columns, report, show_list, talk
from aiosched.cli.base.session import with_database
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.db.alerts.alerts import AlertRow
    from aiosched.db.alerts.changes import TestOutcome
    from aiosched.db.alerts.rules import RuleRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Alerts and their rules."
)

RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The rule's name.", show_default=False)]

_ALERTS: Final[Columns[AlertRow]] = {
    "ID": lambda alert: alert.id,
    "STATE": lambda alert: "open" if alert.recovered_at is None else "recovered",
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
    "NOTIFIER": lambda rule: rule.notifier,
    "STATE": lambda rule: "paused" if rule.is_paused else "failing" if rule.error else "active",
    "OPEN": lambda rule: rule.open_alerts,
    "FROM": lambda rule: "settings" if rule.from_settings else "people",
    "ERROR": lambda rule: rule.error,
}


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
    rows = with_database(dsn, lambda db: list_alerts(db, is_open=is_open, rule=rule, limit=limit))
    show_list(rows, _ALERTS, output, empty="no alerts" if everything else "no open alerts")


@app.command()
def rules(dsn: Dsn = None, output: Output = None) -> None:
    """List alert rules, and why one fails."""
    from aiosched.db.alerts.changes import list_rules

    rows = with_database(dsn, list_rules)
    show_list(
        rows, _RULES, output, empty="no alert rules; create one on the page Alerts, or in the setting alerts.rules"
    )


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
