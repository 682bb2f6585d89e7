"""Services of tasks that ask people.

    ask_input    {task_index, map_index, try_number, task_id, question, expires_at}    -> {}
    close_input  {task_index, map_index, try_number, options, params, by, at}              -> {}

`question` is an InputRequest as JSON, `by` is null if nobody answered; who did is looked up. Instants are ISO 8601 with
an offset.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from aiosched.core.graph.human_input import InputAnswer, InputRequest
from aiosched.db.people import human_inputs
from aiosched.db.people.human_inputs import TaskPlace
from aiosched.db.server.engine import Database
from aiosched.scheduler.services.service_calls import ServiceCall


async def ask_input(db: Database, call: ServiceCall) -> dict[str, Any]:
    """Store what a task asks, just before it defers."""
    args = call.args
    expires_at = args["expires_at"] and datetime.fromisoformat(args["expires_at"])
    request = msgspec.convert(args["question"], InputRequest)
    await human_inputs.ask(
        db,
        _place(call),
        request,
        try_number=args["try_number"],
        task_id=args["task_id"],
        expires_at=expires_at,
    )
    return {}


async def close_input(db: Database, call: ServiceCall) -> dict[str, Any]:
    """Store how a question was answered, when its task goes on."""
    args = call.args
    answer = InputAnswer(options=tuple(args["options"]), params=args["params"])
    at = datetime.fromisoformat(args["at"])
    somebody = args["by"] is not None
    await human_inputs.close(db, _place(call), answer, try_number=args["try_number"], by_somebody=somebody, at=at)
    return {}


def _place(call: ServiceCall) -> TaskPlace:
    return TaskPlace(call.run, call.args["task_index"], call.args["map_index"])
