"""One action on many runs or task instances of any DAGs, and one preview of all that it touches.

Each DAG's owner gets its own requests: an action on many is many actions, of which some can be refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator

from aiosched.core.access.roles import Role
from aiosched.core.requests.requests import CancelRun, Clear, MarkRun, MarkTasks, SetNote
from aiosched.core.values.states import FINISHED, RUN_FINISHED, RunState, TaskState
from aiosched.db.queries import queries
from aiosched.errors import NotFound, Refused
from aiosched.web.api.base.models import Reason, Text
from aiosched.web.api.base.touched import Note, Touched
from aiosched.web.auth.access import RoleScope, allow
from aiosched.web.auth.sight import Sight, TheSight
from aiosched.web.requests.dependents import seen_preview
from aiosched.web.requests.request_client import RequestClient, TheRequestClient

router = APIRouter(tags=["Actions"])

_SHOWN: Final = 1_000  # instances in a preview
_AT_ONCE: Final = 10  # requests on their way

BulkRequest = Clear | MarkTasks | MarkRun | CancelRun | SetNote


class RunPlace(BaseModel):
    """A run."""

    dag_id: Text
    run_id: Text


class InstancePlace(RunPlace):
    """A task instance; `map_index` -1 for a task that is not mapped."""

    task_id: Text
    map_index: Annotated[int, Field(ge=-1, lt=2**31)] = -1


class BulkAction(BaseModel):
    """What to do to which runs or task instances, exactly to these.

    `clear` and `mark` of a run concern its task instances, with `only_failed` the failed ones. `state` is for `mark`,
    `note` for `note` (an empty one removes it); `cancel` is for runs. With `dry_run` nothing is changed.
    """

    action: Literal["clear", "mark", "note", "cancel"]
    runs: Annotated[list[RunPlace], Field(max_length=500)] = []
    tasks: Annotated[list[InstancePlace], Field(max_length=500)] = []
    state: Literal["success", "failed", "skipped", "queued"] | None = None
    note: Note | None = None
    only_failed: bool = False
    dry_run: bool = False
    reason: Reason = None

    @model_validator(mode="after")
    def _check(self) -> BulkAction:
        if not self.runs and not self.tasks:
            raise ValueError("names no runs and no tasks: send `runs` or `tasks`")
        if self.action == "mark" and self.state is None:
            raise ValueError("mark needs a `state`")
        if self.action == "mark" and self.runs and self.state == "skipped":
            raise ValueError("a run cannot be marked skipped: send success, failed or queued")
        if self.action == "mark" and self.tasks and self.state == "queued":
            raise ValueError("a task instance cannot be marked queued: clear it")
        if self.action == "note" and self.note is None:
            raise ValueError("note needs a `note`; an empty one removes it")
        if self.action == "cancel" and self.tasks:
            raise ValueError("cancel is for runs: send `runs`, or mark the tasks failed")
        return self


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


class DagRequest(NamedTuple):
    """One request of an action, to the owner of a DAG."""

    dag_id: str
    run_ids: tuple[str, ...]
    request: BulkRequest


def requests_of(body: BulkAction) -> list[DagRequest]:
    """The requests of an action: for runs of a DAG and for instances of a task one, if that says the same."""
    runs: dict[str, list[str]] = defaultdict(list)
    for run in dict.fromkeys((each.dag_id, each.run_id) for each in body.runs):
        runs[run[0]].append(run[1])
    tasks: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for each in body.tasks:
        tasks[each.dag_id, each.task_id, each.map_index].append(each.run_id)
    return [
        *(each for dag_id, run_ids in runs.items() for each in _of_runs(body, dag_id, tuple(run_ids))),
        *(each for place, run_ids in tasks.items() for each in _of_tasks(body, place, tuple(dict.fromkeys(run_ids)))),
    ]


def _of_runs(body: BulkAction, dag_id: str, run_ids: tuple[str, ...]) -> Iterator[DagRequest]:
    if body.action == "clear":
        clear = Clear(run_ids=run_ids, only_failed=body.only_failed, dependents=False)
        yield DagRequest(dag_id, run_ids, clear)
        return
    for run_id in run_ids:
        match body.action:
            case "mark":
                yield DagRequest(dag_id, (run_id,), MarkRun(run_id=run_id, state=RunState(str(body.state))))
            case "cancel":
                yield DagRequest(dag_id, (run_id,), CancelRun(run_id=run_id))
            case _:
                yield DagRequest(dag_id, (run_id,), SetNote(run_id=run_id, note=body.note))


def _of_tasks(body: BulkAction, place: tuple[str, str, int], run_ids: tuple[str, ...]) -> Iterator[DagRequest]:
    dag_id, task_id, index = place
    map_index = None if index < 0 else index
    which: dict[str, Any] = {"run_ids": run_ids, "task_ids": (task_id,), "map_index": map_index}
    match body.action:
        case "clear":
            yield DagRequest(dag_id, run_ids, Clear(**which, only_failed=body.only_failed, dependents=False))
        case "mark":
            yield DagRequest(dag_id, run_ids, MarkTasks(**which, state=TaskState(str(body.state))))
        case _:
            for run_id in run_ids:
                note = SetNote(run_id=run_id, task_id=task_id, map_index=map_index, note=body.note)
                yield DagRequest(dag_id, (run_id,), note)


@router.post("/bulk")
@allow(Role.OPERATOR, RoleScope.SEEN)
async def act_on_many(request_client: TheRequestClient, sight: TheSight, body: BulkAction) -> BulkAnswer:
    """Clear, mark, note or cancel many runs or task instances; `dry_run` only shows what it would touch.

    Refused as a whole if the role is too low for one of the DAGs; what a DAG's owner refuses is in the answer.
    """
    wanted = requests_of(body)
    for dag_id in sorted({each.dag_id for each in wanted}):
        await sight.check_dag(dag_id, Role.OPERATOR)
        await queries.get_dag(request_client.db, dag_id)
    answer = BulkAnswer(count=0, runs=0, dags=0, states={}, instances=[], refused=[], waiting=0)
    touched: set[tuple[str, str]] = set()
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        outcomes = await asyncio.gather(*(_outcome(request_client, sight, body, each) for each in some))
        for each, outcome in zip(some, outcomes, strict=True):
            _add(answer, touched, each, outcome)
    answer.runs, answer.dags = len(touched), len({dag_id for dag_id, _ in touched})
    return answer


async def _outcome(
    request_client: RequestClient, sight: Sight, body: BulkAction, each: DagRequest
) -> dict[str, Any] | str | None:
    """What a request affects or affected; None: it waits; text: why it is refused."""
    try:
        if not body.dry_run:
            answer = await request_client.ask(each.request, each.dag_id, by=sight.person, reason=body.reason)
            return answer.result
        if isinstance(each.request, Clear | MarkTasks):
            dry = msgspec.structs.replace(each.request, dry_run=True)
            return await seen_preview(request_client, sight, each.dag_id, dry)
        return await _preview_of_run(request_client, each)
    except (NotFound, Refused) as refusal:
        return str(refusal)


async def _preview_of_run(request_client: RequestClient, each: DagRequest) -> dict[str, Any]:
    """What would happen to a run: a note concerns it alone, anything else its unfinished task instances."""
    run = await queries.find_run(request_client.db, each.dag_id, each.run_ids[0])
    if isinstance(each.request, SetNote):
        return {}
    if isinstance(each.request, CancelRun) and run.state in RUN_FINISHED:
        raise Refused(f"Run {run.run_id} of {each.dag_id} is {run.state} already; there is nothing to cancel.")
    counts = await queries.count_tasks(request_client.db, run)
    states = {state: number for state, number in counts.items() if state not in FINISHED}
    return {"count": sum(states.values()), "states": states}


def _add(
    answer: BulkAnswer, touched: set[tuple[str, str]], each: DagRequest, outcome: dict[str, Any] | str | None
) -> None:
    """Add the outcome of one request to the answer."""
    if isinstance(outcome, str):
        answer.refused.append(BulkRefusal(dag_id=each.dag_id, about=_about(each), detail=outcome))
        return
    if outcome is None:
        answer.waiting += 1
        return
    is_counted = "runs" in outcome
    touched.update((each.dag_id, run_id) for run_id in (outcome["runs"] if is_counted else each.run_ids))
    answer.count += outcome.get("count", 0)
    answer.states = dict(Counter(answer.states) + Counter(outcome.get("states", {})))
    room = _SHOWN - len(answer.instances)
    found: Sequence[Any] = (outcome.get("instances") or ())[:room]
    answer.instances += [BulkTouched.model_validate({**one, "dag_id": each.dag_id}) for one in found]


def _about(each: DagRequest) -> str:
    """What a request is about, to show."""
    runs = each.run_ids[0] if len(each.run_ids) == 1 else f"{len(each.run_ids)} runs"
    match each.request:
        case Clear(task_ids=tuple(names)) | MarkTasks(task_ids=tuple(names)):
            return " ".join([runs, *names])
        case SetNote(task_id=str(name)):
            return f"{runs} {name}"
        case _:
            return runs
