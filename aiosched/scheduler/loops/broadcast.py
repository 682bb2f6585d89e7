"""Publishes to web servers which runs have changed, while a browser watches them.

Otherwise this costs one comparison per commit. Source: docs/architecture.md, "The loop" (metrics and
helpers stay outside of the hot transaction).
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiosched.db.statements.run_changes import publish_runs
from aiosched.scheduler.session.session import Session

_BETWEEN_SECONDS: Final = 0.2


async def publish_changes(session: Session) -> float | None:
    """One pass: publish the changed runs, then pause briefly so that changes are batched."""
    runs = session.changed_runs
    if runs.changed:
        changed, runs.changed = runs.changed, set()
        await publish_runs(session.env.db, sorted(changed))
        await asyncio.sleep(_BETWEEN_SECONDS)
    return None
