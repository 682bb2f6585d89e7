"""What an action answers: its result, or 202 with the number of the request if no scheduler has applied it yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.db.statements.inbox import OwnerAnswer


class Waiting(BaseModel):
    """A request that is stored and waits for a scheduler: see `/commands/{command}`."""

    command: int


ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": Waiting, "description": "Stored; no scheduler has applied it yet"}
}


def answered(
    request: Request, answer: OwnerAnswer, make: Callable[[dict[str, Any]], BaseModel], *, status: int = 200
) -> Response:
    """The response to an action: `make` converts the owner's answer into the model of the resource."""
    if answer.result is None:
        base = request.scope.get("root_path", "").rstrip("/")
        headers = {"Location": f"{base}/api/v1/commands/{answer.command}"}
        return JSONResponse(Waiting(command=answer.command).model_dump(), 202, headers=headers)
    return JSONResponse(make(answer.result).model_dump(mode="json"), status)
