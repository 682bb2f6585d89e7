"""One action on many runs or task instances of any DAGs, and one preview of all that it touches.

Which requests it becomes is decided in `core.requests.bulk`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator

from aiosched.core.access.roles import Role
from aiosched.core.requests.bulk import Action, BulkTotal, BulkVerb, DagRequest, Selected, requests_of
from aiosched.core.requests.requests import Clear, MarkTasks
from aiosched.db.queries import queries
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.requests.run_preview import preview_of_run
from aiosched.web.api.base.models import Body, Reason, Text
from aiosched.web.api.base.touched import Note, Touched
from aiosched.web.auth.access import RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.dependents import seen_preview
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.sending import IdempotencyKey

router: APIRouter = APIRouter(tags=["Actions"])

_AT_ONCE: Final = 10  # requests on their way


class RunPlace(Body):
    """A run."""

    dag_id: Text
    run_id: Text


class InstancePlace(RunPlace):
    """A task instance; `map_index` -1 for a task that is not mapped."""

    task_id: Text
    map_index: Annotated[int, Field(ge=-1, lt=2**31)] = -1


class BulkAction(Body):
    """What to do to which runs or task instances, exactly to these.

    `clear` and `mark` of a run concern its task instances, with `only_failed` the failed ones. `state` is for `mark`,
    `note` for `note` (an empty one removes it); `cancel` is for runs. With `dry_run` nothing is changed.
    """

    action: Literal["clear", "mark", "note", "cancel"]
    runs: Annotated[list[RunPlace], Field(max_length=5000)] = []
    tasks: Annotated[list[InstancePlace], Field(max_length=5000)] = []
    state: Literal["success", "failed", "skipped", "queued"] | None = None
    note: Note | None = None
    only_failed: bool = False
    dry_run: bool = False
    reason: Reason = None

    @model_validator(mode="after")
    def _check(self) -> BulkAction:
        if not self.runs and not self.tasks:
            raise ValueError("names no runs and no tasks: send `runs` or `tasks`")
        problem = self.meant.problem(of_runs=bool(self.runs), of_tasks=bool(self.tasks))
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def meant(self) -> Action:
        """What to do to each."""
        return Action(BulkVerb(self.action), self.state, self.note, self.only_failed)


class BulkTouched(Touched):
    """A task instance of a DAG and the state it had before."""

    dag_id: str


class BulkRefusal(BaseModel):
    """Why one of the requests was refused."""

    dag_id: str
    about: str
    detail: str


class BulkAnswer(BaseModel):
    """What is (or was) affected: the number of task instances, of runs and of DAGs, the number of instances in each
    state, and the first 1,000; what was refused; and how many requests are stored and wait for a scheduler."""

    count: int
    runs: int
    dags: int
    states: dict[str, int]
    instances: list[BulkTouched]
    refused: list[BulkRefusal]
    waiting: int


def selected(body: BulkAction) -> list[Selected]:
    """The runs and task instances that an action names."""
    return [
        *(Selected(each.dag_id, each.run_id) for each in body.runs),
        *(Selected(each.dag_id, each.run_id, each.task_id, each.map_index) for each in body.tasks),
    ]


@router.post("/bulk")
@allow(Role.OPERATOR, RoleScope.SEEN)
async def act_on_many(
    request_client: TheRequestClient, visible: TheVisible, body: BulkAction, key: IdempotencyKey = None
) -> BulkAnswer:
    """Clear, mark, note or cancel many runs or task instances; `dry_run` only shows what it would touch.

    Refused as a whole if the role is too low for one of the DAGs; what a DAG's owner refuses is in the answer.
    """
    wanted = requests_of(body.meant, selected(body))
    for dag_id in sorted({each.dag_id for each in wanted}):
        await visible.check_dag(dag_id, Role.OPERATOR)
        await queries.get_dag(request_client.db, dag_id)
    total = BulkTotal()
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        keys = [None if key is None else f"{number} {key}" for number in range(first, first + len(some))]
        asked = map(partial(_outcome, request_client, visible, body), some, keys)
        outcomes = await asyncio.gather(*asked)
        for each, outcome in zip(some, outcomes, strict=True):
            total.add(each, outcome)
    return BulkAnswer(
        count=total.count,
        runs=total.runs,
        dags=total.dags,
        states=total.states,
        instances=[BulkTouched.model_validate(one) for one in total.instances],
        refused=[BulkRefusal(dag_id=each.dag_id, about=each.about, detail=why) for each, why in total.refused],
        waiting=total.waiting,
    )


async def _outcome(
    request_client: RequestClient, visible: Visible, body: BulkAction, each: DagRequest, key: str | None
) -> dict[str, Any] | str | None:
    """What a request affects or affected; None: it waits; text: why it is refused."""
    try:
        if not body.dry_run:
            asked = msgspec.structs.replace(each.request, reason=body.reason, key=key)
            answer = await request_client.ask(asked, each.dag_id, by=visible.person)
            return answer.result
        if isinstance(each.request, Clear | MarkTasks):
            dry = msgspec.structs.replace(each.request, dry_run=True)
            return await seen_preview(request_client, visible, each.dag_id, dry)
        return await preview_of_run(request_client.db, each.dag_id, each.request)
    except (NotFound, Refused) as refusal:
        return str(refusal)
