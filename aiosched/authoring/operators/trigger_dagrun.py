"""A task that starts a run of another DAG."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base import checks
from aiosched.authoring.base.dates import aware
from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.runtime.services import acall
from aiosched.authoring.runtime.xcom_values import named_parts
from aiosched.authoring.tasks.operator import BaseOperator, Seconds
from aiosched.authoring.triggers.external import DagStateTrigger
from aiosched.core.values.states import RunState
from aiosched.core.values.typed_json import NotJson
from aiosched.errors import AioschedError, Refused, SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class TriggeredRunFailed(AioschedError):
    """The triggered run has failed. A retry triggers another run."""


class TriggerDagRunOperator(BaseOperator):
    """Starts a run of the DAG `trigger_dag_id`, with `conf`, and pushes its id as `trigger_run_id`.

    If a run with this `trigger_run_id` or `logical_date` exists, `reset_dag_run` clears it, so that it runs again;
    `skip_when_already_exists` skips the task; otherwise the task fails. With `wait_for_completion` the task polls every
    `poke_interval` seconds until the run is in one of `allowed_states` (success), and fails if it is in one of
    `failed_states` (failed); with `deferrable` it waits without a worker. A run of a paused DAG waits;
    `fail_when_dag_is_paused` fails the task instead. The run starts at `run_after` (by default at once), is about the
    partition `partition_key` of assets, and gets the `note`.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "trigger_dag_id",
        "trigger_run_id",
        "logical_date",
        "conf",
        "wait_for_completion",
        "skip_when_already_exists",
        "run_after",
        "note",
        "partition_key",
    )
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"conf": "py"}
    ui_color = "#ffefeb"

    def __init__(
        self,
        *,
        trigger_dag_id: str | Any,
        trigger_run_id: str | Any | None = None,
        conf: Mapping[str, Any] | Any | None = None,
        logical_date: str | datetime | Any | None = None,
        reset_dag_run: bool = False,
        wait_for_completion: bool = False,
        poke_interval: Seconds = 60,
        allowed_states: Sequence[str] | None = None,
        failed_states: Sequence[str] | None = None,
        skip_when_already_exists: bool = False,
        fail_when_dag_is_paused: bool = False,
        deferrable: bool = False,
        run_after: str | datetime | Any | None = None,
        note: str | Any | None = None,
        partition_key: str | Any | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.trigger_dag_id = trigger_dag_id
        self.trigger_run_id = trigger_run_id
        self.conf = conf
        self.logical_date = logical_date
        self.reset_dag_run = reset_dag_run
        self.wait_for_completion = wait_for_completion
        self.poke_interval: float = checks.duration("poke_interval", poke_interval, self._origin).total_seconds()
        self.allowed_states: list[str] = self._states("allowed_states", allowed_states, RunState.SUCCESS)
        self.failed_states: list[str] = self._states("failed_states", failed_states, RunState.FAILED)
        self.skip_when_already_exists = skip_when_already_exists
        self.fail_when_dag_is_paused = fail_when_dag_is_paused
        self.deferrable = deferrable
        self.run_after = run_after
        self.note = note
        self.partition_key = partition_key

    @for_plain_callers
    async def execute(self, context: Context) -> None:
        """Trigger the run, and wait for it with `wait_for_completion`."""
        run_id = await self._trigger()
        context["ti"].xcom_push("trigger_run_id", run_id)
        self.log.info("triggered run %s of %s", run_id, self.trigger_dag_id)
        if not self.wait_for_completion:
            return None
        if self.deferrable:
            trigger = DagStateTrigger(self.trigger_dag_id, run_id, self._final_states, self.poke_interval)
            self.defer(trigger=trigger, method_name="execute_complete")
        while True:
            state = await self._state(run_id)
            if state is None or state in self._final_states:
                return self._check_final_state(run_id, state)
            await asyncio.sleep(self.poke_interval)

    def execute_complete(self, context: Context, event: Any) -> None:
        """Called when the run has ended."""
        self._check_final_state(event["run_id"], event["state"])

    async def _trigger(self) -> str:
        date = None if self.logical_date is None else aware("logical_date", self.logical_date).isoformat()
        more = {"note": str(self.note)} if self.note else {}
        if self.run_after is not None:
            more["run_after"] = aware("run_after", self.run_after).isoformat()
        if self.partition_key is not None:
            more["partition_key"] = str(self.partition_key)
        try:
            answer = await acall(
                "trigger_dag",
                dag_id=self.trigger_dag_id,
                run_id=self.trigger_run_id,
                logical_date=date,
                conf=_conf_parts(self.conf),
                fail_when_paused=self.fail_when_dag_is_paused,
                **more,
            )
        except Refused:
            existing = await self._existing(date)
            if existing is None:
                raise
            return await self._use_existing(existing)
        if answer["is_paused"]:
            self.log.warning("DAG %s is paused: its run waits until it is unpaused", self.trigger_dag_id)
        return str(answer["run_id"])

    async def _existing(self, date: str | None) -> str | None:
        """The id of an existing run that conflicts with the new one."""
        if self.trigger_run_id is None and date is None:
            return None
        for wanted in ({"run_id": self.trigger_run_id}, {"logical_date": date}):
            run = (await acall("run_state", dag_id=self.trigger_dag_id, **wanted))["run"]
            if run is not None:
                return str(run["run_id"])
        return None

    async def _use_existing(self, run_id: str) -> str:
        if self.reset_dag_run:
            self.log.info("run %s exists already and is cleared", run_id)
            await acall("clear_run", dag_id=self.trigger_dag_id, run_id=run_id)
            return run_id
        if self.skip_when_already_exists:
            raise SkipTask(f"run {run_id} of {self.trigger_dag_id!r} exists already")
        raise Refused(
            f"Run {run_id!r} of DAG {self.trigger_dag_id!r} exists already: choose another trigger_run_id or "
            "logical_date, or set reset_dag_run or skip_when_already_exists."
        )

    async def _state(self, run_id: str) -> str | None:
        run = (await acall("run_state", dag_id=self.trigger_dag_id, run_id=run_id))["run"]
        return None if run is None else str(run["state"])

    def _check_final_state(self, run_id: str, state: str | None) -> None:
        if state is None:
            raise TriggeredRunFailed(f"Run {run_id!r} of DAG {self.trigger_dag_id!r} does not exist any more.")
        if state in self.failed_states:
            raise TriggeredRunFailed(f"Run {run_id!r} of DAG {self.trigger_dag_id!r} is {state}.")
        self.log.info("run %s of %s is %s", run_id, self.trigger_dag_id, state)

    @property
    def _final_states(self) -> list[str]:
        return [*self.allowed_states, *self.failed_states]

    def _states(self, name: str, given: Sequence[str] | None, default: RunState) -> list[str]:
        return checks.states(name, [default] if given is None else given, RunState, self._origin)


def _conf_parts(conf: Any) -> Any:
    """`conf` as it is sent. Raises AioschedError for what the tasks of the run could not get as it is."""
    try:
        return named_parts(conf) if isinstance(conf, Mapping) else conf or {}
    except NotJson as error:
        raise AioschedError(f"conf{error.place} cannot be sent: it {error.what}.") from None
