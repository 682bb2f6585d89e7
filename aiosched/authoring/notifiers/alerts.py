"""The notifier that delivers an alert: as the settings name it, with messages of its own for mail and webhooks.

In the templates of a notifier's arguments `alert` has the facts: title, text, message (opened, reminder, recovered or
test), rule, kind, severity, subject, dag_ids, run_id, opened_at, last_at, recovered_at, events, and the `url` of the
page (of the run, or of alerts).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.notifiers.base import BaseNotifier
from aiosched.authoring.notifiers.smtp import SmtpNotifier
from aiosched.authoring.notifiers.webhook import WebhookNotifier
from aiosched.authoring.tasks.rendering import literal
from aiosched.core.values.masking import secrets
from aiosched.errors import AioschedError

SUBJECT: Final = "{{ alert.title }}"
BODY: Final = """\
<p>{{ alert.text | e }}</p>
<p>{{ alert.get("severity", "warning") | capitalize | e }}, \
rule <b>{{ alert.rule | e }}</b>, {{ alert.message }}, open since {{ alert.opened_at }}\
{% if alert.recovered_at %} until {{ alert.recovered_at }}{% endif %}</p>
<p><a href="{{ alert.url | e }}">{{ "View run" if alert.get("run_id") else "View alerts" }}</a></p>
"""
_SHORTEST_SECRET: Final = 8  # characters of an argument that the log does not show


def with_address(alert: Mapping[str, Any]) -> dict[str, Any]:
    """The facts, with the address of the page of the run, or of alerts."""
    path = "alerts"
    if alert.get("run_id") and alert.get("dag_ids"):
        path = f"dags/{quote(alert['dag_ids'][0], safe='')}/runs/{quote(alert['run_id'], safe='')}"
    return {**alert, "url": f"{defaults().base_url}/{path}"}


def notifier_of(kind: str, arguments: Mapping[str, Any], alert: Mapping[str, Any]) -> BaseNotifier:
    """The notifier of that kind, which is mail, webhook, or the path of a class. Raises AioschedError."""
    for value in arguments.values():
        if isinstance(value, str) and len(value) >= _SHORTEST_SECRET and "{{" not in value:
            secrets.register(value)
    try:
        if kind == "mail":
            return SmtpNotifier(**{"subject": SUBJECT, "html_content": BODY, **arguments})
        if kind == "webhook":
            facts = {name: literal(value) for name, value in alert.items()}
            payload = {**facts, "text": literal(alert.get("title")), "details": literal(alert.get("text"))}
            return WebhookNotifier(**{"payload": payload, **arguments})
        return _class_at(kind)(**arguments)
    except TypeError as error:
        raise AioschedError(f"The arguments of the notifier {kind} are wrong (alerts.notifiers): {error}") from error


def _class_at(path: str) -> type[BaseNotifier]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise AioschedError(
            f"The notifier {path} cannot be imported: {error}. Install its package where tasks run."
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise AioschedError(f"There is no notifier {path!r}: name a subclass of BaseNotifier at the top of a module.")
    return found
