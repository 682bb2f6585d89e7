"""A sensor for runs and tasks of other DAGs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from aiosched.authoring.base import checks
from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.python import call_arguments
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.runtime.services import acall
from aiosched.authoring.tasks.operator import Seconds
from aiosched.authoring.triggers.external import ExternalTaskTrigger
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import AioschedError, NotFound, SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class ExternalTaskFailed(AioschedError):
    """A run or task that an ExternalTaskSensor waits for has failed. The sensor can be retried."""


class ExternalTaskSensor(BaseSensorOperator):
    """Waits for a run of `external_dag_id`, or for tasks or a task group of it, with the same logical date.

    `execution_delta` selects the run that much earlier (later, if it is negative); `execution_date_fn(logical_date, …)`
    returns one or several logical dates. The wait is over when all are in `allowed_states` (success). A state in
    `failed_states` fails the sensor (skips it with `soft_fail`), one in `skipped_states` skips it.
    With `check_existence` the sensor fails at once if the DAG or a task does not exist. All instances of a mapped task
    count.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "external_dag_id",
        "external_task_id",
        "external_task_ids",
        "external_task_group_id",
    )
    ui_color = "#4db7db"

    def __init__(
        self,
        *,
        external_dag_id: str | Any,
        external_task_id: str | Any | None = None,
        external_task_ids: Collection[str] | Any | None = None,
        external_task_group_id: str | Any | None = None,
        allowed_states: Sequence[str] | None = None,
        skipped_states: Sequence[str] | None = None,
        failed_states: Sequence[str] | None = None,
        execution_delta: Seconds | None = None,
        execution_date_fn: Callable[..., Any] | None = None,
        check_existence: bool = False,
        poll_interval: float = 2.0,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sum(one is not None for one in (external_task_id, external_task_ids, external_task_group_id)) > 1:
            raise self._wrong("external_task_id, external_task_ids and external_task_group_id exclude each other")
        if execution_delta is not None and execution_date_fn is not None:
            raise self._wrong("execution_delta and execution_date_fn exclude each other")
        self.external_dag_id = external_dag_id
        self.external_task_id = external_task_id
        self.external_task_ids = external_task_ids
        self.external_task_group_id = external_task_group_id
        self.allowed_states: list[str] = self._states("allowed_states", allowed_states, ("success",))
        self.skipped_states: list[str] = self._states("skipped_states", skipped_states, ())
        self.failed_states: list[str] = self._states("failed_states", failed_states, ())
        listed = [*self.allowed_states, *self.skipped_states, *self.failed_states]
        if twice := sorted({state for state in listed if listed.count(state) > 1}):
            raise self._wrong(f"{', '.join(twice)} is in more than one of the lists of states")
        self.execution_delta: timedelta | None = (
            None
            if execution_delta is None
            else checks.duration("execution_delta", execution_delta, self._origin, may_be_negative=True)
        )
        self.execution_date_fn = execution_date_fn
        self.check_existence = check_existence
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Check the states; raises ExternalTaskFailed or SkipTask for failed and skipped states."""
        trigger = self.deferred_on(context)
        if self.check_existence:
            await self._must_exist(trigger)
        trigger.max_unanswered = 0  # here an error fails the poke
        status = await trigger.status()
        if status not in (None, "success"):
            self._ended(status)
        return status == "success"

    def deferred_on(self, context: Context) -> ExternalTaskTrigger:
        """A trigger with the same conditions."""
        return ExternalTaskTrigger(
            self.external_dag_id,
            self._dates(context),
            external_task_ids=self._task_ids(),
            external_task_group_id=self.external_task_group_id,
            allowed_states=self.allowed_states,
            failed_states=self.failed_states,
            skipped_states=self.skipped_states,
            poke_interval=self.poll_interval,
        )

    def execute_complete(self, context: Context, event: Any = None) -> None:
        """Succeed, fail or skip, depending on the event."""
        if event["status"] != "success":
            self._ended(event["status"])

    def _ended(self, status: str) -> NoReturn:
        what = f"of DAG {self.external_dag_id!r}"
        if tasks := self._task_ids() or ([self.external_task_group_id] if self.external_task_group_id else []):
            what = f"{', '.join(map(repr, tasks))} {what}"
        if status == "skipped":
            raise SkipTask(f"{what} is in one of {self.skipped_states}")
        message = f"What was waited for, {what}, is in one of {self.failed_states}."
        raise SkipTask(message) if self.soft_fail else ExternalTaskFailed(message)

    async def _must_exist(self, trigger: ExternalTaskTrigger) -> None:
        answer = await acall(
            "task_states",
            dag_id=self.external_dag_id,
            logical_date=None,
            task_ids=trigger.external_task_ids,
            group_id=trigger.external_task_group_id,
        )
        if not answer["dag_exists"]:
            raise NotFound(f"The external DAG {self.external_dag_id!r} does not exist.")
        if answer["unknown"]:
            raise NotFound(f"The external DAG {self.external_dag_id!r} has no {', '.join(answer['unknown'])}.")

    def _task_ids(self) -> list[str] | None:
        if self.external_task_id is not None:
            return [self.external_task_id]
        return None if self.external_task_ids is None else list(self.external_task_ids)

    def _dates(self, context: Context) -> list[datetime]:
        date = context.run.logical_date
        if date is None:
            raise AioschedError(
                f"Sensor {self.task_id!r} waits for runs with the logical date of its own run, which has none. "
                "Use it in a DAG with a time schedule."
            )
        if self.execution_date_fn is not None:
            moment = context["logical_date"]
            arguments = call_arguments(self.execution_date_fn, (moment,), {}, context)
            found = self.execution_date_fn(moment, **arguments)
            dates = [found] if isinstance(found, datetime) else list(found)
            return [one.astimezone(UTC) for one in dates]
        return [date - (self.execution_delta or timedelta())]

    def _states(self, name: str, given: Sequence[str] | None, default: Sequence[str]) -> list[str]:
        return checks.states(name, default if given is None else given, (*TaskState, *RunState), self._origin)

    def _wrong(self, what: str) -> Exception:
        return self.fail(f"Sensor {self.task_id!r}: {what}. Keep one.")
