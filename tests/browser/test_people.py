"""Logging in, by password and with a provider, and what each role sees and may, in Chromium."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from playwright.async_api import Browser, BrowserContext, Page, expect

from aiosched.cli.base.page import page_at
from aiosched.config import DatabaseSettings, Settings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.oidc import Provider
from aiosched.web.requests.request_client import RequestClient
from tests.browser.conftest import Service, Tab, serving
from tests.patience import PATIENCE
from tests.web.provider import SETTINGS, FakeProvider

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD = "correct horse battery"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a second web server on the same database that wants a login."""
    home: Path = tmp_path_factory.mktemp("guarded")
    await service.api("POST", "users", json={"name": "admin", "role": "admin", "password": PASSWORD})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosched", "serve", "--role", "web", "--dsn", service.dsn),
        *("--dags", str(service.dags), "--home", str(home), "--port", "0"),
        cwd=home,
        env=os.environ | {"AIOSCHED__WEB__AUTH": "password"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    told = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", told)):
                line = await process.stdout.readline()
                assert line, told
                told += line.decode()
        yield found.group()
    finally:
        process.terminate()
        await process.communicate()


async def log_in(page: Page, name: str, password: str) -> None:
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Log in").click()


async def log_in_elsewhere(context: BrowserContext, address: str, name: str) -> None:
    """Replace the session of all tabs by a new one, as a login in another tab does."""
    answer = await context.request.post(f"{address}/api/v1/login", data={"name": name, "password": PASSWORD})
    assert answer.ok, await answer.text()


async def test_login_and_what_each_role_may(service: Service, browser: Browser, guarded: str) -> None:
    await service.run("troubled", "failed", "to-guard")
    admin = await (await browser.new_context()).new_page()
    door = Tab(admin, guarded)
    for theme in ("dark", "light"):
        await door.open("/users", theme)
        await expect(admin.get_by_role("button", name="Log in")).to_be_visible()
        await door.check_access()
        await door.picture(f"login-{theme}")

    await log_in(admin, "admin", "wrong password")
    await expect(admin.get_by_role("alert")).to_be_visible()
    await log_in(admin, "admin", PASSWORD)
    await admin.get_by_role("button", name="New user …").click()
    dialog = admin.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("vera")
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Add").click()
    await expect(admin.get_by_role("row").filter(has_text="vera")).to_contain_text("viewer")
    await admin.goto(guarded + "/users?tab=teams")
    await admin.get_by_role("button", name="New team …").click()
    await dialog.get_by_label("Name").fill("sellers")
    await dialog.get_by_label("Folder of its DAG files").fill("sales")
    await dialog.get_by_role("button", name="Add").click()
    await expect(admin.get_by_role("row").filter(has_text="sellers")).to_contain_text("sales")
    await Tab(admin, guarded).check_access()
    await admin.goto(guarded + "/users?tab=grants")
    await admin.get_by_role("button", name="New grant …").click()
    await dialog.get_by_label("User").fill("vera")
    await dialog.get_by_label("Name").fill("sellers")
    await dialog.get_by_role("button", name="Grant").click()
    await expect(admin.get_by_role("row").filter(has_text="vera")).to_contain_text("viewer@team:sellers")
    await Tab(admin, guarded).check_access()
    await admin.goto(guarded + "/users?tab=tokens")
    await admin.get_by_role("button", name="New token …").click()
    await admin.get_by_label("Label").fill("a script")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.get_by_text("it is shown only once")).to_be_visible()
    await admin.context.close()

    viewer = await (await browser.new_context()).new_page()
    await viewer.goto(guarded + "/dags/troubled/runs/to-guard")
    await log_in(viewer, "vera", PASSWORD)
    await expect(viewer.get_by_role("heading", level=1)).to_have_text(re.compile("· manual"))
    await expect(viewer.get_by_text("Read only: actions require the operator role")).to_be_visible()
    for words in ("Clear …", "Mark …", "Add note"):
        await expect(viewer.get_by_role("button", name=words)).to_have_count(0)
    for address, told in (
        ("/pools", "Read only"),
        ("/backfills", "Read only"),
        ("/secrets", "Read only"),
        ("/settings", "Administrators only"),
    ):
        await viewer.goto(guarded + address)
        await expect(viewer.get_by_text(told).first).to_be_visible()
    await viewer.context.close()


async def test_a_user_sees_and_ends_the_sessions_of_other_browsers(browser: Browser, guarded: str) -> None:
    there = await (await browser.new_context()).new_page()
    await there.goto(guarded + "/users?tab=sessions")
    await log_in(there, "admin", PASSWORD)
    await expect(there.get_by_text("this one")).to_have_count(1)
    context = await browser.new_context()
    here = Tab(await context.new_page(), guarded)
    page = await here.open("/users?tab=sessions")
    await log_in(page, "admin", PASSWORD)
    await expect(page.get_by_text("this one")).to_have_count(1)
    await here.check_access()
    await here.picture("sessions")

    await page.get_by_role("button", name="Log out everywhere else …").click()
    await page.get_by_role("dialog").get_by_role("button", name="Log out").click()

    await expect(page.get_by_role("button", name="Log out session")).to_have_count(1)
    await expect(page.get_by_text("this one")).to_be_visible()
    await there.context.close()
    await context.close()


async def test_an_action_goes_on_after_a_new_login_in_another_tab(browser: Browser, guarded: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), guarded)
    page = await tab.open("/pools")
    await log_in(page, "admin", PASSWORD)
    await page.get_by_role("button", name="New pool …").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("lasting")
    await log_in_elsewhere(context, guarded, "admin")

    await page.get_by_role("dialog").get_by_role("button", name="Save").click()

    await expect(page.get_by_role("region", name="Pool lasting")).to_be_visible()
    await expect(page.get_by_text("You are now logged in")).to_have_count(0)
    await context.close()
    assert not [one for one in tab.wrong if not re.search("401|403", one)]


async def test_an_action_is_not_done_for_another_user(service: Service, browser: Browser, guarded: str) -> None:
    await service.api("POST", "users", json={"name": "olga", "role": "operator", "password": PASSWORD})
    context = await browser.new_context()
    tab = Tab(await context.new_page(), guarded)
    page = await tab.open("/dags?tag=large")
    await log_in(page, "admin", PASSWORD)
    for dag_id in ("wide", "vast"):
        await page.get_by_role("checkbox", name=f"Select {dag_id}").check()
    await page.get_by_role("button", name="Pause", exact=True).click()
    button = page.get_by_role("dialog").get_by_role("button", name="Pause 2 DAGs")
    await expect(button).to_be_enabled()
    await log_in_elsewhere(context, guarded, "olga")

    async with page.expect_request("**/api/v1/stream*"):  # of the other user
        await button.click()

    await expect(page.get_by_text("You are now logged in as olga.")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main")).to_contain_text("olga · operator")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    paused = [dag["is_paused"] for dag in (await service.api("GET", "dags?tag=large"))["items"]]
    assert paused == [False, False]
    await context.close()
    assert not [one for one in tab.wrong if not re.search("401|403", one)]


async def test_a_service_account_gets_a_token_from_an_administrator(browser: Browser, guarded: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), guarded)
    page = await tab.open("/users")
    await log_in(page, "admin", PASSWORD)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="New user …").click()
    await dialog.get_by_label("Name").fill("robot")
    await dialog.get_by_label("Service account").check()
    await expect(dialog.get_by_label("Password")).to_have_count(0)
    await expect(dialog.locator("code").last).to_have_text("aiosched users create robot --role viewer --service")
    await tab.check_access()
    await dialog.get_by_role("button", name="Add").click()
    row = page.get_by_role("row").filter(has_text="robot")
    await expect(row).to_contain_text("service account")

    await row.get_by_role("button", name="New token for robot").click()
    await dialog.get_by_label("Label").fill("nightly report")
    await dialog.get_by_label("Read only").check()
    await tab.check_access()
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog).to_contain_text("it is shown only once")
    await page.get_by_role("button", name="Done").click()
    await page.goto(guarded + "/users?tab=tokens")
    await expect(page.get_by_role("row").filter(has_text="nightly report")).to_contain_text("read only")
    await context.close()
    assert not [one for one in tab.wrong if "401" not in one]


async def test_the_printed_address_logs_in_once_and_a_reload_stays_in(service: Service, browser: Browser) -> None:
    db = Database(service.dsn, DatabaseSettings(), "test")
    await db._open_pool()
    app = make_app(RequestClient(db, Settings()), listens=True)
    first, second = await browser.new_context(), await browser.new_context()
    async with serving(app) as url:
        address = (await page_at(Settings(), db, url)).url.removeprefix(url)
        tab = Tab(await first.new_page(), url)
        page = await tab.open(address)
        await expect(page).to_have_url(f"{url}/")
        await expect(page.get_by_role("navigation", name="Main")).to_contain_text("local · admin")
        await page.reload()
        await expect(page.get_by_role("navigation", name="Main")).to_contain_text("local · admin")
        await page.goto(url + address)  # from the terminal, once more
        await expect(page.get_by_role("navigation", name="Main")).to_contain_text("local · admin")

        other = Tab(await second.new_page(), url)
        page = await other.open(address)
        await expect(page.get_by_role("alert")).to_contain_text("was already used")
        await expect(page).to_have_url(f"{url}/?refused=used-link")
        await other.check_access()
        await other.picture("login-token")
        await page.get_by_label("Login link or its token").fill("http://127.0.0.1/?token=wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator("#login-error")).to_contain_text("aiosched web address")
        await page.get_by_label("Login link or its token").fill((await page_at(Settings(), db, url)).url)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("navigation", name="Main")).to_contain_text("local · admin")
        await first.close()
        await second.close()
    await db.close()
    assert not [one for one in (*tab.wrong, *other.wrong) if "401" not in one]


async def test_people_and_tokens_are_changed_and_taken_away(browser: Browser, guarded: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), guarded)
    tab.expected.append("401")  # before the login
    page = await tab.open("/users")
    await log_in(page, "admin", PASSWORD)
    await page.get_by_role("button", name="New user …").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("otto")
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Add").click()
    row = page.get_by_role("row").filter(has_text="otto")

    await row.get_by_role("button", name="Change otto").click()
    await dialog.get_by_label("Role").select_option(value="operator")
    await expect(dialog.locator("code")).to_have_text("aiosched users role otto operator")
    await dialog.get_by_label("New password").fill("another password")
    both = "aiosched users role otto operator && aiosched users password otto"
    await expect(dialog.locator("code")).to_have_text(both)
    await dialog.get_by_label("New password").fill("")
    await tab.check_access()
    await dialog.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("operator")
    await row.get_by_role("button", name="Disable …").click()
    await expect(dialog).to_contain_text("Their sessions end immediately")
    await dialog.get_by_role("button", name="Disable").click()
    await expect(row).to_contain_text("disabled")
    await tab.picture("users")
    await row.get_by_role("button", name="Delete otto").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(row).to_have_count(0)

    await page.get_by_role("link", name="Tokens", exact=True).click()
    await page.get_by_role("button", name="New token …").click()
    await dialog.get_by_label("Label").fill("a robot")
    await dialog.get_by_role("button", name="Create").click()
    await page.get_by_role("button", name="Done").click()
    await page.get_by_role("button", name="Revoke a robot").click()
    await dialog.get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("row").filter(has_text="a robot")).to_have_count(0)

    await page.route("**/api/v1/logout", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_text("You are still logged in: no database")).to_be_visible()
    await page.unroute("**/api/v1/logout")
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("button", name="Log in")).to_be_visible()
    await context.close()
    assert not [one for one in tab.wrong if "401" not in one and "503" not in one]


async def test_one_logs_in_with_a_provider_comes_back_to_the_page_and_out_again(
    service: Service, browser: Browser
) -> None:
    """The provider is a fake: its page is served here, what the server asks of it is answered by the transport."""
    fake = FakeProvider(groups=["staff"])
    pages = FastAPI()

    @pages.get("/authorization")
    async def agree(request: Request) -> RedirectResponse:
        answer = httpx2.QueryParams(fake.agree(str(request.url)))
        return RedirectResponse(f"{fake.asked['redirect_uri']}?{answer}", status_code=302)

    @pages.get("/logout")
    async def end(request: Request) -> RedirectResponse:
        ended.append(request.query_params["id_token_hint"])
        return RedirectResponse(request.query_params["post_logout_redirect_uri"], status_code=302)

    ended: list[str] = []
    db = Database(service.dsn, DatabaseSettings(), "test")
    await db._open_pool()
    app = make_app(RequestClient(db, Settings(web=SETTINGS)))
    await app.state.provider.close()
    app.state.provider = Provider(SETTINGS, transport=httpx2.MockTransport(fake))
    context = await browser.new_context()
    async with serving(pages) as provider, serving(app) as url:
        fake.page = f"{provider}/authorization"
        fake.more = {"end_session_endpoint": f"{provider}/logout"}
        tab = Tab(await context.new_page(), url)
        tab.expected += ["401", provider]
        page = await tab.open("/dags/wide?tab=code")
        button = page.get_by_role("link", name="Log in with your organisation")
        await expect(button).to_be_visible()
        await tab.check_access()
        await tab.picture("login-oidc")

        fake.groups = ["strangers"]
        await button.click()
        await expect(page.get_by_role("alert")).to_contain_text("you have no role")
        await tab.check_access()
        fake.groups = ["staff"]
        await page.goto(f"{url}/dags/wide?tab=code")
        await button.click()
        await expect(page).to_have_url(f"{url}/dags/wide?tab=code")
        await expect(page.get_by_role("navigation", name="Main")).to_contain_text("ann · viewer")
        await page.get_by_role("button", name="Log out").click()
        await expect(page).to_have_url(f"{url}/")
        await expect(button).to_be_visible()
        assert len(ended) == 1
        await context.close()
    await db.close()
    assert not [one for one in tab.wrong if not any(part in one for part in tab.expected)]
