"""The applications that are mounted at `/api/v2` and `/auth` if `web.airflow_api` is set."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from aiosched.web.airflow_api import dags, operation, pools, runs, secrets, tasks
from aiosched.web.auth.access import authorise
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


def mount(app: FastAPI) -> None:
    """Mount both on `app`, with its users and roles."""
    request_client: RequestClient = app.state.request_client
    for path, routes in _routes().items():
        part = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        for shared in ("request_client", "authenticator", "known_dags", "health"):
            setattr(part.state, shared, getattr(app.state, shared))
        problems.install(part, request_client.db)
        part.router.routes.extend(routes)
        part.state.api = part.routes
        app.mount(path, part)


@functools.cache  # all applications share them, like those of the own API
def _routes() -> Mapping[str, Sequence[BaseRoute]]:
    parents = {path: APIRouter(redirect_slashes=False, dependencies=[Depends(authorise)]) for path in (API_V2, AUTH)}
    for router in ROUTERS:
        parents[API_V2].include_router(router)
    parents[AUTH].include_router(operation.auth_router)
    return {path: tuple(parent.routes) for path, parent in parents.items()}
