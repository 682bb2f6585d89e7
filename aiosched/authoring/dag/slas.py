"""Notifications of missed SLAs: `sla` and `email` of a task, `sla_miss_callback` of a DAG, as in Airflow 1.10.

    DAG("sales", schedule="@hourly", sla_miss_callback=send_page, …)
    load = BashOperator(task_id="load", sla=timedelta(minutes=30), email="ops@example.com", …)

`send_page(dag, task_list, blocking_task_list, slas, blocking_tis)` is called in a worker, once for all
new misses of the DAG, and at least once for each miss. The two lists are texts with a line for each task; `slas` and
`blocking_tis` have the same facts as objects. A notifier has the same names in its context. The addresses of the tasks
get a mail through the connection `smtp_default`. When an SLA is missed: core/creation/slas.py.

Source: the semantics reference, section 23.3.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.notifiers.base import BaseNotifier
from aiosched.authoring.runtime.mail import Mail, addresses

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context

SUBJECT: Final = "[aiosched] SLA miss on DAG={dag_id}"
BODY: Final = """\
<p>Tasks of the DAG <b>{dag_id}</b> that were not done in time:</p>
<pre>{task_list}</pre>
<p>Task instances of these dates that have not succeeded:</p>
<pre>{blocking_task_list}</pre>
"""


@dataclass(frozen=True)
class SlaMiss:
    """A task that had not finished in time for `logical_date`, as found at `timestamp`. Both are aware, in UTC."""

    dag_id: str
    task_id: str
    logical_date: datetime
    timestamp: datetime

    @property
    def execution_date(self) -> datetime:
        """The logical date, as Airflow 1.10 calls it."""
        return self.logical_date


@dataclass(frozen=True)
class BlockingTask:
    """A task instance of a date with a missed SLA that has not succeeded. `state` is None if it has none yet."""

    dag_id: str
    task_id: str
    map_index: int
    run_id: str
    logical_date: datetime
    state: str | None
    try_number: int

    @property
    def execution_date(self) -> datetime:
        """The logical date, as Airflow 1.10 calls it."""
        return self.logical_date


@dataclass(frozen=True)
class MissedSlas:
    """The content of one notification: the response of the service `sla_misses`."""

    slas: Sequence[SlaMiss]
    blocking_tis: Sequence[BlockingTask]

    @property
    def task_list(self) -> str:
        """A line `<task> on <date>` for each miss."""
        return _lines(self.slas)

    @property
    def blocking_task_list(self) -> str:
        """The same for the task instances that have not succeeded."""
        return _lines(self.blocking_tis)

    def calls(self, dag: DAG, context: Context) -> list[tuple[str, Callable[..., Any], Sequence[Any]]]:
        """The calls to make: for each a name for the log, the function, its arguments."""
        facts = {
            "task_list": self.task_list,
            "blocking_task_list": self.blocking_task_list,
            "slas": self.slas,
            "blocking_tis": self.blocking_tis,
        }
        context.update(facts)
        found: list[tuple[str, Callable[..., Any], Sequence[Any]]] = []
        for callback in dag.sla_miss_callback:
            arguments = (context,) if isinstance(callback, BaseNotifier) else (dag, *facts.values())
            found.append((f"callback {getattr(callback, '__name__', callback)!s}", callback, arguments))
        late = {miss.task_id for miss in self.slas}
        if to := sorted({one for task in dag.tasks if task.task_id in late for one in addresses(task.email)}):
            found.append(("the mail about missed SLAs", self.mail(dag.dag_id, to).send, ()))
        return found

    def mail(self, dag_id: str, to: Sequence[str]) -> Mail:
        """The mail to these addresses."""
        texts = {"task_list": self.task_list, "blocking_task_list": self.blocking_task_list or "none"}
        body = BODY.format(dag_id=html.escape(dag_id), **{name: html.escape(text) for name, text in texts.items()})
        return Mail(to=to, subject=SUBJECT.format(dag_id=dag_id), html_content=body)


def _lines(entries: Iterable[SlaMiss | BlockingTask]) -> str:
    return "\n".join(f"{one.task_id} on {one.logical_date.isoformat()}" for one in entries)
