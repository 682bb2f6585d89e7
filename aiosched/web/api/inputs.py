"""What tasks ask people, and their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.core.requests.requests import AnswerInput
from aiosched.core.values.ids import read_instance_name
from aiosched.db.people.human_inputs import InputRow, InputState, list_inputs
from aiosched.db.queries import queries
from aiosched.web.api.base.bodies import request_of, with_options
from aiosched.web.api.base.models import Body, Instant, Name, Resource, RunRef
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, encode_cursor
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.answers import ACCEPTED
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.requests.sending import TheSender

router: APIRouter = APIRouter(tags=["Inputs"])

Option = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]


class InputParam(Resource):
    """A param to fill in: its default (null if it is required), and the JSON schema of its values."""

    value: Any = None
    required: bool
    description: str | None
    json_schema: dict[str, Any]


class GivenInput(Resource):
    """What was answered."""

    options: list[str]
    params: dict[str, Any]


class InputResource(Resource):
    """A question of a task instance: it waits for an answer, was answered, or ended without one.

    `respondents` are the people who may answer; if there are none, everyone with the role operator may. `answered_by`
    is null if nobody answered in time, and the defaults were chosen.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: InputState
    subject: str
    body: str | None
    options: list[str]
    defaults: list[str] | None
    multiple: bool
    params: dict[str, InputParam]
    respondents: list[str]
    asked_at: Instant
    expires_at: Instant | None
    answer: GivenInput | None
    answered_by: str | None
    answered_at: Instant | None


@with_options(AnswerInput, without=("run_id", "task_id", "by"))
class NewAnswer(Body):
    """The options that are chosen, one unless the question allows several, and values for params."""

    options: Annotated[list[Option], Field(max_length=1000)]


class Answered(BaseModel):
    """The answer as the task gets it."""

    run_id: str
    task_id: str
    map_index: int
    options: list[str]
    params: dict[str, Any]


@router.get("/inputs")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_questions(
    request_client: TheRequestClient,
    visible: TheVisible,
    waiting: Annotated[bool, Query(description="only those that wait for an answer")] = False,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    run_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    task_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    map_index: Annotated[int | None, Query(ge=-1, lt=2**31)] = None,
    limit: Limit = 25,
    cursor: Cursor = None,
) -> Page[InputResource]:
    """What tasks ask people, the newest first."""
    name, index = (task_id, map_index) if task_id is None else read_instance_name(task_id, map_index)
    rows = await list_inputs(
        request_client.db,
        dag_id=dag_id,
        run_id=run_id,
        task_id=name,
        map_index=index,
        only_waiting=waiting,
        after=decode_cursor(cursor, tuple[datetime, int, int, int]),
        limit=limit + 1,
        seen=visible.dags,
    )
    more = encode_cursor(rows[limit - 1].cursor) if len(rows) > limit else None
    return Page(items=[_resource(row) for row in rows[:limit]], next_cursor=more)


@router.post("/dags/{dag_id}/runs/{run}/tasks/{task_id}/answer", response_model=Answered, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.DAG)
async def answer_question(sender: TheSender, dag_id: Name, run: RunRef, task_id: Name, answer: NewAnswer) -> Response:
    """Answer what a task asks; it goes on at once."""
    row = await queries.find_run(sender.db, dag_id, run)
    by = sender.person.requested_by
    return await sender.send(
        request_of(AnswerInput, answer, run_id=row.run_id, task_id=task_id, by=by), dag_id, Answered.model_validate
    )


def _resource(row: InputRow) -> InputResource:
    question = row.question
    return InputResource(
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        state=row.state,
        subject=question.subject,
        body=question.body,
        options=list(question.options),
        defaults=None if question.defaults is None else list(question.defaults),
        multiple=question.multiple,
        params={name: InputParam.model_validate(param) for name, param in question.params.items()},
        respondents=list(question.respondents),
        asked_at=row.asked_at,
        expires_at=row.expires_at,
        answer=None if row.answer is None else GivenInput.model_validate(row.answer),
        answered_by=row.answered_by,
        answered_at=row.answered_at,
    )
