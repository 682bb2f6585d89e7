"""User operations on pools: list, read, set and delete. Source: the semantics reference, section 18.1.

A pool belongs to no partition, so a process that changes one writes its row and, in the same transaction, a `request`
row that is already applied: the audit log. `used` belongs to the schedulers and is never touched here; a pool that
shrinks below its usage drains.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from aiosched.core.audit.actor import actor
from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.core.slots.rates import parse_rate
from aiosched.core.values.commands import command_line
from aiosched.core.values.ids import check_new_name
from aiosched.db.access.owners import check_team
from aiosched.db.names.existing import Existing, IfExists, check_existing, etag_of, exists_already
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import notify
from aiosched.errors import NotFound, Refused, did_you_mean

INFINITE: Final = -1
MOST_SLOTS: Final = 2**31 - 1  # a column of PostgreSQL's integer
BELOW: Final = ("/queue", "/figures")  # addresses of the API below that of a pool


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. `slots` -1 is infinite, 0 blocks all tasks; `used` counts queued and running tasks' slots.

    `rate` is how many attempts may start per period, such as 100/min; None: as many as fit.
    """

    name: str
    slots: int
    used: int
    include_deferred: bool
    description: str | None
    team: str | None = None  # whose DAGs may use it; None: all
    rate: str | None = None

    @property
    def open(self) -> int | None:
        """Slots left, below 0 after the pool shrank; None when infinite."""
        return None if self.slots == INFINITE else self.slots - self.used

    @property
    def etag(self) -> str:
        """The version of what people say of it."""
        return etag_of(self.slots, self.include_deferred, self.description, self.team, self.rate)


@dataclass(frozen=True, slots=True)
class PoolChange:
    """What `set_pool` did; `before` is None for a new pool."""

    before: Pool | None
    after: Pool

    @property
    def changed(self) -> bool:
        return self.before != self.after


_COLUMNS: Final = "name, slots, used, include_deferred, description, team, rate"

LIST_POOLS: Final = f"SELECT {_COLUMNS} FROM pool WHERE name > $1 ORDER BY name LIMIT $2"
GET_POOL: Final = f"SELECT {_COLUMNS} FROM pool WHERE name = $1"
LOCK_POOL: Final = f"{GET_POOL} FOR UPDATE"

# One statement, so that two users who create the same pool at once do not conflict. The last parameter: create only.
UPSERT_POOL: Final = f"""
    INSERT INTO pool (name, slots, include_deferred, description, team, rate) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (name) DO UPDATE
       SET slots = excluded.slots, include_deferred = excluded.include_deferred, description = excluded.description,
           team = excluded.team, rate = excluded.rate
     WHERE NOT $7::boolean
    RETURNING {_COLUMNS}
"""

# Guard: nothing runs in it.
DELETE_POOL: Final = "DELETE FROM pool WHERE name = $1 AND used = 0"

# A request that was already done under this id leaves no second line. Index: ix_request_idempotency_key.
AUDIT: Final = """
    INSERT INTO request
           (verb, args, requested_by, reason, state, result, applied_at, idempotency_key, address, session_id,
            token_id)
    VALUES ($1, $2::json, $3, $4, 'applied', $5::json, now(), $6, $7, $8, $9)
    ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
"""


async def list_pools(db: Database, *, after: str = "", limit: int = 1000) -> list[Pool]:
    """Pools by name, starting after `after`."""
    return [Pool(*row) for row in await db.fetch(LIST_POOLS, after, limit)]


async def get_pool(db: Database, name: str) -> Pool:
    """One pool; raises NotFound with similar names."""
    row = await db.fetchrow(GET_POOL, name)
    if row is None:
        raise await _unknown(db, name)
    return Pool(*row)


async def set_pool(
    db: Database,
    name: str,
    slots: int,
    *,
    include_deferred: bool | None = None,
    description: str | None = None,
    team: str | None = None,
    rate: str | None = None,
    existing: Existing = IfExists.OVERWRITE,
    requested_by: str,
    reason: str | None = None,
) -> PoolChange:
    """Create or change a pool; None leaves a value unchanged (for a new pool: false, none).

    An empty `team` or `rate` is none.

    Setting the current values changes and logs nothing. Wakes the schedulers, since tasks may fit now. Raises Refused
    for a name that is not 1 to 250 printable characters, for a new name that no address could name, for slots out of
    range, for what is no rate, for a team for default_pool, and as `existing` says; then NotFound, too.
    """
    if not 1 <= len(name) <= 250 or not name.isprintable():
        raise Refused("A pool's name has 1 to 250 printable characters.")
    if slots < INFINITE:
        raise Refused(f"A pool has -1 (infinite), 0 or more slots, not {slots}.")
    if slots > MOST_SLOTS:
        raise Refused(f"A pool has at most {MOST_SLOTS:,} slots, not {slots}; -1 is infinite.")
    if team and name == DEFAULT_POOL:
        raise Refused(f"{DEFAULT_POOL} is for the tasks of all teams: make a pool of its own for the team.")
    if rate:
        rate = str(parse_rate(rate))
    async with db.transaction() as conn:
        row = await conn.fetchrow(LOCK_POOL, name)
        before = None if row is None else Pool(*row)
        await check_existing(conn, existing, "pool", [name], {} if before is None else {name: before.etag})
        if before is None:
            check_new_name("pool", name, endings=BELOW)
        elif existing is IfExists.SKIP:
            return PoolChange(before, before)
        deferred = include_deferred if include_deferred is not None else bool(before and before.include_deferred)
        text = description if description is not None else (before.description if before else None)
        owner = (team or None) if team is not None else (before.team if before else None)
        known = (rate or None) if rate is not None else (before.rate if before else None)
        await check_team(conn, owner)
        row = await conn.fetchrow(UPSERT_POOL, name, slots, deferred, text, owner, known, existing is IfExists.FAIL)
        if row is None:
            raise exists_already("pool", [name])
        change = PoolChange(before, Pool(*row))
        if change.changed:
            await _log(conn, "set_pool", change, requested_by, reason)
            await notify(conn, "pools", ())
    return change


async def delete_pool(
    db: Database,
    name: str,
    *,
    existing: Existing = IfExists.OVERWRITE,
    requested_by: str,
    reason: str | None = None,
) -> Pool:
    """Delete a pool and return it. Tasks that name it wait until it exists again.

    Raises NotFound, Refused for `default_pool` and while tasks hold slots of it, and ChangedMeanwhile as `existing`
    says.
    """
    if name == DEFAULT_POOL:
        raise Refused(f"{DEFAULT_POOL} cannot be deleted; its size can be changed: aiosched pools set {DEFAULT_POOL} N")
    async with db.transaction() as conn:
        row = await conn.fetchrow(LOCK_POOL, name)
        if row is not None:
            pool = Pool(*row)
            await check_existing(conn, existing, "pool", [name], {name: pool.etag})
            if await conn.execute(DELETE_POOL, name) != "DELETE 1":
                raise Refused(
                    f"{pool.used} slots of pool {name!r} are in use. Let its tasks finish first: "
                    f"{command_line('pools set', name, 0)}"
                )
            await _log(conn, "delete_pool", PoolChange(pool, pool), requested_by, reason)
            await notify(conn, "pools", ())
            return pool
    raise await _unknown(db, name)


async def _log(conn: DatabaseConnection, verb: str, change: PoolChange, requested_by: str, reason: str | None) -> None:
    after = change.after
    args = {"name": after.name, "slots": after.slots, "include_deferred": after.include_deferred, "rate": after.rate}
    result = {"before": asdict(change.before) if change.before else None}
    documents = [msgspec.json.encode(document).decode() for document in (args, result)]
    by = actor()
    where = by.address, by.session, by.token
    await conn.execute(AUDIT, verb, documents[0], requested_by, reason, documents[1], None, *where)


async def _unknown(db: Database, name: str) -> NotFound:
    names = [pool.name for pool in await list_pools(db)]
    return NotFound(f"There is no pool {name!r}.{did_you_mean(name, names)}")
