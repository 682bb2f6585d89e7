"""The service that callbacks of missed SLAs call. Source: the semantics reference, section 23.3."""

from __future__ import annotations

from typing import Any

from aiosched.db.server.engine import Database
from aiosched.db.statements.slas import blocking_instances, misses_of_callback
from aiosched.scheduler.services.service_calls import ServiceCall


async def sla_misses(db: Database, call: ServiceCall) -> dict[str, Any]:
    """The misses that a callback reports, for the worker that runs it; `call.run` is the callback's run (23.3)."""
    run = call.run
    async with db.acquire() as conn:
        misses = await misses_of_callback(conn, run, int(call.args["callback"]))
        blocking = await blocking_instances(conn, run, sorted({miss.logical_date for miss in misses}))
    return {"slas": [one._asdict() for one in misses], "blocking_tis": [one._asdict() for one in blocking]}
