"""`build_mime_message` of `airflow.utils.email`: a mail as an object, for services that send it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from email.message import EmailMessage
from typing import Any

from aiosched.authoring.runtime.mail import Mail, addresses


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
    mail = Mail(
        to=to,
        subject=subject,
        html_content=html_content,
        files=tuple(files or ()),
        cc=cc,
        bcc=bcc,
        mime_subtype=mime_subtype,
        mime_charset=mime_charset,
        custom_headers=custom_headers or {},
        from_email=mail_from,
    )
    return mail.message(mail_from or ""), [*addresses(to), *addresses(cc), *addresses(bcc)]
