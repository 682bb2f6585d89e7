"""At a loopback address without `web.auth` every user and program of the machine is nobody without a token."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.cli.base.page import WebPage, offered_page, page_at, served_address
from aiosched.config import CoreSettings, Settings, WebSettings
from aiosched.db.audit import reading
from aiosched.db.audit.reading import EntrySelection
from aiosched.db.people import accounts, local_logins
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_token
from aiosched.web.requests.request_client import RequestClient
from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for

URL = "http://127.0.0.1:8484"


def app_of(db: Database, web: WebSettings | None = None) -> FastAPI:
    """What `aiosched serve` serves at a loopback address."""
    return make_app(RequestClient(db, Settings(web=web or WebSettings())), listens=True)


@pytest.fixture
def app(db: Database) -> FastAPI:
    return app_of(db)


def browser_of(app: FastAPI, url: str = URL) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"{url}/api/v1/")


async def offer(db: Database) -> str:
    """The one-time token of an address that is printed now."""
    page = await page_at(Settings(), db, URL)
    return page.url.removeprefix(f"{URL}/?token=")


async def log_in(browser: httpx2.AsyncClient, token: str) -> httpx2.Response:
    answer = await browser.post("login/link", json={"token": token})
    if answer.is_success:
        browser.headers["X-CSRF-Token"] = answer.json()["csrf"]
    return answer


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_nobody_without_the_token_reads_or_changes_anything(app: FastAPI) -> None:
    async with browser_of(app) as stranger:
        answers = [
            await stranger.get("dags"),
            await stranger.get("me"),
            await stranger.post("users", json={"name": "eve", "role": "admin", "password": "correct horse"}),
            await stranger.post("tokens", json={"label": "x", "role": "admin"}),
            await stranger.get("dags", headers={"Authorization": "Bearer nonsense"}),
            await stranger.post("login/link", json={"token": "guess"}),
            await stranger.post("login/link", json={"token": hash_token("guess")}),
        ]

    assert [answer.status_code for answer in answers] == [401] * 7


async def test_the_printed_address_logs_in_once_and_the_session_lasts(db: Database, app: FastAPI) -> None:
    token = await offer(db)
    async with browser_of(app) as browser, browser_of(app) as other:
        first = await log_in(browser, token)
        again = await log_in(other, token)
        reloaded = await browser.get("me")
        changed = await browser.post("tokens", json={"label": "ci"})
        cookies = dict(browser.cookies)

    async with browser_of(app_of(db)) as later:  # the server was restarted
        later.cookies.update(cookies)
        after = await later.get("me")

    assert (first.json()["name"], first.json()["role"], first.json()["login"]) == ("local", "admin", "token")
    assert (again.status_code, again.json()["code"]) == (401, "wrong-login")
    assert "aiosched web address" in again.json()["detail"]
    assert [reloaded.status_code, changed.status_code, after.status_code] == [200, 201, 200]


async def test_a_change_needs_the_token_of_the_session(db: Database, app: FastAPI) -> None:
    async with browser_of(app) as browser:
        await log_in(browser, await offer(db))
        del browser.headers["X-CSRF-Token"]

        assert (await browser.post("tokens", json={"label": "ci"})).json()["code"] == "csrf"


async def test_a_token_is_too_old_after_a_day(db: Database, app: FastAPI) -> None:
    token = await offer(db)
    await db.execute("UPDATE login_link SET expires_at = now()")

    async with browser_of(app) as browser:
        assert (await log_in(browser, token)).status_code == 401
    assert await db.fetchval("SELECT count(*) FROM login_link") == 0


async def test_the_rows_do_not_have_the_tokens(db: Database, app: FastAPI) -> None:
    token = await offer(db)
    async with browser_of(app) as browser:
        (stored,) = await db.fetch("SELECT token_hash FROM login_link")
        assert (await log_in(browser, stored["token_hash"])).status_code == 401
        assert (await log_in(browser, token)).status_code == 200


async def test_a_name_of_another_site_is_not_answered(app: FastAPI) -> None:
    async with browser_of(app, "http://evil.example") as browser:
        assert (await browser.get("login")).status_code == 421


async def test_the_cookie_tells_databases_of_one_machine_apart(db: Database, app: FastAPI) -> None:
    """Browsers send the cookies of a host to all of its ports."""
    async with browser_of(app) as browser:
        answer = await log_in(browser, await offer(db))
        (name,) = [name for name in answer.cookies if name.startswith("aiosched_session")]
        token = answer.cookies[name]
        await db.execute("UPDATE web_user SET created_at = created_at - interval '1 s'")
        async with browser_of(app_of(db)) as elsewhere:
            other = await log_in(elsewhere, await offer(db))

    assert name not in other.cookies
    assert token not in other.cookies.values()


async def test_the_audit_log_knows_addresses_logins_and_refusals_but_no_token(db: Database, app: FastAPI) -> None:
    token = await offer(db)
    async with browser_of(app) as browser:
        await log_in(browser, token)
        await log_in(browser, token)

    found = await reading.list_entries(db, EntrySelection(), limit=10)
    assert [(entry.kind, entry.object, entry.address) for entry in reversed(found)] == [
        ("user.created", "local", None),
        ("link.created", "local", None),
        ("login", "local", "127.0.0.1"),
        ("login.refused", "local", "127.0.0.1"),
    ]
    assert token not in repr(found)
    assert hash_token(token) not in repr(found)


async def test_programs_of_this_machine_use_tokens(db: Database, app: FastAPI) -> None:
    async with browser_of(app) as browser, browser_of(app) as program:
        await log_in(browser, await offer(db))
        made = (await browser.post("tokens", json={"label": "ci", "role": "operator"})).json()
        program.headers["Authorization"] = f"Bearer {made['token']}"
        me = (await program.get("me")).json()

    assert (me["name"], me["role"]) == ("local", "operator")


async def test_where_people_log_in_the_user_of_this_machine_is_nobody(db: Database, app: FastAPI) -> None:
    async with browser_of(app) as browser:
        await log_in(browser, await offer(db))
        made = (await browser.post("tokens", json={"label": "ci", "role": "admin"})).json()
        (session,) = [value for name, value in browser.cookies.items() if name.startswith("aiosched_session")]
    unused = await offer(db)

    guarded = app_of(db, WebSettings(auth="password"))
    async with browser_of(guarded) as browser:
        by_token = await browser.get("me", headers={"Authorization": f"Bearer {made['token']}"})
        by_link = await browser.post("login/link", json={"token": unused})
        by_password = await browser.post("login", json={"name": "local", "password": ""})
        browser.cookies.set("aiosched_session", session)
        by_cookie = await browser.get("me")

    statuses = [answer.status_code for answer in (by_token, by_link, by_password, by_cookie)]
    assert statuses == [401, 409, 401, 401]
    assert await accounts.count_people(db) == 0


async def test_a_namesake_is_not_taken_over(db: Database) -> None:
    await accounts.create_user(db, "local", "viewer", "hash")

    with pytest.raises(Refused, match="there is a person of that name"):
        await page_at(Settings(), db, URL)


async def test_who_is_removed_comes_back_with_the_next_address_only(
    db: Database, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    async with browser_of(app) as browser:
        await log_in(browser, await offer(db))
        await accounts.delete_user(db, local_logins.LOCAL)
        assert (await browser.get("me")).status_code == 401
        assert (await log_in(browser, await offer(db))).status_code == 200
        await accounts.change_user(db, local_logins.LOCAL, is_disabled=True)
        assert (await browser.get("me")).status_code == 401
        assert (await log_in(browser, await offer(db))).status_code == 403


async def test_a_setting_gives_this_machine_back_to_all_of_its_users(db: Database) -> None:
    web = WebSettings(loopback_login="none")
    async with browser_of(app_of(db, web)) as browser:
        me = (await browser.get("me")).json()
    page = await page_at(Settings(web=web), db, URL)

    assert (me["name"], me["role"], me["login"]) == ("local", "admin", "none")
    assert (page.url, page.login) == (URL, "no login: every user and program of this machine is an administrator")


@pytest.mark.parametrize(
    ("web", "shown"),
    [
        (WebSettings(prefix="/flows"), f"{URL}/flows"),
        (WebSettings(base_url="https://flows.example/", prefix="/flows"), "https://flows.example"),
    ],
)
async def test_the_address_is_that_for_people(db: Database, web: WebSettings, shown: str) -> None:
    settings = Settings(web=web)

    assert (await page_at(settings, db, URL)).url.partition("?")[0] == f"{shown}/"
    assert (await page_at(settings, db, URL, "/runs?state=failed")).url.startswith(f"{shown}/runs?state=failed&token=")


async def test_only_its_user_reads_the_files_with_an_address(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_browser(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", open_browser)
    settings = Settings(core=CoreSettings(home=tmp_path))
    (tmp_path / "open.html").write_text("old")
    (tmp_path / "open.html").chmod(0o666)
    async with offered_page(settings, db, URL) as page:
        page.open()
        modes = modes_in(tmp_path)
        text = (tmp_path / "open.html").read_text()
        known = served_address(settings)

    token = page.url.partition("token=")[2]
    assert modes == {"open.html": 0o600, "web.address": 0o600}
    assert (token in text, token in opened[0], known) == (True, False, URL)  # arguments of processes can be read
    assert modes_in(tmp_path) == {}
    assert served_address(settings) == URL


async def test_a_server_needs_no_folder_to_write_to(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async with offered_page(Settings(core=CoreSettings(home=tmp_path / "file")), db, URL) as page:
        assert not page.open()
        assert page.url.startswith(f"{URL}/?token=")


def test_a_file_that_leads_a_browser_adds_nothing_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    WebPage('http://[::1]:1/"><script>', "", tmp_path).open()

    assert "<script>" not in (tmp_path / "open.html").read_text()


def test_serve_prints_its_address_and_a_command_makes_one_that_logs_in(dsn: str, tmp_path: Path) -> None:
    cli = Cli(dsn, tmp_path / "home")
    with serve(tmp_path, dsn, "--port", "0", "--role", "web") as process:
        told = wait_for(process, "web")
        wait_for(process, "ready")
        answers = []
        for _ in range(2):
            url, _, token = cli.json(*told["login"].partition("aiosched ")[2].split())["url"].partition("/?token=")
            assert url == told["url"]
            with httpx2.Client(base_url=f"{url}/api/v1/", timeout=60, trust_env=False) as client:
                refused = client.get("dags")
                allowed = client.post("login/link", json={"token": token})
            answers.append((refused.status_code, allowed.status_code))
        process.terminate()
        _, said = process.communicate(timeout=60)

    assert answers == [(401, 200), (401, 200)]
    assert "token=" not in f"{told}{said}"  # what is piped is kept, and others may read it
    assert told["page"] == f"{told['url']}/"
