"""The resources of the REST API, one module a noun."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from aiosched.web.api import (
    actions,
    assets,
    backfills,
    dags,
    document,
    history,
    home,
    login,
    metrics,
    pools,
    runs,
    secrets,
    stream,
    system,
    tasks,
    users,
    versions,
    views,
    why,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    actions.router,
    assets.router,
    backfills.router,
    dags.router,
    document.router,
    history.router,
    home.router,
    login.router,
    metrics.router,
    pools.router,
    runs.router,
    secrets.router,
    stream.router,
    system.router,
    tasks.router,
    users.router,
    versions.router,
    views.router,
    why.router,
)
