"""Variables and connections in the database, encrypted. Nothing here logs or shows a value.

The table `variable` holds the encrypted text of each value, `connection` the encrypted JSON of each connection; names,
types and descriptions are readable. Changes by users leave a line (names, never values) in the audit log, the table
`request`.

Elsewhere: the keys (keyring.py), who can see a value (cli), the environment as another source
(authoring/runtime/variables.py, authoring/runtime/connections.py).

Source: docs/architecture.md, "The tables"; the semantics reference, section 27.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.core.values.commands import command_line
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import check_new_name
from aiosched.core.values.masking import MASK, is_sensitive, shown
from aiosched.core.values.secret_names import EVERYTHING, Reader
from aiosched.db.access.owners import check_team
from aiosched.db.audit.entries import NewEntry, record_all
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.sealing import ANY_SECRET
from aiosched.db.names.existing import Existing, IfExists, check_existing, etag_of, exists_already
from aiosched.db.people.pools import AUDIT
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.conf_params import renew_confs
from aiosched.db.statements.inbox import MOST_CHARACTERS
from aiosched.db.statements.triggers import renew_deferrals
from aiosched.errors import NotFound, Refused, did_you_mean


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """A variable without its value."""

    key: str
    description: str | None
    created_at: datetime
    team: str | None = None  # whose DAGs may read it; None: all
    is_secret: bool = False  # by its name, or because somebody said so
    changed_at: datetime | None = None
    changed_by: str | None = None

    @property
    def etag(self) -> str:
        """Its version."""
        return etag_of(self.created_at, self.changed_at)


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """The unencrypted part of a connection."""

    conn_id: str
    conn_type: str
    description: str | None
    created_at: datetime
    team: str | None = None  # whose DAGs may read it; None: all
    changed_at: datetime | None = None
    changed_by: str | None = None

    @property
    def etag(self) -> str:
        """Its version."""
        return etag_of(self.created_at, self.changed_at)


@dataclass(frozen=True, slots=True)
class VariableValue:
    """The value to store under a key; a description of None keeps the existing one, an empty one is none.

    `is_secret` None keeps what an existing one is; one with the name of a secret is one in any case.
    """

    value: str
    description: str | None = None
    is_secret: bool | None = None

    def shown(self, key: str) -> str:
        """The value for people: `***` for a secret, and for secrets inside of it."""
        return MASK if self.is_secret and self.value else str(shown(self.value, key))


class ShownVariable(NamedTuple):
    """A value as people see it, None if no key decrypts it; `is_whole`: nothing of it is hidden."""

    value: str | None
    is_whole: bool


class Change(StrEnum):
    """The effect of storing on one name."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


# Index: primary keys, in all statements.
DESCRIBE_VARIABLE: Final = """
    SELECT key, description, created_at, team, is_secret, changed_at, changed_by FROM variable WHERE key = $1
"""
LIST_VARIABLES: Final = """
    SELECT key, description, created_at, team, is_secret, changed_at, changed_by
      FROM variable WHERE key > $1 ORDER BY key LIMIT $2
"""
DESCRIBE_CONNECTION: Final = """
    SELECT conn_id, conn_type, description, created_at, team, changed_at, changed_by FROM connection WHERE conn_id = $1
"""
LIST_CONNECTIONS: Final = """
    SELECT conn_id, conn_type, description, created_at, team, changed_at, changed_by FROM connection
     WHERE conn_id > $1 ORDER BY conn_id LIMIT $2
"""
GET_VARIABLES: Final = "SELECT key, value, description, team, is_secret FROM variable WHERE key = ANY($1::text[])"
# Without those that are longer than a list shows.
SHORT_VARIABLES: Final = f"{GET_VARIABLES} AND ($2::int IS NULL OR octet_length(value) <= $2)"
GET_CONNECTIONS: Final = "SELECT conn_id, secret, team FROM connection WHERE conn_id = ANY($1::text[])"
LOCK_VARIABLES: Final = """
    SELECT key, value, description, team, is_secret, created_at, changed_at
      FROM variable WHERE key = ANY($1::text[]) ORDER BY key FOR UPDATE
"""
LOCK_CONNECTIONS: Final = """
    SELECT conn_id, secret, team, created_at, changed_at
      FROM connection WHERE conn_id = ANY($1::text[]) ORDER BY conn_id FOR UPDATE
"""
# The last parameters: the new team, '' for none (NULL keeps that of an existing one), as does NULL for whether it is a
# secret; who changes it; whether it only creates.
UPSERT_VARIABLE: Final = """
    INSERT INTO variable (key, value, description, team, is_secret, changed_at, changed_by)
    VALUES ($1, $2, nullif($3::text, ''), nullif($4::text, ''), coalesce($5::boolean, false), now(), $6)
    ON CONFLICT (key) DO UPDATE
       SET value = excluded.value, description = nullif(coalesce($3::text, variable.description), ''),
           team = CASE WHEN $4::text IS NULL THEN variable.team ELSE excluded.team END,
           is_secret = coalesce($5::boolean, variable.is_secret), changed_at = now(), changed_by = $6
     WHERE NOT $7::boolean
"""
UPSERT_CONNECTION: Final = """
    INSERT INTO connection (conn_id, conn_type, secret, description, team, changed_at, changed_by)
    VALUES ($1, $2, $3, $4, nullif($5::text, ''), now(), $6)
    ON CONFLICT (conn_id) DO UPDATE
       SET conn_type = excluded.conn_type, secret = excluded.secret, description = excluded.description,
           team = CASE WHEN $5::text IS NULL THEN connection.team ELSE excluded.team END,
           changed_at = now(), changed_by = $6
     WHERE NOT $7::boolean
"""
DELETE_VARIABLE: Final = "DELETE FROM variable WHERE key = $1"
DELETE_CONNECTION: Final = "DELETE FROM connection WHERE conn_id = $1"

# Re-encryption locks rows in the order of their names, so that writers wait and no write is lost.
ALL_VARIABLES: Final = "SELECT key, value FROM variable ORDER BY key FOR UPDATE"
ALL_CONNECTIONS: Final = "SELECT conn_id, secret FROM connection ORDER BY conn_id FOR UPDATE"
RENEW_VARIABLE: Final = "UPDATE variable SET value = $2 WHERE key = $1"
RENEW_CONNECTION: Final = "UPDATE connection SET secret = $2 WHERE conn_id = $1"


@dataclass(frozen=True, slots=True)
class SecretStore:
    """The variables and connections of one database, read and written with one keyring.

    Reading raises Refused if no key decrypts the value, writing if there is no key. `requested_by` None leaves no line
    in the audit log. A change requested twice with the same `request` is made once: its line has the id.
    """

    db: Database
    keyring: Keyring

    # variables

    async def list_variables(self, *, after: str = "", limit: int = 1000) -> list[VariableInfo]:
        """Variables by key, starting after `after`."""
        return [_info(row) for row in await self.db.fetch(LIST_VARIABLES, after, limit)]

    async def get_variables(self, keys: Sequence[str]) -> dict[str, VariableValue]:
        """Those of `keys` that exist."""
        rows = await self.db.fetch(GET_VARIABLES, list(keys))
        return {
            key: VariableValue(self.keyring.decrypt(token, what=f"variable {key!r}"), description, is_secret)
            for key, token, description, _, is_secret in rows
        }

    async def variable_info(self, key: str) -> VariableInfo:
        """One variable without its value; raises NotFound with similar keys."""
        row = await self.db.fetchrow(DESCRIBE_VARIABLE, key)
        if row is None:
            raise NotFound(f"There is no variable {key!r}.{did_you_mean(key, await self._variable_keys())}")
        return _info(row)

    async def shown_variables(self, keys: Sequence[str], *, longest: int | None = None) -> dict[str, ShownVariable]:
        """Those of `keys` as people see them, without those that take more than `longest` bytes encrypted."""
        rows = await self.db.fetch(SHORT_VARIABLES, list(keys), longest)

        def show() -> dict[str, ShownVariable]:
            return {row["key"]: self._shown(row["key"], row["value"], is_secret=row["is_secret"]) for row in rows}

        return await asyncio.to_thread(show)

    def _shown(self, key: str, token: str, *, is_secret: bool) -> ShownVariable:
        text = self._readable(token)
        if text is None:
            return ShownVariable(None, is_whole=False)
        value = VariableValue(text, is_secret=is_secret).shown(key)
        return ShownVariable(value, is_whole=value == text)

    async def look_up(
        self, kind: str, name: str, reader: Reader = EVERYTHING
    ) -> tuple[str | dict[str, Any] | None, bool]:
        """The text of a `variable`, or the fields of a `connection`; None if there is none. And whether it is a
        secret whatever its name is.

        Raises OfAnotherTeam if it belongs to a team whose secrets `reader` may not read.
        """
        is_variable = kind == "variable"
        row = await self.db.fetchrow(GET_VARIABLES if is_variable else GET_CONNECTIONS, [name])
        if row is None:
            return None, False
        if reader.is_denied(row["team"]):
            raise OfAnotherTeam(kind, name, owner=row["team"], team=reader.team)
        if is_variable:
            return self.keyring.decrypt(row["value"], what=f"variable {name!r}"), row["is_secret"]
        return _connection(name, self.keyring.decrypt(row["secret"], what=f"connection {name!r}")).as_fields(), False

    async def get_variable(self, key: str) -> VariableValue:
        """One variable; raises NotFound with similar keys."""
        found = await self.get_variables([key])
        if key not in found:
            raise NotFound(f"There is no variable {key!r}.{did_you_mean(key, await self._variable_keys())}")
        return found[key]

    async def set_variables(
        self,
        values: Mapping[str, VariableValue],
        *,
        existing: Existing = IfExists.OVERWRITE,
        requested_by: str | None = None,
        request: UUID | None = None,
        team: str | None = None,
        reader: Reader = EVERYTHING,
    ) -> dict[str, Change]:
        """Store variables, all or none, and return the effect on each. Raises Refused, also for a bad name
        and for what `reader` may not change, NotFound and ChangedMeanwhile as `existing` says.

        `request` is the id of a request for one variable, and needs `requested_by`. They get to belong to `team`
        (empty: to nobody); None keeps the team of existing ones, and new ones belong to that of `reader`.
        """
        for key, value in values.items():
            _check_key(key)
            _check_size(key, value.value)
        changes: dict[str, Change] = {}
        async with self.db.transaction() as conn:
            await self._check_keyring(conn)
            await check_team(conn, team)
            rows = await conn.fetch(LOCK_VARIABLES, list(values))
            if denied := [row["key"] for row in rows if reader.is_denied(row["team"])]:
                raise Refused(f"The variable {denied[0]!r} cannot be set: its name is taken. Choose another one.")
            for row in rows:
                _check_change(row["key"], row["team"], reader)
            before = {row["key"]: (self._readable(row["value"]), row["description"], row["is_secret"]) for row in rows}
            owners = {row["key"]: row["team"] for row in rows}
            await check_existing(conn, existing, "variable", values, _etags(rows))
            for key in sorted(values):  # all writers use the same order
                if key not in before:
                    check_new_name("variable", key)
                new = values[key]
                _, description, was_secret = before.get(key, (None, None, False))
                wanted = description if new.description is None else new.description or None
                is_secret = was_secret if new.is_secret is None else new.is_secret
                same = before.get(key) == (new.value, wanted, is_secret)
                same = same and (team is None or owners.get(key) == (team or None))
                owner = team if team is not None or key in before else reader.team
                changes[key] = change = _fate(known=key in before, same=same, existing=existing)
                about: dict[str, Any] = {"name": key, "change": change}
                if is_secret != was_secret:
                    about["is_secret"] = is_secret
                if change in _WRITES and await _log(conn, "set_variable", about, requested_by, request):
                    token = self.keyring.encrypt(new.value)
                    row = key, token, new.description, owner, new.is_secret, requested_by
                    if await conn.execute(UPSERT_VARIABLE, *row, existing is IfExists.FAIL) == "INSERT 0 0":
                        raise exists_already("variable", [key])
        return changes

    async def delete_variable(
        self,
        key: str,
        *,
        existing: Existing = IfExists.OVERWRITE,
        requested_by: str | None = None,
        request: UUID | None = None,
        reader: Reader = EVERYTHING,
    ) -> None:
        """Raises NotFound with similar names, also for one that `reader` may not read; Refused and ChangedMeanwhile
        as above.
        """
        async with self.db.transaction() as conn:
            if not await _log(conn, "delete_variable", {"name": key}, requested_by, request):
                return
            found = await conn.fetch(LOCK_VARIABLES, [key])
            if not found or reader.is_denied(found[0]["team"]):
                rows = await conn.fetch(LIST_VARIABLES, "", 1000)
                keys = [row["key"] for row in rows if not reader.is_denied(row["team"])]
                raise NotFound(f"There is no variable {key!r}.{did_you_mean(key, keys)}")
            _check_change(key, found[0]["team"], reader)
            await check_existing(conn, existing, "variable", [key], _etags(found))
            await conn.execute(DELETE_VARIABLE, key)

    async def _variable_keys(self) -> list[str]:
        return [info.key for info in await self.list_variables()]

    # connections

    async def list_connections(self, *, after: str = "", limit: int = 1000) -> list[ConnectionInfo]:
        """Connections by id, starting after `after`."""
        return [ConnectionInfo(*row) for row in await self.db.fetch(LIST_CONNECTIONS, after, limit)]

    async def get_connections(self, conn_ids: Sequence[str]) -> dict[str, ConnectionValue]:
        """Those of `conn_ids` that exist."""
        rows = await self.db.fetch(GET_CONNECTIONS, list(conn_ids))
        return {
            name: _connection(name, self.keyring.decrypt(token, what=f"connection {name!r}")) for name, token, _ in rows
        }

    async def connection_info(self, conn_id: str) -> ConnectionInfo:
        """The unencrypted part of one connection; raises NotFound with similar ids."""
        row = await self.db.fetchrow(DESCRIBE_CONNECTION, conn_id)
        if row is None:
            raise NotFound(f"There is no connection {conn_id!r}.{did_you_mean(conn_id, await self._conn_ids())}")
        return ConnectionInfo(*row)

    async def get_connection(self, conn_id: str) -> ConnectionValue:
        """One connection; raises NotFound with similar ids."""
        found = await self.get_connections([conn_id])
        if conn_id not in found:
            raise NotFound(f"There is no connection {conn_id!r}.{did_you_mean(conn_id, await self._conn_ids())}")
        return found[conn_id]

    async def set_connections(
        self,
        values: Iterable[ConnectionValue],
        *,
        existing: Existing = IfExists.OVERWRITE,
        requested_by: str | None = None,
        team: str | None = None,
    ) -> dict[str, Change]:
        """Store connections, all or none, and return the effect on each. Raises Refused, NotFound and
        ChangedMeanwhile as `existing` says.

        They get to belong to `team` (empty: to nobody); None keeps the team of existing ones.
        """
        wanted = {value.conn_id: value for value in values}
        changes: dict[str, Change] = {}
        async with self.db.transaction() as conn:
            await self._check_keyring(conn)
            await check_team(conn, team)
            rows = await conn.fetch(LOCK_CONNECTIONS, list(wanted))
            before = {row["conn_id"]: self._readable(row["secret"]) for row in rows}
            owners = {row["conn_id"]: row["team"] for row in rows}
            await check_existing(conn, existing, "connection", wanted, _etags(rows))
            for conn_id in sorted(wanted):
                if conn_id not in before:
                    check_new_name("connection", conn_id)
                new, old = wanted[conn_id], before.get(conn_id)
                same = old is not None and _connection(conn_id, old) == new
                same = same and (team is None or owners[conn_id] == (team or None))
                changes[conn_id] = _fate(known=conn_id in before, same=same, existing=existing)
                about: dict[str, Any] = {"name": conn_id, "change": changes[conn_id]}
                if old is not None and changes[conn_id] is Change.CHANGED:
                    fields = _connection(conn_id, old).changed_fields(new)
                    is_given = team is not None and owners[conn_id] != (team or None)
                    about["fields"] = [*fields, "team"] if is_given else fields
                if changes[conn_id] in _WRITES and await _log(conn, "set_connection", about, requested_by):
                    secret = self.keyring.encrypt(msgspec.json.encode(new.as_fields()).decode())
                    row = conn_id, new.conn_type, secret, new.description, team, requested_by
                    if await conn.execute(UPSERT_CONNECTION, *row, existing is IfExists.FAIL) == "INSERT 0 0":
                        raise exists_already("connection", [conn_id])
        return changes

    async def delete_connection(
        self, conn_id: str, *, existing: Existing = IfExists.OVERWRITE, requested_by: str | None = None
    ) -> None:
        """Raises NotFound with similar names, and ChangedMeanwhile as `existing` says."""
        async with self.db.transaction() as conn:
            found = await conn.fetch(LOCK_CONNECTIONS, [conn_id])
            if found:
                await check_existing(conn, existing, "connection", [conn_id], _etags(found))
                await conn.execute(DELETE_CONNECTION, conn_id)
                await _log(conn, "delete_connection", {"name": conn_id}, requested_by)
        if not found:
            raise NotFound(f"There is no connection {conn_id!r}.{did_you_mean(conn_id, await self._conn_ids())}")

    async def _conn_ids(self) -> list[str]:
        return [info.conn_id for info in await self.list_connections()]

    async def note(self, kind: AuditKind, *names: str, **detail: Any) -> None:
        """Leave entries in the audit log that somebody has seen secrets, or has tried one."""
        await record_all(self.db, [NewEntry(kind, name, detail=detail) for name in names])

    # keys

    async def rotate(self, *, requested_by: str | None = None) -> int:
        """Re-encrypt all values with the first key, and return the number of rows.

        A key file gets a new first key before; its old keys stay, since they decrypt old backups. Keys in the settings
        are changed by the user: put a new key first in all settings, then call this. All or nothing: raises Refused
        naming the first secret that no key decrypts.
        """
        async with self.db.transaction() as conn:
            await self._check_keyring(conn)
            self.keyring.add_key()
            variables = await conn.fetch(ALL_VARIABLES)
            connections = await conn.fetch(ALL_CONNECTIONS)
            renew = self.keyring.renew
            await conn.executemany(
                RENEW_VARIABLE, [(k, renew(token, what=f"variable {k!r}")) for k, token in variables]
            )
            await conn.executemany(
                RENEW_CONNECTION, [(name, renew(token, what=f"connection {name!r}")) for name, token in connections]
            )
            triggers = await renew_deferrals(conn, self.keyring)
            confs = await renew_confs(conn, self.keyring)
            counts = {
                "variables": len(variables), "connections": len(connections), "triggers": triggers, "confs": confs
            }  # fmt: skip
            await _log(conn, "rotate_keys", counts, requested_by)
        return len(variables) + len(connections) + triggers + confs

    async def _check_keyring(self, conn: DatabaseConnection) -> None:
        """A lost key file is not silently replaced: values encrypted with it could never be read again."""
        if not self.keyring.exists and self.keyring.file is not None and await conn.fetchval(ANY_SECRET):
            raise Refused(
                f"{self.keyring.file} is gone, and there are secrets that only its key can decrypt. Restore it, "
                "or delete them first (aiosched variables delete, aiosched connections delete)."
            )

    def _readable(self, token: str) -> str | None:
        """The text of `token`; None if no key decrypts it, so that it is written again."""
        try:
            return self.keyring.decrypt(token, what="it")
        except Refused:
            return None


class OfAnotherTeam(NotFound):
    """A variable or connection belongs to another team. The message is that of one that does not exist."""

    def __init__(self, kind: str, name: str, *, owner: str, team: str | None) -> None:
        super().__init__(f"There is no {kind} {name!r}.")
        asker = "no team" if team is None else f"the team {team!r}"
        self.what: str = f"the {kind} {name!r} of the team {owner!r}, and belongs to {asker}"


_WRITES: Final = (Change.CREATED, Change.CHANGED)


def _info(row: Any) -> VariableInfo:
    found = VariableInfo(*row)
    return replace(found, is_secret=found.is_secret or is_sensitive(found.key))


def _connection(conn_id: str, text: str) -> ConnectionValue:
    return ConnectionValue.from_fields(conn_id, msgspec.json.decode(text))


def _check_change(key: str, owner: str | None, reader: Reader) -> None:
    """Raises Refused if a task of a team changes what is read by all teams."""
    if not reader.may_change(owner):
        raise Refused(
            f"The variable {key!r} belongs to nobody, and is read by the DAGs of all teams: a task of the team "
            f"{reader.team!r} changes what belongs to its team. Use another name, or give it to the team: "
            f"`{command_line('variables set', key, 'VALUE', options=('--team', reader.team))}`."
        )


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= 250 or not key.isprintable():
        raise Refused("A variable's key has 1 to 250 printable characters.")


def _check_size(key: str, value: str) -> None:
    if len(value) > MOST_CHARACTERS:
        raise Refused(f"The value of {key!r} has {len(value):,} characters, allowed are {MOST_CHARACTERS:,}.")


def _fate(*, known: bool, same: bool, existing: Existing) -> Change:
    if not known:
        return Change.CREATED
    if existing is IfExists.SKIP:
        return Change.SKIPPED
    return Change.UNCHANGED if same else Change.CHANGED


def _etags(rows: Iterable[Any]) -> dict[str, str]:
    return {row[0]: etag_of(row["created_at"], row["changed_at"]) for row in rows}


async def _log(
    conn: DatabaseConnection, verb: str, args: Mapping[str, Any], requested_by: str | None, request: UUID | None = None
) -> bool:
    """Leave a line in the audit log; returns False if `request` already left one, so its change is done."""
    if requested_by is None:
        return True
    document = msgspec.json.encode(args).decode()
    by = actor()
    values = verb, document, requested_by, None, "{}", request, by.address, by.session, by.token
    return await conn.execute(AUDIT, *values) != "INSERT 0 0"
