"""The provider package for SMTP against a mail server, in the real service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mailbox import Mailbox
from tests.providers.service import Service, check_states

pytestmark = pytest.mark.timeout(1_800)

SOURCE = """
from airflow import DAG
from airflow.providers.smtp.hooks.smtp import SmtpHook
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.providers.smtp.operators.smtp import EmailOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import task

with DAG("mails", schedule="@once"):
    report = EmailOperator(
        task_id="report", to=["a@example.com", "b@example.com"], cc="c@example.com", conn_id="post",
        subject="Report of {{ dag.dag_id }}", html_content="<b>{{ task.task_id }}</b>",
    )

    @task
    def hook():
        with SmtpHook("post") as smtp:
            smtp.send_email_smtp(to="d@example.com", subject="by hook", html_content="text")
            return smtp.test_connection()[0]

    hook()
    BashOperator(task_id="breaks", bash_command="exit 3", email="ops@example.com", email_on_failure=True)
    BashOperator(
        task_id="notifies", bash_command="exit 4",
        on_failure_callback=SmtpNotifier(
            to="e@example.com", from_email="f@example.com", subject="{{ ti.task_id }}", html_content="x",
            smtp_conn_id="post",
        ),
    )
    EmailOperator(task_id="lost", to="a@example.com", subject="s", html_content="x", conn_id="unknown")
"""


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with Mailbox().open() as mailbox:
        yield mailbox


def test_operators_hooks_notifiers_and_failures_send_mails(
    three_providers: Path, tmp_path: Path, dsn: str, mailbox: Mailbox
) -> None:
    service = Service(three_providers, tmp_path, dsn)
    service.connect("post", **mailbox.fields)
    service.connect("smtp_default", **mailbox.fields)

    ran = service.run(SOURCE, dag_id="mails")

    success, failed = ("report", "hook"), ("breaks", "notifies", "lost")
    check_states(ran, {**dict.fromkeys(success, "success"), **dict.fromkeys(failed, "failed")})
    pairs = zip(mailbox.messages, mailbox.envelopes, strict=True)
    sent = {message["Subject"]: envelope[1] for message, envelope in pairs}
    assert sent["Report of mails"] == ["a@example.com", "b@example.com", "c@example.com"]
    assert sent["by hook"] == ["d@example.com"]
    assert sent["notifies"] == ["e@example.com"]
    [alert] = [subject for subject in sent if "mails.breaks" in subject]
    assert sent[alert] == ["ops@example.com"]
    assert "unknown" in ran["lost"].log
