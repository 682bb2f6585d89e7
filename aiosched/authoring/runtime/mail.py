"""Mail by SMTP, for EmailOperator and notifiers.

Host, port, login and password are those of the connection (`smtp_default`). Its extras: `disable_ssl` (no implicit
TLS), `disable_tls` (no STARTTLS on a plain connection), `timeout` in seconds (30), `from_email`.
"""

from __future__ import annotations

import asyncio
import mimetypes
import smtplib
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Any

from aiosched.authoring.runtime.connections import Connection
from aiosched.errors import AioschedError


@dataclass(frozen=True, kw_only=True)
class Mail:
    """An HTML message. Addresses: a string with commas or semicolons, or a list. `files` are attached."""

    to: str | Iterable[str]
    subject: str
    html_content: str
    from_email: str | None = None
    cc: str | Iterable[str] | None = None
    bcc: str | Iterable[str] | None = None
    files: Sequence[str] = ()
    mime_subtype: str = "mixed"
    mime_charset: str = "utf-8"
    custom_headers: Mapping[str, Any] = field(default_factory=dict)

    async def send(self, conn_id: str = "smtp_default") -> None:
        """Send it by the server of the connection. Raises NotFound, AioschedError, and the errors of smtplib."""
        connection = await Connection.aget(conn_id)
        extras = connection.extra_dejson
        sender = self.from_email or extras.get("from_email") or connection.login
        if not sender:
            raise AioschedError(f"A mail needs a sender: give from_email, here or in the extras of {conn_id!r}.")
        await asyncio.to_thread(self._deliver, connection, self.message(str(sender)))

    def message(self, sender: str) -> EmailMessage:
        """The message as sent, without BCC. Reads the files."""
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = self.subject, sender, ", ".join(addresses(self.to))
        if cc := addresses(self.cc):
            message["Cc"] = ", ".join(cc)
        message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="aiosched")
        for name, value in self.custom_headers.items():
            message[name] = str(value)
        message.set_content(self.html_content, subtype="html", charset=self.mime_charset)
        for path in map(Path, self.files):
            kind, _, subtype = (mimetypes.guess_type(path.name)[0] or "application/octet-stream").partition("/")
            message.add_attachment(path.read_bytes(), maintype=kind, subtype=subtype, filename=path.name)
        if self.files and self.mime_subtype != "mixed":
            message.set_type(f"multipart/{self.mime_subtype}")
        return message

    def _deliver(self, connection: Connection, message: EmailMessage) -> None:
        recipients = [*addresses(self.to), *addresses(self.cc), *addresses(self.bcc)]
        extras = connection.extra_dejson
        plain, timeout = _is_on(extras.get("disable_ssl")), float(extras.get("timeout", 30))
        host = connection.host or "localhost"
        if plain:
            server = smtplib.SMTP(host, connection.port or 25, timeout=timeout)
        else:
            context = ssl.create_default_context()
            server = smtplib.SMTP_SSL(host, connection.port or 465, timeout=timeout, context=context)
        with server:
            if plain and not _is_on(extras.get("disable_tls")):
                server.starttls(context=ssl.create_default_context())
            if connection.login:
                server.login(connection.login, connection.password or "")
            server.send_message(message, to_addrs=recipients)


def addresses(given: str | Iterable[str] | None) -> list[str]:
    """The addresses as a list."""
    listed = given.replace(";", ",").split(",") if isinstance(given, str) else list(given or ())
    return [one.strip() for one in listed if one.strip()]


def _is_on(value: object) -> bool:
    return str(value).lower() in {"true", "1", "yes"}
