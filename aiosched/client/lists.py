"""The client's lists across DAGs, of runs and of task instances, and actions on many of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.lists.chosen import RunOrder
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.lists.bulk import BulkAnswer
from aiosched.web.api.lists.instance_lists import ListedInstance

M = TypeVar("M", bound=BaseModel)


class ListClient:
    """What `Client` offers across DAGs."""

    def _pages(self, model: type[M], path: str, params: Mapping[str, Any]) -> AsyncIterator[M]:
        raise NotImplementedError

    async def _send(
        self,
        model: type[M],
        method: str,
        path: str,
        body: Mapping[str, Any],
        params: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
    ) -> M:
        raise NotImplementedError

    def runs(
        self,
        *,
        dag_id: str | None = None,
        state: Sequence[RunState | str] = (),
        run_type: Sequence[RunType | str] = (),
        owner: str | None = None,
        tag: Sequence[str] = (),
        since: DayOrInstant | None = None,
        until: DayOrInstant | None = None,
        ended_since: DayOrInstant | None = None,
        ended_until: DayOrInstant | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        not_state: Sequence[RunState | str] = (),
        not_run_type: Sequence[RunType | str] = (),
        not_dag_id: Sequence[str] = (),
        not_owner: Sequence[str] = (),
        not_team: Sequence[str] = (),
        not_tag: Sequence[str] = (),
        order: RunOrder = "-run_after",
    ) -> AsyncIterator[RunResource]:
        """Runs, by default the newest `run_after` first.

        `since` and `until` filter by `run_after`; a `date` is that whole day, in the time zone of the DAG with
        `dag_id` (UTC without one), and a `datetime` that ends something is exclusive. Owner and tags (all of which
        must match) are those of the DAG. What has one of the values of a `not_…` is left out.
        """
        params = {
            "dag_id": dag_id,
            "state": [str(s) for s in state],
            "run_type": [str(t) for t in run_type],
            "owner": owner,
            "tag": list(tag),
            "since": instant_text(since),
            "until": instant_text(until),
            "ended_since": instant_text(ended_since),
            "ended_until": instant_text(ended_until),
            "min_seconds": min_seconds,
            "max_seconds": max_seconds,
            "not_state": [str(s) for s in not_state],
            "not_run_type": [str(t) for t in not_run_type],
            "not_dag_id": list(not_dag_id),
            "not_owner": list(not_owner),
            "not_team": list(not_team),
            "not_tag": list(not_tag),
            "order": order,
        }
        return self._pages(RunResource, "runs", params)

    def task_instances(
        self,
        *,
        dag_id: str | None = None,
        state: Sequence[TaskState | str] = (),
        run_type: Sequence[RunType | str] = (),
        owner: str | None = None,
        tag: Sequence[str] = (),
        task_id: str | None = None,
        operator: str | None = None,
        pool: str | None = None,
        reason: str | None = None,
        since: DayOrInstant | None = None,
        until: DayOrInstant | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        not_state: Sequence[TaskState | str] = (),
        not_run_type: Sequence[RunType | str] = (),
        not_dag_id: Sequence[str] = (),
        not_owner: Sequence[str] = (),
        not_team: Sequence[str] = (),
        not_tag: Sequence[str] = (),
        not_operator: Sequence[str] = (),
        not_pool: Sequence[str] = (),
    ) -> AsyncIterator[ListedInstance]:
        """Task instances of all DAGs, those of the newest runs first; `task_id` and `reason` are parts of the text.

        `since` and `until` filter by the `run_after` of the runs, and `not_…` leave out, as in `runs`.
        """
        params = {
            "dag_id": dag_id,
            "state": [str(s) for s in state],
            "run_type": [str(t) for t in run_type],
            "owner": owner,
            "tag": list(tag),
            "task_id": task_id,
            "operator": operator,
            "pool": pool,
            "reason": reason,
            "since": instant_text(since),
            "until": instant_text(until),
            "min_seconds": min_seconds,
            "max_seconds": max_seconds,
            "not_state": [str(s) for s in not_state],
            "not_run_type": [str(t) for t in not_run_type],
            "not_dag_id": list(not_dag_id),
            "not_owner": list(not_owner),
            "not_team": list(not_team),
            "not_tag": list(not_tag),
            "not_operator": list(not_operator),
            "not_pool": list(not_pool),
        }
        return self._pages(ListedInstance, "task-instances", params)

    async def act_on_many(
        self,
        action: Literal["clear", "mark", "note", "cancel"],
        *,
        runs: Sequence[tuple[str, str]] = (),
        tasks: Sequence[tuple[str, str, str, int]] = (),
        state: str | None = None,
        note: str | None = None,
        only_failed: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
        key: str | None = None,
    ) -> BulkAnswer:
        """Clear, mark, note or cancel many: `runs` are (DAG, run), `tasks` are (DAG, run, task, map index or -1).

        Returns what was affected, what was refused, and how many requests still wait for a scheduler.
        """
        body = {
            "action": action,
            "runs": [{"dag_id": dag_id, "run_id": run_id} for dag_id, run_id in runs],
            "tasks": [{"dag_id": d, "run_id": r, "task_id": t, "map_index": index} for d, r, t, index in tasks],
            "state": state,
            "note": note,
            "only_failed": only_failed,
            "dry_run": dry_run,
            "reason": reason,
        }
        return await self._send(BulkAnswer, "POST", "bulk", body, key=key)


def instant_text(value: DayOrInstant | None) -> str | None:
    """A day or an instant as the API takes it."""
    return None if value is None else value.isoformat()
