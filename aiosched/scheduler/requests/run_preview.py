"""What a request about a whole run would touch: a read by any process, with or without a scheduler."""

from __future__ import annotations

from typing import Any

from aiosched.core.requests.requests import CancelRun, MarkRun, SetNote
from aiosched.core.values.states import FINISHED, RUN_FINISHED
from aiosched.db.queries import queries
from aiosched.db.server.engine import Database
from aiosched.errors import Refused


async def preview_of_run(db: Database, dag_id: str, request: MarkRun | CancelRun | SetNote) -> dict[str, Any]:
    """What would happen to a run: a note concerns it alone, anything else its unfinished task instances.

    Raises NotFound, and Refused as the owner does.
    """
    run = await queries.find_run(db, dag_id, request.run_id)
    if isinstance(request, SetNote):
        return {}
    if isinstance(request, CancelRun) and run.state in RUN_FINISHED:
        raise Refused(f"Run {run.run_id} of {dag_id} is {run.state} already; there is nothing to cancel.")
    counts = await queries.count_tasks(db, run)
    states = {state: number for state, number in counts.items() if state not in FINISHED}
    return {"count": sum(states.values()), "states": states}
