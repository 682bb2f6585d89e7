"""The audit log knows who did what, from where; nobody changes an entry, and nobody fills the disk with entries."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.core.audit.actor import Actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit import reading, repeated
from aiosched.db.audit.entries import NewEntry, record
from aiosched.db.audit.reading import AuditEntry, EntrySelection
from aiosched.db.people.accounts import create_user
from aiosched.db.schema import tables
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, client_of, log_in

ADDRESS = "127.0.0.1"  # of a client over ASGI
OLD = datetime(2020, 1, 1, tzinfo=UTC)


async def entries(db: Database, kind: str | None = None) -> list[AuditEntry]:
    return await reading.list_entries(db, EntrySelection(kind=kind), limit=1000)


def brief(entry: AuditEntry) -> tuple[str, str, str | None, str]:
    return entry.kind, entry.who, entry.object, entry.result


@pytest.fixture
async def app(db: Database) -> FastAPI:
    for name, role in (("ada", "admin"), ("vera", "viewer")):
        await create_user(db, name, role, await hash_password(PASSWORD))
    return make_app(RequestClient(db, Settings(web=WebSettings(auth="password"))))


async def test_a_login_and_a_logout_say_who_from_where_and_in_which_session(app: FastAPI, db: Database) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "ada")
        await browser.post("logout")

    out, came = (await entries(db))[:2]
    assert brief(came) == ("login", "api:ada", "ada", "done")
    assert brief(out) == ("logout", "api:ada", "ada", "done")
    assert came.session_id == out.session_id is not None
    assert came.address == out.address == ADDRESS


async def test_refused_logins_of_a_name_are_one_entry_and_their_count_follows(app: FastAPI, db: Database) -> None:
    async with client_of(app) as browser:
        for _ in range(4):
            await log_in(browser, "vera", "wrong")

    (first,) = await entries(db, AuditKind.LOGIN_REFUSED)
    assert (brief(first), first.address) == (("login.refused", "anonymous", "vera", "refused"), ADDRESS)

    await end_the_minute(db)
    count, _ = await entries(db, AuditKind.LOGIN_REFUSED)
    assert (brief(count), count.times) == (brief(first), 3)


async def end_the_minute(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("UPDATE audit_repeated SET until = now()")
        await repeated.write_down(conn)


async def test_invented_names_and_addresses_do_not_fill_the_log(db: Database) -> None:
    for name in range(50):
        by = Actor("anonymous", "192.0.2.1")
        await repeated.record_repeated(db, NewEntry(AuditKind.LOGIN_REFUSED, f"n{name}", by=by))
    assert len(await entries(db)) == repeated.MOST_OF_AN_ADDRESS + 1

    await db.execute(
        "INSERT INTO audit_repeated "
        "SELECT n::text, now() + interval '1 hour', 0, 'k', 'w', n::text, 'o', NULL, '{}' "
        "FROM generate_series(1, $1) AS n",
        repeated.MOST,
    )
    for number in range(50):
        by = Actor("anonymous", f"198.51.100.{number}")
        await repeated.record_repeated(db, NewEntry(AuditKind.LOGIN_REFUSED, "root", by=by))
    assert len(await entries(db)) == repeated.MOST_OF_AN_ADDRESS + 2


async def test_what_a_user_may_not_do_is_in_the_log(app: FastAPI, db: Database) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "vera")
        for _ in range(3):
            assert (await browser.get("users")).status_code == 403

    (entry,) = await entries(db, AuditKind.REFUSED)
    assert brief(entry) == ("refused", "api:vera", "GET /api/v1/users", "refused")
    assert entry.detail == {"code": "role-too-low"}
    assert entry.session_id is not None


async def test_users_and_tokens_are_in_the_log_with_who_changed_them(app: FastAPI, db: Database) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "ada")
        await browser.post("users", json={"name": "bob", "password": PASSWORD, "role": "viewer"})
        await browser.patch("users/bob", json={"role": "operator", "password": "another one", "is_disabled": True})
        await browser.patch("users/bob", json={"is_disabled": False})
        await browser.delete("users/bob")
        token = (await browser.post("tokens", json={"label": "ci", "role": "viewer"})).json()
        await browser.delete(f"tokens/{token['facts']['id']}")

    found = await entries(db)
    assert [brief(entry) for entry in reversed(found) if entry.who == "api:ada"][1:] == [
        ("user.created", "api:ada", "bob", "done"),
        ("user.role", "api:ada", "bob", "done"),
        ("user.disabled", "api:ada", "bob", "done"),
        ("user.password", "api:ada", "bob", "done"),
        ("user.enabled", "api:ada", "bob", "done"),
        ("user.deleted", "api:ada", "bob", "done"),
        ("token.created", "api:ada", str(token["facts"]["id"]), "done"),
        ("token.deleted", "api:ada", str(token["facts"]["id"]), "done"),
    ]
    written = json.dumps([entry.detail for entry in found])
    assert PASSWORD not in written
    assert token["token"] not in written


async def test_an_answered_request_is_in_the_log_with_its_actor_and_without_its_conf(db: Database) -> None:
    insert = """
        INSERT INTO request (dag_id, partition, verb, args, requested_by, reason, address, session_id)
        VALUES ('etl', 1, 'trigger', $1, 'api:ada', 'why not', '192.0.2.1', 7) RETURNING id
    """
    async with db.acquire() as conn:
        args = {"run_id": "r1", "conf": {"password": "hunter2"}, "unpause": True}
        number = await conn.fetchval(insert, json.dumps(args))
        assert await entries(db) == []
        await conn.execute("UPDATE request SET state = 'applied', applied_at = now() WHERE id = $1", number)

    (entry,) = await entries(db)
    assert brief(entry) == ("request.trigger", "api:ada", "r1", "done")
    assert (entry.dag_id, entry.address, entry.session_id, entry.command_id) == ("etl", "192.0.2.1", 7, number)
    assert entry.detail["arguments"] == {"run_id": "r1", "conf": {"password": "***"}, "unpause": True}
    assert entry.detail["reason"] == "why not"


@pytest.mark.parametrize("args", ['{"\\u0000": 1}', "[1]", '"x"', '{"a": "' + "x" * 200_000 + '"}', "{}"])
async def test_arguments_that_cannot_be_read_cost_no_request_its_answer(db: Database, args: str) -> None:
    async with db.acquire() as conn:
        await conn.execute("INSERT INTO request (verb, args, requested_by) VALUES ('trigger', $1, 'x')", args)
        await conn.execute("UPDATE request SET state = 'refused'")

    (entry,) = await entries(db)
    assert entry.result == "refused"
    assert len(json.dumps(entry.detail)) < 5_000


async def test_requests_that_are_answered_together_have_an_entry_each_and_one_that_cannot_be_read_spoils_no_other(
    db: Database,
) -> None:
    async with db.acquire() as conn:
        for args in ('{"run_id": "r1"}', '{"\\u0000": 1}', '{"run_id": "r3"}'):
            await conn.execute("INSERT INTO request (verb, args, requested_by) VALUES ('trigger', $1, 'x')", args)
        await conn.execute("UPDATE request SET attempts = 1")
        assert await entries(db) == []
        await conn.execute("UPDATE request SET state = 'applied'")
        await conn.execute("UPDATE request SET reason = 'later', state = 'refused'")  # answered already

    found = sorted(await entries(db), key=lambda entry: entry.command_id or 0)
    assert [brief(entry)[2:] for entry in found] == [("r1", "done"), (None, "done"), ("r3", "done")]
    assert [entry.detail.get("arguments") for entry in found] == [{"run_id": "r1"}, None, {"run_id": "r3"}]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET who = 'nobody'",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
        "UPDATE audit_log SET id = DEFAULT",
    ],
)
async def test_nobody_changes_an_entry_not_even_the_owner_of_the_table(db: Database, statement: str) -> None:
    async with db.acquire() as conn:
        await record(conn, AuditKind.LOGIN, "ada")

        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="entries of audit_log are not changed"):
            await conn.execute(statement)

    assert len(await entries(db)) == 1


async def insert_old(conn: Any, number: int) -> None:
    await conn.execute(
        "INSERT INTO audit_log (at, kind, who) SELECT $1, 'login', 'x' FROM generate_series(1, $2)", OLD, number
    )


async def test_only_old_entries_are_removed_a_few_at_a_time(db: Database) -> None:
    async with db.acquire() as conn:
        await insert_old(conn, 5)
        await record(conn, AuditKind.LOGIN, "ada")

        removed = [await reading.purge(conn, datetime.now(UTC) + timedelta(days=1), limit=3) for _ in range(3)]

    assert removed == [3, 2, 0]
    assert [entry.object for entry in await entries(db)] == ["ada"]


async def test_the_role_of_the_application_adds_reads_and_purges_and_nothing_else(db: Database) -> None:
    async with db.transaction() as conn:
        await insert_old(conn, 2)
        await conn.execute("CREATE ROLE audit_application")
        for table, rights in tables.GRANTS.items():
            await conn.execute(f"GRANT {', '.join(rights)} ON {table} TO audit_application")
        for function, rights in tables.FUNCTION_GRANTS.items():
            await conn.execute(f"GRANT {', '.join(rights)} ON FUNCTION {function} TO audit_application")
        await conn.execute("SET LOCAL ROLE audit_application")

        await record(conn, AuditKind.LOGIN, "ada")
        assert await reading.purge(conn, datetime.now(UTC), limit=10) == 2
        for statement in ("UPDATE audit_log SET who = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
                async with conn.transaction():
                    await conn.execute(statement)

        await conn.execute("RESET ROLE")
        await conn.execute("DROP OWNED BY audit_application")
        await conn.execute("DROP ROLE audit_application")


async def test_an_export_has_every_entry_as_a_line_and_is_one_itself(app: FastAPI, db: Database) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "ada")
        lines = (await browser.get("audit/export")).text.splitlines()
        rest = (await browser.get("audit/export", params={"after": json.loads(lines[0])["id"], "limit": 2})).text
        some = (await browser.get("audit/export", params={"kind": "login", "result": "done", "dag_id": "d"})).text
        seen = (await browser.get("audit", params={"kind": "user."})).json()["items"]

    exported = [json.loads(line) for line in lines]
    assert [entry["kind"] for entry in exported] == ["user.created", "user.created", "login", "audit.exported"]
    assert [json.loads(line)["id"] for line in rest.splitlines()] == [entry["id"] for entry in exported[1:3]]
    assert some == ""
    assert [(entry["kind"], entry["object"]) for entry in seen] == [("user.created", "vera"), ("user.created", "ada")]


async def test_an_export_of_some_says_which_ones_were_asked_for(app: FastAPI) -> None:
    chosen = {"kind": "login", "who": "ada", "object": "x", "dag_id": "d", "result": "refused"}
    async with client_of(app) as browser:
        await log_in(browser, "ada")
        asked = await browser.get("audit/export", params={**chosen, "since": "2026-01-01T00:00:00Z"})
        [entry] = (await browser.get("audit", params={"kind": "audit.exported"})).json()["items"]

    assert (asked.status_code, asked.text) == (200, "")
    assert entry["detail"]["selection"] == {**chosen, "since": "2026-01-01 00:00:00+00:00"}


async def test_only_administrators_read_the_log(app: FastAPI) -> None:
    async with client_of(app) as browser:
        await log_in(browser, "vera")

        assert [(await browser.get(path)).status_code for path in ("audit", "audit/export")] == [403, 403]


def test_the_documentation_names_each_kind() -> None:
    table = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8").partition("## Kinds")[2]
    named = {name for row in re.findall(r"^\| (`.+?) \|", table, re.M) for name in re.findall(r"`([a-z_.]+)…?`", row)}

    assert {kind.value for kind in AuditKind} | {"request."} <= named


def test_the_documentation_has_the_rights_of_the_schema() -> None:
    table = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8").partition("## Who can change it")[2]
    rows = re.findall(r"^\| (`.+?`) \| ([A-Z, ]+)", table, re.M)
    found = {
        name: tuple(rights.strip().split(", ")) for names, rights in rows for name in re.findall(r"`(.+?)`", names)
    }

    assert found == {**tables.GRANTS, **tables.FUNCTION_GRANTS}
