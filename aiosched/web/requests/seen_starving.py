"""What tasks wait for that is not to be had, for people who may see some pools."""

from __future__ import annotations

from aiosched.db.queries.starving import Starving, read_starving
from aiosched.db.server.engine import Database
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests.owned import seen_things


async def seen_starving(db: Database, visible: Visible) -> list[Starving]:
    """Pools as one may see them; those that do not exist, and executors, for those who see everything."""
    async with db.acquire() as conn:
        found = await read_starving(conn)
    seen = await seen_things(db, visible, "pool", [one for one in found if one.kind == "pool"], lambda one: one.name)
    return [*seen, *(one for one in found if one.kind != "pool" and visible.is_whole)]
