"""`airflow.utils.email.send_email`: a mail from a task's function."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiosched.authoring.runtime.mail import Mail


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
        from_email=from_email,
    )
    if not dryrun:
        asyncio.run(mail.send(conn_id or "smtp_default"))
