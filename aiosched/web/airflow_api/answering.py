"""Requests to owners, for callers who know only Airflow's answers: there is no "accepted, it waits"."""

from __future__ import annotations

from typing import Any, Final

from aiosched.core.requests.requests import Request
from aiosched.db.statements.inbox import wait_applied
from aiosched.web.auth.access import Principal
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.problems import Problem

PATIENCE: Final = 25.0  # seconds beyond those of the own API, whose callers can ask again for the answer


async def done(request_client: RequestClient, request: Request, dag_id: str, person: Principal) -> dict[str, Any]:
    """The owner's answer. Raises NotFound and Refused; Problem 503 if no scheduler has applied it yet: it waits."""
    answer = await request_client.ask(request, dag_id, by=person)
    if answer.result is not None:
        return answer.result
    late = await wait_applied(request_client.db, answer.number, timeout=PATIENCE)
    if late is None:
        raise Problem(
            503,
            "waits",
            f"No scheduler has applied the request yet: it waits as number {answer.number} and is not lost.",
            headers={"Retry-After": "5"},
        )
    if late.error is not None:
        raise late.error
    return late.result
