"""Questions of a running task about runs and tasks, by Airflow's names: methods of `ti`.

They ask the scheduler, so plain functions may call them; on an event loop they would block, and raise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from aiosched.authoring.runtime.services import Services
from aiosched.errors import AioschedError, NotFound


class _Serviced(Protocol):
    @property
    def services(self) -> Services: ...


class AsksAboutRuns:
    """Base of `TaskInstance`. Runs are named by `run_ids`, or by `logical_dates` (aware)."""

    def get_dagrun_state(self: _Serviced, dag_id: str, run_id: str) -> str:
        """The state of a run; raises NotFound."""
        answer = self.services.call("run_state", dag_id=dag_id, run_id=run_id)
        if answer["run"] is None:
            raise NotFound(f"The DAG {dag_id!r} has no run {run_id!r}.")
        return str(answer["run"]["state"])

    def get_dr_count(
        self: _Serviced,
        dag_id: str,
        logical_dates: Sequence[datetime] | None = None,
        run_ids: Sequence[str] | None = None,
        states: Collection[str] | None = None,
    ) -> int:
        """How many of the named runs exist, in one of `states` if given."""
        found = (self.services.call("run_state", dag_id=dag_id, **one)["run"] for one in _named(logical_dates, run_ids))
        return sum(run is not None and _is_among(run["state"], states) for run in found)

    def get_ti_count(
        self: _Serviced,
        dag_id: str,
        map_index: int | None = None,
        task_ids: Sequence[str] | None = None,
        task_group_id: str | None = None,
        logical_dates: Sequence[datetime] | None = None,
        run_ids: Sequence[str] | None = None,
        states: Collection[str] | None = None,
    ) -> int:
        """How many instances of these tasks, or of the tasks of a group, exist in the named runs."""
        asked = _tasks(self.services, dag_id, task_ids, task_group_id, logical_dates, run_ids)
        return sum(
            _is_among(state, states) and map_index in {None, index}
            for answer in asked
            for _, index, state in answer["tasks"]
        )

    def get_task_states(
        self: _Serviced,
        dag_id: str,
        map_index: int | None = None,
        task_ids: Sequence[str] | None = None,
        task_group_id: str | None = None,
        logical_dates: Sequence[datetime] | None = None,
        run_ids: Sequence[str] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """For each named run that exists the states by task id; for one of a mapped task `id_INDEX`."""
        found: dict[str, dict[str, Any]] = {}
        for answer in _tasks(self.services, dag_id, task_ids, task_group_id, logical_dates, run_ids):
            if answer["run"] is not None:
                found[answer["run"]["run_id"]] = {
                    task_id if index < 0 else f"{task_id}_{index}": state
                    for task_id, index, state in answer["tasks"]
                    if map_index in {None, index}
                }
        return found


def _tasks(
    services: Services,
    dag_id: str,
    task_ids: Sequence[str] | None,
    task_group_id: str | None,
    logical_dates: Sequence[datetime] | None,
    run_ids: Sequence[str] | None,
) -> Iterator[Any]:
    for one in _named(logical_dates, run_ids):
        yield services.call("task_states", dag_id=dag_id, task_ids=task_ids, group_id=task_group_id, **one)


def _named(logical_dates: Sequence[datetime] | None, run_ids: Sequence[str] | None) -> list[dict[str, str]]:
    if not logical_dates and not run_ids:
        raise AioschedError("Name the runs that are asked about: give run_ids or logical_dates.")
    if run_ids:
        return [{"run_id": run_id} for run_id in run_ids]
    return [{"logical_date": moment.isoformat()} for moment in logical_dates or ()]


def _is_among(state: Any, states: Collection[str] | None) -> bool:
    return not states or state in {str(getattr(one, "value", one)) for one in states}
