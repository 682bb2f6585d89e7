"""DAGs: what exists, whether it is paused, when it runs next."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import StringConstraints

from aiosched.db import queries
from aiosched.web.access import Role, allow
from aiosched.web.api.models import Instant, Resource
from aiosched.web.gateway import TheGateway
from aiosched.web.paging import Cursor, Limit, Page, decode_cursor, encode_cursor

router = APIRouter(tags=["DAGs"])

_Word = Annotated[str, StringConstraints(max_length=250, pattern=r"^[^\x00]*$")]


class Dag(Resource):
    """A DAG and its newest version."""

    dag_id: str
    schedule: str | None
    status: str
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    file: str | None
    description: str | None
    owner: str | None
    tags: list[str]
    max_active_runs: int
    max_active_tasks: int
    next_logical_date: Instant | None
    next_run_after: Instant | None
    last_parsed_at: Instant | None
    version: int | None
    last_run_id: str | None
    last_run_state: str | None
    active_runs: int


@router.get("/dags")
@allow(Role.VIEWER)
async def list_dags(
    gateway: TheGateway,
    pattern: Annotated[str | None, Query(max_length=250, description="a glob over DAG ids")] = None,
    stale: Annotated[bool, Query(description="with DAGs whose file is gone")] = False,
    tag: Annotated[list[_Word] | None, Query(max_length=20, description="has all of these tags")] = None,
    status: Literal["active", "paused", "stale", "error"] | None = None,
    owner: Annotated[_Word | None, Query()] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[Dag]:
    """DAGs by id."""
    after = decode_cursor(cursor, tuple[str])
    rows = await queries.list_dags(
        gateway.db,
        pattern=pattern,
        stale=stale,
        tags=tag or (),
        status=status,
        owner=owner,
        after=after[0] if after else None,
        limit=limit + 1,
    )
    more = encode_cursor(rows[limit - 1].dag_id) if len(rows) > limit else None
    return Page(items=[Dag.model_validate(row) for row in rows[:limit]], next_cursor=more)


@router.get("/dags/{dag_id}")
@allow(Role.VIEWER)
async def get_dag(gateway: TheGateway, dag_id: str) -> Dag:
    """One DAG."""
    return Dag.model_validate(await queries.get_dag(gateway.db, dag_id))
