"""A param with `format: password` reaches its tasks, and nobody else: no page, list, log, audit, command or reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, Param, get_current_context, task
from aiosched.authoring.operators.trigger_dagrun import TriggerDagRunOperator
from aiosched.config import Settings, WebSettings
from aiosched.core.graph.secret_params import mark_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.secret_values import MARK, has_secrets, hidden, plain, sealed, unsealed
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from tests.web.walks import DOCUMENT

SECRET, DEFAULT, INNER = "correct-horse-1", "battery-staple-2", "swordfish-3"
PASSWORD = {"type": "string", "format": "password"}
START = datetime(2026, 1, 1, tzinfo=UTC)
SEEN: list[Any] = []  # what tasks have got

# ---- which values are secrets ----

PARAMS = {
    "password": ParamSpec(json_schema=PASSWORD),
    "maybe": ParamSpec(json_schema={"anyOf": [PASSWORD, {"type": "null"}]}),
    "login": ParamSpec(
        json_schema={"type": "object", "properties": {"user": {"type": "string"}, "password": PASSWORD}}
    ),
    "many": ParamSpec(json_schema={"type": "array", "items": PASSWORD}),
    "day": ParamSpec(json_schema={"type": "integer"}),
}
CONF = {
    "password": SECRET,
    "maybe": SECRET,
    "login": {"user": "ada", "password": INNER},
    "many": [SECRET, INNER],
    "day": 1,
    "free": "text",
}


def test_secrets_are_found_by_the_schema_wherever_they_are_in_a_value() -> None:
    found = mark_secrets(PARAMS, CONF)

    assert hidden(found) == {
        "password": "***",
        "maybe": "***",
        "login": {"user": "ada", "password": "***"},
        "many": ["***", "***"],
        "day": 1,
        "free": "text",
    }
    assert plain(found) == CONF
    assert mark_secrets(PARAMS, found) == found


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/secret", "$defs": {"secret": PASSWORD}},
        {"properties": {"a": PASSWORD, "b": {"$ref": "#/properties/a"}}},
        {
            "properties": {"b": {"$ref": "#x"}},
            "$defs": {"x": {"$anchor": "x", "items": {"$ref": "#/y"}}},
            "y": PASSWORD,
        },
        {"if": {"required": ["b"]}, "then": {"properties": {"b": PASSWORD}}},
        {"patternProperties": {"^b": PASSWORD}},
        {"propertyNames": {"maxLength": 1}, "dependentSchemas": {"b": {"additionalProperties": PASSWORD}}},
        {"properties": {"b": {"prefixItems": [PASSWORD]}}},
        {"properties": {"b": {"contains": PASSWORD}}},
        {"properties": {"b": {"unevaluatedItems": PASSWORD}}},
        {"unevaluatedProperties": {"not": PASSWORD}},
    ],
    ids=str,
)
def test_a_secret_behind_any_keyword_is_hidden(schema: dict[str, Any]) -> None:
    conf = {"p": {"b": [SECRET]}}
    found = mark_secrets({"p": ParamSpec(json_schema=schema)}, conf)

    assert SECRET not in json.dumps(hidden(found))
    assert plain(found) == conf


def test_a_reference_to_what_is_no_secret_hides_nothing() -> None:
    schema = {"properties": {"a": PASSWORD, "b": {"$ref": "#/$defs/open"}}, "$defs": {"open": {"type": "array"}}}
    found = mark_secrets({"p": ParamSpec(json_schema=schema)}, {"p": {"a": SECRET, "b": [1]}})

    assert hidden(found) == {"p": {"a": "***", "b": [1]}}


def test_what_people_are_shown_is_no_value() -> None:
    assert mark_secrets(PARAMS, {"password": "***", "day": 1}) == {"day": 1}


def test_sealed_secrets_are_opened_again_and_hidden_meanwhile() -> None:
    keyring = Keyring(new_key())
    found = sealed(mark_secrets(PARAMS, CONF), keyring.encrypt)

    assert SECRET not in json.dumps(found)
    assert INNER not in json.dumps(found)
    assert plain(unsealed(found, lambda token: keyring.decrypt(token, what="it"))) == CONF
    assert has_secrets(found)
    assert plain(found)["password"].keys() == {MARK}


# ---- the whole way ----


def secretive() -> list[DAG]:
    @task(retries=1, retry_delay=0)
    def use() -> None:
        context = get_current_context()
        SEEN.append(
            (context["params"]["password"], context["dag_run"].conf.get("password"), context["params"]["other"])
        )
        print("logging in with", context["params"]["password"], "or", context["params"]["other"])
        raise RuntimeError(f"{context['params']['password']} was refused")

    schema = {"type": "string", "format": "password", "minLength": 8}
    params = {"password": Param("a-default-0", **schema), "other": Param(DEFAULT, **schema)}
    with DAG("secretive", schedule=None, params=params) as dag:
        use()
    with DAG("dated", schedule="@daily", start_date=START, end_date=START, params=params, catchup=False) as dated:
        use()
    with DAG("asking", schedule=None) as asking:
        TriggerDagRunOperator(
            task_id="ask", trigger_dag_id="secretive", trigger_run_id="asked", conf={"password": SECRET, "day": 1}
        )
    return [dag, dated, asking]


@pytest.fixture(params=[True, False], ids=["with a key", "without a key"])
async def scheduler(dsn: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scheduler]:
    SEEN.clear()
    settings = Settings(web=WebSettings(auth="none", airflow_api=True))
    settings.core.home = tmp_path
    settings.secrets.fernet_keys = new_key() if request.param else None
    async with Scheduler(dsn=dsn, dags=secretive(), settings=settings) as scheduler:
        yield scheduler


@pytest.fixture
async def live(scheduler: Scheduler) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a running scheduler."""
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/") as client:
        yield client


PLACES = {
    "dag_id": "secretive", "run": "r1", "task_id": "use", "number": "1", "other": "1", "try_number": "1", "key": "k",
    "conn_id": "c",
}  # fmt: skip
QUERIES = {"/api/v1/dag-statistics": "?dag_id=secretive", "/api/v1/dags/{dag_id}/graph": "?run=r1"}
V2 = (
    "dags", "dags/secretive", "dags/secretive/details", "dags/secretive/dagRuns", "dags/secretive/dagRuns/r1",
    "dags/secretive/dagRuns/r1/taskInstances", "dags/secretive/dagRuns/r1/taskInstances/use", "eventLogs",
    "dags/secretive/dagRuns/r1/taskInstances/use/logs/1",
)  # fmt: skip


def pages() -> list[str]:
    """Every GET of the API that ends by itself."""
    found = []
    for path, methods in DOCUMENT["paths"].items():
        if "get" in methods and not path.endswith(("/stream", "/oidc", "/callback")):
            query = QUERIES.get(path, "?words=with" if path.endswith("/search") else "")
            found.append(path.format(**PLACES, name="default_pool") + query)
    return [*found, *(f"/api/v2/{path}" for path in V2)]


async def assert_hidden(live: httpx2.AsyncClient, *texts: str) -> None:
    shown = 0
    for page in pages():
        answer = await live.get(page.removeprefix("/"))
        assert not [text for text in texts if text in answer.text], f"{page}: {answer.text}"
        shown += "***" in answer.text
    assert shown >= 4  # the run, its list, the request, the log …


async def trigger(live: httpx2.AsyncClient, run_id: str, **conf: Any) -> httpx2.Response:
    return await live.post("api/v1/dags/secretive/runs", json={"run_id": run_id, "conf": conf})


@pytest.mark.slow(but_first=True)
async def test_the_value_reaches_each_try_and_no_page(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    assert (await trigger(live, "r1", password=SECRET, day=1)).json()["conf"] == {"password": "***", "day": 1}
    await scheduler.wait_idle()
    await live.post("api/v1/dags/secretive/clear", json={"run_ids": ["r1"]})
    await scheduler.wait_idle()

    assert SEEN
    assert set(SEEN) == {(SECRET, SECRET, DEFAULT)}
    assert len(SEEN) >= 3  # a retry, and again after clearing
    await assert_hidden(live, SECRET, DEFAULT)


async def test_a_value_that_breaks_its_schema_is_not_shown(live: httpx2.AsyncClient) -> None:
    answer = await trigger(live, "r1", password="short")

    assert answer.status_code == 422
    assert "short" not in answer.text


async def test_a_run_that_a_task_starts_hides_it_too(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await live.post("api/v1/dags/asking/runs", json={})
    await scheduler.wait_idle()

    run = (await live.get("api/v1/dags/secretive/runs/asked")).json()
    assert run["conf"] == {"password": "***", "day": 1}
    assert {value for value, *_ in SEEN} == {SECRET}


async def test_a_backfill_hides_it_too(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await scheduler.backfill("dated", START, START, conf={"password": SECRET})
    await scheduler.wait_idle()

    assert {value for value, *_ in SEEN} == {SECRET}
    for page in ("runs?dag_id=dated", "backfills", "commands"):
        answer = (await live.get(f"api/v1/{page}")).text
        assert SECRET not in answer
        assert page == "backfills" or "***" in answer


async def test_the_default_applies_to_what_is_shown_as_hidden(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await trigger(live, "r1", password="***")
    await scheduler.wait_idle()

    assert SEEN[0][0] == "a-default-0"


async def test_it_is_stored_encrypted_if_there_is_a_key(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await trigger(live, "r1", password=SECRET)
    await scheduler.wait_idle()

    async with scheduler.db.acquire() as conn:
        rows = await conn.fetch("SELECT conf::text FROM dag_run UNION ALL SELECT args::text FROM request")
        audit = await conn.fetch("SELECT detail::text FROM audit_log")
    has_key = scheduler.settings.secrets.fernet_keys is not None
    assert any(SECRET in row[0] for row in rows) is not has_key
    assert not any(SECRET in row[0] for row in audit)


@pytest.mark.parametrize("scheduler", [True], indirect=True, ids=["with a key"])
async def test_a_new_key_encrypts_them_again(live: httpx2.AsyncClient, scheduler: Scheduler, db: Database) -> None:
    await trigger(live, "r1", password=SECRET)
    await scheduler.wait_idle()
    old, new = scheduler.settings.secrets.fernet_keys, new_key()

    await SecretStore(db, Keyring(f"{new},{old}")).rotate()

    conf = json.loads(await db.fetchval("SELECT conf FROM dag_run"))
    assert plain(unsealed(conf, lambda token: Keyring(new).decrypt(token, what="it"))) == {"password": SECRET}
