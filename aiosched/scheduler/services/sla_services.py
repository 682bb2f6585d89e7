"""The service that callbacks of missed SLAs call. Source: the semantics reference, section 23.3."""

from __future__ import annotations

from typing import Any

from aiosched.db.server.engine import Database
from aiosched.db.statements.slas import blocking_instances, misses_of_callback
from aiosched.scheduler.services.questions import Question


async def sla_misses(db: Database, question: Question) -> dict[str, Any]:
    """The misses that a callback reports, for the worker that runs it; `question.run` is the callback's run (23.3)."""
    run = question.run
    async with db.acquire() as conn:
        misses = await misses_of_callback(conn, run, int(question.args["callback"]))
        blocking = await blocking_instances(conn, run, sorted({miss.logical_date for miss in misses}))
    return {"slas": [one._asdict() for one in misses], "blocking_tis": [one._asdict() for one in blocking]}
