"""`email`, `email_on_failure` and `email_on_retry` as behaviour: mails about failed tries.

They go through the connection `smtp_default`; without it there are none, and the task's log says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.notifiers import SmtpNotifier
from aiosched.errors import NotFound

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

SUBJECT: Final = "Airflow alert: {{ ti.dag_id }}.{{ ti.task_id }} {{ run_id }} {{ reason or 'failed' }}"
BODY: Final = """\
<p>Try {{ ti.try_number }} of {{ ti.max_tries + 1 }} of task <b>{{ ti.task_id }}</b> in DAG <b>{{ ti.dag_id }}</b></p>
<p>Run: {{ run_id }}{% if ti.map_index >= 0 %}, map index {{ ti.map_index }}{% endif %}</p>
<p>Exception: {{ (exception or reason or 'failed') | e }}</p>
"""


class FailureMail(SmtpNotifier):
    """The mail about a failed try."""

    def __init__(self, to: Any) -> None:
        super().__init__(to, subject=SUBJECT, html_content=BODY)

    async def notify(self, context: Context) -> None:
        """Send it; without a mail server, say so in the log."""
        try:
            await super().notify(context)
        except NotFound:
            self.log.warning(
                "no mail to %s: there is no connection %r. Add it by `aiosched connections add`",
                self.to,
                self.smtp_conn_id,
            )


def add(task: Any) -> None:
    """Let `task` mail to its `email` when a try fails: the last one, and any that is retried.

    `email_on_failure` and `email_on_retry` are true by default.
    """
    if task.email_on_failure is not False:
        task.on_failure_callback.append(FailureMail(task.email))
    if task.email_on_retry is not False:
        task.on_retry_callback.append(FailureMail(task.email))
