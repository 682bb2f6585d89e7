"""Each route of the API that changes something, and each such command, leaves an entry in the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, task
from aiosched.config import Settings, WebSettings
from aiosched.db.audit.reading import AuditEntry, EntrySelection, list_entries
from aiosched.db.crypto.keyring import new_key
from aiosched.db.people.accounts import create_user
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from aiosched.web.auth.passwords import hash_password
from tests.cli.conftest import Cli
from tests.cli.records import add_dag
from tests.cli.test_output_everywhere import commands
from tests.web.logins import PASSWORD, log_in
from tests.web.walks import DOCUMENT

WRITING = {
    (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods if method != "get"
}


class Call(NamedTuple):
    """A call of the API, and the kind of its entry. What the owner of a DAG refuses has an entry, too."""

    method: str
    path: str
    kind: str
    body: Any = None
    places: Mapping[str, Any] = MappingProxyType({})


OPEN_ALERT = """
    INSERT INTO alert (rule_id, subject, dag_ids, text, opened_at, last_at)
    SELECT id, 'd', '{d}', 'it is late', now(), now() FROM alert_rule WHERE name = 'late'
"""
DAG_ID, RUN = {"dag_id": "d"}, {"dag_id": "d", "run": "r"}
TASK = {**RUN, "task_id": "a"}
SCHEDULE = {**DAG_ID, "name": "n"}
BACKFILL = {"dag_id": "d", "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-01T00:00:00Z"}
CALLS = [
    Call("POST", "/users", "user.created", {"name": "bob", "password": PASSWORD, "role": "viewer"}),
    Call("PATCH", "/users/{name}", "user.role", {"role": "operator"}, {"name": "bob"}),
    Call("POST", "/users/{name}/grants", "grant.created", {"grant": "viewer@tag:etl"}, {"name": "bob"}),
    Call("DELETE", "/users/{name}/grants?grant=viewer@tag:etl", "grant.deleted", places={"name": "bob"}),
    Call("DELETE", "/users/{name}", "user.deleted", places={"name": "bob"}),
    Call("POST", "/teams", "team.created", {"name": "alpha"}),
    Call("POST", "/teams/{team}/folders", "team.folder.added", {"folder": "sales"}, {"team": "alpha"}),
    Call("DELETE", "/teams/{team}/folders?folder=sales", "team.folder.removed", places={"team": "alpha"}),
    Call("POST", "/views", "view.created", {"page": "runs", "name": "v", "query": "q"}),
    Call("PUT", "/views/{number}", "view.changed", {"name": "v", "query": "q"}, {"number": 1}),
    Call("DELETE", "/views/{number}", "view.deleted", places={"number": 1}),
    Call("DELETE", "/teams/{team}", "team.deleted", places={"team": "alpha"}),
    Call("POST", "/tokens", "token.created", {"label": "ci", "role": "viewer"}),
    Call("DELETE", "/tokens/{token}", "token.deleted", places={"token": 1}),
    Call("PUT", "/pools/{name}", "request.set_pool", {"slots": 1}, {"name": "p"}),
    Call("DELETE", "/pools/{name}", "request.delete_pool", places={"name": "p"}),
    Call("PUT", "/alert-rules/{name}", "alert_rule.created", {"kind": "run_late", "notifier": "o"}, {"name": "late"}),
    Call("POST", "/alert-rules/{name}/test", "alert_rule.tested", {}, {"name": "late"}),
    Call("PATCH", "/alert-rules/{name}", "alert_rule.paused", {"is_paused": True}, {"name": "late"}),
    Call("POST", "/alert-silences", "alert.silenced", {"dag_id": "d", "seconds": 60, "reason": "known"}),
    Call("DELETE", "/alert-silences/{number}", "alert.silence.ended", places={"number": 1}),
    Call("POST", "/alerts/{number}/acknowledge", "alert.acknowledged", {}, {"number": "alert"}),
    Call("DELETE", "/alert-rules/{name}", "alert_rule.deleted", places={"name": "late"}),
    Call("PUT", "/variables/{key}", "request.set_variable", {"value": "v"}, {"key": "k"}),
    Call("DELETE", "/variables/{key}", "request.delete_variable", places={"key": "k"}),
    Call("PUT", "/connections/{conn_id}", "request.set_connection", {"conn_type": "http"}, {"conn_id": "c"}),
    Call("DELETE", "/connections/{conn_id}", "request.delete_connection", places={"conn_id": "c"}),
    Call("POST", "/asset-events?name=x", "request.emit_asset", {}),
    Call("PATCH", "/dags/{dag_id}", "request.pause", {"is_paused": True}, DAG_ID),
    Call("PATCH", "/dags/{dag_id}", "request.unpause", {"is_paused": False}, DAG_ID),
    Call("POST", "/dags/{dag_id}/runs", "request.trigger", {"run_id": "r"}, DAG_ID),
    Call("POST", "/dags/{dag_id}/runs/batch", "request.trigger", {"runs": [{"run_id": "b"}]}, DAG_ID),
    Call("PUT", "/dags/{dag_id}/runs/{run}/note", "request.set_note", {"note": "n"}, RUN),
    Call("PUT", "/dags/{dag_id}/runs/{run}/tasks/{task_id}/note", "request.set_note", {"note": "n"}, TASK),
    Call("POST", "/dags/{dag_id}/runs/{run}/tasks/{task_id}/rendered", "request.render", {}, TASK),
    Call("POST", "/dags/{dag_id}/runs/{run}/tasks/{task_id}/mark", "request.mark_tasks", {"state": "failed"}, TASK),
    Call("POST", "/dags/{dag_id}/runs/{run}/tasks/{task_id}/answer", "request.answer_input", {"options": ["x"]}, TASK),
    Call("POST", "/dags/{dag_id}/runs/{run}/mark", "request.mark_run", {"state": "success"}, RUN),
    Call("POST", "/dags/{dag_id}/runs/{run}/cancel", "request.cancel_run", {}, RUN),
    Call("POST", "/dags/{dag_id}/clear", "request.clear", {"run_ids": ["r"]}, DAG_ID),
    Call("POST", "/bulk", "request.cancel_run", {"action": "cancel", "runs": [{"dag_id": "d", "run_id": "r"}]}),
    Call("POST", "/dags/{dag_id}/release", "request.release_dag", {}, DAG_ID),
    Call("POST", "/backfills", "request.backfill_create", BACKFILL),
    Call("POST", "/backfills/{number}/pause", "request.backfill_pause", {}, {"number": 1}),
    Call("POST", "/backfills/{number}/resume", "request.backfill_resume", {}, {"number": 1}),
    Call("POST", "/backfills/{number}/cancel", "request.backfill_cancel", {}, {"number": 1}),
    Call("PUT", "/dags/{dag_id}/schedules/{name}", "request.schedule_set", {"every": 60}, SCHEDULE),
    Call("POST", "/dags/{dag_id}/schedules/{name}/pause", "request.schedule_pause", {}, SCHEDULE),
    Call("POST", "/dags/{dag_id}/schedules/{name}/resume", "request.schedule_resume", {}, SCHEDULE),
    Call("DELETE", "/dags/{dag_id}/schedules/{name}", "request.schedule_remove", places=SCHEDULE),
    Call("POST", "/commands/{number}/withdraw", "request.withdrawn", {}, {"number": "waiting"}),
    Call("DELETE", "/dags/{dag_id}", "request.delete_dag", places=DAG_ID),
    Call("DELETE", "/sessions/{session}", "session.ended", places={"session": 1}),
    Call("DELETE", "/sessions", "session.ended"),
    Call("POST", "/login", "login", {"name": "ada", "password": PASSWORD}),
    Call("POST", "/logout", "logout"),
]


def test_the_walk_has_every_route_that_changes_something() -> None:
    elsewhere = {("POST", "/api/v1/login/link")}  # at a loopback address: test_loopback_login.py
    assert {(call.method, f"/api/v1{call.path.partition('?')[0]}") for call in CALLS} == WRITING - elsewhere


@pytest.fixture
async def scheduler(dsn: str, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scheduler]:
    await create_user(db, "ada", "admin", await hash_password(PASSWORD))

    @task
    async def a() -> None: ...

    with DAG("d", schedule="@daily", start_date=None) as dag:
        a()
    settings = Settings(web=WebSettings(auth="password"))
    settings.secrets.fernet_keys = new_key()
    async with Scheduler(dsn=dsn, dags=[dag], settings=settings) as scheduler:
        yield scheduler


async def newest(db: Database) -> list[AuditEntry]:
    return await list_entries(db, EntrySelection(), limit=1000)


async def test_each_call_leaves_an_entry_with_who_it_was(scheduler: Scheduler, db: Database) -> None:
    waiting = await db.fetchval("INSERT INTO request (verb, requested_by) VALUES ('pause', 'x') RETURNING id")
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="https://host.example/flows/api/v1/") as browser:
        await log_in(browser, "ada")
        await log_in(browser, "ada")
        for call in CALLS:
            known = {entry.id for entry in await newest(db)}
            places = {name: waiting if value == "waiting" else value for name, value in call.places.items()}
            if call.kind == "alert.acknowledged":
                places = {"number": await db.fetchval(f"{OPEN_ALERT} RETURNING id")}
            path = call.path.format(**places).removeprefix("/")
            answer = await browser.request(call.method, path, json=call.body)
            assert answer.status_code in (200, 201, 202, 204, 404, 409, 422), (call, answer.text)
            await scheduler.wait_idle()
            if answer.is_success and "csrf" in answer.text:
                browser.headers["X-CSRF-Token"] = answer.json()["csrf"]

            new = [entry for entry in await newest(db) if entry.id not in known]
            found = [entry for entry in new if entry.kind == call.kind]
            assert found, (call, answer.status_code, answer.text, new)
            assert found[0].who == "api:ada", call
            assert found[0].address == "127.0.0.1", call
            assert found[0].session_id is not None, call


# ---- commands ----

DIRECT: dict[str, tuple[tuple[str, ...], str | None, str]] = {  # arguments, input, kind; in this order
    "users create": (("ann", "--role", "admin"), f"{PASSWORD}\n", "user.created"),
    "users role": (("bob", "operator"), None, "user.role"),
    "users password": (("bob",), f"{PASSWORD}\n", "user.password"),
    "users disable": (("bob",), None, "user.disabled"),
    "users enable": (("bob",), None, "user.enabled"),
    "users log-out": (("bob",), None, "session.ended"),
    "users grant": (("bob", "viewer", "--tag", "etl"), None, "grant.created"),
    "users ungrant": (("bob", "--tag", "etl"), None, "grant.deleted"),
    "teams create": (("alpha",), None, "team.created"),
    "teams add-folder": (("alpha", "sales"), None, "team.folder.added"),
    "teams move-dag": (("gone", "--team", "alpha"), None, "dag.moved"),
    "teams remove-folder": (("alpha", "sales"), None, "team.folder.removed"),
    "teams delete": (("alpha", "--yes"), None, "team.deleted"),
    "tokens create": (("bob",), None, "token.created"),
    "tokens revoke": (("1",), None, "token.deleted"),
    "users delete": (("bob", "--yes"), None, "user.deleted"),
    "pools set": (("p", "1"), None, "request.set_pool"),
    "pools delete": (("p", "--yes"), None, "request.delete_pool"),
    "pools import": (("-",), '{"q": {"slots": 1}}', "request.set_pool"),
    "airflow": (("pools", "set", "r", "2", "described"), None, "request.set_pool"),
    "alerts acknowledge": (("1",), None, "alert.acknowledged"),
    "alerts pause": (("late",), None, "alert_rule.paused"),
    "alerts resume": (("late",), None, "alert_rule.resumed"),
    "alerts test": (("late", "--wait", "0"), None, "alert_rule.tested"),
    "alerts set": (("new", "--kind", "run_late", "--notifier", "o"), None, "alert_rule.created"),
    "alerts delete": (("new", "--yes"), None, "alert_rule.deleted"),
    "alerts silence": (("--dag", "gone", "--for", "1h", "--reason", "known"), None, "alert.silenced"),
    "alerts unsilence": (("1",), None, "alert.silence.ended"),
    "variables set": (("k", "v"), None, "request.set_variable"),
    "variables get": (("k", "--reveal"), None, "secret.revealed"),
    "variables export": (("-", "--reveal"), None, "secret.revealed"),
    "variables delete": (("k", "--yes"), None, "request.delete_variable"),
    "variables import": (("-",), '{"k": "v"}', "request.set_variable"),
    "connections add": (("c", "--uri", "http://user:hunter2@127.0.0.1:1"), None, "request.set_connection"),
    "connections set": (("c", "--host", "127.0.0.2"), None, "request.set_connection"),
    "connections get": (("c", "--reveal"), None, "secret.revealed"),
    "connections export": (("-", "--reveal"), None, "secret.revealed"),
    "connections test": (("c",), None, "connection.tested"),
    "connections delete": (("c", "--yes"), None, "request.delete_connection"),
    "connections import": (("-",), '{"c": "http://127.0.0.1"}', "request.set_connection"),
    "requests withdraw": (("1",), None, "request.withdrawn"),
    "audit export": ((), None, "audit.exported"),
    "db rotate-keys": ((), None, "request.rotate_keys"),
    "db rotate-signing-key": ((), None, "request.rotate_signing_key"),
    "db fleet": (("--accept-former",), None, "database.changed"),
    "db clean": (("--before", "2021-01-01", "--yes"), None, "database.changed"),
    "db reset": (("--yes",), None, "database.changed"),
}
# The owner of a DAG has an entry made for each when it answers.
ASKING = {
    "dags trigger", "dags pause", "dags unpause", "dags delete", "dags release", "runs clear", "runs mark", "runs note",
    "runs cancel", "runs bulk", "tasks clear", "tasks mark", "tasks note", "tasks bulk", "inputs answer", "assets emit",
    "backfill create", "backfill pause", "backfill resume", "backfill cancel",
    "schedules set", "schedules pause", "schedules resume", "schedules remove",
}  # fmt: skip
OTHERWISE = {  # why there is no row above
    "init": "writes files of an author",
    "pools export": "reads what is no secret",
    "serve": "its settings are an entry, see below",
    "celery worker": "has no database",
    "worker run-attempt": "has no database",
    "providers install": "changes packages of this machine",
    "db migrate": "an entry if something was migrated; tests have migrated databases",
    "db restore": "an entry in the restored database",
    "db backup": "reads",
    "db make-key": "prints",
    "db roles": "changes roles of the server, not rows",
    "web address": "makes a one-time token, whose login is an entry",
    "db shell": "psql, as the role that it logs in with",
    "migrate airflow": "makes the changes of `pools set`, `variables set`, `connections set` and `dags pause`",
}
READING = {
    "grants", "list", "show", "runs", "errors", "next", "check", "checks", "watch", "info", "get", "types", "events",
    "xcoms", "logs", "instances", "silences",
    "render", "test", "sessions", "rules", "doctor", "version", "why", "simulate",
}  # fmt: skip


def test_the_walk_has_every_command_that_changes_something() -> None:
    found = {words for words, _ in commands()} - {*DIRECT, *ASKING, *OTHERWISE}

    assert {words for words in found if words.split()[-1] not in READING} == set()


def test_each_command_leaves_an_entry_with_who_it_was(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())

    async def prepare(db: Database) -> None:
        await create_user(db, "bob", "viewer", "x")
        await add_dag(db, "gone")
        async with db.acquire() as conn:
            await conn.execute("UPDATE dag SET is_stale = true")
            await conn.execute("INSERT INTO request (verb, requested_by) VALUES ('pause', 'x')")
            await conn.execute("INSERT INTO alert_rule (name, kind, notifier) VALUES ('late', 'run_late', 'ops')")
            await conn.execute(OPEN_ALERT)
            old = "INSERT INTO request (verb, requested_by, state, created_at) VALUES ('pause', 'x', 'applied', $1)"
            await conn.execute(old, datetime(2020, 1, 1, tzinfo=UTC))

    on_db.work(prepare)
    for command, (words, typed, kind) in DIRECT.items():
        known = 0 if command == "db reset" else max(entry.id for entry in on_db.work(newest))
        on_db(*command.split(), *words, input=typed, code=None)

        new = [entry for entry in on_db.work(newest) if entry.id > known]
        assert {entry.who.partition(":")[0] for entry in new if entry.kind == kind} == {"cli"}, (command, new)
        assert "hunter2" not in str(new)


async def test_the_settings_of_a_scheduler_are_an_entry_without_secrets(scheduler: Scheduler, db: Database) -> None:
    (entry,) = [entry for entry in await newest(db) if entry.kind == "settings"]

    assert entry.object == "scheduler"
    assert entry.detail["settings"]["web.auth"] == "password"
    assert entry.detail["settings"]["secrets.fernet_keys"] == "set"
    assert scheduler.settings.secrets.fernet_keys not in json.dumps(entry.detail)
