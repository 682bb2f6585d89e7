"""Notifications for browsers: schedulers publish to web servers which runs have changed.

Nothing is published while no browser watches. A web server with open pages announces that regularly (`watch`);
schedulers then publish the keys of changed runs, a few times a second at most, outside the hot transaction. A lost
notification only delays a page: pages show rows, never these messages.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.server.request_answers import read_numbers
from aiosched.db.statements.inbox import notify

RUNS_CHANNEL: Final = "aiosched_runs"  # payload: keys of runs, comma separated; empty: too many to name
WATCH_SECONDS: Final = 45.0  # how long a scheduler publishes after `watch`

_MOST_RUNS: Final = 390  # a payload has less than 8000 bytes, a key up to 19 digits


async def watch(conn: DatabaseConnection) -> None:
    """Ask all schedulers to publish changed runs for the next `WATCH_SECONDS`."""
    await notify(conn, "watch", ())


async def publish_runs(conn: Queryable, keys: Collection[int]) -> None:
    """Publish that the committed rows of these runs have changed."""
    payload = ",".join(map(str, keys)) if len(keys) <= _MOST_RUNS else ""
    await conn.execute("SELECT pg_notify($1, $2)", RUNS_CHANNEL, payload)


def read_runs(payload: str) -> list[int] | None:
    """The keys in a payload; None if there were too many."""
    return read_numbers(payload) or None
