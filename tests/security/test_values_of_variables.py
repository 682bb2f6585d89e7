"""Values of variables are shown to those who may change them, and secrets to nobody, whatever is tried."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.core.access.grants import RoleGrant
from aiosched.core.values.masking import MASK, is_sensitive, shown
from aiosched.db.access import grants
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people import accounts
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, client_of, log_in

OPEN = {"region": "eu-west-1", "limits": '{"cpu": 2}', "of_sales": "crm-7"}


@pytest.fixture
def settings() -> Settings:
    found = Settings(web=WebSettings(auth="password"))
    found.secrets.fernet_keys = new_key()
    return found


@pytest.fixture
async def store(db: Database, settings: Settings) -> SecretStore:
    found = SecretStore(db, Keyring.of(settings))
    await db.execute("INSERT INTO team (name) VALUES ('sales')")
    await found.set_variables({"of_sales": VariableValue(OPEN["of_sales"])}, team="sales", requested_by="cli:ada")
    rest = {key: VariableValue(value) for key, value in OPEN.items() if key != "of_sales"}
    rest |= {
        "flagged": VariableValue("sesame-1", is_secret=True),
        "api_key": VariableValue("sesame-2"),
        "nested": VariableValue('{"host": "db", "password": "sesame-3"}'),
        "warehouse": VariableValue("postgres://reader:sesame-4@db/shop"),
        "big": VariableValue("x" * 100_000),
    }
    await found.set_variables(rest)
    return found


@pytest.fixture
async def app(db: Database, settings: Settings, store: SecretStore) -> FastAPI:
    people = {"viewer": "viewer", "operator": "operator", "editor": "editor", "admin": "admin", "seller": "none"}
    for name, role in people.items():
        await accounts.create_user(db, name, role, await hash_password(PASSWORD))
    await grants.add_grant(db, "seller", RoleGrant.parse("editor@team:sales"))
    return make_app(RequestClient(db, settings))


async def seen_by(app: FastAPI, name: str) -> tuple[dict[str, dict[str, Any]], str]:
    """What somebody reads of all variables, by key; and everything that was answered."""
    async with client_of(app) as browser:
        await log_in(browser, name)
        listed = await browser.get("variables")
        keys = [one["key"] for one in listed.json()["items"]]
        alone = [await browser.get(f"variables/{key}") for key in [*keys, "of_sales", "flagged"]]
        found = {one["key"]: one for answer in alone if answer.is_success for one in [answer.json()]}
    assert all(one["value"] in (None, found[one["key"]]["value"]) for one in listed.json()["items"])
    return found, "".join(answer.text for answer in [listed, *alone])


@pytest.mark.parametrize("name", ["editor", "admin"])
async def test_editors_see_what_is_no_secret(app: FastAPI, name: str) -> None:
    found, answered = await seen_by(app, name)

    assert {key: found[key]["value"] for key in OPEN} == OPEN
    assert found["nested"]["value"] == '{"host": "db", "password": "***"}'
    assert {key: one["hidden"] for key, one in found.items() if one["hidden"]} == dict.fromkeys(
        ("flagged", "api_key", "nested", "warehouse"), "secret"
    )
    assert len(found["big"]["value"]) == 100_000
    assert "sesame" not in answered
    assert found["of_sales"]["changed_by"] == "cli:ada"


@pytest.mark.parametrize("name", ["viewer", "operator"])
async def test_others_see_names_only(app: FastAPI, name: str) -> None:
    found, answered = await seen_by(app, name)

    assert {(one["value"], one["hidden"]) for one in found.values()} == {(None, "role")}
    assert not [value for value in ("sesame", *OPEN.values()) if json.dumps(value)[1:-1] in answered]


async def test_editors_of_a_team_see_values_of_that_team(app: FastAPI, store: SecretStore) -> None:
    await store.db.execute("INSERT INTO team (name) VALUES ('hr')")
    await store.set_variables({"of_hr": VariableValue("salary-9")}, team="hr")

    found, answered = await seen_by(app, "seller")

    assert found["of_sales"]["value"] == "crm-7"
    assert "of_hr" not in found
    assert "salary-9" not in answered
    async with client_of(app) as browser:
        await log_in(browser, "seller")
        assert (await browser.get("variables/of_hr")).status_code == 404
        assert (await browser.put("variables/of_hr", json={"value": "1", "team": "sales"})).status_code == 404


async def test_a_mark_is_taken_away_only_with_a_new_value(app: FastAPI, store: SecretStore) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "editor")
        without = await browser.put("variables/flagged", json={"is_secret": False})
        kept = await browser.put("variables/flagged", json={"value": "sesame-5"})
        hidden = (await browser.get("variables/flagged")).json()
        await browser.put("variables/flagged", json={"value": "plain", "is_secret": False})
        shown_now = (await browser.get("variables/flagged")).json()
        await browser.put("variables/api_key", json={"value": "sesame-6", "is_secret": False})
        by_name = (await browser.get("variables/api_key")).json()

    assert without.status_code == 422
    assert (kept.status_code, hidden["value"], hidden["is_secret"]) == (200, None, True)
    assert (shown_now["value"], shown_now["is_secret"], shown_now["changed_by"]) == ("plain", False, "api:editor")
    assert (by_name["value"], by_name["hidden"], by_name["is_secret"]) == (None, "secret", True)


async def test_clients_of_airflow_see_no_more(db: Database, settings: Settings, store: SecretStore) -> None:
    settings.web.auth, settings.web.airflow_api = "none", True
    async with client_of(make_app(RequestClient(db, settings))) as browser:
        browser.base_url = "https://aiosched.example"
        answer = await browser.get("/api/v2/variables")
        alone = [await browser.get(f"/api/v2/variables/{key}") for key in ("flagged", "nested", "warehouse")]

    values = {one["key"]: one["value"] for one in answer.json()["variables"]}
    assert values["region"] == "eu-west-1"
    assert values["flagged"] == values["warehouse"] == MASK
    assert not any("sesame" in one.text for one in [answer, *alone])


async def test_what_no_key_decrypts_is_said_and_the_rest_is_shown(app: FastAPI, db: Database) -> None:
    await SecretStore(db, Keyring(new_key())).set_variables({"region": VariableValue("eu-west-1")})

    found, _ = await seen_by(app, "editor")

    assert (found["region"]["value"], found["region"]["hidden"]) == (None, "unreadable")
    assert found["limits"]["value"] == OPEN["limits"]


async def test_a_server_without_a_key_shows_names(db: Database, store: SecretStore) -> None:
    app = make_app(RequestClient(db, Settings()))
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
        answer = await client.get("variables")

    assert answer.status_code == 200, answer.text
    assert {one["value"] for one in answer.json()["items"]} == {None}


@pytest.mark.parametrize(
    "key", ["PassWord", "sales/pwd", "smtp_pass", "\uff50assword", "pass\N{NO-BREAK SPACE}word", "api:key", "x.token"]
)
def test_names_of_secrets_in_disguise(key: str) -> None:
    assert is_sensitive(key)


@pytest.mark.parametrize("key", ["bypass_cache", "passengers", "compass", "keyboard", "tokyo", "pass_rate"])
def test_names_that_only_look_alike(key: str) -> None:
    assert not is_sensitive(key)


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "sesame",}', '{"a": {"b": [{"token": "sesame"}]}}', '{"a": "{\\"pwd\\": \\"sesame\\"}"}',
        '{"password": "sesame", "password": ""}', "user=a\npassword = sesame", "a: 1\napi-key: sesame",
        "amqp://me:sesame@mq:5672//", "-----BEGIN RSA PRIVATE KEY-----\nsesame", '\ufeff{"secret": "sesame"}',
        "[" * 90_000 + '{"token": "sesame"}', '{"x": "redis://:sesame@r"}', "export DB_PASSWORD='sesame'",
    ],
)  # fmt: skip
def test_secrets_inside_of_values(text: str) -> None:
    assert "sesame" not in str(shown(text, "plain"))
