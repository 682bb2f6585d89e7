"""What people do to DAGs, runs and task instances.

Each is a request to the DAG's owner and is recorded in the audit log. An action answers once the owner has applied it;
if none does in time, it answers 202 with the number of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.core.graph.json_schema import StepBudget
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.secret_params import mark_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.requests.requests import (
    CancelRun,
    Clear,
    DeleteDag,
    MarkRun,
    MarkTask,
    MarkTasks,
    Pause,
    ReleaseDag,
    SetNote,
    Trigger,
    Unpause,
)
from aiosched.core.values.secret_values import plain
from aiosched.db.queries import queries
from aiosched.db.queries.version_queries import TriggeredDag, get_triggered
from aiosched.db.statements.inbox import OwnerAnswer
from aiosched.errors import AioschedError, ParamError, Refused
from aiosched.web.api.base.bodies import request_of, with_options
from aiosched.web.api.base.models import Body, Name, Reason, ReasonBody, RunRef
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.base.touched import Note, Touched
from aiosched.web.api.dags import DagResource
from aiosched.web.api.runs import RunDetails, details_of
from aiosched.web.auth.access import Person, Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.answers import ACCEPTED, waiting
from aiosched.web.requests.dependents import check_dependents, seen_dependents, seen_preview
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.sending import IdempotencyKey, Sender, TheSender, was_sent
from aiosched.web.server.problems import Field as Wrong
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Actions"], responses=ACCEPTED)

_MOST_WRONG: Final = 50  # that are named in the text of an answer
_QUICK: Final = 10_000  # steps of checks that take a few milliseconds


class DagChange(Body):
    """What to change about a DAG."""

    is_paused: bool
    reason: Reason = None


@with_options(Trigger, without=("unpause", "triggered_by", "reason"))
class RunOfBatch(Body):
    """A run to create, as one of a batch.

    Without a logical date it has no data interval; with a `partition_key` it is about that partition of its assets.
    """


@with_options(Trigger, without=("triggered_by",))
class NewRun(Body):
    """A run to create.

    Without a logical date it has no data interval; with a `partition_key` it is about that partition of its assets.
    """


class NewRuns(Body):
    """Runs of one DAG to create."""

    runs: Annotated[list[RunOfBatch], Field(min_length=1, max_length=1000)]
    unpause: bool = False
    reason: Reason = None


class Triggered(BaseModel):
    """What became of a run of a batch: its id, or why it was not created, or the request that still waits."""

    run_id: str | None = None
    error: str | None = None
    command: int | None = None


class TriggeredRuns(BaseModel):
    """What became of the runs of a batch, in the order in which they were asked for."""

    runs: list[Triggered]


@with_options(Clear)
class Clearing(Body):
    """Task instances that are to run again.

    `newest_version` first moves their runs to the newest version. `prevent_running` refuses the request if some of them
    are running; otherwise those are stopped. With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs
    is cleared, too.
    """


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


@with_options(MarkTask, without=("run_id", "task_id"))
class Mark(Body):
    """A state that a person sets for task instances.

    `upstream` and `downstream` add the tasks before and after it, `past` and `future` the runs before and after that
    one, by logical date.
    """

    state: Literal["success", "failed", "skipped"]


@with_options(MarkRun, without=("run_id",))
class RunMark(Body):
    """A state that a person sets for a run and for everything unfinished in it; `queued` lets it run again."""

    state: Literal["success", "failed", "queued"]


class NoteText(Body):
    """A note; an empty one removes it. With `was`, the note as it was read, it is refused if that is another by now."""

    note: Note
    was: Note | None = None


class Noted(BaseModel):
    """A note as it is stored."""

    run_id: str
    task_id: str | None = None
    map_index: int | None = None
    note: str | None


# ---- DAGs ----


@router.patch("/dags/{dag_id}", response_model=DagResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def change_dag(sender: TheSender, dag_id: Name, change: DagChange) -> Response:
    """Pause or unpause a DAG. A paused DAG creates no runs and starts no tasks; what is running continues."""
    await queries.get_dag(sender.db, dag_id)
    verb = (Pause if change.is_paused else Unpause)(reason=change.reason)
    return await sender.send(verb, dag_id, lambda _: _dag_of(sender, dag_id))


async def _dag_of(sender: Sender, dag_id: str) -> DagResource:
    return DagResource.model_validate(await queries.get_dag(sender.db, dag_id))


@router.delete("/dags/{dag_id}", status_code=204, response_model=None)
@allow(Role.ADMIN, RoleScope.DAG)
async def delete_dag(
    request: Request,
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    reason: Annotated[Reason, Query()] = None,
    key: IdempotencyKey = None,
) -> Response:
    """Delete a DAG with its runs and their history. If its file still exists, the DAG comes back without them."""
    await queries.get_dag(request_client.db, dag_id)
    answer = await request_client.ask(DeleteDag(reason=reason, key=key), dag_id, by=person)
    return Response(status_code=204) if answer.result is not None else waiting(request, answer.number)


@router.post("/dags/{dag_id}/release", response_model=DagResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def release_dag(sender: TheSender, dag_id: Name, because: ReasonBody | None = None) -> Response:
    """Try a DAG that is in quarantine again now, before its pause is over."""
    await queries.get_dag(sender.db, dag_id)
    return await sender.send(request_of(ReleaseDag, because), dag_id, lambda _: _dag_of(sender, dag_id))


# ---- runs ----


@router.post("/dags/{dag_id}/runs", status_code=201, response_model=RunResource)
@allow(Role.OPERATOR, RoleScope.DAG)
async def trigger(sender: TheSender, dag_id: Name, body: NewRun) -> Response:
    """Trigger a run. Refused while the DAG is paused (unless `unpause` is set), and when params violate their
    schema."""
    trigger = request_of(Trigger, body, triggered_by="api")
    dag = await _triggered_dag(sender.client, dag_id, unpause=trigger.unpause or await sender.was_sent())
    conf = mark_secrets(dag.params, dict(trigger.conf))
    await _refuse_wrong(dag.params, {"": conf})

    async def made(answer: dict[str, Any]) -> RunResource:
        return RunResource.model_validate(await queries.find_run(sender.db, dag_id, answer["run_id"]))

    return await sender.send(msgspec.structs.replace(trigger, conf=conf), dag_id, made, status=201)


@router.post("/dags/{dag_id}/runs/batch", response_model=TriggeredRuns)
@allow(Role.OPERATOR, RoleScope.DAG)
async def trigger_batch(
    request_client: TheRequestClient, person: Person, dag_id: Name, body: NewRuns, key: IdempotencyKey = None
) -> TriggeredRuns:
    """Trigger up to 1,000 runs of a DAG. None is triggered if the params of one are wrong, or the DAG is paused; else
    each is created or refused by itself."""
    is_known = await was_sent(request_client.db, person, None if key is None else f"0 {key}")
    dag = await _triggered_dag(request_client, dag_id, unpause=body.unpause or is_known)
    asked = [
        request_of(Trigger, run, unpause=body.unpause, triggered_by="api", reason=body.reason) for run in body.runs
    ]
    confs = [mark_secrets(dag.params, dict(each.conf)) for each in asked]
    await _refuse_wrong(dag.params, {f"runs.{number}.": conf for number, conf in enumerate(confs)})
    keys = [None if key is None else f"{number} {key}" for number in range(len(asked))]
    marked = [
        msgspec.structs.replace(each, conf=conf, key=own) for each, conf, own in zip(asked, confs, keys, strict=True)
    ]
    answers = await request_client.ask_many(marked, dag_id, by=person)
    return TriggeredRuns(runs=[_triggered(answer) for answer in answers])


def _triggered(answer: OwnerAnswer | AioschedError) -> Triggered:
    if isinstance(answer, AioschedError):
        return Triggered(error=str(answer))
    return Triggered(command=answer.number) if answer.result is None else Triggered(run_id=answer.result["run_id"])


async def _triggered_dag(request_client: RequestClient, dag_id: str, *, unpause: bool) -> TriggeredDag:
    """What decides about a trigger. Raises NotFound, and Refused for a DAG that is paused and stays so."""
    dag = await get_triggered(request_client.db, dag_id)
    if dag.is_paused and not unpause:
        raise Refused(f"DAG {dag_id!r} is paused, so the run would wait: send `unpause`, or unpause it first.")
    return dag


async def _refuse_wrong(params: dict[str, ParamSpec], confs: Mapping[str, dict[str, Any]]) -> None:
    """Raise a Problem that names every value of the confs (by prefixes of their names) that is wrong, if there is one.

    What takes more than a moment is checked in a thread.
    """
    if not params:
        return
    wrong: list[Wrong] = []
    steps = StepBudget(_QUICK)
    try:
        wrong = _wrong_params(params, confs, steps)
    except ParamError:
        if steps.left >= 0:
            raise
    if steps.left < 0:
        wrong = await asyncio.to_thread(_wrong_params, params, confs, StepBudget())
    if wrong:
        text = "; ".join(f"{field.where}: {field.message}" for field in wrong[:_MOST_WRONG])
        raise Problem(422, "params", text, fields=wrong)


def _wrong_params(params: dict[str, ParamSpec], confs: Mapping[str, dict[str, Any]], steps: StepBudget) -> list[Wrong]:
    """Every param that is wrong, of all runs together. Raises ParamError for a default that is."""
    wrong: list[Wrong] = []
    for prefix, marked in confs.items():
        conf = plain(marked)
        for name, spec in params.items():
            where = f"{prefix}conf.{name}"
            if name in conf:
                try:
                    resolve_params({name: spec}, {name: conf[name]}, steps)
                except ParamError as error:
                    wrong.append(Wrong(where=where, message=str(error)))
            elif spec.required:
                wrong.append(Wrong(where=where, message="has no default: give it a value"))
        if not wrong:
            resolve_params({name: spec for name, spec in params.items() if name not in conf}, {}, steps)
        if steps.left < 0:
            break
    return wrong


@router.post("/dags/{dag_id}/runs/{run}/mark", response_model=RunDetails)
@allow(Role.OPERATOR, RoleScope.DAG)
async def mark_run(sender: TheSender, dag_id: Name, run: RunRef, mark: RunMark) -> Response:
    """Set a run and everything unfinished in it to success or failed, or queue it again."""
    row = await queries.find_run(sender.db, dag_id, run)
    return await _change_run(sender, dag_id, request_of(MarkRun, mark, run_id=row.run_id))


async def _change_run(sender: Sender, dag_id: str, verb: MarkRun | CancelRun) -> Response:
    async def after(_: dict[str, Any]) -> RunDetails:
        return await details_of(sender.client, await queries.find_run(sender.db, dag_id, verb.run_id))

    return await sender.send(verb, dag_id, after)


@router.post("/dags/{dag_id}/runs/{run}/cancel", response_model=RunDetails)
@allow(Role.OPERATOR, RoleScope.DAG)
async def cancel_run(sender: TheSender, dag_id: Name, run: RunRef, because: ReasonBody | None = None) -> Response:
    """Cancel a run: its running tasks are stopped, the others do not start, and the run fails."""
    row = await queries.find_run(sender.db, dag_id, run)
    return await _change_run(sender, dag_id, request_of(CancelRun, because, run_id=row.run_id))


@router.put("/dags/{dag_id}/runs/{run}/note", response_model=Noted)
@allow(Role.OPERATOR, RoleScope.DAG)
async def note_run(sender: TheSender, dag_id: Name, run: RunRef, note: NoteText) -> Response:
    """Set the note of a run."""
    row = await queries.find_run(sender.db, dag_id, run)
    return await sender.send(request_of(SetNote, note, run_id=row.run_id), dag_id, Noted.model_validate)


# ---- task instances ----


@router.post("/dags/{dag_id}/clear", response_model=ClearAnswer)
@allow(Role.OPERATOR, RoleScope.DAG)
async def clear(sender: TheSender, visible: TheVisible, dag_id: Name, body: Clearing) -> Response:
    """Clear task instances so that they run again; `dry_run` only shows which."""
    await queries.get_dag(sender.db, dag_id)
    clear = request_of(Clear, body)
    await check_dependents(sender.client, visible, dag_id, clear)
    return await _change(sender, visible, dag_id, clear)


async def _change(sender: Sender, visible: Visible, dag_id: str, verb: Clear | MarkTasks) -> Response:
    if verb.dry_run:
        seen = _clear_answer(visible, await seen_preview(sender.client, visible, dag_id, verb))
        return JSONResponse(seen.model_dump(mode="json"))
    return await sender.send(verb, dag_id, partial(_clear_answer, visible))


def _clear_answer(visible: Visible, found: dict[str, Any]) -> ClearAnswer:
    return ClearAnswer.model_validate(found | {"dependents": seen_dependents(found, visible)})


@router.post("/dags/{dag_id}/runs/{run}/tasks/{task_id}/mark", response_model=ClearAnswer)
@allow(Role.OPERATOR, RoleScope.DAG)
async def mark_task(
    sender: TheSender, visible: TheVisible, dag_id: Name, run: RunRef, task_id: Name, mark: Mark
) -> Response:
    """Set a task instance to success, failed or skipped; without `map_index` all instances of the task.

    `dry_run` only shows which.
    """
    row = await queries.find_run(sender.db, dag_id, run)
    verb = request_of(MarkTask, mark, run_id=row.run_id, task_id=task_id).of_many()
    return await _change(sender, visible, dag_id, verb)


@router.put("/dags/{dag_id}/runs/{run}/tasks/{task_id}/note", response_model=Noted)
@allow(Role.OPERATOR, RoleScope.DAG)
async def note_task(
    sender: TheSender,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    note: NoteText,
    map_index: Annotated[int | None, Query(ge=-1, lt=2**31)] = None,
) -> Response:
    """Set the note of a task instance."""
    row = await queries.find_run(sender.db, dag_id, run)
    verb = request_of(SetNote, note, run_id=row.run_id, task_id=task_id, map_index=map_index)
    return await sender.send(verb, dag_id, Noted.model_validate)
