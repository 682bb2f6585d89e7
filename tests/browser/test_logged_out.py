"""A session that has ended: the page says so, whatever ended it and whatever the page does then, and goes on after a
login where it was."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from aiosched.config import DatabaseSettings, Settings, WebSettings
from aiosched.db.people import accounts, web_sessions
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import live
from tests.browser.conftest import Service, Tab, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD = "correct horse battery"
NAME, OTHER = "lena", "otto"


class Site(NamedTuple):
    """A web server that wants a password, and its database."""

    url: str
    db: Database


@pytest_asyncio.fixture(loop_scope="session")
async def site(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(live, "ASK_SECONDS", 0.2)
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    db = Database(service.dsn, DatabaseSettings(), "test")
    await db._open_pool()
    await accounts.create_user(db, NAME, "editor", await hash_password(PASSWORD))
    await accounts.create_user(db, OTHER, "editor", await hash_password(PASSWORD))
    async with serving(make_app(RequestClient(db, Settings(web=WebSettings(auth="password"))), listens=True)) as url:
        yield Site(url, db)
    await accounts.delete_user(db, NAME)
    await accounts.delete_user(db, OTHER)
    await db.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context()
    yield context
    await context.close()


async def log_in(page: Page, name: str = NAME) -> None:
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_label("Password")).to_have_count(0)  # before that, what is done is done logged out


async def opened(context: BrowserContext, site: Site, path: str) -> Page:
    """A page of somebody who is logged in, with its stream."""
    page = await context.new_page()
    await page.goto(site.url + path)
    if not await context.cookies():
        await log_in(page)
    await expect(page.locator(".side .foot")).to_contain_text("Live")
    return page


async def by_an_administrator(site: Site) -> None:
    assert (await web_sessions.end_sessions(site.db, NAME)).sessions >= 1


async def by_time(site: Site) -> None:
    await site.db.execute("UPDATE web_session SET expires_at = now()")


async def by_a_new_password(site: Site) -> None:
    await accounts.change_user(site.db, NAME, password=await hash_password(PASSWORD))


async def by_another_role(site: Site) -> None:
    await accounts.change_user(site.db, NAME, role="viewer")


async def is_out(page: Page) -> None:
    await expect(page.get_by_text("You are logged out.")).to_be_visible()
    await expect(page.get_by_text("Connection lost")).to_have_count(0)


@pytest.mark.parametrize(
    "end",
    [
        by_an_administrator,
        pytest.param(by_time, marks=pytest.mark.slow),
        pytest.param(by_a_new_password, marks=pytest.mark.slow),
        pytest.param(by_another_role, marks=pytest.mark.slow),
    ],
)
async def test_a_page_that_nobody_touches_says_that_one_is_logged_out(
    context: BrowserContext, site: Site, end: Callable[[Site], Awaitable[None]]
) -> None:
    page = await opened(context, site, "/dags/wide?tab=code")

    await end(site)
    await is_out(page)
    await log_in(page)

    await expect(page).to_have_url(f"{site.url}/dags/wide?tab=code")
    await expect(page.get_by_role("heading", level=1)).to_have_text("wide")
    await expect(page.locator(".side .foot")).to_contain_text("Live")
    await expect(page.locator(".banner")).to_have_text("")


@pytest.mark.slow
async def test_nothing_is_asked_any_more_while_one_is_logged_out(context: BrowserContext, site: Site) -> None:
    page = await opened(context, site, "/runs")
    await by_an_administrator(site)
    await is_out(page)
    await page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    await page.clock.run_for(120_000)

    await expect(page.get_by_role("button", name="Log in")).to_be_visible()
    assert asked == []


@pytest.mark.slow
async def test_a_button_and_an_action_on_many(
    context: BrowserContext, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ASK_SECONDS", 1e6)  # the stream notices nothing
    page = await opened(context, site, "/dags?tag=large")
    for dag_id in ("wide", "vast"):
        await page.get_by_role("checkbox", name=f"Select {dag_id}").check()
    await page.get_by_role("button", name="Pause", exact=True).click()
    button = page.get_by_role("dialog").get_by_role("button", name="Pause 2 DAGs")
    await expect(button).to_be_enabled()

    async def end_before(route: Route) -> None:  # else whatever the page reads in between may be what is refused first
        if route.request.method != "GET":
            await web_sessions.end_sessions(site.db, NAME)
        await route.continue_()

    await page.route("**/api/v1/dags/*", end_before)
    await button.click()

    await is_out(page)
    await log_in(page)
    await expect(page.get_by_role("checkbox", name="Select wide")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.slow
async def test_a_login_and_a_logout_are_those_of_all_tabs(
    context: BrowserContext, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ASK_SECONDS", 1e6)
    first, second = await opened(context, site, "/runs"), await opened(context, site, "/pools")

    await first.get_by_role("button", name="Log out").click()
    await is_out(second)
    await log_in(first)

    await expect(second.get_by_role("region", name="Pool default_pool")).to_be_visible()
    await expect(second.locator(".side .foot")).to_contain_text("Live")


@pytest.mark.slow
async def test_a_page_that_comes_back_to_the_front(context: BrowserContext, site: Site) -> None:
    page = await opened(context, site, "/runs")
    await page.clock.install()
    hide = """(hidden) => {
        Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    await page.evaluate(hide, True)
    await page.clock.run_for(6_000)  # it has no stream any more
    await by_an_administrator(site)

    await page.evaluate(hide, False)

    await is_out(page)


@pytest.mark.slow
async def test_a_stream_that_one_may_not_read_any_more_is_no_outage_either(
    service: Service, context: BrowserContext, site: Site
) -> None:
    page = await opened(context, site, "/runs")
    problem = {"code": "forbidden", "detail": "This needs the role viewer."}
    await page.route("**/api/v1/stream*", lambda route: route.fulfill(status=403, json=problem))

    await page.reload()

    await expect(page.locator(".banner")).to_contain_text("You may not see changes any more")
    await expect(page.locator(".banner")).to_contain_text("This needs the role viewer.")
    await page.unroute("**/api/v1/stream*")
    await page.reload()
    await expect(page.locator(".banner")).to_have_text("")


@pytest.mark.slow
async def test_the_page_looks_well(context: BrowserContext, site: Site) -> None:
    page = await opened(context, site, "/runs")
    await by_an_administrator(site)
    await is_out(page)

    tab = Tab(page, site.url)
    await tab.check_access()
    await tab.picture("logged-out")


LINKS = "document.body.insertAdjacentHTML('beforeend', `<a href='${base}' download='kept.json' id='file'>File</a>`)"


async def test_a_download_of_somebody_who_is_logged_out_leads_to_the_login_and_back(
    context: BrowserContext, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ASK_SECONDS", 1e6)  # the stream notices nothing
    page = await opened(context, site, "/dags/wide?tab=code")
    await page.evaluate(LINKS.replace("${base}", "api/v1/dags/wide"))
    async with page.expect_download() as inside:
        await page.locator("#file").click()
    assert (await (await inside.value).path()).read_text().startswith("{")
    await by_an_administrator(site)

    await page.locator("#file").click()
    await is_out(page)
    await log_in(page)

    await expect(page).to_have_url(f"{site.url}/dags/wide?tab=code")
    async with page.expect_download() as again:
        await page.locator("#file").click()
    assert (await again.value).suggested_filename == "kept.json"


@pytest.mark.parametrize("path", ["/api/v1/dags/wide", "/api/v1/openapi.json", "/metrics"])
async def test_an_address_that_is_opened_without_a_session_is_opened_again_after_the_login(
    context: BrowserContext, site: Site, path: str
) -> None:
    """As a link to a log that is opened in a new tab, or comes in a mail."""
    page = await context.new_page()
    answer = await page.goto(site.url + path)
    assert answer is not None
    assert answer.status == 401
    await is_out(page)

    async with page.expect_response(site.url + path) as again:
        await log_in(page)

    assert (await again.value).status == 200
    await expect(page.get_by_role("button")).to_have_count(0)  # what was opened is shown, and no page of ours
    await expect(page).to_have_url(site.url + path)


async def with_secrets(page: Page) -> None:
    """The form of `choices` has a secret param, and one with a secret part, too."""

    async def answer(route: Route) -> None:
        found = await (response := await route.fetch()).json()
        text = {"type": "string"}
        found["spec"]["params"] |= {
            "pin": {"value": None, "json_schema": {"type": ["string", "null"], "format": "password"}},
            "login": {
                "value": {},
                "json_schema": {"type": "object", "properties": {"code": text | {"format": "password"}}},
            },
            "api_key": {"value": "", "json_schema": text},
        }
        await route.fulfill(response=response, json=found)

    await page.route("**/api/v1/dags/choices/versions/*", answer)


async def kept(page: Page) -> str:
    return str(await page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})"))


async def test_a_run_that_was_being_triggered_is_filled_in_again_without_secrets(
    context: BrowserContext, site: Site
) -> None:
    page = await opened(context, site, "/dags/choices")
    await with_secrets(page)
    await page.get_by_role("button", name="Trigger …").click()
    dialog = page.get_by_role("dialog", name="Trigger choices")
    texts = {"city": "Utrecht", "days": "9", "letter": "Dear all", "more": '{"b": 2}', "Run id": "by-hand"}
    for label, text in texts.items():
        await dialog.get_by_label(label, exact=label != "days").fill(text)
    await dialog.get_by_label("loud").check()
    for label, text in {"pin": "s3cr3t-1", "login": '{"code": "s3cr3t-2"}', "api_key": "s3cr3t-3"}.items():
        await dialog.get_by_label(label, exact=True).fill(text)
    await dialog.get_by_text("More conf").click()
    await dialog.get_by_label("Configuration (conf)").fill('{"x": {"db_password": "s3cr3t-4"}}')

    await by_an_administrator(site)
    await is_out(page)
    while_out = await kept(page)
    await log_in(page)

    for label, text in texts.items():
        await expect(dialog.get_by_label(label, exact=label != "days")).to_have_value(text)
    await expect(dialog.get_by_label("loud")).to_be_checked()
    for label, text in {"pin": "", "login": "{}", "api_key": "", "Configuration (conf)": ""}.items():
        await expect(dialog.get_by_label(label, exact=label == "pin")).to_have_value(text)
    assert "Utrecht" in while_out
    assert "s3cr3t" not in while_out
    assert "Utrecht" not in await kept(page)
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Trigger …").click()
    await expect(dialog.get_by_label("city")).to_have_value("Amsterdam")


async def test_what_one_person_has_typed_is_not_shown_to_another_nor_kept_for_later(
    context: BrowserContext, site: Site
) -> None:
    page = await opened(context, site, "/dags/choices?trigger=1")
    dialog = page.get_by_role("dialog", name="Trigger choices")
    await dialog.get_by_label("city").fill("Utrecht")
    await by_an_administrator(site)
    await is_out(page)

    await log_in(page, OTHER)
    await expect(dialog.get_by_label("city")).to_have_value("Amsterdam")
    held = await kept(page)
    await web_sessions.end_sessions(site.db, OTHER)
    await is_out(page)
    await log_in(page)

    await expect(dialog.get_by_label("city")).to_have_value("Amsterdam")
    assert "Utrecht" not in held


Field = tuple[str, str]
DIALOGS: dict[str, tuple[str, str, list[Field], list[Field]]] = {  # page, button, what is kept, what is not
    "backfill": ("/dags/daily", "Backfill …", [("From", "2026-01-02"), ("Conf, a JSON object", '{"a": 1}')], []),
    "connection": (
        "/secrets?tab=connections",
        "New connection …",
        [("Id", "warehouse"), ("Type", "postgres"), ("Host", "db.example"), ("Description", "ours")],
        [("Password", "s3cr3t-1"), ("Extra", '{"key": "s3cr3t-2"}')],
    ),
    "variable": (
        "/secrets?tab=variables",
        "New variable …",
        [("Key", "region"), ("Description", "where")],
        [("Value", "s3cr3t-1")],
    ),
    "pool": ("/pools", "New pool …", [("Name", "narrow"), ("Slots", "3"), ("Description", "of the bridge")], []),
    "note": ("/dags/wide/runs/day-001", "Add note", [("What others should know", "looked at it")], []),
}


@pytest.mark.parametrize("kind", DIALOGS)
async def test_other_forms_are_filled_in_again(context: BrowserContext, site: Site, kind: str) -> None:
    path, button, typed, secret = DIALOGS[kind]
    page = await opened(context, site, path)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name=button).click()
    if kind == "backfill":
        await dialog.get_by_text("Conf of the runs").click()
    for label, text in [*typed, *secret]:
        await dialog.get_by_label(label, exact=True).fill(text)

    await by_an_administrator(site)
    await is_out(page)
    while_out = await kept(page)
    await log_in(page)
    if kind != "backfill":  # it is in the address
        await page.get_by_role("button", name=button).click()

    for label, text in typed:
        await expect(dialog.get_by_label(label, exact=True)).to_have_value(text)
    for label, _ in secret:
        await expect(dialog.get_by_label(label, exact=True)).to_have_value("")
    assert "s3cr3t" not in while_out


@pytest.mark.slow
async def test_the_choices_of_clear_and_mark_are_kept_for_the_same_tasks(context: BrowserContext, site: Site) -> None:
    page = await opened(context, site, "/dags/wide/runs/day-002")
    dialog = page.get_by_role("dialog")
    for button, choose in (("Clear", "Only failed"), ("Mark", None)):
        await page.get_by_role("button", name=re.compile(rf"^{button}")).first.click()
        await (dialog.get_by_label(choose).check() if choose else dialog.get_by_label("State").select_option("failed"))
        await by_an_administrator(site)
        await is_out(page)
        await log_in(page)

        await page.get_by_role("button", name=re.compile(rf"^{button}")).first.click()

        if choose:
            await expect(dialog.get_by_label(choose)).to_be_checked()
        else:
            await expect(dialog.get_by_label("State")).to_have_value("failed")
        await dialog.get_by_role("button", name="Cancel").click()
