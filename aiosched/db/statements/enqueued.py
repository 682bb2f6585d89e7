"""Runs that an application asks for in a transaction of its own, on a connection of its own.

Lives here: the statement, and how each kind of connection takes it. The request exists if and only if the transaction
commits, and so does its notification. Does not live here: what a request says (core/requests), its answer (inbox.py).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiosched.core.values.ids import partition_of
from aiosched.core.values.texts import a_type
from aiosched.db.statements.inbox import document_of, keyed_request, other_request
from aiosched.errors import NotFound, Refused

# One row, or none if the DAG takes no requests or, for those with a conf ($5), has secret params: who has the keys
# encrypts these. Casts are spelled for all drivers; no parameter has a type for which applications set codecs.
ENQUEUE: Final = """
    WITH added AS (
        INSERT INTO request (partition, dag_id, verb, args, requested_by, reason, idempotency_key)
        SELECT d.partition, d.dag_id, 'trigger', one.sent -> 'args', 'embedded', CAST($3 AS text),
               CAST(one.sent ->> 'id' AS uuid)
          FROM dag AS d
          JOIN dag_version AS v ON v.id = d.version_id
         CROSS JOIN json_array_elements(CAST(CAST($2 AS text) AS json)) WITH ORDINALITY AS one (sent, number)
         WHERE d.dag_id = CAST($1 AS text) AND NOT d.is_stale
           AND NOT (CAST($5 AS boolean) AND coalesce(strpos(v.spec ->> 'params', '"password"'), 0) > 0)
         ORDER BY one.number
        ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL
        DO UPDATE SET idempotency_key = excluded.idempotency_key
         WHERE request.verb = excluded.verb AND request.dag_id = excluded.dag_id
           AND CAST(request.args AS text) = CAST(excluded.args AS text)
        RETURNING id, idempotency_key
    )
    SELECT string_agg(CAST(id AS text) || ' ' || coalesce(CAST(idempotency_key AS text), ''), ',' ORDER BY id),
           pg_notify('aiosched_news', CAST($4 AS text))
      FROM added HAVING count(*) > 0
"""
# Why it added nothing.
FIND_ENQUEUED_DAG: Final = """
    SELECT d.is_stale, coalesce(strpos(v.spec ->> 'params', '"password"'), 0) > 0
      FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id WHERE d.dag_id = CAST($1 AS text)
"""

REQUESTED_BY: Final = "embedded"
_PLACE: Final = re.compile(r"\$(\d)")
_KINDS: Final = "asyncpg, psycopg (3) or SQLAlchemy"


async def enqueue_triggers(
    connection: Any, dag_id: str, all_args: Sequence[Mapping[str, Any]], keys: Sequence[str | None], reason: str | None
) -> list[int]:
    """Add requests for runs of a DAG by one statement; returns their numbers, in their order.

    One whose key was sent before is that request, and the statement waits for a transaction that sends it just now.

    `connection` is one of the application, to the database of the fleet, and its transaction goes on. Raises NotFound,
    and Refused for a DAG that is defined no more, one with secret params, and another kind of connection.
    """
    if not all_args:
        return []
    named = [key for key in keys if key is not None]
    if len(set(named)) < len(named):
        raise Refused("Two requests of the batch have the same key: give each its own.")
    ids = ["null" if key is None else f'"{keyed_request(REQUESTED_BY, key)}"' for key in keys]
    sent = [f'{{"id":{id_},"args":{document_of("trigger", args)}}}' for id_, args in zip(ids, all_args, strict=True)]
    documents = f"[{','.join(sent)}]"
    news = f"requests {partition_of(dag_id)}"
    has_conf = any(args.get("conf") for args in all_args)
    row = await _one_row(connection, ENQUEUE, dag_id, documents, reason, news, has_conf)
    if row is not None:
        return _in_order(row[0], keys)
    found = await _one_row(connection, FIND_ENQUEUED_DAG, dag_id)
    if found is None:
        raise NotFound(f"There is no DAG {dag_id!r}; see `aiosched dags list`.")
    if found[0]:
        raise Refused(f"DAG {dag_id!r} is defined by no file and no application any more, so it takes no runs.")
    if named and not (has_conf and found[1]):
        raise other_request(named[0])
    raise Refused(f"DAG {dag_id!r} has secret params, which are encrypted: trigger it by Scheduler.trigger or the API.")


def _in_order(added: str, keys: Sequence[str | None]) -> list[int]:
    """The numbers of requests in the order in which they were sent. Raises Refused for a key of another request."""
    found = [one.split(" ") for one in added.split(",")]
    keyed = {name: int(number) for number, name in found if name}
    rest = iter(int(number) for number, name in found if not name)
    numbers = []
    for key in keys:
        number = next(rest) if key is None else keyed.get(str(keyed_request(REQUESTED_BY, key)))
        if number is None:
            raise other_request(str(key))
        numbers.append(number)
    return numbers


async def _one_row(connection: Any, statement: str, *values: Any) -> Sequence[Any] | None:
    """The first row of a statement on a connection of the application; None without."""
    roots = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    if "asyncpg" in roots:
        row: Sequence[Any] | None = await connection.fetchrow(statement, *values)
        return row
    named = {f"p{number}": value for number, value in enumerate(values, 1)}
    if "psycopg" in roots:
        cursor = connection.cursor(row_factory=lambda _: tuple)  # whatever rows the application likes
        await _awaited(cursor.execute(_PLACE.sub(r"%(p\1)s", statement), named))
        row = await _awaited(cursor.fetchone())
        await _awaited(cursor.close())
        return row
    if "sqlalchemy" in roots:
        text = sys.modules["sqlalchemy"].text
        result = await _awaited(connection.execute(text(_PLACE.sub(r":p\1", statement)), named))
        found: Sequence[Any] | None = result.fetchone()
        return found
    raise Refused(f"A connection of {_KINDS} is needed, not {a_type(connection)}.")


async def _awaited(value: Any) -> Any:
    """The value, of a connection that is asynchronous or not."""
    return await value if inspect.isawaitable(value) else value
