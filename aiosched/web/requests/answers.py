"""What an action answers if no scheduler has applied it yet: 202 with the number of the request."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel


class Waiting(BaseModel):
    """A request that is stored and waits for a scheduler: see `/commands/{command}`."""

    command: int


ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": Waiting, "description": "Stored; no scheduler has applied it yet"}
}


def waiting(request: Request, command: int) -> Response:
    """The response to an action that no scheduler has applied yet."""
    base = request.scope.get("root_path", "").rstrip("/")
    headers = {"Location": f"{base}/api/v1/commands/{command}"}
    return JSONResponse(Waiting(command=command).model_dump(), 202, headers=headers)
