"""The client: one method for each action; lists are asynchronous iterators over all pages, problems are errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from aiosched.client.lists import ListClient, instant_text
from aiosched.core.assets.freshness import Freshness
from aiosched.core.creation.backfills import Rerun
from aiosched.core.graph.dependency_graph import Direction
from aiosched.core.values.states import RUN_FINISHED, TaskState
from aiosched.errors import AioschedError, NotFound, Refused
from aiosched.web.api.actions import ClearAnswer, Noted
from aiosched.web.api.assets import AssetEventResource, AssetResource, Emitted
from aiosched.web.api.backfills import BackfillAnswer, BackfillResource
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.dags import DagDetails, DagResource
from aiosched.web.api.dependencies import DependencyGraph
from aiosched.web.api.inputs import Answered, InputResource
from aiosched.web.api.operation.alerts import AlertResource, AlertRuleResource, AlertRules, AlertRuleUpdate
from aiosched.web.api.operation.figures import Figures, PoolHistory
from aiosched.web.api.operation.pools import PoolResource
from aiosched.web.api.operation.probes import HealthReport
from aiosched.web.api.operation.system import CommandResource, ImportProblem, SchedulerResource, Schedulers
from aiosched.web.api.runs import RunDetails, TaskInstanceResource

M = TypeVar("M", bound=BaseModel)

_PAGE: Final = 200
_LOOK_SECONDS: Final = 1.0
_CHUNK: Final = 2**20


class ApiProblem(AioschedError):
    """An error of the server other than NotFound and Refused. `code` is stable."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


class Waits(AioschedError):
    """A request is stored, but no scheduler has applied it yet; `command` is its number."""

    def __init__(self, command: int) -> None:
        super().__init__(f"Request {command} is stored and waits: no scheduler has applied it yet.")
        self.command = command


class Client(ListClient):
    """The API of one server.

    url of the server, with the prefix under which it is mounted, if any token of `aiosched tokens create`; None if no
    login is needed transport  of httpx2, for tests

    All methods raise NotFound, Refused, `Waits` (202: not applied yet), ApiProblem for other errors, and httpx2's
    errors if the server cannot be reached.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8484",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        transport: Any = None,
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise AioschedError("The client needs httpx2: pip install 'aiosched[http]'.") from None
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._root = url.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=f"{self._root}/api/v1/", headers=headers, timeout=timeout, transport=transport
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # -- DAGs -------------------------------------------------------------------------------

    def dags(self, *, pattern: str | None = None, stale: bool = False) -> AsyncIterator[DagResource]:
        """DAGs by id; `pattern` is a glob."""
        return self._pages(DagResource, "dags", {"pattern": pattern, "stale": stale})

    async def dag(self, dag_id: str) -> DagDetails:
        """One DAG."""
        return await self._get(DagDetails, _path("dags", dag_id))

    async def pause(self, dag_id: str, *, reason: str | None = None) -> DagResource:
        """Pause a DAG: no new runs, no new tasks; what is running continues."""
        return await self._send(DagResource, "PATCH", _path("dags", dag_id), {"is_paused": True, "reason": reason})

    async def unpause(self, dag_id: str, *, reason: str | None = None) -> DagResource:
        """Unpause a DAG."""
        return await self._send(DagResource, "PATCH", _path("dags", dag_id), {"is_paused": False, "reason": reason})

    async def delete(self, dag_id: str, *, reason: str | None = None) -> None:
        """Delete a DAG with its runs and their history. If its file still exists, the DAG comes back without them."""
        _applied(await self._http.request("DELETE", _path("dags", dag_id), params=_given({"reason": reason})))

    async def release(self, dag_id: str, *, reason: str | None = None) -> DagResource:
        """Try a DAG that is in quarantine again now, before its pause is over."""
        return await self._send(DagResource, "POST", _path("dags", dag_id, "release"), {"reason": reason})

    # -- runs -------------------------------------------------------------------------------

    async def run(self, dag_id: str, run: str = "latest") -> RunDetails:
        """One run, by its id, logical date, `latest` or `latest-failed`."""
        return await self._get(RunDetails, _path("dags", dag_id, "runs", run))

    async def trigger(
        self,
        dag_id: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        run_id: str | None = None,
        run_after: datetime | None = None,
        partition_key: str | None = None,
        unpause: bool = False,
        reason: str | None = None,
    ) -> RunResource:
        """Trigger a run; returns once it is stored. Instants are aware."""
        body = {
            "conf": dict(conf or {}),
            "logical_date": instant_text(logical_date),
            "run_id": run_id,
            "run_after": instant_text(run_after),
            "partition_key": partition_key,
            "unpause": unpause,
            "reason": reason,
        }
        return await self._send(RunResource, "POST", _path("dags", dag_id, "runs"), body)

    async def wait(self, dag_id: str, run: str, *, timeout: float | None = None) -> RunDetails:
        """Wait until a run has ended, polling once a second. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while (found := await self.run(dag_id, run)).state not in RUN_FINISHED:  # noqa: ASYNC110  # another process
                await asyncio.sleep(_LOOK_SECONDS)
        return found

    async def cancel(self, dag_id: str, run: str, *, reason: str | None = None) -> RunDetails:
        """Cancel a run: its running tasks are stopped, the others do not start, and the run fails."""
        return await self._send(RunDetails, "POST", _path("dags", dag_id, "runs", run, "cancel"), {"reason": reason})

    async def mark_run(
        self, dag_id: str, run: str, state: Literal["success", "failed", "queued"], *, reason: str | None = None
    ) -> RunDetails:
        """Set a run and everything unfinished in it to success or failed, or queue it again."""
        body = {"state": state, "reason": reason}
        return await self._send(RunDetails, "POST", _path("dags", dag_id, "runs", run, "mark"), body)

    async def set_note(
        self, dag_id: str, run: str, note: str, *, task_id: str | None = None, map_index: int | None = None
    ) -> Noted:
        """Set the note of a run or of one of its task instances, at most 1,000 characters; an empty one removes it."""
        run_path = ("dags", dag_id, "runs", run)
        path = _path(*run_path, "note") if task_id is None else _path(*run_path, "tasks", task_id, "note")
        return await self._send(Noted, "PUT", path, {"note": note}, _given({"map_index": map_index}))

    def inputs(
        self, *, waiting: bool = False, dag_id: str | None = None, run_id: str | None = None, task_id: str | None = None
    ) -> AsyncIterator[InputResource]:
        """What tasks ask people, newest first; with `waiting` only what nobody has answered yet."""
        params = {"waiting": waiting, "dag_id": dag_id, "run_id": run_id, "task_id": task_id}
        return self._pages(InputResource, "inputs", params)

    async def answer(
        self,
        dag_id: str,
        run: str,
        task_id: str,
        options: Sequence[str],
        *,
        params: Mapping[str, Any] | None = None,
        map_index: int | None = None,
        reason: str | None = None,
    ) -> Answered:
        """Answer what a task asks, which then goes on."""
        body = {"options": list(options), "params": dict(params or {}), "map_index": map_index, "reason": reason}
        return await self._send(Answered, "POST", _path("dags", dag_id, "runs", run, "tasks", task_id, "answer"), body)

    # -- task instances ---------------------------------------------------------------------

    def tasks(
        self, dag_id: str, run: str = "latest", *, state: Sequence[TaskState | str] = (), task_id: str | None = None
    ) -> AsyncIterator[TaskInstanceResource]:
        """The task instances of a run, in the order of the DAG."""
        params = {"state": [str(s) for s in state], "task_id": task_id}
        return self._pages(TaskInstanceResource, _path("dags", dag_id, "runs", run, "tasks"), params)

    async def clear(
        self,
        dag_id: str,
        *,
        run_ids: Sequence[str] | None = None,
        first: datetime | None = None,
        final: datetime | None = None,
        task_ids: Sequence[str] | None = None,
        pattern: str | None = None,
        map_index: int | None = None,
        upstream: bool = False,
        downstream: bool = False,
        only_failed: bool = False,
        only_running: bool = False,
        past: bool = False,
        future: bool = False,
        prevent_running: bool = False,
        newest_version: bool = False,
        dependents: bool = True,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> ClearAnswer:
        """Clear task instances so that they run again; all runs and all tasks unless some are named.

        Returns what was affected. Without `run_ids`, the runs with a logical date in [first, final] are selected.
        `pattern` is a regular expression for task ids. `past` and `future` add the runs before and after those named,
        by logical date. `prevent_running` refuses the request if instances are running; otherwise those are stopped.
        With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs is cleared, too.
        """
        body = {
            "run_ids": None if run_ids is None else list(run_ids),
            "from_date": instant_text(first),
            "to_date": instant_text(final),
            "task_ids": None if task_ids is None else list(task_ids),
            "pattern": pattern,
            "map_index": map_index,
            "upstream": upstream,
            "downstream": downstream,
            "only_failed": only_failed,
            "only_running": only_running,
            "past": past,
            "future": future,
            "prevent_running": prevent_running,
            "newest_version": newest_version,
            "dependents": dependents,
            "dry_run": dry_run,
            "reason": reason,
        }
        return await self._send(ClearAnswer, "POST", _path("dags", dag_id, "clear"), body)

    async def mark_task(
        self,
        dag_id: str,
        run: str,
        task_id: str,
        state: Literal["success", "failed", "skipped"],
        *,
        map_index: int | None = None,
        upstream: bool = False,
        downstream: bool = False,
        only_failed: bool = False,
        only_running: bool = False,
        past: bool = False,
        future: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> ClearAnswer:
        """Set a task instance to success, failed or skipped; without `map_index` all instances of the task.

        `upstream` and `downstream` add the tasks before and after it, `past` and `future` the runs before and after
        that one, by logical date. Returns what was affected.
        """
        body = {
            "state": state,
            "map_index": map_index,
            "upstream": upstream,
            "downstream": downstream,
            "only_failed": only_failed,
            "only_running": only_running,
            "past": past,
            "future": future,
            "dry_run": dry_run,
            "reason": reason,
        }
        return await self._send(ClearAnswer, "POST", _path("dags", dag_id, "runs", run, "tasks", task_id, "mark"), body)

    async def log(
        self, dag_id: str, run: str, task_id: str, *, try_number: int = 1, map_index: int = -1
    ) -> AsyncIterator[str]:
        """The log of a try in chunks; a chunk can end in the middle of a line."""
        path = _path("dags", dag_id, "runs", run, "tasks", task_id, "logs", str(try_number))
        async with self._http.stream("GET", path, params={"map_index": map_index}) as answer:
            if not answer.is_success:
                await answer.aread()
                _check(answer)
            async for text in answer.aiter_text(_CHUNK):
                yield text

    # -- backfills, assets, pools -----------------------------------------------------------

    async def backfill(
        self,
        dag_id: str,
        first: datetime,
        final: datetime,
        *,
        rerun: Rerun | str = Rerun.MISSING,
        max_active_runs: int = 10,
        backwards: bool = False,
        conf: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> BackfillAnswer:
        """Create runs for past dates, both inclusive; returns what happens to each date."""
        body = {
            "dag_id": dag_id,
            "from_date": instant_text(first),
            "to_date": instant_text(final),
            "rerun": str(rerun),
            "max_active_runs": max_active_runs,
            "backwards": backwards,
            "conf": dict(conf or {}),
            "dry_run": dry_run,
            "reason": reason,
        }
        return await self._send(BackfillAnswer, "POST", "backfills", body)

    async def pause_backfill(self, number: int, *, reason: str | None = None) -> BackfillResource:
        """Pause a backfill: start no further runs; running ones continue."""
        return await self._send(BackfillResource, "POST", _path("backfills", str(number), "pause"), {"reason": reason})

    async def resume_backfill(self, number: int, *, reason: str | None = None) -> BackfillResource:
        """Resume a paused backfill."""
        return await self._send(BackfillResource, "POST", _path("backfills", str(number), "resume"), {"reason": reason})

    async def cancel_backfill(self, number: int, *, reason: str | None = None) -> BackfillResource:
        """Cancel a backfill: its queued runs fail, running ones continue."""
        return await self._send(BackfillResource, "POST", _path("backfills", str(number), "cancel"), {"reason": reason})

    def backfills(self, *, dag_id: str | None = None) -> AsyncIterator[BackfillResource]:
        """Backfills, newest first."""
        return self._pages(BackfillResource, "backfills", {"dag_id": dag_id})

    def assets(self, *, freshness: Freshness | str | None = None) -> AsyncIterator[AssetResource]:
        """Assets by name; only fresh, late or unknown ones."""
        return self._pages(AssetResource, "assets", _given({"freshness": freshness}))

    async def dependencies(
        self,
        *,
        around: str | None = None,
        direction: Direction | str = Direction.BOTH,
        search: str = "",
        limit: int | None = None,
    ) -> DependencyGraph:
        """The graph of what depends on what across DAGs; `around` is `dag:ID` or `asset:NAME`."""
        params = {"around": around, "direction": str(direction), "search": search, "limit": limit}
        return await self._get(DependencyGraph, "dependencies", _given(params))

    def asset_events(self, asset: str) -> AsyncIterator[AssetEventResource]:
        """The events of an asset, newest first."""
        return self._pages(AssetEventResource, "asset-events", {"name": asset})

    async def emit(
        self,
        asset: str,
        extra: Mapping[str, Any] | None = None,
        *,
        partition_key: str | None = None,
        reason: str | None = None,
    ) -> Emitted:
        """Emit an event of an asset (or of one of its partitions), which triggers the DAGs that wait for it."""
        body = {"extra": dict(extra or {}), "partition_key": partition_key, "reason": reason}
        return await self._send(Emitted, "POST", "asset-events", body, {"name": asset})

    def pools(self) -> AsyncIterator[PoolResource]:
        """Pools by name."""
        return self._pages(PoolResource, "pools", {})

    async def set_pool(self, name: str, slots: int, *, include_deferred: bool | None = None) -> PoolResource:
        """Create or change a pool."""
        body = {"slots": slots, "include_deferred": include_deferred}
        return await self._send(PoolResource, "PUT", _path("pools", name), body)

    def alerts(self, *, is_open: bool | None = None, rule: str | None = None) -> AsyncIterator[AlertResource]:
        """Alerts, newest first; with `is_open` only those that are open, or are not."""
        return self._pages(AlertResource, "alerts", {"is_open": is_open, "rule": rule})

    async def alert_rules(self) -> list[AlertRuleResource]:
        """All alert rules by name."""
        return (await self._get(AlertRules, "alert-rules")).items

    async def set_alert_rule(self, name: str, rule: AlertRuleUpdate) -> AlertRuleResource:
        """Create or change an alert rule."""
        return await self._send(AlertRuleResource, "PUT", _path("alert-rules", name), rule.model_dump())

    async def pool_figures(self, name: str, *, hours: int = 24) -> PoolHistory:
        """Slots and queue of a pool over the last hours; steps without a point are gaps."""
        return await self._get(PoolHistory, _path("pools", name, "figures"), {"hours": hours})

    # -- the system -------------------------------------------------------------------------

    async def health(self) -> HealthReport:
        """The status of the whole system, also if it is unhealthy."""
        answer = await self._http.get(f"{self._root}/health")
        if answer.status_code not in (200, 503):
            _check(answer)
        return HealthReport.model_validate_json(answer.content)

    async def schedulers(self) -> list[SchedulerResource]:
        """All known schedulers."""
        return (await self._get(Schedulers, "schedulers")).items

    async def figures(self, *, hours: int = 24, scheduler: str | None = None) -> Figures:
        """Figures of the fleet, or of one scheduler, over the last hours; steps without a point are gaps."""
        return await self._get(Figures, "figures", {"hours": hours, "scheduler": scheduler})

    def import_errors(self) -> AsyncIterator[ImportProblem]:
        """Files whose last parse failed."""
        return self._pages(ImportProblem, "import-errors", {})

    def commands(self, *, dag_id: str | None = None) -> AsyncIterator[CommandResource]:
        """The audit log, newest first."""
        return self._pages(CommandResource, "commands", {"dag_id": dag_id})

    async def command(self, number: int) -> CommandResource:
        """One request; `Waits` has its number."""
        return await self._get(CommandResource, _path("commands", str(number)))

    async def withdraw(self, number: int, *, reason: str | None = None) -> CommandResource:
        """Withdraw a request that waits, so that no scheduler applies it. Raises Refused if it was answered already."""
        return await self._send(CommandResource, "POST", _path("commands", str(number), "withdraw"), {"reason": reason})

    # -- asking -----------------------------------------------------------------------------

    async def _get(self, model: type[M], path: str, params: Mapping[str, Any] | None = None) -> M:
        answer = await self._http.get(path, params=_given(params or {}))
        _check(answer)
        return model.model_validate_json(answer.content)

    async def _send(
        self, model: type[M], method: str, path: str, body: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> M:
        answer = await self._http.request(method, path, json=body, params=params)
        _applied(answer)
        return model.model_validate_json(answer.content)

    async def _pages(self, model: type[M], path: str, params: Mapping[str, Any]) -> AsyncIterator[M]:
        cursor: str | None = None
        while True:
            answer = await self._http.get(path, params=_given({**params, "limit": _PAGE, "cursor": cursor}))
            _check(answer)
            page = answer.json()
            for item in page["items"]:
                yield model.model_validate(item)
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _check(answer: Any) -> None:
    """Raise the error of a problem."""
    if answer.is_success:
        return
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    detail, code = str(problem.get("detail") or answer.reason_phrase), str(problem.get("code", "unknown"))
    if answer.status_code == 404:
        raise NotFound(detail)
    if answer.status_code == 409:
        raise Refused(detail)
    raise ApiProblem(answer.status_code, code, detail)


def _applied(answer: Any) -> None:
    """Raise the error of a problem, or Waits for a request that is not applied yet."""
    _check(answer)
    if answer.status_code == 202:
        raise Waits(answer.json()["command"])


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None and value is not False and value != []}


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
