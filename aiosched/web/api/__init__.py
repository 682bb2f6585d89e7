"""The resources of the REST API, one module for each."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from aiosched.web.api import (
    actions,
    assets,
    backfills,
    coming,
    dags,
    dependencies,
    document,
    graph,
    grid,
    history,
    home,
    inputs,
    logs,
    rendered,
    runs,
    schedules,
    statistics,
    tasks,
    versions,
    why,
)
from aiosched.web.api.dag_pages import comparison, trends
from aiosched.web.api.finding import activity, search
from aiosched.web.api.lists import bulk, instance_lists, run_lists
from aiosched.web.api.operation import alerts, figures, metrics, pools, stream, system
from aiosched.web.api.people import audit, login, secret_sources, secrets, sessions, teams, users, views

ROUTERS: Final[tuple[APIRouter, ...]] = (
    actions.router,
    activity.router,
    alerts.router,
    assets.router,
    audit.router,
    backfills.router,
    bulk.router,
    coming.router,
    comparison.router,
    dags.router,
    dependencies.router,
    document.router,
    figures.router,  # before pools.router, whose names may have slashes: /pools/{name}/figures
    graph.router,
    grid.router,
    history.router,
    home.router,
    inputs.router,
    instance_lists.router,
    login.router,
    logs.router,
    metrics.router,
    pools.router,
    rendered.router,
    run_lists.router,
    runs.router,
    schedules.router,
    search.router,
    secret_sources.router,
    secrets.router,
    sessions.router,
    statistics.router,
    stream.router,
    system.router,
    tasks.router,
    teams.router,
    trends.router,
    users.router,
    versions.router,
    views.router,
    why.router,
)
