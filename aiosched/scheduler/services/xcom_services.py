"""The service of tasks with large XComs."""

from __future__ import annotations

from aiosched.db.server.engine import Database
from aiosched.db.upkeep import remote_xcoms
from aiosched.scheduler.services.questions import Question


async def reserve_xcoms(db: Database, question: Question) -> None:
    """Enter the files that an attempt writes: {paths, task_index, map_index, try_number}."""
    args = question.args
    key = (question.run, int(args["task_index"]), int(args["map_index"]), int(args["try_number"]))
    async with db.acquire() as conn:
        await remote_xcoms.reserve(conn, list(args["paths"]), key)
