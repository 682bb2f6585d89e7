"""Versions of a DAG: their tasks, their source, and the differences between two of them."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from pydantic import BaseModel

from aiosched.core.graph.secret_params import hide_defaults
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.db.queries import version_queries
from aiosched.db.queries.version_queries import VersionText, get_version
from aiosched.web.api.base.models import Instant, Name, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.etags import RARELY

router = APIRouter(tags=["DAGs"])

Number = Annotated[int, Path(ge=1, lt=2**31)]


class Version(Resource):
    """A version in a list. `source_hash` covers the file and all that it imports (null: unknown).

    `bundle` is the bundle that has the file (null: the DAGs folder). Runs keep the code of `bundle_version`, a commit
    or a hash of the content; null: they run the newest code.
    """

    number: int
    created_at: Instant
    content_hash: str
    file: str | None
    source_hash: str | None
    bundle: str | None
    bundle_version: str | None


class VersionDetails(Version):
    """A version with its source (null for DAGs of an application) and the serialized DAG.

    `sources` are the content hashes of the file and of all that it imports from the DAGs folder (null: unknown).
    """

    source: str | None
    sources: dict[str, str] | None
    spec: dict[str, Any]


class Difference(BaseModel):
    """The differences between two versions as unified diffs; empty without differences."""

    source: str
    spec: str
    modules: list[str]  # imported from the DAGs folder, and changed, added or removed


class TaskDefinition(BaseModel):
    """A task of a DAG, with its direct upstream and downstream tasks."""

    task_id: str
    task_index: int
    operator: str
    group_id: str | None
    upstream: list[str]
    downstream: list[str]
    trigger_rule: str
    retries: int
    pool: str
    pool_slots: int
    priority_weight: int
    executor: str | None
    is_mapped: bool
    is_setup: bool
    is_teardown: bool
    depends_on_past: bool
    owner: str
    doc: str | None


class Tasks(BaseModel):
    """All tasks of a DAG, in the DAG's order."""

    items: list[TaskDefinition]


@router.get("/dags/{dag_id}/versions", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def list_versions(
    request_client: TheRequestClient, dag_id: Name, limit: Limit = 50, cursor: Cursor = None
) -> Page[Version]:
    """Versions, newest first."""
    before = decode_cursor(cursor, int)
    rows = await version_queries.list_versions(request_client.db, dag_id, before=before, limit=limit + 1)
    return page_of(Version, rows, limit, lambda row: row.number)


@router.get("/dags/{dag_id}/versions/{number}", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def one_version(request_client: TheRequestClient, dag_id: Name, number: Number) -> VersionDetails:
    """One version with its source and serialized DAG."""
    found = await get_version(request_client.db, dag_id, number)
    facts = Version.model_validate(found).model_dump()
    spec = msgspec.to_builtins(hide_defaults(found.spec))
    return VersionDetails.model_validate({**facts, "source": found.source, "sources": found.sources, "spec": spec})


@router.get("/dags/{dag_id}/versions/{number}/diff/{other}", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def difference(request_client: TheRequestClient, dag_id: Name, number: Number, other: Number) -> Difference:
    """What changed from `number` to `other`."""
    one, two = await get_version(request_client.db, dag_id, number), await get_version(request_client.db, dag_id, other)
    names = (f"version {number}", f"version {other}")
    return Difference(
        source=_diff(one.source or "", two.source or "", names),
        spec=_diff(_pretty(one), _pretty(two), names),
        modules=_changed_modules(one, two),
    )


@router.get("/dags/{dag_id}/tasks", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def list_dag_tasks(request_client: TheRequestClient, dag_id: Name) -> Tasks:
    """The tasks of the newest version."""
    return Tasks(items=tasks_of((await get_version(request_client.db, dag_id)).spec))


def tasks_of(spec: DagSpec) -> list[TaskDefinition]:
    """The API's view of the tasks of a version."""
    downstream: dict[str, list[str]] = {task.task_id: [] for task in spec.tasks}
    for task in spec.tasks:
        for up in task.upstream:
            downstream[up].append(task.task_id)
    return [_task(index, task, downstream[task.task_id]) for index, task in enumerate(spec.tasks)]


def _task(index: int, task: TaskSpec, downstream: list[str]) -> TaskDefinition:
    same = {name: getattr(task, name) for name in TaskDefinition.model_fields if hasattr(task, name)}
    return TaskDefinition.model_validate(
        {**same, "task_index": index, "downstream": downstream, "is_mapped": task.mapping is not None}
    )


def _pretty(version: VersionText) -> str:
    return msgspec.json.format(msgspec.json.encode(hide_defaults(version.spec), order="sorted"), indent=2).decode()


def _changed_modules(one: VersionText, two: VersionText) -> list[str]:
    before, after = one.sources or {}, two.sources or {}
    names = sorted((before.keys() | after.keys()) - {one.file, two.file})
    return [name for name in names if before.get(name) != after.get(name)]


def _diff(one: str, two: str, names: tuple[str, str]) -> str:
    lines = difflib.unified_diff(one.splitlines(), two.splitlines(), *names, lineterm="")
    return "\n".join(lines)
