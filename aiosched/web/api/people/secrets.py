"""Variables and connections. Secrets can be written but never read; values of other variables are for editors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import ConnectionInfo, SecretStore, VariableInfo, VariableValue
from aiosched.providers import connection_types
from aiosched.web.api.base.models import Body, Etag, Instant, JsonObject, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.condition import TheCondition, TheVersion
from aiosched.web.requests.owned import check_editable, check_seen, seen_page
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Secrets"])

_PRINTABLE = r"^[^\x00-\x1f]*$"
Key = Annotated[str, Path(min_length=1, max_length=250, pattern=r"^[^\x00-\x1f]+$")]
TeamName = Annotated[str | None, Field(max_length=250, pattern=_PRINTABLE)]
_LONGEST_IN_LIST: Final = 6_000  # bytes of an encrypted value: about 4,000 of the value
Line = Annotated[str | None, Field(max_length=1000, pattern=_PRINTABLE)]


class VariableResource(Resource):
    """A variable. `value` is as people may see it; `hidden` says why it is null, or has `***` in it.

    `role`: it is for the role editor. `secret`: by its key, by what is in it, or since somebody said so (`is_secret`
    for the first and the last). `long`: ask for this variable alone. `unreadable`: no key decrypts it.
    `changed_at` and `changed_by` are null if it was last changed before aiosched noted them.
    """

    key: str
    value: str | None
    hidden: Literal["role", "secret", "long", "unreadable"] | None
    is_secret: bool
    description: str | None
    created_at: Instant
    changed_at: Instant | None
    changed_by: str | None
    team: str | None
    etag: Etag


class VariableUpdate(Body):
    """A value to store; a null description or team keeps the existing one, an empty one is none.

    `is_secret` says whether the value is never shown, whatever the key is; null keeps it.
    """

    value: Annotated[str, Field(max_length=1_000_000, pattern=r"^[^\x00]*$")]
    description: Line = None
    team: TeamName = None
    is_secret: bool | None = None


class ConnectionResource(Resource):
    """A connection without its secrets."""

    conn_id: str
    conn_type: str
    description: str | None
    created_at: Instant
    changed_at: Instant | None
    changed_by: str | None
    team: str | None
    etag: Etag


class ConnectionTypeResource(Resource):
    """A type of connections that an installed provider package has a hook for.

    `labels` and `placeholders` are by the field of a connection; `hidden` fields mean nothing for the type. `fields`
    are extras: their labels by name.
    """

    name: str
    title: str
    package: str
    hidden: list[str]
    labels: dict[str, str]
    placeholders: dict[str, str]
    fields: dict[str, str]


class NewConnection(Body):
    """A connection to store; replaces the whole connection. A null team keeps the present one, an empty one is none."""

    conn_type: Annotated[str, Field(min_length=1, max_length=250, pattern=_PRINTABLE)]
    host: Line = None
    login: Line = None
    password: Annotated[str | None, Field(max_length=10_000, pattern=r"^[^\x00]*$")] = None
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    schema_: Annotated[Line, Field(alias="schema")] = None
    extra: JsonObject = {}
    description: Line = None
    team: TeamName = None


class Stored(BaseModel):
    """The result of storing."""

    name: str
    change: Literal["created", "changed", "unchanged", "skipped"]


def _store(request_client: TheRequestClient) -> SecretStore:
    return SecretStore(request_client.db, Keyring.of(request_client.settings))


@router.get("/variables")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_variables(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 100, cursor: Cursor = None
) -> Page[VariableResource]:
    """Variables by key, with values of up to about 4,000 bytes that are no secrets."""
    after, store = decode_cursor(cursor, str) or "", _store(request_client)

    async def read(after: str, limit: int) -> list[VariableInfo]:
        return await store.list_variables(after=after, limit=limit)

    rows = await seen_page(store.db, visible, "variable", read, lambda row: row.key, after=after, limit=limit + 1)
    return page_of(VariableResource, await _as_seen(store, visible, rows), limit, lambda row: row["key"])


@router.get("/variables/{key:path}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def one_variable(request_client: TheRequestClient, visible: TheVisible, key: Key) -> VariableResource:
    """One variable, with its whole value if that is no secret."""
    store = _store(request_client)
    await check_seen(store.db, visible, "variable", key)
    found = await store.variable_info(key)
    return VariableResource.model_validate((await _as_seen(store, visible, [found], longest=None))[0])


async def _as_seen(
    store: SecretStore, visible: Visible, rows: Sequence[VariableInfo], *, longest: int | None = _LONGEST_IN_LIST
) -> list[dict[str, Any]]:
    """Variables as the sender may see them."""
    person = visible.person
    readable = {row.key for row in rows if max(person.role, person.rights.on_team(row.team)) >= Role.EDITOR}
    open_ones = [row.key for row in rows if row.key in readable and not row.is_secret]
    shown = await store.shown_variables(open_ones, longest=longest)

    def seen(row: VariableInfo) -> tuple[str | None, str | None]:
        if row.key not in readable:
            return None, "role"
        if row.is_secret:
            return None, "secret"
        found = shown.get(row.key)
        if found is None:
            return None, "long"
        if found.value is None:
            return None, "unreadable"
        return found.value, None if found.is_whole else "secret"

    return [asdict(row) | {"etag": row.etag} | dict(zip(("value", "hidden"), seen(row), strict=True)) for row in rows]


@router.put("/variables/{key:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def set_variable(
    request_client: TheRequestClient, visible: TheVisible, key: Key, body: VariableUpdate, existing: TheCondition
) -> Stored:
    """Store a variable."""
    await check_editable(request_client.db, visible, "variable", key, is_new=True, team=body.team)
    values = {key: VariableValue(body.value, body.description, body.is_secret)}
    changes = await _store(request_client).set_variables(
        values, existing=existing, requested_by=visible.person.requested_by, team=body.team
    )
    return Stored.model_validate({"name": key, "change": changes[key].value})


@router.delete("/variables/{key:path}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_variable(
    request_client: TheRequestClient, visible: TheVisible, key: Key, existing: TheVersion
) -> Response:
    """Delete a variable."""
    await check_editable(request_client.db, visible, "variable", key)
    await _store(request_client).delete_variable(key, existing=existing, requested_by=visible.person.requested_by)
    return Response(status_code=204)


@router.get("/connections")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_connections(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 100, cursor: Cursor = None
) -> Page[ConnectionResource]:
    """Connections by id, without their secrets."""
    after, store = decode_cursor(cursor, str) or "", _store(request_client)

    async def read(after: str, limit: int) -> list[ConnectionInfo]:
        return await store.list_connections(after=after, limit=limit)

    rows = await seen_page(store.db, visible, "connection", read, lambda row: row.conn_id, after=after, limit=limit + 1)
    return page_of(ConnectionResource, rows, limit, lambda row: row.conn_id)


@router.get("/connection-types")
@allow(Role.VIEWER, RoleScope.NEUTRAL)
async def list_connection_types() -> Page[ConnectionTypeResource]:
    """The types that installed provider packages have hooks for, by name. Other types can be stored, too."""
    known = await asyncio.to_thread(connection_types)
    return Page(items=[ConnectionTypeResource.model_validate(one) for one in known.values()])


@router.get("/connections/{conn_id:path}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def one_connection(request_client: TheRequestClient, visible: TheVisible, conn_id: Key) -> ConnectionResource:
    """One connection, without its secrets."""
    store = _store(request_client)
    await check_seen(store.db, visible, "connection", conn_id)
    return ConnectionResource.model_validate(await store.connection_info(conn_id))


@router.put("/connections/{conn_id:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def set_connection(
    request_client: TheRequestClient, visible: TheVisible, conn_id: Key, body: NewConnection, existing: TheCondition
) -> Stored:
    """Store a connection; replaces what it held before."""
    await check_editable(request_client.db, visible, "connection", conn_id, is_new=True, team=body.team)
    given: dict[str, Any] = body.model_dump(by_alias=True, exclude_none=True, exclude={"team"})
    given["extra"] = given["extra"] or None
    value = ConnectionValue.from_fields(conn_id, given)
    changes = await _store(request_client).set_connections(
        [value], existing=existing, requested_by=visible.person.requested_by, team=body.team
    )
    return Stored.model_validate({"name": conn_id, "change": changes[conn_id].value})


@router.delete("/connections/{conn_id:path}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_connection(
    request_client: TheRequestClient, visible: TheVisible, conn_id: Key, existing: TheVersion
) -> Response:
    """Delete a connection."""
    await check_editable(request_client.db, visible, "connection", conn_id)
    await _store(request_client).delete_connection(conn_id, existing=existing, requested_by=visible.person.requested_by)
    return Response(status_code=204)
