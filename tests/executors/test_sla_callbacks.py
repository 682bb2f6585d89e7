"""Telling of missed SLAs in a worker. The semantics reference, section 23.3."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.authoring.notifiers import BaseNotifier
from aiosched.authoring.runtime.mail import Mail
from aiosched.core.values.messages import Outcome, Report
from aiosched.executors.attempt.attempts import execution_of
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import drive
from aiosched.executors.inline.executor import RegisteredDags
from tests.executors.attempt_builders import FakeServices, callback_attempt

MISS = {"dag_id": "d", "task_id": "t", "logical_date": "2026-01-01T12:00:00Z", "timestamp": "2026-01-01T12:30:00Z"}
INSTANCE = {
    "dag_id": "d",
    "task_id": "u",
    "map_index": 2,
    "run_id": "r",
    "logical_date": "2026-01-01T12:00:00Z",
    "state": None,
    "try_number": 0,
}


class Misses(FakeServices):
    """Answers what callback 7 is about."""

    missed: bool = True

    async def call(self, run: int, name: str, args: str) -> str:
        assert (name, json.loads(args)) == ("sla_misses", {"callback": 7})
        return json.dumps({"slas": [MISS] * self.missed, "blocking_tis": [INSTANCE] * self.missed})


def run_sla_callback(dag: DAG, services: Misses | None = None) -> Report:
    one = callback_attempt("sla_miss", reason="sla_miss")
    execution = execution_of(one, services or Misses(), AttemptEnvironment(), blocking=drive)
    return drive(execution.run(RegisteredDags({"d": dag})))


def dag_with(*callbacks: Any, **options: Any) -> DAG:
    with DAG("d", schedule="@daily", sla_miss_callback=list(callbacks)) as dag:
        EmptyOperator(task_id="t", sla=60, **options)
        EmptyOperator(task_id="u")
    return dag


def test_each_callback_gets_the_dag_two_texts_and_what_they_are_made_of() -> None:
    seen: list[Any] = []
    dag = dag_with(lambda *facts: seen.append(facts), lambda *facts: seen.append(facts))

    report = run_sla_callback(dag)

    assert report.outcome is Outcome.SUCCESS
    assert seen[0] == seen[1]
    given, task_list, blocking_task_list, (miss,), (instance,) = seen[0]
    assert given is dag
    assert task_list == "t on 2026-01-01T12:00:00+00:00"
    assert blocking_task_list == "u on 2026-01-01T12:00:00+00:00"
    assert (miss.task_id, miss.timestamp) == ("t", datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
    assert (instance.run_id, instance.map_index, instance.state) == ("r", 2, None)


def test_a_callback_may_be_a_coroutine_function() -> None:
    seen: list[str] = []

    async def note(dag: Any, task_list: str, *_: Any) -> None:
        seen.append(task_list)

    assert run_sla_callback(dag_with(note)).outcome is Outcome.SUCCESS
    assert seen == ["t on 2026-01-01T12:00:00+00:00"]


def test_a_notifier_finds_them_in_its_context() -> None:
    seen: list[str] = []

    class Note(BaseNotifier):
        template_fields = ("text",)

        def __init__(self, text: str) -> None:
            self.text = text

        def notify(self, context: Any) -> None:
            seen.append(self.text)

    run_sla_callback(
        dag_with(Note("{{ dag.dag_id }}: {{ task_list }}, {{ slas | length }} of {{ blocking_tis[0].task_id }}"))
    )

    assert seen == ["d: t on 2026-01-01T12:00:00+00:00, 1 of u"]


def test_a_callback_that_raises_does_not_keep_the_mail_from_being_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setenv("AIOSCHED_CONN_SMTP_DEFAULT", "smtp://user@mail.example.com")
    monkeypatch.setattr(Mail, "_deliver", lambda self, connection, message: sent.append(message))

    def bad(*facts: Any) -> None:
        raise ValueError("no pager")

    report = run_sla_callback(dag_with(bad, email="ops@example.com"))

    assert report.outcome is Outcome.FAILED
    assert report.reason == "callback bad raised ValueError: no pager"
    assert [(m["To"], m["Subject"]) for m in sent] == [("ops@example.com", "[aiosched] SLA miss on DAG=d")]


def test_without_a_mail_server_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOSCHED_CONN_SMTP_DEFAULT", raising=False)

    report = run_sla_callback(dag_with(email="ops@example.com"), NoConnections())

    assert report.outcome is Outcome.FAILED
    assert (report.reason or "").startswith("the mail about missed SLAs raised NotFound: There is no connection")


class NoConnections(Misses):
    async def call(self, run: int, name: str, args: str) -> str:
        return json.dumps({"value": None}) if name == "connection" else await super().call(run, name, args)


def test_misses_that_were_removed_meanwhile_are_not_told_of() -> None:
    seen: list[Any] = []
    services = Misses()
    services.missed = False

    assert run_sla_callback(dag_with(lambda *facts: seen.append(facts)), services).outcome is Outcome.SUCCESS
    assert seen == []
