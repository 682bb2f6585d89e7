"""Triggers that wait for runs and tasks of other DAGs. They poll the scheduler."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Any, Final

from aiosched.authoring.runtime.services import acall
from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent
from aiosched.errors import NotFound, Refused

MAX_UNANSWERED: Final = 10  # failed polls in a row, before a trigger fails


class _SchedulerTrigger(BaseTrigger):
    """Polls the scheduler, and tolerates some failures."""

    max_unanswered: int = MAX_UNANSWERED
    _unanswered = 0

    async def query(self, service: str, **args: Any) -> Any:
        """The response of a service. None when the call failed, for at most `max_unanswered` failures in a row."""
        try:
            answer = await acall(service, **args)
        except (NotFound, Refused):
            raise
        except Exception as error:
            self._unanswered += 1
            if self._unanswered > self.max_unanswered:
                raise
            self.log.warning("the scheduler did not respond (%s: %s); trying again", type(error).__name__, error)
            return None
        self._unanswered = 0
        return answer


class DagStateTrigger(_SchedulerTrigger):
    """Fires when the run `run_id` of `dag_id` is in one of `states`; the event names its state."""

    def __init__(self, dag_id: str, run_id: str, states: Sequence[str], poll_interval: float = 5.0) -> None:
        self.dag_id: str = dag_id
        self.run_id: str = run_id
        self.states: list[str] = list(states)
        self.poll_interval: float = poll_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll every `poll_interval` seconds."""
        while True:
            answer = await self.query("run_state", dag_id=self.dag_id, run_id=self.run_id)
            if answer is not None:
                state = answer["run"] and answer["run"]["state"]
                if state is None or state in self.states:
                    yield TriggerEvent({"dag_id": self.dag_id, "run_id": self.run_id, "state": state})
                    return
            await asyncio.sleep(self.poll_interval)


class ExternalTaskTrigger(_SchedulerTrigger):
    """Fires when runs of another DAG, or tasks or a task group of them, are all in an allowed state.

    It also fires when one of them is in a failed or skipped state. The `status` of the event is `success`, `failed`
    or `skipped`. `logical_dates` has one date (aware) for each run.
    """

    def __init__(
        self,
        external_dag_id: str,
        logical_dates: Sequence[datetime],
        external_task_ids: Sequence[str] | None = None,
        external_task_group_id: str | None = None,
        allowed_states: Sequence[str] = ("success",),
        failed_states: Sequence[str] = (),
        skipped_states: Sequence[str] = (),
        poke_interval: float = 2.0,
    ) -> None:
        self.external_dag_id = external_dag_id
        self.logical_dates: list[datetime] = list(logical_dates)
        self.external_task_ids: list[str] | None = list(external_task_ids) if external_task_ids is not None else None
        self.external_task_group_id = external_task_group_id
        self.allowed_states: list[str] = list(allowed_states)
        self.failed_states: list[str] = list(failed_states)
        self.skipped_states: list[str] = list(skipped_states)
        self.poke_interval = poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll every `poke_interval` seconds."""
        while True:
            if (status := await self.status()) is not None:
                yield TriggerEvent({"status": status})
                return
            await asyncio.sleep(self.poke_interval)

    async def status(self) -> str | None:
        """`success`, `failed`, `skipped`, or None while it must wait."""
        verdicts: Counter[str] = Counter()
        for date in self.logical_dates:
            answer = await self.query(
                "task_states",
                dag_id=self.external_dag_id,
                logical_date=date.isoformat(),
                task_ids=self.external_task_ids,
                group_id=self.external_task_group_id,
            )
            if answer is None:
                return None
            states = _states(answer, whole_run=self.external_task_ids is None and self.external_task_group_id is None)
            verdicts[self._verdict(states)] += 1
        if verdicts["failed"] or verdicts["skipped"]:
            return "failed" if verdicts["failed"] else "skipped"
        return "success" if verdicts["success"] == len(self.logical_dates) else None

    def _verdict(self, states: Collection[str | None]) -> str:
        if any(state in self.failed_states for state in states):
            return "failed"
        if any(state in self.skipped_states for state in states):
            return "skipped"
        return "success" if states and all(state in self.allowed_states for state in states) else "waiting"


def _states(answer: dict[str, Any], *, whole_run: bool) -> list[str | None]:
    """The states to check in a response of the service `task_states`; none when there is no such run."""
    if answer["run"] is None:
        return []
    return [answer["run"]["state"]] if whole_run else [state for _, _, state in answer["tasks"]]
