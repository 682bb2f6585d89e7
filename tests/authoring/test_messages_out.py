"""Requests and mails: HttpOperator, EmailOperator, and notifiers as callbacks."""

from __future__ import annotations

import asyncio
import builtins
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched import DAG, EmptyOperator, PythonOperator
from aiosched.authoring.notifiers import BaseNotifier, SmtpNotifier, WebhookNotifier, send_email
from aiosched.authoring.notifiers.alerts import notifier_of, with_address
from aiosched.authoring.operators.email import EmailOperator
from aiosched.authoring.operators.http import HttpOperator
from aiosched.authoring.runtime.context import Context
from aiosched.authoring.runtime.mail import addresses
from aiosched.authoring.tasks.task_context import build_run_context
from aiosched.errors import AioschedError, CommandFailed
from tests.authoring.authoring_builders import context_of, run_task
from tests.mailbox import Mailbox


@dataclass
class Server:
    """What a server was asked, and what it answers."""

    requests: list[httpx2.Request] = field(default_factory=list)
    answer: httpx2.Response = field(default_factory=lambda: httpx2.Response(200, text="fine"))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """No request leaves the process."""
    server, make = Server(), httpx2.AsyncClient
    monkeypatch.setattr(
        httpx2, "AsyncClient", lambda **options: make(transport=httpx2.MockTransport(server), **options)
    )
    return server


# ---- requests


async def test_a_request_is_built_from_a_connection_and_its_answer_is_pushed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "http://me:secret@https%3A%2F%2Fapi.example.com:8443/?X-Team=data"
    monkeypatch.setenv("AIOSCHED_CONN_API", uri.replace("https%3A%2F%2F", ""))
    operator = HttpOperator(
        task_id="t", http_conn_id="api", endpoint="/runs/{{ ds }}", data={"a": "{{ run_id }}"}, headers={"X-Id": "7"}
    )

    assert (await run_task(operator))[0] == "fine"

    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://api.example.com:8443/runs/2026-01-02")
    assert request.content == b"a=manual__1"
    assert (request.headers["X-Id"], request.headers["X-Team"]) == ("7", "data")
    assert request.headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("options", "url", "content"),
    [
        ({"method": "GET", "data": {"a": 1}}, "http://there/x?a=1", b""),
        ({"data": "text"}, "http://there/x", b"text"),
        ({"extra_options": {"json": {"a": 1}, "timeout": 3}}, "http://there/x", b'{"a":1}'),
        ({"method": "PUT", "extra_options": {"params": {"b": 2}}}, "http://there/x?b=2", b""),
    ],
)
async def test_data_goes_where_the_method_wants_it(server: Server, options: Any, url: str, content: bytes) -> None:
    await run_task(HttpOperator(task_id="t", endpoint="http://there/x", **options))

    assert (str(server.requests[0].url), server.requests[0].content) == (url, content)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "http://evil.example/x",
        "http://api.example:81/x",
        "https://api.example:8443/",
        "http://api.example@evil.example/",
    ],
)
@pytest.mark.parametrize("redirected", [False, True])
async def test_credentials_of_a_connection_stay_at_its_origin(
    server: Server, monkeypatch: pytest.MonkeyPatch, elsewhere: str, redirected: bool
) -> None:
    """An endpoint may be a template with text from a run's conf; a redirect is the server's word."""
    monkeypatch.setenv("AIOSCHED_CONN_API", "http://me:secret@api.example/?X-Key=secret")
    server.answer = httpx2.Response(302, headers={"Location": elsewhere})
    operator = HttpOperator(task_id="t", http_conn_id="api", endpoint="/x" if redirected else elsewhere)

    with pytest.raises(CommandFailed, match=r"is not where connection 'api' leads \(http://api.example\)"):
        await run_task(operator)

    assert [str(request.url) for request in server.requests] == (["http://api.example/x"] if redirected else [])


async def test_a_connection_may_be_led_to_https_and_its_own_url_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_API", "http://me:secret@api.example")

    for endpoint in ("http://api.example/x", "https://api.example/x", "http://api.example:80/x"):
        assert (await run_task(HttpOperator(task_id="t", http_conn_id="api", endpoint=endpoint)))[0] == "fine"


async def test_an_answer_is_checked_and_filtered(server: Server) -> None:
    server.answer = httpx2.Response(200, json={"rows": 3})

    async def rows(response: Any, ds: str) -> Any:
        return [response.json()["rows"], ds]

    options = {"endpoint": "http://there", "response_check": lambda response: response.json()["rows"] == 3}
    assert (await run_task(HttpOperator(task_id="t", response_filter=rows, **options)))[0] == [3, "2026-01-02"]
    with pytest.raises(CommandFailed, match="does not accept the answer"):
        await run_task(HttpOperator(task_id="t", endpoint="http://there", response_check=lambda response: False))


async def test_an_error_of_the_server_fails_the_task(server: Server) -> None:
    server.answer = httpx2.Response(503, text="later")

    with pytest.raises(CommandFailed, match=r"POST http://there answered 503 Service Unavailable: 'later'"):
        await run_task(HttpOperator(task_id="t", endpoint="http://there"))


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "httpx2":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)

    with pytest.raises(AioschedError, match=r"pip install 'aiosched\[http\]'"):
        await run_task(HttpOperator(task_id="t", endpoint="http://there"))


# ---- mails


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with Mailbox().open() as mailbox:
        monkeypatch.setenv("AIOSCHED_CONN_SMTP_DEFAULT", mailbox.connection)
        yield mailbox


async def test_a_mail_goes_to_everybody_with_its_files(mailbox: Mailbox, tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text("a,b\n1,2\n")
    operator = EmailOperator(
        task_id="t",
        to="a@example.com, b@example.com",
        cc=["c@example.com"],
        bcc="d@example.com",
        subject="Report of {{ ds }}",
        html_content="<b>{{ run_id }}</b>",
        files=[str(tmp_path / "report.csv")],
        custom_headers={"X-Team": "data"},
    )

    await run_task(operator)

    ((sender, receivers),) = mailbox.envelopes
    (message,) = mailbox.messages
    assert sender.upper().startswith("MAIL FROM:<OPS@EXAMPLE.COM>")
    assert receivers == ["a@example.com", "b@example.com", "c@example.com", "d@example.com"]
    assert (message["Subject"], message["To"], message["Cc"]) == (
        "Report of 2026-01-02",
        "a@example.com, b@example.com",
        "c@example.com",
    )
    assert "Bcc" not in message
    assert message["X-Team"] == "data"
    assert message.get_body(("html",)).get_content().strip() == "<b>manual__1</b>"
    assert [part.get_filename() for part in message.iter_attachments()] == ["report.csv"]


async def test_a_mail_without_a_sender_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_SMTP_DEFAULT", "smtp://localhost")

    with pytest.raises(AioschedError, match="needs a sender"):
        await run_task(EmailOperator(task_id="t", to="a@b.c", subject="s", html_content="h"))


def test_addresses_are_separated_by_commas_and_semicolons() -> None:
    assert addresses("a@x, b@x; c@x,") == ["a@x", "b@x", "c@x"]
    assert addresses(None) == []


# ---- notifiers


def failed_context() -> Context:
    with DAG("sales", schedule=None):
        load = PythonOperator(task_id="load", python_callable=print)
    context = context_of(load)
    context.update(reason="ValueError: <bad>")
    return context


def run_of_sales(reason: str) -> Context:
    with DAG("sales", schedule=None) as dag:
        task = EmptyOperator(task_id="t")
    context = build_run_context(dag, context_of(task).run)
    context.update(reason=reason)
    return context


async def test_a_mail_says_what_failed_and_why(mailbox: Mailbox) -> None:
    await send_email(to="ops@example.com")(failed_context())

    (message,) = mailbox.messages
    assert message["Subject"] == "sales.load: ValueError: <bad>"
    assert "try 2 of 4" in message.get_content()
    assert "ValueError: &lt;bad&gt;" in message.get_content()


async def test_a_mail_about_a_run_needs_no_task(mailbox: Mailbox) -> None:
    await SmtpNotifier(to=["ops@example.com"])(run_of_sales("task_failure"))

    assert mailbox.messages[0]["Subject"] == "sales: task_failure"


async def test_a_webhook_gets_the_facts_or_what_the_author_wrote(server: Server) -> None:
    await WebhookNotifier("http://there/hook")(failed_context())
    await WebhookNotifier("http://there/{{ dag.dag_id }}", {"text": ["{{ reason }}", 7]})(run_of_sales("timed_out"))

    first, second = server.requests
    assert json.loads(first.content) == {
        "text": "sales.load: ValueError: <bad>",
        "dag_id": "sales",
        "run_id": "manual__1",
        "task_id": "load",
        "map_index": -1,
        "try_number": 2,
    }
    assert str(second.url) == "http://there/sales"
    assert json.loads(second.content) == {"text": ["timed_out", 7]}


ALERT: dict[str, Any] = {
    "title": "Recovered: bad.py: {{ 1 / 0 }}", "text": "bad.py: <{{ 1 / 0 }}>", "message": "recovered",
    "rule": "errors", "subject": "bad.py", "dag_ids": ["d"], "opened_at": "2026-01-01T00:00:00Z",
    "recovered_at": "2026-01-01T01:00:00Z",
}  # fmt: skip


def alert_context() -> Context:
    context = run_of_sales("reason")
    context["alert"] = with_address(ALERT)
    return context


async def test_an_alert_is_sent_as_it_is_to_a_webhook_and_by_mail(
    server: Server, monkeypatch: pytest.MonkeyPatch, mailbox: Mailbox
) -> None:
    """Texts of others are no templates, and no HTML."""
    await notifier_of("webhook", {"endpoint": "http://there/hook"}, with_address(ALERT))(alert_context())
    await notifier_of("mail", {"to": "ops@example.com", "from_email": "me@example.com"}, ALERT)(alert_context())

    sent = json.loads(server.requests[0].content)
    assert (sent["text"], sent["details"]) == (ALERT["title"], ALERT["text"])
    assert (sent["dag_ids"], sent["url"]) == (["d"], "http://127.0.0.1:8484/alerts")
    (mail,) = mailbox.messages
    assert mail["Subject"] == ALERT["title"]
    assert "bad.py: &lt;{{ 1 / 0 }}&gt;" in mail.get_content()
    assert "until 2026-01-01T01:00:00Z" in mail.get_content()


def test_an_alert_about_a_run_leads_to_its_page() -> None:
    found = with_address({"dag_ids": ["d"], "run_id": "manual__2026-01-01T00:00:00+00:00"})

    assert found["url"] == "http://127.0.0.1:8484/dags/d/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert with_address({"dag_ids": [], "run_id": "r"})["url"].endswith("/alerts")


@pytest.mark.parametrize(
    ("kind", "arguments", "problem"),
    [
        ("mail", {"too": "x"}, "arguments of the notifier mail are wrong"),
        ("no.such.Notifier", {}, "cannot be imported"),
        ("json.JSONDecoder", {}, "no notifier 'json.JSONDecoder'"),
    ],
)
def test_a_notifier_of_the_settings_that_cannot_be_says_why(kind: str, arguments: Any, problem: str) -> None:
    with pytest.raises(AioschedError, match=problem):
        notifier_of(kind, arguments, ALERT)


async def test_a_webhook_that_is_refused_raises(server: Server) -> None:
    server.answer = httpx2.Response(403)

    with pytest.raises(CommandFailed, match="403"):
        await WebhookNotifier("http://there")(failed_context())


async def test_a_plain_notifier_does_not_hold_up_the_loop() -> None:
    seen: list[Any] = []

    class Plain(BaseNotifier):
        template_fields = ("text",)

        def __init__(self, text: str) -> None:
            self.text = text

        def notify(self, context: Context) -> None:
            seen.append((self.text, threading.current_thread() is threading.main_thread()))

    notifier = Plain("{{ run_id }}")
    await notifier(failed_context())
    await asyncio.gather(*(notifier(failed_context()) for _ in range(2)))

    assert seen == [("manual__1", False)] * 3
    assert notifier.text == "{{ run_id }}"


def test_a_notifier_may_stand_wherever_a_callback_may() -> None:
    notifier = WebhookNotifier("http://there")
    with DAG("d", schedule=None, on_success_callback=notifier, on_failure_callback=[notifier]) as dag:
        task = EmptyOperator(task_id="t", on_failure_callback=notifier)

    assert dag.on_failure_callback == task.on_failure_callback == [notifier]
    assert str(notifier) == "WebhookNotifier"
