"""The inbox of requests: who asked for what, and the outcome. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request. `state` is waiting, applied or refused; `attempts` is how often an owner has begun to apply it."""

    id: int
    dag_id: str | None
    verb: str
    args: dict[str, Any]
    requested_by: str
    reason: str | None
    state: str
    result: dict[str, Any] | None
    applied_by: int | None
    applied_at: datetime | None
    created_at: datetime
    attempts: int


_COLUMNS: Final = """
    SELECT id, dag_id, verb, args, requested_by, reason, state, result, applied_by, applied_at, created_at, attempts
      FROM request
"""
# Index: the primary key, backwards; with a DAG ix_request_dag_id_id.
_COMMANDS: Final = f"""
    {_COLUMNS}
     WHERE ($1::text IS NULL OR dag_id = $1) AND ($2::text IS NULL OR verb = $2) AND ($3::text IS NULL OR state = $3)
       AND ($4::bigint IS NULL OR id < $4) [seen]
     ORDER BY id DESC LIMIT $5
"""
COMMANDS: Final = ScopedStatement.of(_COMMANDS)
REQUESTS_OF_DAG: Final = ScopedStatement.of(_COMMANDS.replace("($1::text IS NULL OR dag_id = $1)", "dag_id = $1"))
COMMAND: Final = f"{_COLUMNS} WHERE id = $1"


async def list_requests(
    db: Database,
    *,
    dag_id: str | None = None,
    verb: str | None = None,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
    seen: Seen = None,
) -> list[RequestRow]:
    """Requests, newest first, older than the one with the number `before`; only about DAGs that are `seen`."""
    query = COMMANDS if dag_id is None else REQUESTS_OF_DAG
    return [_row(row) for row in await query.fetch(db, dag_id, verb, state, before, limit, seen=seen)]


async def get_request(db: Database, number: int) -> RequestRow:
    """One request. Raises NotFound."""
    row = await db.fetchrow(COMMAND, number)
    if row is None:
        raise NotFound(f"There is no request {number}; see `aiosched requests list`.")
    return _row(row)


# Index: ix_request_dag_id_id, backwards. The result of a request on many instances says which they were.
REQUESTS_ON_INSTANCE: Final = f"""
    SELECT * FROM (
        {_COLUMNS} WHERE dag_id = $1 AND verb IN ('clear', 'mark_tasks', 'mark_run', 'cancel_run', 'set_note')
         ORDER BY id DESC LIMIT 500
    ) AS newest
     WHERE CASE WHEN verb IN ('clear', 'mark_tasks')
                THEN coalesce(args ->> 'dry_run', '') <> 'true' AND EXISTS (
                     SELECT FROM json_array_elements(CASE json_typeof(result -> 'instances')
                                                     WHEN 'array' THEN result -> 'instances' ELSE '[]' END) AS each
                      WHERE each ->> 'run_id' = $2 AND each ->> 'task_id' = $3 AND each ->> 'map_index' = $4::int::text)
                WHEN verb = 'set_note'
                THEN args ->> 'run_id' = $2 AND args ->> 'task_id' = $3
                     AND coalesce(args ->> 'map_index', $4::int::text) = $4::int::text
                ELSE args ->> 'run_id' = $2 END
     ORDER BY id DESC LIMIT $5
"""


async def requests_on_instance(
    db: Database, dag_id: str, run_id: str, task_id: str, map_index: int, *, limit: int
) -> list[RequestRow]:
    """The requests that affected a task instance or its whole run, newest first, among the newest 500 of its DAG."""
    rows = await db.fetch(REQUESTS_ON_INSTANCE, dag_id, run_id, task_id, map_index, limit)
    return [_row(row) for row in rows]


def _row(row: Any) -> RequestRow:
    values = dict(row)
    args = shown_object(values["args"])
    result = None if values["result"] is None else shown_object(values["result"])
    return RequestRow(**{**values, "args": args, "result": result})
