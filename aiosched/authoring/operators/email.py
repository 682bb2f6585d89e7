"""A task that sends a mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.runtime.mail import Mail
from aiosched.authoring.tasks.operator import BaseOperator

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class EmailOperator(BaseOperator):
    """Sends an HTML mail through the server of the connection `conn_id`; `files` are attached. See runtime/mail.py."""

    template_fields: ClassVar[Sequence[str]] = (
        "to",
        "subject",
        "html_content",
        "files",
        "cc",
        "bcc",
        "from_email",
        "custom_headers",
    )
    template_ext: ClassVar[Sequence[str]] = (".html",)
    ui_color = "#e6faf9"

    def __init__(
        self,
        *,
        to: str | Sequence[str] | Any,
        subject: str | Any,
        html_content: str | Any,
        files: Sequence[str] | Any | None = None,
        cc: str | Sequence[str] | Any | None = None,
        bcc: str | Sequence[str] | Any | None = None,
        from_email: str | None = None,
        mime_subtype: str = "mixed",
        mime_charset: str = "utf-8",
        conn_id: str = "smtp_default",
        custom_headers: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to: str | Sequence[str] | Any = to
        self.cc: str | Sequence[str] | Any | None = cc
        self.bcc: str | Sequence[str] | Any | None = bcc
        self.subject: str | Any = subject
        self.html_content: str | Any = html_content
        self.files: Sequence[str] | list[str] | Any = files or []
        self.from_email = from_email
        self.mime_subtype: str = mime_subtype
        self.mime_charset: str = mime_charset
        self.conn_id = conn_id
        self.custom_headers: dict[str, Any] = dict(custom_headers or {})

    @for_plain_callers
    async def execute(self, context: Context) -> None:
        """Send it, in a thread."""
        mail = Mail(
            to=self.to, cc=self.cc, bcc=self.bcc, subject=self.subject, html_content=self.html_content,
            files=self.files, from_email=self.from_email, mime_subtype=self.mime_subtype,
            mime_charset=self.mime_charset, custom_headers=self.custom_headers,
        )  # fmt: skip
        await mail.send(self.conn_id)
