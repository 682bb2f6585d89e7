"""`/variables` and `/connections`: secrets can be written, and are `***` when they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.names.existing import IfExists
from aiosched.db.people.secrets import ConnectionInfo, SecretStore, VariableInfo, VariableValue
from aiosched.web.airflow_api.paging import MOST, OrderBy, PageLimit, PageOffset, check_size, ordered, page
from aiosched.web.airflow_api.shapes import connection_shape, variable_shape
from aiosched.web.api.base.models import Body
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.owned import check_editable, seen_page
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter()

_PRINTABLE = r"^[^\x00-\x1f]*$"
Key = Annotated[str, Path(min_length=1, max_length=250, pattern=r"^[^\x00-\x1f]+$")]
Line = Annotated[str | None, Field(max_length=1000, pattern=_PRINTABLE)]


class VariableBody(Body):
    """A variable; a value that is no text is stored as JSON."""

    key: Annotated[str, Field(min_length=1, max_length=250, pattern=_PRINTABLE)]
    value: Any
    description: Line = None
    team_name: None = None  # another value is refused: teams are set by /api/v1

    @property
    def stored(self) -> VariableValue:
        """What is stored."""
        text = self.value if isinstance(self.value, str) else json.dumps(self.value)
        return VariableValue(text.replace("\0", ""), self.description)


class ConnectionBody(Body):
    """A connection."""

    connection_id: Annotated[str, Field(min_length=1, max_length=250, pattern=_PRINTABLE)]
    conn_type: Annotated[str, Field(min_length=1, max_length=250, pattern=_PRINTABLE)]
    description: Line = None
    host: Line = None
    login: Line = None
    schema_: Annotated[Line, Field(alias="schema")] = None
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    password: Annotated[str | None, Field(max_length=10_000, pattern=r"^[^\x00]*$")] = None
    extra: Annotated[str | None, Field(max_length=1_000_000, pattern=r"^[^\x00]*$")] = None
    team_name: None = None


def _store(request_client: RequestClient) -> SecretStore:
    return SecretStore(request_client.db, Keyring.of(request_client.settings))


# ---- variables ----


@router.get("/variables")
@allow(Role.EDITOR, RoleScope.SEEN)
async def list_variables(
    request_client: TheRequestClient,
    visible: TheVisible,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
) -> dict[str, Any]:
    """Variables."""
    store = _store(request_client)

    async def read(after: str, limit: int) -> Sequence[VariableInfo]:
        return await store.list_variables(after=after, limit=limit)

    rows = await seen_page(store.db, visible, "variable", read, lambda row: row.key, limit=MOST + 1, needed=Role.EDITOR)
    check_size(rows)
    rows = ordered(rows, order_by, {"key": lambda row: row.key, "id": lambda row: row.key})
    values = await store.get_variables([row.key for row in rows[offset : offset + limit]])
    return page(
        "variables", rows, limit, offset, lambda row: variable_shape(row.key, values.get(row.key), row.description)
    )


@router.post("/variables", status_code=201)
@allow(Role.EDITOR, RoleScope.SEEN)
async def post_variable(request_client: TheRequestClient, visible: TheVisible, body: VariableBody) -> dict[str, Any]:
    """Create a variable; 409 if there is one."""
    await check_editable(request_client.db, visible, "variable", body.key, is_new=True)
    values = {body.key: body.stored}
    await _store(request_client).set_variables(values, existing=IfExists.FAIL, requested_by=visible.person.requested_by)
    return await _variable(request_client, body.key)


@router.get("/variables/{key:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def get_variable(request_client: TheRequestClient, visible: TheVisible, key: Key) -> dict[str, Any]:
    """One variable."""
    await check_editable(request_client.db, visible, "variable", key)
    return await _variable(request_client, key)


async def _variable(request_client: RequestClient, key: str) -> dict[str, Any]:
    found = await _store(request_client).get_variable(key)
    return variable_shape(key, found, found.description)


@router.patch("/variables/{key:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def patch_variable(
    request_client: TheRequestClient, visible: TheVisible, key: Key, body: VariableBody
) -> dict[str, Any]:
    """Change a variable."""
    await check_editable(request_client.db, visible, "variable", key)
    store = _store(request_client)
    await store.get_variable(key)
    if body.key != key:
        raise Problem(422, "key", "A variable keeps its key: create another one.")
    await store.set_variables({key: body.stored}, requested_by=visible.person.requested_by)
    return await _variable(request_client, key)


@router.delete("/variables/{key:path}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_variable(request_client: TheRequestClient, visible: TheVisible, key: Key) -> Response:
    """Delete a variable."""
    await check_editable(request_client.db, visible, "variable", key)
    await _store(request_client).delete_variable(key, requested_by=visible.person.requested_by)
    return Response(status_code=204)


# ---- connections ----


@router.get("/connections")
@allow(Role.EDITOR, RoleScope.SEEN)
async def list_connections(
    request_client: TheRequestClient,
    visible: TheVisible,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
) -> dict[str, Any]:
    """Connections."""
    store = _store(request_client)

    async def read(after: str, limit: int) -> Sequence[ConnectionInfo]:
        return await store.list_connections(after=after, limit=limit)

    rows = await seen_page(
        store.db, visible, "connection", read, lambda row: row.conn_id, limit=MOST + 1, needed=Role.EDITOR
    )
    check_size(rows)
    keys = {"connection_id": lambda row: row.conn_id, "conn_id": lambda row: row.conn_id}
    rows = ordered(rows, order_by, keys | {"conn_type": lambda row: row.conn_type})
    values = await store.get_connections([row.conn_id for row in rows[offset : offset + limit]])
    shown = [connection_shape(values[row.conn_id]) for row in rows[offset : offset + limit] if row.conn_id in values]
    return {"connections": shown, "total_entries": len(rows)}


@router.post("/connections", status_code=201)
@allow(Role.EDITOR, RoleScope.SEEN)
async def post_connection(
    request_client: TheRequestClient, visible: TheVisible, body: ConnectionBody
) -> dict[str, Any]:
    """Create a connection; 409 if there is one."""
    await check_editable(request_client.db, visible, "connection", body.connection_id, is_new=True)
    store = _store(request_client)
    await store.set_connections([_value(body)], existing=IfExists.FAIL, requested_by=visible.person.requested_by)
    return await _connection(request_client, body.connection_id)


@router.get("/connections/{connection_id}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def get_connection(request_client: TheRequestClient, visible: TheVisible, connection_id: Key) -> dict[str, Any]:
    """One connection."""
    await check_editable(request_client.db, visible, "connection", connection_id)
    return await _connection(request_client, connection_id)


async def _connection(request_client: RequestClient, connection_id: str) -> dict[str, Any]:
    return connection_shape(await _store(request_client).get_connection(connection_id))


@router.patch("/connections/{connection_id}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def patch_connection(
    request_client: TheRequestClient, visible: TheVisible, connection_id: Key, body: ConnectionBody
) -> dict[str, Any]:
    """Change a connection: the fields that are sent, the others stay.

    Who says another place for a secret sends the secret again, or null: nobody reads it by having it sent to himself.
    """
    await check_editable(request_client.db, visible, "connection", connection_id)
    store = _store(request_client)
    if body.connection_id != connection_id:
        raise Problem(422, "key", "A connection keeps its id: create another one.")
    old = await store.get_connection(connection_id)
    sent = body.model_dump(by_alias=True, exclude_unset=True, exclude={"connection_id"})
    value = ConnectionValue.from_fields(connection_id, old.as_fields() | sent)
    kept = [name for name in old.secret_fields() if name not in sent]
    if kept and (moved := old.sent_elsewhere(value)):
        raise Problem(
            422,
            "secret-needed",
            f"The secrets of connection {connection_id!r} would be sent to another place ({', '.join(moved)}): send "
            f"{' and '.join(kept)} again with it, or null to remove what is stored.",
        )
    await store.set_connections([value], requested_by=visible.person.requested_by)
    return await _connection(request_client, connection_id)


@router.delete("/connections/{connection_id}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_connection(request_client: TheRequestClient, visible: TheVisible, connection_id: Key) -> Response:
    """Delete a connection."""
    await check_editable(request_client.db, visible, "connection", connection_id)
    await _store(request_client).delete_connection(connection_id, requested_by=visible.person.requested_by)
    return Response(status_code=204)


def _value(body: ConnectionBody) -> ConnectionValue:
    fields = body.model_dump(by_alias=True, exclude_none=True, exclude={"connection_id"})
    return ConnectionValue.from_fields(body.connection_id, fields)
