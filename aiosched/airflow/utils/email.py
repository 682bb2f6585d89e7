"""`airflow.utils.email`: mails from a task's function, and mails as objects for services that send them themselves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from email.message import EmailMessage
from typing import Any

from aiosched.authoring.runtime.mail import Mail, addresses


def send_email(
    to: str | Iterable[str],
    subject: str,
    html_content: str,
    files: Sequence[str] | None = None,
    dryrun: bool = False,
    cc: str | Iterable[str] | None = None,
    bcc: str | Iterable[str] | None = None,
    mime_subtype: str = "mixed",
    mime_charset: str = "utf-8",
    conn_id: str | None = None,
    custom_headers: Mapping[str, Any] | None = None,
    from_email: str | None = None,
    **_: Any,
) -> None:
    """Send a mail by the connection `conn_id`, by default `smtp_default`; nothing with `dryrun`.

    For plain functions: it waits until the server has taken the mail. Raises NotFound and the errors of smtplib.
    """
    mail = _mail(
        to=to, subject=subject, html_content=html_content, files=files, cc=cc, bcc=bcc, mime_subtype=mime_subtype,
        mime_charset=mime_charset, custom_headers=custom_headers, from_email=from_email,
    )  # fmt: skip
    if not dryrun:
        asyncio.run(mail.send(conn_id or "smtp_default"))


def get_email_address_list(addresses: str | Iterable[str]) -> list[str]:
    """The addresses of a text with commas or semicolons, or of several. Raises TypeError for anything else."""
    if not isinstance(addresses, str | Iterable) or not all(isinstance(one, str) for one in addresses):
        raise TypeError(f"{addresses!r:.80} is no address, nor are these several.")
    texts = [addresses] if isinstance(addresses, str) else addresses
    return [part for text in texts for part in re.split(r"\s*[,;]\s*|\s+", text.strip()) if part]


def build_mime_message(
    mail_from: str | None,
    to: str | Iterable[str],
    subject: str,
    html_content: str,
    files: Sequence[str] | None = None,
    cc: str | Iterable[str] | None = None,
    bcc: str | Iterable[str] | None = None,
    mime_subtype: str = "mixed",
    mime_charset: str = "utf-8",
    custom_headers: Mapping[str, Any] | None = None,
) -> tuple[EmailMessage, list[str]]:
    """The mail, and the addresses of all who get it."""
    mail = _mail(
        to=to, subject=subject, html_content=html_content, files=files, cc=cc, bcc=bcc, mime_subtype=mime_subtype,
        mime_charset=mime_charset, custom_headers=custom_headers, from_email=mail_from,
    )  # fmt: skip
    return mail.message(mail_from or ""), [*addresses(to), *addresses(cc), *addresses(bcc)]


def _mail(*, files: Sequence[str] | None, custom_headers: Mapping[str, Any] | None, **fields: Any) -> Mail:
    return Mail(files=tuple(files or ()), custom_headers=custom_headers or {}, **fields)
