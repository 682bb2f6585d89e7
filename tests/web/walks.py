"""All requests that an application answers, so that a test of each cannot miss one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount

from tests.foreign_rows import ASSET, DAG, MODULE, POOL, RUN, SCHEDULE, TASK

PLACES = {
    "dag_id": DAG,
    "run": RUN,
    "task_id": TASK,
    "key": "k",
    "conn_id": "c",
    "number": "1",
    "other": "1",
    "try_number": "1",
}
NAMES = {"pools": POOL, "dags": SCHEDULE, "alert-rules": "rule", "users": "ann"}
QUERIES = {
    "/api/v1/asset": f"?name={ASSET}",
    "/api/v1/asset-checks": f"?name={ASSET}",
    "/api/v1/asset-events": f"?name={ASSET}",
    "/api/v1/asset-partitions": f"?name={ASSET}",
    "/api/v1/dag-statistics": f"?dag_id={DAG}",
    "/api/v1/dags/{dag_id}/graph": f"?run={RUN}",
    "/api/v1/dags/{dag_id}/versions/{number}/module": f"?name={MODULE}",
}
ENDLESS = "/stream"
LINES = "/audit/export"  # many documents
ELSEWHERE = ("/oidc", "/callback")  # at an identity provider
COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"  # a test says that it is that of the API
DOCUMENT: dict[str, Any] = json.loads(COMMITTED.read_text())


def pages() -> Iterator[tuple[str, str]]:
    """The path of every GET in the document, and its address in the rows of `seed`."""
    for path, methods in DOCUMENT["paths"].items():
        if "get" in methods and not path.endswith((ENDLESS, LINES, *ELSEWHERE)):
            name = NAMES.get(path.split("/")[3] if path.count("/") > 2 else "", "")
            query = QUERIES.get(path, "?words=x" if path.endswith("/search") else "")
            yield path, path.format(**PLACES, name=name) + query


PAGES = list(pages())


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
