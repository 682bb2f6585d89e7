"""What people do to DAGs, runs and task instances.

Each is a request to the DAG's owner and is recorded in the audit log. An action answers once the owner has applied it;
if none does in time, it answers 202 with the number of the request.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.core.graph.params import check_value, resolve_params
from aiosched.core.graph.secret_params import mark_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.requests.requests import (
    CancelRun,
    Clear,
    DeleteDag,
    MarkRun,
    MarkTasks,
    Pause,
    ReleaseDag,
    SetNote,
    Trigger,
    Unpause,
)
from aiosched.core.values.secret_values import plain
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.queries import queries
from aiosched.db.queries.version_queries import get_version
from aiosched.errors import ParamError, Refused
from aiosched.web.api.base.models import Because, Body, GivenInstant, JsonObject, Name, Reason, RunRef, Text
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.base.touched import Note, Touched
from aiosched.web.api.dags import DagResource
from aiosched.web.api.runs import RunDetails, details_of
from aiosched.web.auth.access import Person, Role, RoleScope, allow
from aiosched.web.auth.sight import Sight, TheSight
from aiosched.web.requests.answers import ACCEPTED, answered
from aiosched.web.requests.dependents import check_dependents, seen_dependents, seen_preview
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.problems import Field as Wrong
from aiosched.web.server.problems import Problem

router = APIRouter(tags=["Actions"], responses=ACCEPTED)


class Done(BaseModel):
    """The request was applied."""

    done: Literal[True] = True


class DagChange(Body):
    """What to change about a DAG."""

    is_paused: bool
    reason: Reason = None


class NewRun(Body):
    """A run to create.

    Without a logical date it has no data interval; with a `partition_key` it is about that partition of its assets.
    """

    logical_date: GivenInstant | None = None
    run_id: Annotated[Text | None, Field(max_length=250)] = None
    conf: JsonObject = {}
    run_after: GivenInstant | None = None
    partition_key: Text | None = None
    unpause: bool = False
    reason: Reason = None


class Selection(Body):
    """Which task instances are selected; all runs and all tasks unless some are named.

    Without `run_ids`, the runs with a logical date from `from_date` to `to_date`, both inclusive; `pattern` is a
    regular expression for task ids. `past` and `future` add the runs before and after those named, by logical date.
    """

    run_ids: Annotated[list[Text] | None, Field(max_length=1000)] = None
    from_date: GivenInstant | None = None
    to_date: GivenInstant | None = None
    task_ids: Annotated[list[Text] | None, Field(max_length=5000)] = None
    pattern: Annotated[Text | None, Field(max_length=1000)] = None
    map_index: Annotated[int | None, Field(ge=-1, lt=2**31)] = None
    upstream: bool = False
    downstream: bool = False
    only_failed: bool = False
    only_running: bool = False
    past: bool = False
    future: bool = False


class Clearing(Selection):
    """Task instances that are to run again.

    `newest_version` first moves their runs to the newest version. `prevent_running` refuses the request if some of them
    are running; otherwise those are stopped. With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs
    is cleared, too.
    """

    prevent_running: bool = False
    newest_version: bool = False
    dependents: bool = True
    dry_run: bool = False
    reason: Reason = None


class Dependent(Touched):
    """A task instance of another DAG (or run) that a marker led to."""

    dag_id: str


class ClearAnswer(BaseModel):
    """What is (or was) affected: the number of instances, their runs, the number in each state, and the first 1,000
    instances; `dependents` are the first 1,000 that markers led to, and not counted."""

    count: int
    runs: list[str]
    states: dict[str, int]
    instances: list[Touched]
    dependents: list[Dependent] = []


class Mark(Body):
    """A state that a person sets for task instances.

    `upstream` and `downstream` add the tasks before and after it, `past` and `future` the runs before and after that
    one, by logical date.
    """

    state: Literal["success", "failed", "skipped"]
    map_index: Annotated[int | None, Field(ge=-1, lt=2**31)] = None
    upstream: bool = False
    downstream: bool = False
    only_failed: bool = False
    only_running: bool = False
    past: bool = False
    future: bool = False
    dry_run: bool = False
    reason: Reason = None


class RunMark(Body):
    """A state that a person sets for a run and for everything unfinished in it; `queued` lets it run again."""

    state: Literal["success", "failed", "queued"]
    reason: Reason = None


class NoteText(Body):
    """A note; an empty one removes it."""

    note: Note


class Noted(BaseModel):
    """A note as it is stored."""

    run_id: str
    task_id: str | None = None
    map_index: int | None = None
    note: str | None


# ---- DAGs ----


@router.patch("/dags/{dag_id}", response_model=DagResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def change_dag(
    request: Request, request_client: TheRequestClient, person: Person, dag_id: Name, change: DagChange
) -> Response:
    """Pause or unpause a DAG. A paused DAG creates no runs and starts no tasks; what is running continues."""
    await queries.get_dag(request_client.db, dag_id)
    verb = Pause() if change.is_paused else Unpause()
    answer = await request_client.ask(verb, dag_id, by=person, reason=change.reason)
    row = await queries.get_dag(request_client.db, dag_id)
    return answered(request, answer, lambda _: DagResource.model_validate(row))


@router.delete("/dags/{dag_id}", status_code=204, response_model=None)
@allow(Role.ADMIN, RoleScope.DAG)
async def delete_dag(
    request: Request,
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    reason: Annotated[Reason, Query()] = None,
) -> Response:
    """Delete a DAG with its runs and their history. If its file still exists, the DAG comes back without them."""
    await queries.get_dag(request_client.db, dag_id)
    answer = await request_client.ask(DeleteDag(), dag_id, by=person, reason=reason)
    return Response(status_code=204) if answer.result is not None else answered(request, answer, Done.model_validate)


@router.post("/dags/{dag_id}/release", response_model=DagResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def release_dag(
    request: Request,
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    because: Because | None = None,
) -> Response:
    """Try a DAG that is in quarantine again now, before its pause is over."""
    await queries.get_dag(request_client.db, dag_id)
    answer = await request_client.ask(ReleaseDag(), dag_id, by=person, reason=because.reason if because else None)
    row = await queries.get_dag(request_client.db, dag_id)
    return answered(request, answer, lambda _: DagResource.model_validate(row))


# ---- runs ----


@router.post("/dags/{dag_id}/runs", status_code=201, response_model=RunResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def trigger(
    request: Request, request_client: TheRequestClient, person: Person, dag_id: Name, body: NewRun
) -> Response:
    """Trigger a run. Refused while the DAG is paused (unless `unpause` is set), and when params violate their
    schema."""
    row = await queries.get_dag(request_client.db, dag_id)
    if row.is_paused and not body.unpause:
        raise Refused(f"DAG {dag_id!r} is paused, so the run would wait: send `unpause`, or unpause it first.")
    spec = (await get_version(request_client.db, dag_id)).spec
    body.conf = mark_secrets(spec.params, body.conf)
    _check_params(spec.params, plain(body.conf))
    trigger = Trigger(**body.model_dump(exclude={"reason"}), triggered_by="api")
    answer = await request_client.ask(trigger, dag_id, by=person, reason=body.reason)
    if answer.result is None:
        return answered(request, answer, Done.model_validate)
    run = await queries.find_run(request_client.db, dag_id, answer.result["run_id"])
    return answered(request, answer, lambda _: RunResource.model_validate(run), status=201)


def _check_params(params: dict[str, ParamSpec], conf: dict[str, Any]) -> None:
    """Raise a Problem that names every param that is wrong."""
    wrong: list[Wrong] = []
    for name, spec in params.items():
        if name in conf:
            try:
                check_value(name, conf[name], spec.json_schema)
            except ParamError as error:
                wrong.append(Wrong(where=f"conf.{name}", message=str(error)))
        elif spec.required:
            wrong.append(Wrong(where=f"conf.{name}", message="has no default: give it a value"))
    if wrong:
        raise Problem(422, "params", "; ".join(f"{field.where}: {field.message}" for field in wrong), fields=wrong)
    resolve_params(params, conf)


@router.post("/dags/{dag_id}/runs/{run}/mark", response_model=RunDetails)
@allow(Role.OPERATOR, RoleScope.DAG)
async def mark_run(
    request: Request, request_client: TheRequestClient, person: Person, dag_id: Name, run: RunRef, mark: RunMark
) -> Response:
    """Set a run and everything unfinished in it to success or failed, or queue it again."""
    row = await queries.find_run(request_client.db, dag_id, run)
    verb = MarkRun(run_id=row.run_id, state=RunState(mark.state))
    answer = await request_client.ask(verb, dag_id, by=person, reason=mark.reason)
    after = await details_of(request_client, await queries.find_run(request_client.db, dag_id, row.run_id))
    return answered(request, answer, lambda _: after)


@router.post("/dags/{dag_id}/runs/{run}/cancel", response_model=RunDetails)
@allow(Role.OPERATOR, RoleScope.DAG)
async def cancel_run(
    request: Request,
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    run: RunRef,
    because: Because | None = None,
) -> Response:
    """Cancel a run: its running tasks are stopped, the others do not start, and the run fails."""
    row = await queries.find_run(request_client.db, dag_id, run)
    verb = CancelRun(run_id=row.run_id)
    answer = await request_client.ask(verb, dag_id, by=person, reason=because.reason if because else None)
    after = await details_of(request_client, await queries.find_run(request_client.db, dag_id, row.run_id))
    return answered(request, answer, lambda _: after)


@router.put("/dags/{dag_id}/runs/{run}/note", response_model=Noted)
@allow(Role.OPERATOR, RoleScope.DAG)
async def note_run(
    request: Request, request_client: TheRequestClient, person: Person, dag_id: Name, run: RunRef, note: NoteText
) -> Response:
    """Set the note of a run."""
    row = await queries.find_run(request_client.db, dag_id, run)
    answer = await request_client.ask(SetNote(run_id=row.run_id, note=note.note), dag_id, by=person)
    return answered(request, answer, Noted.model_validate)


# ---- task instances ----


@router.post("/dags/{dag_id}/clear", response_model=ClearAnswer)
@allow(Role.OPERATOR, RoleScope.DAG)
async def clear(
    request: Request, request_client: TheRequestClient, sight: TheSight, dag_id: Name, body: Clearing
) -> Response:
    """Clear task instances so that they run again; `dry_run` only shows which."""
    await queries.get_dag(request_client.db, dag_id)
    names = {"run_ids", "from_date", "to_date", "task_ids", "reason"}
    clear = Clear(
        **body.model_dump(exclude=names),
        run_ids=None if body.run_ids is None else tuple(body.run_ids),
        first=body.from_date,
        final=body.to_date,
        task_ids=None if body.task_ids is None else tuple(body.task_ids),
    )
    await check_dependents(request_client, sight, dag_id, clear)
    return await _change(request, request_client, sight, dag_id, clear, body.reason)


async def _change(
    request: Request,
    request_client: TheRequestClient,
    sight: Sight,
    dag_id: str,
    verb: Clear | MarkTasks,
    reason: str | None,
) -> Response:
    if verb.dry_run:
        seen = _clear_answer(sight, await seen_preview(request_client, sight, dag_id, verb))
        return JSONResponse(seen.model_dump(mode="json"))
    answer = await request_client.ask(verb, dag_id, by=sight.person, reason=reason)
    return answered(request, answer, partial(_clear_answer, sight))


def _clear_answer(sight: Sight, found: dict[str, Any]) -> ClearAnswer:
    return ClearAnswer.model_validate(found | {"dependents": seen_dependents(found, sight)})


@router.post("/dags/{dag_id}/runs/{run}/tasks/{task_id}/mark", response_model=ClearAnswer)
@allow(Role.OPERATOR, RoleScope.DAG)
async def mark_task(
    request: Request,
    request_client: TheRequestClient,
    sight: TheSight,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    mark: Mark,
) -> Response:
    """Set a task instance to success, failed or skipped; without `map_index` all instances of the task.

    `dry_run` only shows which.
    """
    row = await queries.find_run(request_client.db, dag_id, run)
    verb = MarkTasks(
        **mark.model_dump(exclude={"state", "reason"}),
        run_ids=(row.run_id,),
        task_ids=(task_id,),
        state=TaskState(mark.state),
    )
    return await _change(request, request_client, sight, dag_id, verb, mark.reason)


@router.put("/dags/{dag_id}/runs/{run}/tasks/{task_id}/note", response_model=Noted)
@allow(Role.OPERATOR, RoleScope.DAG)
async def note_task(
    request: Request,
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    note: NoteText,
    map_index: Annotated[int | None, Query(ge=-1, lt=2**31)] = None,
) -> Response:
    """Set the note of a task instance."""
    row = await queries.find_run(request_client.db, dag_id, run)
    verb = SetNote(run_id=row.run_id, task_id=task_id, map_index=map_index, note=note.note)
    answer = await request_client.ask(verb, dag_id, by=person)
    return answered(request, answer, Noted.model_validate)
