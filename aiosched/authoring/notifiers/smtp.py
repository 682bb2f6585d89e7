"""A notifier that sends mails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from aiosched.authoring.notifiers.base import BaseNotifier
from aiosched.authoring.runtime.mail import Mail

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

SUBJECT: Final = "{{ dag.dag_id }}{% if ti %}.{{ ti.task_id }}{% endif %}: {{ reason or 'done' }}"
BODY: Final = """\
<p>DAG <b>{{ dag.dag_id }}</b>, run {{ run_id }}</p>
{% if ti %}<p>Task <b>{{ ti.task_id }}</b>, try {{ ti.try_number }} of {{ ti.max_tries + 1 }}</p>{% endif %}
<p>{{ (reason or 'done') | e }}</p>
"""


class SmtpNotifier(BaseNotifier):
    """Sends a mail through the server of the connection `smtp_conn_id`. By default it has ids, try and reason."""

    template_fields: ClassVar[Sequence[str]] = ("to", "from_email", "subject", "html_content", "cc", "bcc")

    def __init__(
        self,
        to: str | Iterable[str],
        from_email: str | None = None,
        subject: str = SUBJECT,
        html_content: str = BODY,
        files: Sequence[str] | None = None,
        cc: str | Iterable[str] | None = None,
        bcc: str | Iterable[str] | None = None,
        smtp_conn_id: str = "smtp_default",
    ) -> None:
        self.to: str | list[str] = to if isinstance(to, str) else list(to)
        self.cc: str | list[str] | None = cc if cc is None or isinstance(cc, str) else list(cc)
        self.bcc: str | list[str] | None = bcc if bcc is None or isinstance(bcc, str) else list(bcc)
        self.from_email = from_email
        self.subject: str = subject
        self.html_content: str = html_content
        self.files: list[str] = list(files or ())
        self.smtp_conn_id = smtp_conn_id

    async def notify(self, context: Context) -> None:
        """Send it, in a thread."""
        mail = Mail(
            to=self.to, cc=self.cc, bcc=self.bcc, from_email=self.from_email, subject=" ".join(self.subject.split()),
            html_content=self.html_content, files=self.files,
        )  # fmt: skip
        await mail.send(self.smtp_conn_id)


send_email = SmtpNotifier
