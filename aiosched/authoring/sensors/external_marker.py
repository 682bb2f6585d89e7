"""A task that marks a task of another DAG as downstream of it, so that clearing follows it there.

Source: the semantics reference, section 28.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.base import checks
from aiosched.authoring.base.dates import aware
from aiosched.authoring.operators.empty import EmptyOperator
from aiosched.authoring.tasks.rendering import needs_rendering
from aiosched.core.graph.spec import MARKED, ExternalMark

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

_OWN_DATE: Final = "{{ logical_date.isoformat() }}"
_DEPTH: Final = 10


class ExternalTaskMarker(EmptyOperator):
    """Says that the task `external_task_id` of `external_dag_id` depends on this one.

    It does nothing when it runs. When it is cleared, that task and all tasks downstream of it are cleared, too, in the
    run with the `logical_date` (by default that of its own run), and so on from marker to marker: over at most
    `recursion_depth` DAGs, else the request is refused. What depends is an `ExternalTaskSensor` of the other DAG.
    With templates the marker is a task with a slot: it stores what it marks, so clearing follows it once it has run.
    """

    template_fields: ClassVar[Sequence[str]] = ("external_dag_id", "external_task_id", "logical_date")
    ui_color = "#4db7db"

    def __init__(
        self,
        *,
        external_dag_id: str | Any,
        external_task_id: str | Any,
        logical_date: str | datetime | Any | None = _OWN_DATE,
        recursion_depth: int = _DEPTH,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.external_dag_id = external_dag_id
        self.external_task_id = external_task_id
        self.logical_date: str | datetime | Any = _OWN_DATE if logical_date is None else logical_date
        self.recursion_depth: int = checks.whole_number("recursion_depth", recursion_depth, least=1, where=self._origin)
        if not self._has_templates and self.logical_date != _OWN_DATE:
            aware("logical_date", self.logical_date, self._origin)

    @property
    def is_trivial(self) -> bool:
        """Whether what it marks is known when the file is parsed."""
        return type(self).execute is ExternalTaskMarker.execute and not self._has_templates

    @property
    def _has_templates(self) -> bool:
        fields = [self.external_dag_id, self.external_task_id]
        if self.logical_date != _OWN_DATE:
            fields.append(self.logical_date)
        return any(needs_rendering(field, self) for field in fields)

    def external_mark(self) -> ExternalMark:
        """What it marks, for the scheduler."""
        if self._has_templates:
            return ExternalMark(is_noted=True, recursion_depth=self.recursion_depth)
        return ExternalMark(
            dag_id=self.external_dag_id,
            task_id=self.external_task_id,
            logical_date=None if self.logical_date == _OWN_DATE else aware("logical_date", self.logical_date),
            recursion_depth=self.recursion_depth,
        )

    @classmethod
    def mark_of_instances(cls, shared: Mapping[str, Any]) -> ExternalMark:
        """As `external_mark`, for a mapped marker with the arguments `shared` in all instances: each stores its own."""
        return ExternalMark(is_noted=True, recursion_depth=shared.get("recursion_depth", _DEPTH))

    def execute(self, context: Context) -> None:
        """Store what it marks, with all templates rendered."""
        date = aware("logical_date", self.logical_date).isoformat()
        marked = {"dag_id": self.external_dag_id, "task_id": self.external_task_id, "logical_date": date}
        context["ti"].xcom_push(MARKED, marked)
