"""The teams to which variables, connections and pools belong. Makes no decisions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from aiosched.db.server.engine import Database

OwnedKind = Literal["variable", "connection", "pool"]
_KEYS: Final[dict[OwnedKind, str]] = {"variable": "key", "connection": "conn_id", "pool": "name"}
# Index: primary key.
OWNERS: Final = {
    kind: f"SELECT {key} AS name, team FROM {kind} WHERE {key} = ANY ($1::text[])" for kind, key in _KEYS.items()
}


async def read_owners(db: Database, kind: OwnedKind, names: Collection[str]) -> dict[str, str | None]:
    """The team of each of `names` that exists; None: it belongs to nobody."""
    async with db.acquire() as conn:
        return {row["name"]: row["team"] for row in await conn.fetch(OWNERS[kind], list(names))}
