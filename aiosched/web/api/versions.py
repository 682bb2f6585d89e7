"""Versions of a DAG: their tasks, their source, and the differences between two of them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from aiosched.core.graph.secret_params import hide_defaults
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.values.states import RunState, RunType
from aiosched.db.queries import version_queries
from aiosched.db.queries.version_queries import get_version
from aiosched.db.statements import module_sources
from aiosched.web.api.base.models import Instant, Name, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.etags import RARELY
from aiosched.web.views.commit_links import commit_link
from aiosched.web.views.line_diff import unified
from aiosched.web.views.structure_changes import structure_changes
from aiosched.web.views.version_changes import (
    NOT_KEPT,
    Change,
    changed_modules,
    compared,
    source_changed,
)

router: APIRouter = APIRouter(tags=["DAGs"])

Number = Annotated[int, Path(ge=1, lt=2**31)]
ModuleName = Annotated[str, Query(max_length=4_096, pattern=r"^[^\x00]+$")]


class Version(Resource):
    """A version in a list. `source_hash` covers the file and all that it imports (null: unknown).

    `bundle` is the bundle that has the file (null: the DAGs folder). Runs keep the code of `bundle_version`, a commit
    or a hash of the content; null: they run the newest code. `commit_url` is the page of that commit at the host of its
    repository, if it has one.
    """

    number: int
    created_at: Instant
    content_hash: str
    file: str | None
    source_hash: str | None
    bundle: str | None
    bundle_version: str | None
    commit_url: str | None = None


class VersionRun(Resource):
    """A run of a version."""

    run_id: str
    run_type: Stored[RunType]
    state: Stored[RunState]
    logical_date: Instant | None
    run_after: Instant


class VersionRuns(BaseModel):
    """The runs of a version among the newest `looked_at` of the DAG: `number` and `failed` of them, the newest first.

    `runs` are the newest 20.
    """

    runs: list[VersionRun]
    number: int
    failed: int
    looked_at: int


class VersionDetails(Version):
    """A version with its source (null for DAGs of an application) and the serialized DAG.

    `sources` are the content hashes of the file and of all that it imports from the DAGs folder (null: unknown).
    """

    source: str | None
    sources: dict[str, str] | None
    spec: dict[str, Any]


class Module(BaseModel):
    """What a version imports from the DAGs folder. `source` is null if it is not kept; `why` says what that means."""

    name: str
    content_hash: str
    source: str | None
    why: str | None


class ModuleChange(Resource):
    """A module that two versions do not have in common. `diff` is null if there is none; `why` says why."""

    name: str
    change: Change
    diff: str | None
    why: str | None


class StructureChangeResource(Resource):
    """A difference of structure: `about` is a task, a param, the schedule …, `words` says what is different."""

    about: str
    words: str


class Difference(BaseModel):
    """The differences between two versions as unified diffs; empty without differences.

    `structure` is what the serialized DAGs do not have in common, in words.

    `source_changed`: whether the DAG's own file differs, also where the diff shows nothing of it; null: unknown.
    `modules` are imported from the DAGs folder, and changed, added or removed; `modules_known` is false if that of one
    version is unknown.
    """

    source: str
    source_changed: bool | None
    spec: str
    modules: list[str]
    modules_known: bool
    module_changes: list[ModuleChange]
    structure: list[StructureChangeResource]


class TaskDefinition(BaseModel):
    """A task of a DAG, with its direct upstream and downstream tasks.

    `task_display_name` is shown in place of its id (null: the id is).
    """

    task_id: str
    task_display_name: str | None
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
    urls = {bundle.name: bundle.url for bundle in request_client.settings.dags.bundles if bundle.kind == "git"}
    linked = [asdict(row) | {"commit_url": commit_link(urls.get(row.bundle or ""), row.bundle_version)} for row in rows]
    return page_of(Version, linked, limit, lambda row: row["number"])


@router.get("/dags/{dag_id}/versions/{number}/runs", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def runs_of_version(request_client: TheRequestClient, dag_id: Name, number: Number) -> VersionRuns:
    """Which of the newest runs of the DAG have this version."""
    rows = await version_queries.runs_of_version(request_client.db, dag_id, number)
    failed = sum(row["state"] == RunState.FAILED for row in rows)
    return VersionRuns.model_validate(
        {
            "runs": [dict(row) for row in rows[:20]],
            "number": len(rows),
            "failed": failed,
            "looked_at": version_queries.RUNS_LOOKED_AT,
        }
    )


@router.get("/dags/{dag_id}/versions/{number}", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def one_version(request_client: TheRequestClient, dag_id: Name, number: Number) -> VersionDetails:
    """One version with its source and serialized DAG."""
    found = await get_version(request_client.db, dag_id, number)
    facts = Version.model_validate(found).model_dump()
    spec = msgspec.to_builtins(hide_defaults(found.spec))
    return VersionDetails.model_validate({**facts, "source": found.source, "sources": found.sources, "spec": spec})


@router.get("/dags/{dag_id}/versions/{number}/module", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def one_module(request_client: TheRequestClient, dag_id: Name, number: Number, name: ModuleName) -> Module:
    """The source of a module that a version imports; `name` is one of its `sources`."""
    found = await version_queries.get_module(request_client.db, dag_id, number, name)
    return Module(name=name, why=None if found.source is not None else NOT_KEPT, **found._asdict())


@router.get("/dags/{dag_id}/versions/{number}/diff/{other}", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def difference(request_client: TheRequestClient, dag_id: Name, number: Number, other: Number) -> Difference:
    """What changed from `number` to `other`."""
    one, two = await get_version(request_client.db, dag_id, number), await get_version(request_client.db, dag_id, other)
    changes = changed_modules(one, two)
    async with request_client.db.acquire() as conn:
        digests = {digest for change in changes for digest in (change.before, change.after) if digest is not None}
        texts = await module_sources.read(conn, digests)
    names = (f"version {number}", f"version {other}")
    return await asyncio.to_thread(
        lambda: Difference(
            source=unified(one.source or "", two.source or "", names),
            source_changed=source_changed(one, two),
            spec=unified(_pretty(one.spec), _pretty(two.spec), names),
            modules=[change.name for change in changes],
            modules_known=one.sources is not None and two.sources is not None,
            structure=[
                StructureChangeResource(about=about, words=words)
                for about, words in structure_changes(hide_defaults(one.spec), hide_defaults(two.spec))
            ],
            module_changes=[ModuleChange.model_validate(each) for each in compared(changes, texts, names)],
        )
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
        | {"task_display_name": task.display_name or None}
    )


def _pretty(spec: DagSpec) -> str:
    return msgspec.json.format(msgspec.json.encode(hide_defaults(spec), order="sorted"), indent=2).decode()
