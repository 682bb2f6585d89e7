"""`aiosched alerts`: what is open, the rules, a test message, and pausing."""

from __future__ import annotations

from datetime import UTC, datetime

from aiosched.db.alerts import changes
from aiosched.db.alerts.rules import RuleFields
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def add_rule(db: Database) -> None:
    await changes.set_rule(db, RuleFields("late", "run_late", "ops", dags=("sales_*",), tags=("etl",)), NOW)


async def add_alerts(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute(
            """INSERT INTO alert (rule_id, subject, dag_ids, text, opened_at, last_at, recovered_at)
               SELECT id, s, ARRAY[s], s || ' is late', $1::timestamptz, $1, CASE WHEN s = 'b' THEN $1::timestamptz END
                 FROM alert_rule, unnest(ARRAY['a', 'b']) AS each (s)""",
            NOW,
        )


def test_open_alerts_and_rules_are_listed(on_db: Cli) -> None:
    assert "no alert rules" in on_db("alerts", "rules").output
    on_db.work(add_rule)
    assert "no open alerts" in on_db("alerts", "list").output
    on_db.work(add_alerts)

    assert [alert["text"] for alert in on_db.json("alerts", "list")] == ["a is late"]
    assert [alert["text"] for alert in on_db.json("alert", "list", "--all", "--rule", "late")] == [
        "b is late", "a is late",
    ]  # fmt: skip
    (rule,) = on_db.json("alerts", "rules")
    assert (rule["name"], rule["dags"], rule["tags"], rule["open_alerts"]) == ("late", ["sales_*"], ["etl"], 1)


def test_a_paused_rule_has_no_open_alerts_and_sends_no_test(on_db: Cli) -> None:
    on_db.work(add_rule)
    on_db.work(add_alerts)

    on_db("alerts", "pause", "late")

    assert on_db.json("alerts", "list") == []
    assert "resume it first" in on_db("alerts", "test", "late", code=4).output
    on_db("alerts", "resume", "late")
    assert "waits" in on_db("alerts", "test", "late", "--wait", "0").output
    assert "Did you mean late?" in on_db("alerts", "test", "lat", code=3).output


def test_a_rule_is_made_and_deleted(on_db: Cli) -> None:
    words = ("--kind", "run_failed", "--notifier", "ops", "--dags", "a,b_*", "--severity", "critical")
    made = on_db.json(
        "alerts", "set", "r", *words, "--run-type", "scheduled", "--remind", "1h", "--quiet", "22:00-07:00"
    )

    assert (made["dags"], made["run_types"], made["severity"]) == (["a", "b_*"], ["scheduled"], "critical")
    assert (made["remind_seconds"], made["quiet_from"], made["quiet_until"]) == (3600.0, "22:00", "07:00")
    assert "both" in on_db("alerts", "set", "r", *words, "--quiet", "22:00", code=4).output
    assert "is no duration" in on_db("alerts", "set", "r", *words, "--remind", "often", code=2).output
    on_db("alerts", "delete", "r", "--yes")
    assert on_db.json("alerts", "rules") == []


def test_an_alert_is_acknowledged_and_silenced_for_a_time(on_db: Cli) -> None:
    on_db.work(add_rule)
    on_db.work(add_alerts)
    (alert,) = on_db.json("alerts", "list")

    on_db("alerts", "acknowledge", str(alert["id"]))
    (known,) = on_db.json("alerts", "list")
    assert known["acknowledged_by"].startswith("cli:")
    assert "nothing to acknowledge" in on_db("alerts", "acknowledge", str(alert["id"] + 1), code=4).output

    made = on_db.json("alerts", "silence", "--alert", str(alert["id"]), "--for", "2h", "--reason", "we know")
    assert made["about"] == "a (late)"
    assert "silenced" in on_db("alerts", "list").output
    assert [row["reason"] for row in on_db.json("alerts", "silences")] == ["we know"]
    assert "has ended by cli:" in on_db("alerts", "unsilence", str(made["silence"])).output
    assert "nothing is silenced" in on_db("alerts", "silences").output
    assert "give one of them" in on_db("alerts", "silence", "--for", "2h", "--reason", "x", code=4).output
