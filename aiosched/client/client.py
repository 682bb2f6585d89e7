"""The client: one method for each action; lists are asynchronous iterators over all pages, problems are errors.

What changes something has the options of its request (core/requests/options.py), which become the body of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from aiosched.client.lists import ListClient
from aiosched.core.assets.freshness import Freshness
from aiosched.core.graph.dependency_graph import Direction
from aiosched.core.requests.options import options_of, options_of_jobs
from aiosched.core.requests.requests import (
    AnswerInput,
    BackfillCreate,
    CancelRun,
    Clear,
    EmitAsset,
    MarkRun,
    MarkTask,
    Request,
    SetNote,
    SetSchedule,
    Trigger,
)
from aiosched.core.values.states import RUN_FINISHED, TaskState
from aiosched.errors import AioschedError, NotAnswered, NotFound, Refused
from aiosched.web.api.actions import ClearAnswer, Noted, Triggered, TriggeredRuns
from aiosched.web.api.assets import AssetCheckResource, AssetChecksResource, AssetEventResource, AssetResource, Emitted
from aiosched.web.api.backfills import BackfillAnswer, BackfillResource
from aiosched.web.api.base.bodies import body_of
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.dags import DagDetails, DagResource
from aiosched.web.api.dependencies import DependencyGraph
from aiosched.web.api.inputs import Answered, InputResource
from aiosched.web.api.operation.alerts import (
    AlertResource,
    AlertRuleResource,
    AlertRules,
    AlertRuleUpdate,
    NewSilence,
    SilenceResource,
)
from aiosched.web.api.operation.figures import Figures, PoolHistory
from aiosched.web.api.operation.pools import PoolResource
from aiosched.web.api.operation.probes import HealthReport
from aiosched.web.api.operation.system import CommandResource, ImportProblem, SchedulerResource, Schedulers
from aiosched.web.api.runs import RunDetails, TaskInstanceResource
from aiosched.web.api.schedules import ScheduleResource

M = TypeVar("M", bound=BaseModel)

_PAGE: Final = 200
_LOOK_SECONDS: Final = 1.0
_CHUNK: Final = 2**20
_BATCH: Final = 1000  # runs that the API creates at once


class ApiProblem(AioschedError):
    """An error of the server other than NotFound and Refused. `code` is stable."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status: int = status
        self.code: str = code


class Client(ListClient):
    """The API of one server.

    url of the server, with the prefix under which it is mounted, if any token of `aiosched tokens create`; None if no
    login is needed transport  of httpx2, for tests

    All methods raise NotFound, Refused, NotAnswered (202: not applied yet), ApiProblem for other errors, and httpx2's
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

    def dags(
        self,
        *,
        pattern: str | None = None,
        stale: bool = False,
        not_status: Sequence[str] = (),
        not_last_state: Sequence[str] = (),
        not_dag_id: Sequence[str] = (),
        not_owner: Sequence[str] = (),
        not_team: Sequence[str] = (),
        not_tag: Sequence[str] = (),
    ) -> AsyncIterator[DagResource]:
        """DAGs by id; `pattern` is a glob. What has one of the values of a `not_…` is left out."""
        params = {
            "pattern": pattern,
            "stale": stale,
            "not_status": list(not_status),
            "not_last_state": list(not_last_state),
            "not_dag_id": list(not_dag_id),
            "not_owner": list(not_owner),
            "not_team": list(not_team),
            "not_tag": list(not_tag),
        }
        return self._pages(DagResource, "dags", params)

    async def dag(self, dag_id: str) -> DagDetails:
        """One DAG."""
        return await self._get(DagDetails, _path("dags", dag_id))

    async def pause(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> DagResource:
        """Pause a DAG: no new runs, no new tasks; what is running continues."""
        return await self._send(
            DagResource, "PATCH", _path("dags", dag_id), {"is_paused": True, "reason": reason}, key=key
        )

    async def unpause(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> DagResource:
        """Unpause a DAG."""
        return await self._send(
            DagResource, "PATCH", _path("dags", dag_id), {"is_paused": False, "reason": reason}, key=key
        )

    async def delete(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Delete a DAG with its runs and their history. If its file still exists, the DAG comes back without them."""
        params = _given({"reason": reason})
        _applied(await self._http.request("DELETE", _path("dags", dag_id), params=params, headers=_headers(key)))

    async def release(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> DagResource:
        """Try a DAG that is in quarantine again now, before its pause is over."""
        return await self._send(DagResource, "POST", _path("dags", dag_id, "release"), {"reason": reason}, key=key)

    # -- runs -------------------------------------------------------------------------------

    async def run(self, dag_id: str, run: str = "latest") -> RunDetails:
        """One run, by its id, logical date, `latest` or `latest-failed`."""
        return await self._get(RunDetails, _path("dags", dag_id, "runs", run))

    @options_of_jobs(Trigger)
    async def trigger(self, dag_id: str, request: Trigger) -> RunResource:
        """Trigger a run; returns once it is stored. Instants are aware."""
        return await self._send(RunResource, "POST", _path("dags", dag_id, "runs"), body_of(request), key=request.key)

    async def trigger_batch(
        self,
        dag_id: str,
        runs: Iterable[Mapping[str, Any]],
        *,
        unpause: bool = False,
        reason: str | None = None,
        key: str | None = None,
    ) -> list[Triggered]:
        """Trigger runs of one DAG, each with options of `trigger`, in batches of 1,000; what became of each, in order.

        A run that is refused does not keep others from being created; nothing of a batch is if params of one are wrong.
        """
        given = [
            {name: value.isoformat() if isinstance(value, datetime) else value for name, value in run.items()}
            for run in runs
        ]
        found: list[Triggered] = []
        for start in range(0, len(given), _BATCH):
            body = {"runs": given[start : start + _BATCH], "unpause": unpause, "reason": reason}
            path, own = _path("dags", dag_id, "runs", "batch"), None if key is None else f"{key} {start}"
            found += (await self._send(TriggeredRuns, "POST", path, body, key=own)).runs
        return found

    async def wait(self, dag_id: str, run: str, *, timeout: float | None = None) -> RunDetails:
        """Wait until a run has ended, polling once a second. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while (found := await self.run(dag_id, run)).state not in RUN_FINISHED:  # noqa: ASYNC110  # another process
                await asyncio.sleep(_LOOK_SECONDS)
        return found

    @options_of(CancelRun)
    async def cancel(self, dag_id: str, request: CancelRun) -> RunDetails:
        """Cancel a run: its running tasks are stopped, the others do not start, and the run fails."""
        return await self._change_run(dag_id, request.run_id, "cancel", request)

    @options_of(MarkRun)
    async def mark_run(self, dag_id: str, request: MarkRun) -> RunDetails:
        """Set a run and everything unfinished in it to success or failed, or queue it again."""
        return await self._change_run(dag_id, request.run_id, "mark", request)

    @options_of(SetNote)
    async def set_note(self, dag_id: str, request: SetNote) -> Noted:
        """Set the note of a run or of one of its task instances, at most 1,000 characters; an empty one removes it."""
        of_task = () if request.task_id is None else ("tasks", request.task_id)
        path = _path("dags", dag_id, "runs", request.run_id, *of_task, "note")
        body = body_of(request, without=("run_id", "task_id", "map_index"))
        return await self._send(Noted, "PUT", path, body, _given({"map_index": request.map_index}), key=request.key)

    def inputs(
        self, *, waiting: bool = False, dag_id: str | None = None, run_id: str | None = None, task_id: str | None = None
    ) -> AsyncIterator[InputResource]:
        """What tasks ask people, newest first; with `waiting` only what nobody has answered yet."""
        params = {"waiting": waiting, "dag_id": dag_id, "run_id": run_id, "task_id": task_id}
        return self._pages(InputResource, "inputs", params)

    @options_of(AnswerInput)
    async def answer(self, dag_id: str, request: AnswerInput) -> Answered:
        """Answer what a task asks, which then goes on."""
        path = _path("dags", dag_id, "runs", request.run_id, "tasks", request.task_id, "answer")
        return await self._send(
            Answered, "POST", path, body_of(request, without=("run_id", "task_id")), key=request.key
        )

    # -- task instances ---------------------------------------------------------------------

    def tasks(
        self, dag_id: str, run: str = "latest", *, state: Sequence[TaskState | str] = (), task_id: str | None = None
    ) -> AsyncIterator[TaskInstanceResource]:
        """The task instances of a run, in the order of the DAG."""
        params = {"state": [str(s) for s in state], "task_id": task_id}
        return self._pages(TaskInstanceResource, _path("dags", dag_id, "runs", run, "tasks"), params)

    @options_of(Clear)
    async def clear(self, dag_id: str, request: Clear) -> ClearAnswer:
        """Clear task instances so that they run again; all runs and all tasks unless some are named.

        Returns what was affected. Without `run_ids`, the runs with a logical date in [first, final] are selected; a
        `date` is that whole day in the DAG's time zone.
        `pattern` is a regular expression for task ids. `past` and `future` add the runs before and after those named,
        by logical date. `prevent_running` refuses the request if instances are running; otherwise those are stopped.
        With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs is cleared, too.
        """
        return await self._send(ClearAnswer, "POST", _path("dags", dag_id, "clear"), body_of(request), key=request.key)

    @options_of(MarkTask)
    async def mark_task(self, dag_id: str, request: MarkTask) -> ClearAnswer:
        """Set a task instance to success, failed or skipped; without `map_index` all instances of the task.

        `upstream` and `downstream` add the tasks before and after it, `past` and `future` the runs before and after
        that one, by logical date. Returns what was affected.
        """
        path = _path("dags", dag_id, "runs", request.run_id, "tasks", request.task_id, "mark")
        return await self._send(
            ClearAnswer, "POST", path, body_of(request, without=("run_id", "task_id")), key=request.key
        )

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

    @options_of_jobs(BackfillCreate)
    async def backfill(self, dag_id: str, request: BackfillCreate) -> BackfillAnswer:
        """Create runs for past dates, both inclusive; returns what happens to each date.

        A `date` is that whole day in the DAG's time zone.
        """
        return await self._send(
            BackfillAnswer, "POST", "backfills", {"dag_id": dag_id, **body_of(request)}, key=request.key
        )

    @options_of_jobs(SetSchedule)
    async def schedule(self, dag_id: str, request: SetSchedule) -> ScheduleResource:
        """Start runs of a DAG by a schedule that is data: one of `cron` (in `timezone`), `every` (seconds) and `at`.

        One of that name is changed; with other terms it begins anew.
        """
        path = _path("dags", dag_id, "schedules", request.name)
        return await self._send(ScheduleResource, "PUT", path, body_of(request, without=("name",)), key=request.key)

    def schedules(self, *, dag_id: str | None = None) -> AsyncIterator[ScheduleResource]:
        """Schedules by DAG and name."""
        return self._pages(ScheduleResource, "schedules", {"dag_id": dag_id})

    async def pause_schedule(
        self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None
    ) -> ScheduleResource:
        """Pause a schedule: it starts no runs."""
        path = _path("dags", dag_id, "schedules", name, "pause")
        return await self._send(ScheduleResource, "POST", path, {"reason": reason}, key=key)

    async def resume_schedule(
        self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None
    ) -> ScheduleResource:
        """Resume a schedule: the last missed instant has a run, with catchup each."""
        path = _path("dags", dag_id, "schedules", name, "resume")
        return await self._send(ScheduleResource, "POST", path, {"reason": reason}, key=key)

    async def unschedule(self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Remove a schedule; its runs stay."""
        path, params = _path("dags", dag_id, "schedules", name), _given({"reason": reason})
        _applied(await self._http.request("DELETE", path, params=params, headers=_headers(key)))

    async def pause_backfill(
        self, number: int, *, reason: str | None = None, key: str | None = None
    ) -> BackfillResource:
        """Pause a backfill: start no further runs; running ones continue."""
        return await self._send(
            BackfillResource, "POST", _path("backfills", str(number), "pause"), {"reason": reason}, key=key
        )

    async def resume_backfill(
        self, number: int, *, reason: str | None = None, key: str | None = None
    ) -> BackfillResource:
        """Resume a paused backfill."""
        return await self._send(
            BackfillResource, "POST", _path("backfills", str(number), "resume"), {"reason": reason}, key=key
        )

    async def cancel_backfill(
        self, number: int, *, reason: str | None = None, key: str | None = None
    ) -> BackfillResource:
        """Cancel a backfill: its queued runs fail, running ones continue."""
        return await self._send(
            BackfillResource, "POST", _path("backfills", str(number), "cancel"), {"reason": reason}, key=key
        )

    def backfills(self, *, dag_id: str | None = None) -> AsyncIterator[BackfillResource]:
        """Backfills, newest first."""
        return self._pages(BackfillResource, "backfills", {"dag_id": dag_id})

    def assets(
        self, *, freshness: Freshness | str | None = None, q: str | None = None, group: str | None = None
    ) -> AsyncIterator[AssetResource]:
        """Assets by name; only fresh, late or unknown ones, of a group, or with `q` in what is shown of them."""
        return self._pages(AssetResource, "assets", _given({"freshness": freshness, "q": q, "group": group}))

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

    async def asset_checks(self, asset: str) -> list[AssetCheckResource]:
        """The checks of an asset by DAG and task, with what they said last."""
        found = await self._get(AssetChecksResource, "asset-checks", {"name": asset})
        return found.checks

    def asset_events(self, asset: str) -> AsyncIterator[AssetEventResource]:
        """The events of an asset, newest first."""
        return self._pages(AssetEventResource, "asset-events", {"name": asset})

    @options_of(EmitAsset)
    async def emit(self, request: EmitAsset) -> Emitted:
        """Emit an event of an asset (or of one of its partitions), which triggers the DAGs that wait for it."""
        body = body_of(request, without=("name",))
        return await self._send(Emitted, "POST", "asset-events", body, {"name": request.name})

    def pools(self) -> AsyncIterator[PoolResource]:
        """Pools by name."""
        return self._pages(PoolResource, "pools", {})

    async def set_pool(
        self, name: str, slots: int, *, include_deferred: bool | None = None, rate: str | None = None
    ) -> PoolResource:
        """Create or change a pool. `rate`: the most starts per period, such as `100/min`; empty for none."""
        body = {"slots": slots, "include_deferred": include_deferred, "rate": rate}
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

    async def pause_alert_rule(self, name: str, *, paused: bool) -> AlertRuleResource:
        """Pause an alert rule, or take it up again."""
        return await self._send(AlertRuleResource, "PATCH", _path("alert-rules", name), {"is_paused": paused})

    async def delete_alert_rule(self, name: str) -> None:
        """Delete an alert rule with its alerts."""
        _applied(await self._http.request("DELETE", _path("alert-rules", name)))

    async def acknowledge_alert(self, number: int) -> AlertResource:
        """Say that one has an open alert in hand: there are no more reminders."""
        return await self._send(AlertResource, "POST", _path("alerts", str(number), "acknowledge"), {})

    def silences(self, *, is_active: bool = True) -> AsyncIterator[SilenceResource]:
        """Silences of alerts, newest first; without `is_active` also those that have ended."""
        return self._pages(SilenceResource, "alert-silences", {"is_active": is_active})

    async def silence(self, silence: NewSilence) -> SilenceResource:
        """Say nothing for a time about an alert, a DAG or a tag."""
        return await self._send(SilenceResource, "POST", "alert-silences", silence.model_dump())

    async def end_silence(self, number: int) -> None:
        """End a silence before its time."""
        _applied(await self._http.request("DELETE", _path("alert-silences", str(number))))

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
        """Requests to the schedulers, newest first."""
        return self._pages(CommandResource, "commands", {"dag_id": dag_id})

    async def command(self, number: int) -> CommandResource:
        """One request; NotAnswered has its number."""
        return await self._get(CommandResource, _path("commands", str(number)))

    async def outcome(self, number: int, *, timeout: float | None = None) -> CommandResource:
        """A request once it has been applied, refused or withdrawn. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while (found := await self.command(number)).state == "waiting":  # noqa: ASYNC110  # another process
                await asyncio.sleep(_LOOK_SECONDS)
        return found

    async def withdraw(self, number: int, *, reason: str | None = None) -> CommandResource:
        """Withdraw a request that waits, so that no scheduler applies it. Raises Refused if it was answered already."""
        return await self._send(CommandResource, "POST", _path("commands", str(number), "withdraw"), {"reason": reason})

    # -- asking -----------------------------------------------------------------------------

    async def _get(self, model: type[M], path: str, params: Mapping[str, Any] | None = None) -> M:
        answer = await self._http.get(path, params=_given(params or {}))
        _check(answer)
        return model.model_validate_json(answer.content)

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
        answer = await self._http.request(method, path, json=body, params=params, headers=_headers(key))
        _applied(answer)
        return model.model_validate_json(answer.content)

    async def _change_run(self, dag_id: str, run: str, verb: str, request: Request) -> RunDetails:
        body = body_of(request, without=("run_id",))
        return await self._send(RunDetails, "POST", _path("dags", dag_id, "runs", run, verb), body, key=request.key)

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
    """Raise the error of a problem, or NotAnswered for a request that is not applied yet."""
    _check(answer)
    if answer.status_code == 202:
        raise NotAnswered(answer.json()["command"])


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None and value is not False and value != []}


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
