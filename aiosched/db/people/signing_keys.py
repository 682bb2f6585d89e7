"""The keys that sign what browsers and workers keep: all web servers and schedulers of a database share them.

A new key is accepted at once, and signs from two minutes later: by then everybody has read it, since keys are read
again every minute. An old key is accepted until what it has signed is over. Makes no decisions.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from aiosched.core.audit.actor import actor
from aiosched.db.people.pools import AUDIT
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database

READ_AGAIN: Final = 60.0  # seconds
SIGNS_LATER: Final = 120.0  # seconds from which a new key signs; more than READ_AGAIN, with a margin for slow servers
OF_ATTEMPTS: Final = 30 * 86_400.0  # seconds for which the token of an attempt on an engine is accepted at least

MAKE_KEY: Final = "INSERT INTO web_key (id, key) VALUES (1, $1) ON CONFLICT DO NOTHING"

# Oldest first; without those that another one replaced more than so many seconds ago. A table of a few rows.
READ_KEYS: Final = """
    SELECT k.key, k.signs_from <= now() AS signs
      FROM web_key AS k
     WHERE NOT EXISTS (SELECT FROM web_key AS n WHERE n.id > k.id AND n.signs_from < now() - make_interval(secs => $1))
     ORDER BY k.id
"""
LOCK_KEYS: Final = "LOCK TABLE web_key IN SHARE ROW EXCLUSIVE MODE"
ADD_KEY: Final = """
    INSERT INTO web_key (id, key, signs_from)
    SELECT coalesce(max(id), 0) + 1, $1, now() + make_interval(secs => $2) FROM web_key
"""
DELETE_KEYS: Final = """
    DELETE FROM web_key AS k
     WHERE EXISTS (SELECT FROM web_key AS n WHERE n.id > k.id AND n.signs_from < now() - make_interval(secs => $1))
"""
DELETE_ALL_KEYS: Final = "DELETE FROM web_key"


async def signing_keys(db: Database, *, accepted_for: float) -> tuple[bytes, ...]:
    """All keys that are accepted; the last one signs. The first call makes one.

    `accepted_for`: seconds after which nothing is left that an old key has signed.
    """
    async with db.acquire() as conn:
        while not (rows := await conn.fetch(READ_KEYS, accepted_for)):
            await conn.execute(MAKE_KEY, secrets.token_bytes(32))
    later = [bytes(row["key"]) for row in rows if not row["signs"]]
    return (*later, *(bytes(row["key"]) for row in rows if row["signs"]))


async def rotate_signing_key(db: Database, *, requested_by: str, at_once: bool = False) -> None:
    """Make a new key, which signs soon. `at_once`: it signs now, and nothing that another one signed is accepted."""
    async with db.transaction() as conn:
        await conn.execute(LOCK_KEYS)
        await conn.execute(DELETE_ALL_KEYS) if at_once else await conn.execute(DELETE_KEYS, 366 * 86_400.0)
        await conn.execute(ADD_KEY, secrets.token_bytes(32), 0.0 if at_once else SIGNS_LATER)
        about = msgspec.json.encode({"at_once": at_once}).decode()
        by = actor()
        where = by.address, by.session, by.token
        await conn.execute(AUDIT, "rotate_signing_key", about, requested_by, None, "{}", None, *where)


class PresentKeys:
    """The keys as of at most a minute ago. While the database cannot be asked, those that are known are used."""

    def __init__(
        self, db: Database, *, accepted_for: float = OF_ATTEMPTS, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._db, self._accepted_for, self._monotonic = db, accepted_for, monotonic
        self._keys: tuple[bytes, ...] | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def get(self) -> tuple[bytes, ...]:
        """The keys; the last one signs. Raises the failure of the database only if none is known."""
        async with self._reading:
            now = self._monotonic()
            if self._keys is None or now - self._read_at >= READ_AGAIN:
                try:
                    self._keys = await signing_keys(self._db, accepted_for=self._accepted_for)
                except Exception as error:
                    if self._keys is None or not is_of_database(error):
                        raise
                self._read_at = now
            return self._keys
