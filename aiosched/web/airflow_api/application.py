"""The applications that are mounted at `/api/v2` and `/auth` if `web.airflow_api` is set."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Depends, FastAPI

from aiosched.web.airflow_api import dags, operation, pools, runs, secrets, tasks
from aiosched.web.auth.access import Authenticator, authorise
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import problems

API_V2: Final = "/api/v2"
AUTH: Final = "/auth"
ROUTERS: Final[tuple[APIRouter, ...]] = (
    dags.router,
    runs.router,
    tasks.router,
    secrets.router,
    pools.router,
    operation.router,
)


def mount(app: FastAPI, request_client: RequestClient, authenticator: Authenticator) -> None:
    """Mount both on `app`, with its users and roles."""
    for path, routers in ((API_V2, ROUTERS), (AUTH, (operation.auth_router,))):
        part = FastAPI(
            openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, dependencies=[Depends(authorise)]
        )
        part.state.request_client, part.state.authenticator = request_client, authenticator
        part.state.health = app.state.health
        problems.install(part, request_client.db)
        for router in routers:
            part.include_router(router)
        app.mount(path, part)
