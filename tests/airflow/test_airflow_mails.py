"""The mails about failed tries."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiosched.airflow.mails import BODY, SUBJECT, FailureMail
from aiosched.authoring.runtime.mail import Mail
from aiosched.errors import NotFound


async def test_the_mail_goes_to_the_addresses_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Mail, str]] = []

    async def send(self: Mail, conn_id: str) -> None:
        sent.append((self, conn_id))

    monkeypatch.setattr(Mail, "send", send)
    context: Any = {}
    await FailureMail(["a@example.org", "b@example.org"]).notify(context)

    [(mail, conn_id)] = sent
    assert (mail.to, mail.subject, mail.html_content) == (["a@example.org", "b@example.org"], SUBJECT, BODY)
    assert conn_id == "smtp_default"


async def test_without_a_mail_server_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(self: Mail, conn_id: str) -> None:
        raise NotFound("no such connection")

    monkeypatch.setattr(Mail, "send", send)
    context: Any = {}
    with caplog.at_level(logging.WARNING):
        await FailureMail("a@example.org").notify(context)

    assert "smtp_default" in caplog.text
