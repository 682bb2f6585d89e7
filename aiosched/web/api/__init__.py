"""The resources of the REST API, one module a noun."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from aiosched.web.api import actions, dags, document, login, runs, stream, users, versions, views

ROUTERS: Final[tuple[APIRouter, ...]] = (
    actions.router,
    dags.router,
    document.router,
    login.router,
    runs.router,
    stream.router,
    users.router,
    versions.router,
    views.router,
)
