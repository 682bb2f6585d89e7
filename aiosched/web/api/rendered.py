"""The rendered template fields of a task instance: rows of its tries, or what a scheduler renders on request."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.core.audit.kinds import AuditKind
from aiosched.core.requests.requests import Render
from aiosched.core.values.messages import AttemptKey
from aiosched.db.audit.entries import record
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.statements.inbox import ask_owner
from aiosched.db.statements.rendered_fields import find_rendered
from aiosched.web.api.base.models import ReasonBody
from aiosched.web.api.tasks import ThePlace
from aiosched.web.auth.access import Person, Role, RoleScope, allow
from aiosched.web.requests.answers import ACCEPTED, waiting
from aiosched.web.requests.request_client import ThePrimary, TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Task instances"])

_SECONDS: Final = 20.0

TryNumber = Annotated[int | None, Query(ge=0, lt=2**15, description="the last try if it is not given")]


class Rendered(BaseModel):
    """The template fields by name, as a try had them; secrets are masked, and long values cut.

    `fields` is null if none are stored: the task has not run, has no templates, or they are not kept any longer.
    `try_number` is null for what was rendered on request, as the next try would see it.
    """

    fields: dict[str, Any] | None
    try_number: int | None


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/rendered")
@allow(Role.VIEWER, RoleScope.DAG)
async def rendered(request_client: ThePrimary, place: ThePlace, try_number: TryNumber = None) -> Rendered:
    """The template fields of a try, stored when it began."""
    number = place.task.try_number if try_number is None else try_number
    key = AttemptKey(place.run.key, place.task.task_index, place.task.map_index, number)
    fields = (await find_rendered(request_client.db, [key])).get(key)
    if fields is not None:
        about = f"{place.run.run_id} {place.task.task_id}"
        await record(request_client.db, AuditKind.FIELDS_RENDERED, about, dag_id=place.run.dag_id)
    return Rendered(fields=fields, try_number=number)


@router.post("/dags/{dag_id}/runs/{run}/tasks/{task_id}/rendered", responses={**ACCEPTED, 200: {"model": Rendered}})
@allow(Role.OPERATOR, RoleScope.DAG)
async def render_now(
    request: Request, request_client: TheRequestClient, person: Person, place: ThePlace, body: ReasonBody
) -> Response:
    """Have a scheduler render the template fields as the next try would see them; it runs code of the DAG.

    503 if no scheduler runs. The DAG file is imported by a worker, never by the web server.
    """
    run, task = place
    if not any(scheduler.alive for scheduler in await list_schedulers(request_client.db)):
        detail = "No scheduler runs that could render the fields. Start one (`aiosched serve`), then try again."
        raise Problem(503, "no-scheduler", detail)
    answer = await ask_owner(
        request_client.db,
        Render(run_id=run.run_id, task_id=task.task_id, map_index=task.map_index, reason=body.reason),
        run.dag_id,
        requested_by=person.requested_by,
        timeout=_SECONDS,
    )
    if answer.result is None:
        return waiting(request, answer.number)
    return JSONResponse(Rendered(fields=answer.result["fields"], try_number=None).model_dump(mode="json"))
