"""All requests that an application answers, so that a test of each cannot miss one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount


def requests_of(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of each route, with the names of parameters as their values."""
    found = sorted(set(_requests(app.routes, "")))
    assert {path for _, path in found} >= {re.sub(r"[{}]", "", path) for path in app.openapi()["paths"]}
    return found


def _requests(routes: Iterable[Any], above: str) -> Iterator[tuple[str, str]]:
    for route in routes:
        if hasattr(route, "original_router"):  # of a router that is included, in FastAPI's newer versions
            yield from _requests(route.original_router.routes, above + route.include_context.prefix)
        elif isinstance(route, Mount):
            yield from _requests(route.routes, above + route.path)
        else:
            assert isinstance(route, APIRoute), f"the walk does not know {route!r}"
            path = above + re.sub(r"[{}]|:path", "", route.path)
            yield from ((method, path) for method in route.methods)
