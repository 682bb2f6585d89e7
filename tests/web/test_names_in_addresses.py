"""Pools and variables whose names have slashes are changed and deleted by their addresses, as all others."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings
from aiosched.db.people.pools import BELOW
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient

NAMES: Final = ("raw/eu", "/a", "a/", "a//b", "a/../b", "queue", "a b?c#d%2F")
BODIES: Final[Mapping[str, Mapping[str, Any]]] = {"pools": {"slots": 2}, "variables": {"value": "1"}}
UNFIT: Final = (".", "..", "  ", " a", "a ")


@pytest.fixture
def app(db: Database, tmp_path: Path) -> FastAPI:
    return make_app(RequestClient(db, Settings.model_validate({"web": {"airflow_api": True}})))


@pytest.fixture
async def theirs(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API that clients of Airflow use."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v2/") as client:
        yield client


def at(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


async def test_a_name_with_a_slash_is_stored_and_deleted(api: httpx2.AsyncClient) -> None:
    for kind, name in itertools.product(BODIES, NAMES):
        stored = await api.put(at(kind, name), json=BODIES[kind])
        listed = {one.get("name") or one.get("key") for one in (await api.get(kind)).json()["items"]}
        deleted = await api.delete(at(kind, name))

        assert (stored.status_code, stored.json()["name"]) == (200, name)
        assert name in listed
        assert (kind, name, deleted.status_code) == (kind, name, 204)


async def test_a_pool_with_a_slash_has_its_pages(api: httpx2.AsyncClient) -> None:
    for name in NAMES:
        await api.put(at("pools", name), json={"slots": 2})

        answers = [await api.get(at("pools", name) + below) for below in ("", *BELOW)]

        assert (name, [answer.status_code for answer in answers]) == (name, [200, 200, 200])
        assert answers[0].json()["name"] == name
        assert "holders" in answers[1].json()


@pytest.mark.parametrize("name", ["raw/eu", "a/../b"])
async def test_a_connection_with_a_slash_is_refused_in_words(api: httpx2.AsyncClient, name: str) -> None:
    stored = await api.put(at("connections", name), json={"conn_type": "http"})
    deleted = await api.delete(at("connections", name))

    assert (stored.status_code, deleted.status_code) == (422, 404)
    assert f"{name!r} cannot be the name of a connection: use letters, digits" in stored.json()["detail"]


@pytest.mark.parametrize(("kind", "body"), [*BODIES.items(), ("connections", {"conn_type": "http"})])
async def test_a_name_with_nul_is_refused_in_words(api: httpx2.AsyncClient, kind: str, body: Mapping[str, Any]) -> None:
    answer = await api.put(at(kind, "a\0b"), json=body)

    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(": contains a NUL character, which PostgreSQL cannot store")


async def test_a_stored_pool_that_is_named_as_a_page_of_another_can_be_deleted(
    db: Database, api: httpx2.AsyncClient
) -> None:
    refused = await api.put(at("pools", "a/queue"), json={"slots": 2})
    await db.execute("INSERT INTO pool (name, slots) VALUES ('a/queue', 1)")

    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert (await api.put(at("pools", "a/queue"), json={"slots": 2})).status_code == 200
    assert (await api.delete(at("pools", "a/queue"))).status_code == 204


async def test_no_new_pool_is_named_as_a_page_of_another(app: FastAPI) -> None:
    places = [path.removeprefix("/api/v1/pools/{name}") for path in app.openapi()["paths"] if "/pools/{name}/" in path]

    assert sorted(places) == sorted(BELOW)


async def test_a_new_name_that_no_address_can_have_is_refused(theirs: httpx2.AsyncClient) -> None:
    for name in UNFIT:
        answers = [
            await theirs.post("pools", json={"name": name, "slots": 1}),
            await theirs.post("variables", json={"key": name, "value": "1"}),
        ]

        assert (name, [answer.status_code for answer in answers]) == (name, [409, 409])
        assert all("choose another" in answer.json()["detail"] for answer in answers)


async def test_clients_of_airflow_reach_names_with_slashes(theirs: httpx2.AsyncClient) -> None:
    kinds = (("pools", "name", {"slots": 1}), ("variables", "key", {"value": "1"}))
    for (kind, key, body), name in itertools.product(kinds, NAMES):
        await theirs.post(kind, json=body | {key: name})
        shown = await theirs.get(at(kind, name))
        changed = await theirs.patch(at(kind, name), json=body | {key: name})
        wrong = await theirs.put(at(kind, name), json=body)
        deleted = await theirs.delete(at(kind, name))

        assert shown.json()[key] == name
        assert (changed.status_code, wrong.status_code, deleted.status_code) == (200, 405, 204)
        assert wrong.headers["allow"] == "DELETE, GET, PATCH"
