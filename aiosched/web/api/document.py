"""The OpenAPI document of this API, as JSON."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from aiosched.web.auth.access import Role, RoleScope, allow

router: APIRouter = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
@allow(Role.VIEWER, RoleScope.NEUTRAL)
async def openapi(request: Request) -> JSONResponse:
    """The document that `python -m aiosched.web.openapi` writes."""
    document: dict[str, Any] = request.app.openapi()
    return JSONResponse(document)
