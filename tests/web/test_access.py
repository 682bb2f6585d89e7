"""Who may do what: every route says which role it needs, and is closed when it says nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import httpx2
from fastapi import Depends, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from aiosched.web.api import ROUTERS
from aiosched.web.api.operation import probes
from aiosched.web.app import API
from aiosched.web.auth.access import authorise, rule_of
from aiosched.web.views import ui_files
from tests.web.logins import log_in


def routes(app: FastAPI) -> list[APIRoute]:
    """Every route: those of the resources and those that the application has itself."""
    of_resources = [route for router in (*ROUTERS, probes.router, ui_files.router) for route in router.routes]
    return [route for route in (*of_resources, *app.routes) if isinstance(route, APIRoute)]


def test_every_route_says_which_role_it_needs(app: FastAPI) -> None:
    unsaid = [f"{route.methods} {route.path}" for route in routes(app) if rule_of(route.endpoint) is None]

    assert unsaid == []
    assert set(app.openapi()["paths"]) <= {prefix + route.path_format for route in routes(app) for prefix in (API, "")}


async def test_a_route_that_says_nothing_is_closed_to_everybody(app: FastAPI, api: httpx2.AsyncClient) -> None:
    async def forgotten() -> str:
        return "secret"

    app.router.routes.insert(0, APIRoute("/api/v1/forgotten", forgotten, dependencies=[Depends(authorise)]))

    answer = await api.get("forgotten")

    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "closed"


async def test_a_cursor_of_somebody_else_is_refused(api: httpx2.AsyncClient) -> None:
    answer = await api.get("dags", params={"cursor": "???"})

    assert answer.status_code == 400
    assert answer.json()["code"] == "bad-cursor"


async def test_what_does_not_exist_is_told_with_near_names(api: httpx2.AsyncClient) -> None:
    answer = await api.get("dags/sales")

    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no DAG 'sales'. The database holds no DAG yet."


async def test_a_name_that_no_dag_can_have_is_refused_like_any_other(browser: httpx2.AsyncClient) -> None:
    """Fuzzing has found it: who is looked up before the name is checked."""
    await log_in(browser, "viewer")
    answers = [
        await browser.delete("dags/a%00b"),
        await browser.put("dags/%00/runs/latest/note", json={"note": "x"}),
        await browser.post("dags/a%00b/runs/1/mark", content=b"false"),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


def test_no_dependency_of_a_route_needs_a_thread(app: FastAPI) -> None:
    """FastAPI calls one that is no coroutine function in a thread, which costs a trigger a tenth of its time."""
    in_threads = {
        f"{route.path}: {dependant.call}"
        for route in routes(app)
        for dependant in with_their_own(route.dependant.dependencies)
        if not inspect.iscoroutinefunction(dependant.call)
    }

    assert in_threads == set()


def with_their_own(dependants: list[Dependant]) -> Iterator[Dependant]:
    for dependant in dependants:
        yield dependant
        yield from with_their_own(dependant.dependencies)
