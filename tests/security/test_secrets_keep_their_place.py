"""Who may write a connection cannot have its secrets sent to himself: another place needs them again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from aiosched.config import Settings, WebSettings
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient

SHOP = ConnectionValue(
    conn_id="shop", conn_type="http", host="shop.example", login="me", password="hunter2", port=443, schema="https",
    extra='{"endpoint_url": "https://shop.example", "timeout": 3}',
)  # fmt: skip
KEYS = ConnectionValue(
    conn_id="shop", conn_type="aws", host="shop.example", extra='{"region": "eu", "headers": {"Authorization": "tok"}}'
)


@pytest.fixture
def settings() -> Settings:
    found = Settings(web=WebSettings(airflow_api=True))
    found.secrets.fernet_keys = new_key()
    return found


@pytest.fixture
def store(db: Database, settings: Settings) -> SecretStore:
    return SecretStore(db, Keyring.of(settings))


@pytest.fixture
async def v2(db: Database, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    app = make_app(RequestClient(db, settings))
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v2/") as client:
        yield client


async def patch(v2: httpx2.AsyncClient, **change: Any) -> httpx2.Response:
    return await v2.patch("connections/shop", json={"connection_id": "shop", "conn_type": "http"} | change)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "evil.example"}, {"host": None}, {"port": 4433}, {"schema": "http"}, {"conn_type": "ftp"},
        {"extra": '{"endpoint_url": "https://evil.example"}'}, {"extra": '{"proxy": "evil.example", "timeout": 3}'},
        {"extra": '{"endpoint_url": "https://shop.example", "verify": false}'}, {"extra": None},
        {"host": "evil.example", "login": "me", "description": "as before"},
    ],
)  # fmt: skip
async def test_another_place_needs_the_password_again(
    v2: httpx2.AsyncClient, store: SecretStore, change: dict[str, Any]
) -> None:
    await store.set_connections([SHOP])

    answer = await patch(v2, **change)

    assert (answer.status_code, answer.json()["code"]) == (422, "secret-needed"), answer.text
    assert "password" in answer.json()["detail"]
    assert await store.get_connection("shop") == SHOP

    again = await patch(v2, **change, password="of-the-new-place")
    assert again.status_code == 200, again.text
    assert (await store.get_connection("shop")).password == "of-the-new-place"


async def test_the_password_can_be_removed_with_the_move(v2: httpx2.AsyncClient, store: SecretStore) -> None:
    await store.set_connections([SHOP])

    answer = await patch(v2, host="new.example", password=None)

    assert (answer.status_code, answer.json()["password"]) == (200, None)
    moved = await store.get_connection("shop")
    assert (moved.host, moved.password, moved.login) == ("new.example", None, "me")


@pytest.mark.parametrize("change", [{"description": "the shop"}, {"login": "you"}, {}, {"host": "shop.example"}])
async def test_a_change_that_moves_nothing_keeps_it(
    v2: httpx2.AsyncClient, store: SecretStore, change: dict[str, Any]
) -> None:
    await store.set_connections([SHOP])

    assert (await patch(v2, **change)).status_code == 200
    assert (await store.get_connection("shop")).password == "hunter2"


async def test_secrets_among_the_extras_move_no_more_than_a_password(
    v2: httpx2.AsyncClient, store: SecretStore
) -> None:
    await store.set_connections([KEYS])

    answer = await patch(v2, conn_type="aws", host="evil.example", password="mine")

    assert (answer.status_code, answer.json()["code"]) == (422, "secret-needed")
    assert "extra" in answer.json()["detail"]
    assert await store.get_connection("shop") == KEYS
    assert (await patch(v2, conn_type="aws", host="new.example", extra='{"region": "eu"}')).status_code == 200


async def test_a_connection_without_secrets_moves(v2: httpx2.AsyncClient, store: SecretStore) -> None:
    await store.set_connections([ConnectionValue(conn_id="shop", conn_type="http", host="a", extra='{"region": "eu"}')])

    assert (await patch(v2, host="b")).status_code == 200
    assert (await store.get_connection("shop")).extra_dejson == {"region": "eu"}


async def test_the_other_api_keeps_nothing(v2: httpx2.AsyncClient, store: SecretStore) -> None:
    await store.set_connections([SHOP])

    answer = await v2.put(
        "http://localhost/api/v1/connections/shop", json={"conn_type": "http", "host": "evil.example"}
    )

    assert answer.status_code == 200
    assert (await store.get_connection("shop")).password is None


async def test_the_audit_log_names_the_fields_that_changed(
    v2: httpx2.AsyncClient, store: SecretStore, db: Database
) -> None:
    await store.set_connections([SHOP])

    assert (await patch(v2, host="new.example", password="other-secret", extra=None)).status_code == 200
    assert (await patch(v2, description="the shop")).status_code == 200
    await store.set_connections([SHOP], requested_by="cli:me", team="")  # as `connections import` does

    rows = await db.fetch("SELECT args::text AS args FROM request WHERE verb = 'set_connection' ORDER BY id")
    assert [json.loads(row["args"])["fields"] for row in rows] == [
        ["host", "password", "extra"], ["description"], ["host", "password", "extra", "description"],
    ]  # fmt: skip
    assert "other-secret" not in str([row["args"] for row in rows])
