"""The least-privilege roles on the database of a test; roles belong to the whole server, so each test has its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from aiosched.db.server.dsn import address_of
from aiosched.db.server.roles import Purpose, apply


@dataclass(frozen=True)
class Roles:
    owner: str  # a DSN, like the others
    scheduler: str
    web: str
    names: dict[Purpose, str]


@contextlib.asynccontextmanager
async def roles_of(dsn: str) -> AsyncIterator[Roles]:
    """Both roles, and their addresses; dropped at the end."""
    names = {purpose: f"{purpose}_{address_of(dsn).database}" for purpose in Purpose}
    await apply(dsn, names)
    try:
        yield Roles(dsn, _as(dsn, names[Purpose.SCHEDULER]), _as(dsn, names[Purpose.WEB]), names)
    finally:
        conn = await asyncpg.connect(dsn)
        for name in names.values():
            await conn.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
        await conn.close()


def _as(dsn: str, name: str) -> str:
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
