"""Predefined callbacks: `on_failure_callback=send_email(to="ops@example.com")`.

base.py  the base class      smtp.py  mails      webhook.py  requests to a URL
"""

from aiosched.authoring.notifiers.base import BaseNotifier
from aiosched.authoring.notifiers.smtp import SmtpNotifier, send_email
from aiosched.authoring.notifiers.webhook import WebhookNotifier, send_webhook

__all__ = ["BaseNotifier", "SmtpNotifier", "WebhookNotifier", "send_email", "send_webhook"]
