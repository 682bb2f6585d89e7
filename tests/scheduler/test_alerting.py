"""Alerts of a running scheduler: rules are evaluated, messages go through the outbox, failures stay with their rule."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.alerts.rules import AlertKind
from aiosched.core.values.messages import Outcome
from aiosched.db.alerts import alerts, changes, facts
from aiosched.db.alerts.rules import RuleFields, list_rules, pause_rule, set_rule
from aiosched.db.queries.starving import read_starving
from aiosched.db.statements.ownership import LOCK_CLASS
from aiosched.scheduler.loops.alerts import AlertLoop
from tests.parsing.test_parsers_seen import Beating
from tests.scheduler.harness import Running, dag, running, task

NOTIFIERS = [{"name": "ops", "kind": "webhook", "endpoint": "https://chat.example/hook"}]
SPEC = dag("sales", task("a", retries=0))


async def add_rule(it: Running, kind: AlertKind, name: str = "rule", **fields: Any) -> None:
    async with it.db.transaction() as conn:
        assert await set_rule(conn, RuleFields(name, kind, fields.pop("notifier", "ops"), **fields), it.clock.now())


async def fail(it: Running, run_id: str) -> None:
    await it.trigger("sales", run_id)
    it.executor.report(await it.attempt("a", run_id), Outcome.FAILED, reason="bad", fail_now=True)
    await it.settled()


async def first_failure(it: Running) -> None:
    """A rule about failed runs, and r1 has failed: what follows from it is decided."""
    await add_rule(it, AlertKind.RUN_FAILED)
    await it.advance(1)
    await fail(it, "r1")
    await it.advance(30)


async def succeed(it: Running, run_id: str) -> None:
    await it.trigger("sales", run_id)
    await it.finish("a", run_id=run_id)


async def said(it: Running) -> dict[str, Any]:
    """The facts of the message that is being delivered."""
    call = (await it.callback()).callback
    assert call is not None
    assert call.notice is not None
    facts_: dict[str, Any] = json.loads(call.notice)["alert"]
    return facts_


async def end_delivery(it: Running, outcome: Outcome = Outcome.SUCCESS, **details: Any) -> None:
    it.executor.report(await it.callback(), outcome, **details)
    await it.settled()


async def shown(it: Running) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in await it.fetch(
            "SELECT subject, recovered_at IS NULL, owes, failures, told_at IS NOT NULL FROM alert ORDER BY id"
        )
    ]


@contextlib.asynccontextmanager
async def peer_with_waiting_tasks(it: Running) -> AsyncIterator[None]:
    """A scheduler that lives, has started long ago, and says that five tasks wait for the pool `full`, two for none."""
    async with it.db.acquire() as conn:
        number = await conn.fetchval(
            """INSERT INTO scheduler (name, hostname, pid, version, executor, slots, draining, started_at,
                                      lease_expires_at, figures)
               VALUES ('x', 'h', 1, '1', 'inline', 1, true, now() - interval '1 h', now() + interval '1 h',
                       '{"waiting": {"full": 5, "mistyped": 2, "open": 0, "odd": "x"},
                         "in_vain": [["pool", "mistyped", "pool ''mistyped'' does not exist: create it", 2],
                                     ["pool", "full", "pool ''full'': needs 9 slots, has 2 in all", 1],
                                     ["executor", "dask", "executor ''dask'' is not configured", 3],
                                     "odd", ["pool"], ["pool", "odd", "x", "x"], ["disk", "c", "x", 1]]}')
               RETURNING incarnation"""
        )
        await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, number % 2**31)
        yield
        await conn.execute("SELECT pg_advisory_unlock_all()")


async def test_a_failed_run_is_said_once_until_the_dag_recovers(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await first_failure(it)

        message = await said(it)
        assert (message["message"], message["subject"], message["run_id"]) == ("opened", "sales", "r1")
        assert message["title"] == "Run r1 of sales failed in a: bad"
        await end_delivery(it)
        await fail(it, "r2")
        await it.advance(30)
        assert it.executor.callbacks == {}
        assert await shown(it) == [("sales", True, None, 0, True)]

        await succeed(it, "r3")
        await it.advance(30)
        assert (await said(it))["title"] == "Recovered: Run r2 of sales failed in a: bad"
        await end_delivery(it)
        await it.advance(30)
        assert await shown(it) == [("sales", False, None, 0, True)]
        assert await it.fetch("SELECT * FROM callback_outbox") == []


async def test_an_alert_and_the_request_to_announce_it_are_stored_together_or_not_at_all(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED)
        await it.advance(1)
        await it.execute("ALTER TABLE callback_outbox ADD CONSTRAINT closed CHECK (kind <> 'alert')")
        await fail(it, "r1")
        await it.advance(30)
        assert await shown(it) == []

        await it.execute("ALTER TABLE callback_outbox DROP CONSTRAINT closed")
        await it.advance(30)
        assert (await said(it))["run_id"] == "r1"


async def test_what_is_silenced_opens_at_once_and_is_said_when_the_silence_ends_also_after_a_restart(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED)
        await changes.silence(it.db, 3600.0, "we know", it.clock.now(), dag_id="sales")
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)
        assert await shown(it) == [("sales", True, "opened", 0, False)]
        assert it.executor.callbacks == {}
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await it.advance(3000)
        assert it.executor.callbacks == {}
        await it.advance(700)
        assert (await said(it))["run_id"] == "r1"


async def test_a_silence_that_is_ended_lets_go_what_is_open_and_one_of_an_alert_holds_when_it_opens_again(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await first_failure(it)
        await end_delivery(it)
        ((number,),) = await it.fetch("SELECT id FROM alert")
        silence = await changes.silence(it.db, 7200.0, "we know", it.clock.now(), alert=number)
        await succeed(it, "r2")
        await it.advance(30)
        await fail(it, "r3")
        await it.advance(30)
        assert await shown(it) == [("sales", False, "recovered", 0, True), ("sales", True, "opened", 0, False)]
        assert it.executor.callbacks == {}

        await asyncio.gather(*(changes.end_silence(it.db, silence.id, it.clock.now()) for _ in range(5)))
        assert len(await it.fetch("SELECT FROM audit_log WHERE kind = 'alert.silence.ended'")) == 1
        await it.advance(30)
        assert len(it.executor.callbacks) == 2


async def test_a_silence_of_a_tag_holds_its_dags_and_goes_with_retention(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await it.execute("UPDATE dag SET tags = '{gold}'")
        await add_rule(it, AlertKind.RUN_FAILED)
        await changes.silence(it.db, 60.0, "we know", it.clock.now(), tag="gold")
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)
        assert it.executor.callbacks == {}
        await it.advance(60)
        await end_delivery(it)
        await it.advance(31 * 86_400)
        await it.advance(3_700)
        assert await it.fetch("SELECT FROM alert_silence") == []


async def test_a_rule_leaves_out_runs_of_other_types(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED, run_types=("scheduled", "asset_triggered"))
        await add_rule(it, AlertKind.RUN_FAILED, "all", severity="critical")
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)

        message = await said(it)
        assert (message["rule"], message["severity"]) == ("all", "critical")
        assert len(await shown(it)) == 1


async def test_a_delivery_that_fails_is_shown_on_its_rule_and_tried_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED)
        await add_rule(it, AlertKind.RUN_FAILED, "nowhere", notifier="unknown")
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)
        await end_delivery(it, Outcome.FAILED, reason="HTTP 500")

        nowhere, rule = await list_rules(it.db)
        assert rule.error == "HTTP 500"
        assert nowhere.error is not None
        assert "no notifier 'unknown'" in nowhere.error
        await it.advance(29)
        assert it.executor.callbacks == {}
        await it.advance(2)
        await end_delivery(it)
        _, rule = await list_rules(it.db)
        assert rule.error is None
        assert ("sales", True, None, 0, True) in await shown(it)


async def test_a_delivery_that_is_lost_with_its_worker_is_made_again(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await first_failure(it)
        for _ in range(3):
            await end_delivery(it, Outcome.LOST, reason="worker killed")
        assert await it.fetch("SELECT 1 FROM callback_outbox WHERE given_up_at IS NOT NULL") != []

        await it.advance(30)
        assert await it.fetch("SELECT 1 FROM callback_outbox") == []
        assert (await shown(it))[0] == ("sales", True, "opened", 1, False)
        assert "an alert could not be delivered, and is tried again: worker killed" in caplog.messages
        assert "callback_outbox" not in caplog.text  # its row is gone
        await it.advance(31)
        await end_delivery(it)
        assert (await shown(it))[0] == ("sales", True, None, 0, True)


async def test_a_new_session_delivers_what_an_earlier_one_has_opened(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await first_failure(it)
        await it.callback()
    async with running(dsn, clock, notifiers=NOTIFIERS) as it:
        assert (await said(it))["run_id"] == "r1"
        await end_delivery(it)
        await it.advance(60)
        assert it.executor.callbacks == {}
        assert (await shown(it))[0] == ("sales", True, None, 0, True)


async def test_rules_of_the_settings_come_and_go_with_them(dsn: str, clock: FakeClock) -> None:
    rules = [
        {"name": "late", "kind": "run_late", "notifier": "ops"},
        {"name": "bad", "kind": "typo", "notifier": "ops"},
    ]
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS, rules=rules) as it, it.db.transaction() as conn:
        assert [(row.name, row.from_settings) for row in await list_rules(conn)] == [("late", True)]
        assert not await set_rule(conn, RuleFields("late", "run_failed", "ops"), clock.now())
        assert await pause_rule(conn, "late", clock.now(), paused=True)
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS, rules=rules) as it, it.db.acquire() as conn:
        assert [row.is_paused for row in await list_rules(conn)] == [True]
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it, it.db.acquire() as conn:
        assert await list_rules(conn) == []


async def test_a_rule_that_this_version_does_not_know_shows_that_and_the_others_go_on(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED)
        await it.execute("INSERT INTO alert_rule (name, kind, notifier) VALUES ('new', 'moon_full', 'ops')")
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)

        assert (await said(it))["rule"] == "rule"
        ((error,),) = await it.fetch("SELECT error FROM alert_rule WHERE name = 'new'")
        assert "moon_full" in error


async def test_what_is_late_long_missed_wrong_gone_or_in_quarantine_becomes_a_fact(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        for number in range(3):
            await succeed(it, f"before{number}")
        await it.trigger("sales", "now")
        await it.attempt("a", "now")
        await it.advance(100)
        now = it.clock.now()
        await it.execute(
            """UPDATE dag_run SET start_date = end_date - interval '10 s' WHERE state = 'success'""",
        )
        await it.execute(
            """INSERT INTO deadline (run_id, deadline_index, partition, deadline_time, missed)
               SELECT id, 0, partition, $1, true FROM dag_run WHERE run_id = 'now'""",
            now,
        )
        await it.execute("UPDATE dag SET next_dagrun_create_after = $1", now - timedelta(seconds=70))
        await it.execute(
            """INSERT INTO sla_miss (partition, dag_id, task_id, logical_date, missed_at)
               VALUES (0, 'sales', 'a', $1, $1)""",
            now,
        )
        await it.execute(
            "INSERT INTO dag_file (file, partition, dag_ids, error) VALUES ('bad.py', 0, '{sales}', 'SyntaxError: oh')"
        )
        await it.execute("INSERT INTO lost_scheduler VALUES (77, 'two', 'box')")
        await it.execute(
            "INSERT INTO lost_span (noticed_at, lost_from, lost_to, noticed_by) VALUES ($1, $1, $1, 'one')", now
        )
        await it.execute(
            """INSERT INTO dag_quarantine (dag_id, failures, since, retry_at, place, error, traceback, version)
               VALUES ('sales', 1, $1, $1, 'creating runs', 'ValueError: x', '', '1')""",
            now,
        )
        await it.execute("INSERT INTO pool (name, slots, used) VALUES ('full', 2, 2)")

        async with peer_with_waiting_tasks(it), it.db.acquire() as conn:
            found = {kind: await read(conn, now - timedelta(days=1), now) for kind, read in facts.READERS.items()}
            assert [(one.subject, one.exists, one.words) for one in await read_starving(conn)] == [
                ("full", True, "pool 'full': needs 9 slots, has 2 in all; 1 task waits"),
                ("mistyped", False, "pool 'mistyped' does not exist: create it; 2 tasks wait"),
                ("executor dask", False, "executor 'dask' is not configured; 3 tasks wait"),
                ("full", True, "pool 'full': all 2 slots are occupied, 4 tasks wait"),
            ]

        texts = {kind: [fact.text for fact in some] for kind, some in found.items()}
        stamp, second = f"{now:%Y-%m-%d %H:%M} UTC", f"{now:%Y-%m-%d %H:%M:%S}"
        lost = f"what was stored from {second} to {second} UTC may be lost"
        assert texts == {
            "run_failed": [],
            "run_late": ["A run of sales is late by 1 m 10 s: it was not created"],
            "run_long": ["Run now of sales has not ended after 1 m 40 s, usually 10.0 s"],
            "deadline_missed": [
                f"Run now of sales missed its deadline of {stamp}", f"Task a of sales missed its SLA for {stamp}"
            ],
            "import_error": ["bad.py cannot be imported: SyntaxError: oh"],
            "scheduler_gone": ["Scheduler two on box is gone: others have taken over its work"],
            "parser_silent": [],
            "dag_quarantined": ["DAG sales is in quarantine: creating runs failed (ValueError: x)"],
            "commits_lost": [
                f"The database went back: {lost}. Tasks and runs of then may run again"
            ],
        }  # fmt: skip


async def test_a_pool_starves_when_it_was_full_for_so_long_and_a_scheduler_that_started_makes_up_for_a_lost_one(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.POOL_STARVING, seconds=60.0)
        await add_rule(it, AlertKind.SCHEDULER_GONE, "gone")
        await it.execute("INSERT INTO lost_scheduler SELECT 77, 'two', 'box', now()")
        await it.execute("INSERT INTO pool (name, slots, used) VALUES ('full', 0, 0)")
        async with peer_with_waiting_tasks(it):
            await it.advance(30)
            await it.advance(30)
            subjects = [row[0] for row in await shown(it)]
            await it.advance(30)

            assert subjects == ["two"]
            assert [row[0] for row in await shown(it)] == ["two", "full", "mistyped", "executor dask"]
            await it.execute("UPDATE scheduler SET started_at = started_at + interval '2 h'")
            await it.advance(30)
            assert [row[:2] for row in await shown(it)] == [
                ("two", False), ("full", True), ("mistyped", True), ("executor dask", True)
            ]  # fmt: skip


async def test_what_the_database_has_lost_is_told_once_and_is_over_after_a_day(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.COMMITS_LOST)
        await it.execute(
            "INSERT INTO lost_span (noticed_at, lost_from, lost_to, noticed_by)"
            " SELECT now() - interval '23 h', NULL, now() - interval '24 h', 'one'"
        )
        await it.advance(30)
        await it.advance(30)

        assert [row[:2] for row in await shown(it)] == [("database", True)]
        assert (await said(it))["text"].startswith("The database went back: what was stored to ")
        await end_delivery(it)
        await it.execute("UPDATE alert SET last_at = last_at - interval '2 h'")
        await it.execute("UPDATE lost_span SET noticed_at = noticed_at - interval '2 h'")
        await it.advance(30)
        assert [row[:2] for row in await shown(it)] == [("database", False)]


async def test_a_silent_parser_is_told_once_and_is_over_when_it_is_heard_or_replaced(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.PARSER_SILENT)
        beating = Beating(it.db)
        stopped, other = beating.of("stopped", "git"), beating.of("other", "git")
        for one, over in ((stopped, "heard of"), (other, "replaced")):
            await stopped.beat()
            await it.advance(30)
            assert all(not is_open for _, is_open, *_ in await shown(it)), over
            await beating.is_silent("stopped", 31.0)
            await it.advance(30)
            await it.advance(30)

            assert (await shown(it))[-1][:2] == ("stopped", True)
            text = (await said(it))["text"]
            assert text.startswith("no heartbeat from the parser stopped for 3")
            assert text.endswith("s, which reads the bundle git")
            await end_delivery(it)
            for _ in range(2):
                await one.beat()
            await it.advance(30)
            assert (await shown(it))[-1][:2] == ("stopped", False)
            await end_delivery(it)


@pytest.mark.parametrize("remark", ["lacks sales.py, which two has", "has a clock that is 40 s behind"])
async def test_machines_that_differ_are_told_once_and_are_over_when_they_are_alike(
    dsn: str, clock: FakeClock, remark: str
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.MACHINES_DIFFER)
        async with peer_with_waiting_tasks(it):
            await it.execute("UPDATE scheduler SET figures = $1 WHERE name = 'x'", json.dumps({"remarks": [remark]}))
            await it.advance(30)
            await it.advance(30)

            assert [row[:2] for row in await shown(it)] == [("x", True)]
            assert (await said(it))["text"] == f"Machines of schedulers differ: x {remark}"
            await end_delivery(it)
            await it.execute("UPDATE scheduler SET figures = '{}' WHERE name = 'x'")
            await it.advance(30)
            assert [row[:2] for row in await shown(it)] == [("x", False)]


async def test_a_test_message_is_delivered_and_leaves_nothing_open(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED, quiet_from="00:00", quiet_until="23:59")
        async with it.db.transaction() as conn:
            assert await alerts.add_test(conn, "rule", "Hello", it.clock.now()) is not None
            assert await alerts.add_test(conn, "none", "Hello", it.clock.now()) is None
        await it.advance(30)

        assert (await said(it))["title"] == "Test: Hello"
        await end_delivery(it)
        assert await shown(it) == [("test", False, None, 0, True)]


async def test_what_one_rule_cannot_read_or_decide_stops_no_other_rule(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        await add_rule(it, AlertKind.RUN_FAILED)
        await add_rule(
            it, AlertKind.IMPORT_ERROR, "files", quiet_from="00:00", quiet_until="00:01", time_zone="Asia/Tokyo"
        )
        await it.execute(
            """INSERT INTO alert (rule_id, subject, text, opened_at, last_at, deliver_at, failures)
               SELECT id, 'x.py', '', $1, $1, 'infinity', 1 FROM alert_rule WHERE name = 'files'""",
            clock.now(),
        )
        await it.advance(1)
        await fail(it, "r1")
        await it.advance(30)

        assert (await said(it))["rule"] == "rule"
        ((error,),) = await it.fetch("SELECT error FROM alert_rule WHERE name = 'files'")
        assert error.startswith("it cannot be evaluated: OverflowError")
        await it.execute("UPDATE alert SET deliver_at = opened_at WHERE subject = 'x.py'")
        await it.advance(30)
        assert await it.fetch("SELECT error FROM alert_rule WHERE name = 'files'") == [(None,)]


async def test_without_rules_a_pass_is_one_small_statement(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS, count_statements=True) as it:
        loop = AlertLoop()
        await loop.evaluate(it.session)
        before = it.scheduler.db.statements.total
        await loop.evaluate(it.session)

        assert it.scheduler.db.statements.total - before == 1


FACTS_READ = {
    "FAILED": ("ix_dag_run_failed",),
    "LONG": ("ix_dag_run_unfinished", "ix_dag_run_dag_id_id"),
    "MISSED": ("ix_deadline_missed", "pk_sla_miss"),
}


@pytest.mark.parametrize(
    ("state", "is_at_work"),
    [(None, False), ("scheduled", False), ("running", True), ("deferred", True), ("up_for_retry", True)],
)
async def test_a_run_that_only_waits_is_not_said_to_run(
    dsn: str, clock: FakeClock, state: str | None, is_at_work: bool
) -> None:
    async with running(dsn, clock, SPEC, notifiers=NOTIFIERS) as it:
        for number in range(3):
            await succeed(it, f"before{number}")
        await it.trigger("sales", "now")
        await it.attempt("a", "now")
        await it.advance(100)
        async with it.db.transaction() as conn:
            await conn.execute(
                "UPDATE task_instance SET state = $1 WHERE run_id = (SELECT id FROM dag_run WHERE run_id = 'now')",
                state,
            )
            (found,) = await facts.READERS[AlertKind.RUN_LONG](conn, clock.now(), clock.now())
            await conn.execute("UPDATE task_instance SET state = 'running' WHERE state IS DISTINCT FROM 'success'")

    words = "Run now of sales has not ended after 1 m 40 s, usually "
    assert found.text.removeprefix(words).partition(":")[2] == ("" if is_at_work else " no task of it is at work now")
    assert found.text.startswith(words)


@pytest.mark.parametrize("name", FACTS_READ)
async def test_events_and_long_runs_are_read_by_index(dsn: str, clock: FakeClock, name: str) -> None:
    arguments = {"FAILED": (clock.now(), clock.now(), 10), "LONG": (10, 20, 3, clock.now())}
    async with running(dsn, clock, SPEC) as it, it.db.acquire() as conn:
        await conn.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        statement = "EXPLAIN " + getattr(facts, name)
        plan = await conn.fetch(statement, *arguments.get(name, arguments["FAILED"]))

    lines = "\n".join(row[0] for row in plan)
    assert [index for index in FACTS_READ[name] if index not in lines] == []
