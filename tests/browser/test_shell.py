"""What every page has around it: keys, focus, times, themes, and words for what is not there, in Chromium."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, Route, expect

from aiosched import DAG, EmptyOperator
from aiosched.config import Settings, WebSettings
from aiosched.scheduler import Scheduler
from tests.browser.conftest import Service, Tab, serving
from tests.databases import TEMPLATE, Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOCUS = "document.activeElement.id || document.activeElement.textContent.trim()"


async def focus(tab: Tab) -> str:
    return str(await tab.page.evaluate(FOCUS))


# ---- keys and focus ----


async def test_two_keys_win_over_one_and_a_dialog_keeps_the_keyboard_to_itself(tab: Tab) -> None:
    page = await tab.open("/dags/wide?tab=details")
    await expect(page.get_by_role("button", name="Trigger …")).to_be_visible()

    await tab.two_keys("g", "r")  # the second one alone triggers
    await expect(page).to_have_url(re.compile("/runs$"))

    await page.go_back()
    await expect(page.get_by_role("button", name="Trigger …")).to_be_visible()
    await page.keyboard.press("r")
    dialog = page.get_by_role("dialog", name="Trigger wide")
    await expect(dialog.get_by_label("Run id")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel").focus()
    await tab.two_keys("g", "d")
    await page.keyboard.press("3")
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.keyboard.press("3")
    await expect(page).to_have_url(re.compile("tab=gantt"))


async def test_a_dialog_gives_the_focus_back_to_what_opened_it(tab: Tab) -> None:
    page = await tab.open("/pools")
    opener = page.get_by_role("button", name="New pool …")

    await opener.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    await page.keyboard.press("Escape")

    await expect(opener).to_be_focused()


async def test_the_focus_goes_along_to_another_page(tab: Tab) -> None:
    page = await tab.open("/")
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()

    await page.keyboard.press("Tab")
    assert await focus(tab) == "Skip to main content"
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Requests").focus()
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_focused()


# ---- times and themes ----


async def test_one_key_turns_all_times_from_utc_to_local_and_stays(browser: Browser, service: Service) -> None:
    context = await browser.new_context(timezone_id="Asia/Tokyo")
    tab = Tab(await context.new_page(), service.url)
    page = await tab.open("/dags/wide/runs/day-100")
    started = page.get_by_role("definition").filter(has=page.locator("time")).last.locator("time")
    utc = await started.inner_text()

    await page.keyboard.press("t")
    await expect(started).not_to_have_text(utc)
    local = await started.inner_text()
    assert (int(local[11:13]) - int(utc[11:13])) % 24 == 9
    await page.reload()

    await expect(page.get_by_role("button", name="Asia/Tokyo")).to_be_visible()
    await expect(started).to_have_text(local)
    await context.close()
    assert not tab.wrong


async def test_a_theme_is_chosen_and_stays(tab: Tab) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    page = await tab.open("/runs", "light")
    light = await page.evaluate(ground)

    await page.get_by_label("Theme").select_option(label="Dark")
    dark = await page.evaluate(ground)
    await page.reload()

    assert light != dark
    assert await page.evaluate(ground) == dark
    await page.get_by_label("Theme").select_option(label="System")
    assert await page.evaluate(ground) == light


async def test_compact_rows_are_chosen_and_stay(tab: Tab) -> None:
    page = await tab.open("/dags", width=1440)
    row = page.get_by_role("row").nth(1)
    await expect(row).to_be_visible()
    high = (await row.bounding_box() or {})["height"]

    await page.get_by_role("combobox", name="Rows").select_option(label="Compact")
    low = (await row.bounding_box() or {})["height"]
    await page.reload()
    await expect(row).to_be_visible()

    assert low < high
    assert (await row.bounding_box() or {})["height"] == low
    await tab.looks_well("dags-compact")
    await page.get_by_role("combobox", name="Rows").select_option(label="Comfortable")
    assert (await row.bounding_box() or {})["height"] == high


async def test_the_address_holds_the_tab_and_the_filters_through_reload_and_back(tab: Tab) -> None:
    page = await tab.open("/dags/wide?tab=runs")
    await tab.filter("State", "failed")
    await expect(page).to_have_url(re.compile("state=failed"))
    await expect(page.get_by_role("row")).to_have_count(12)
    await page.get_by_role("link", name="day-099").click()
    await expect(page.locator(".run-id", has_text="day-099")).to_be_visible()

    await page.go_back()
    await expect(page.get_by_role("row")).to_have_count(12)
    await page.reload()

    await expect(page.get_by_role("row")).to_have_count(12)
    await expect(page.get_by_role("button", name="State is failed: change")).to_be_visible()


# ---- what is not there ----


async def test_a_page_that_is_being_read_shows_that_it_is(tab: Tab) -> None:
    go_on = asyncio.Event()

    async def late(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    await tab.page.route("**/api/v1/pools*", late)
    page = await tab.open("/pools")
    await expect(page.get_by_role("status", name="loading")).to_be_visible()
    await tab.check_access()
    await tab.picture("loading")
    go_on.set()

    await expect(page.get_by_role("region", name="Pool default_pool")).to_be_visible()
    await expect(page.get_by_role("status", name="loading")).to_have_count(0)


async def test_what_cannot_be_read_says_why_and_is_tried_again(tab: Tab) -> None:
    tab.expected.append("503")  # the browser logs every such answer
    words = "The database does not answer: it is being restarted."
    answer = {"status": 503, "json": {"code": "database", "detail": words}}
    await tab.page.route("**/api/v1/runs*", lambda route: route.fulfill(**answer))
    page = await tab.open("/runs")

    await expect(page.get_by_role("alert")).to_contain_text(words)
    await tab.check_access()
    await tab.picture("error")
    async with page.expect_request("**/api/v1/runs*"):
        await page.get_by_role("button", name="Try again").click()
    await page.unroute_all()
    await expect(page.get_by_role("row").first).to_be_visible()  # it is read again by itself, too


@pytest.mark.parametrize(("asked", "path"), [("runs*", "/runs"), ("dags/wide", "/dags/wide")], ids=["list", "thing"])
async def test_what_a_network_has_cut_off_once_is_read_again_by_itself(tab: Tab, asked: str, path: str) -> None:
    """As when a laptop changes its network, or an interface is made on a server."""
    tab.expected.append("ERR_CONNECTION_RESET")
    await tab.page.route(f"**/api/v1/{asked}", lambda route: route.abort("connectionreset"), times=1)
    page = await tab.open(path)

    await expect(page.get_by_role("alert")).to_contain_text("No connection")
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_role("row").first).to_be_visible()


async def test_what_cannot_be_read_anew_stays_and_says_that_it_is_old(service: Service, tab: Tab) -> None:
    tab.expected.append("503")
    page = await tab.open("/pools?pool=default_pool")
    await expect(page.get_by_text("No task is waiting.")).to_be_visible()
    await tab.page.route("**/api/v1/runs*", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    await page.goto(service.url + "/runs")
    await expect(page.get_by_role("alert")).to_contain_text("no database")
    await page.unroute_all()
    await expect(page.get_by_role("row").first).to_be_visible()

    await tab.page.route("**/api/v1/runs*", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    await service.run("making", "success", "after-the-failure")  # its news make the page read

    await expect(page.get_by_text("This may be out of date, reloading failed: no database")).to_be_visible()
    await expect(page.get_by_role("row").first).to_be_visible()


async def test_a_server_that_is_away_from_the_start_is_told_and_tried_again_by_itself(tab: Tab) -> None:
    tab.expected.append("Failed to load resource")
    await tab.page.route("**/api/v1/me", lambda route: route.abort())
    page = await tab.open("/pools")

    await expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    await page.unroute_all()
    await expect(page.get_by_role("heading", name="Pools")).to_be_visible()


async def test_a_page_that_hears_no_news_says_so_until_it_does(tab: Tab) -> None:
    tab.expected.append("Failed to load resource")
    tab.expected.append("stream")
    opened_at = datetime.now(UTC)
    await tab.page.clock.set_fixed_time(opened_at)  # however long the page takes
    await tab.page.route("**/api/v1/stream*", lambda route: route.abort())
    page = await tab.open("/pools")
    await expect(page.get_by_role("heading", name="Pools")).to_be_visible()
    told = page.get_by_text("Connection lost; data may be stale")
    await expect(told).to_have_count(0)

    await page.clock.set_fixed_time(opened_at + timedelta(seconds=10))
    await expect(told).to_be_visible()
    await tab.check_access()
    await tab.picture("no-news")
    await page.unroute_all()

    await expect(told).to_have_count(0)
    await expect(page.get_by_role("navigation", name="Main")).to_contain_text("Live")


@pytest.mark.parametrize("hours", [-26, 26])
async def test_ages_are_those_of_the_server_on_a_machine_whose_clock_is_wrong(
    service: Service, tab: Tab, hours: int
) -> None:
    await service.run("stages", "failed", f"clock{hours}")
    await tab.page.clock.install(time=datetime.now(UTC) + timedelta(hours=hours))
    page = await tab.open("/runs?time=1h")

    row = page.get_by_role("row").filter(has_text=f"clock{hours}")
    await expect(row).to_contain_text(re.compile(r"\d\s[sm] ago"))
    await expect(row).not_to_contain_text(re.compile(r"\d\s[dh] |in \d"))


@pytest.mark.parametrize("path", ["/nowhere", "/dags/100%/runs", "/dags/%ff"])
async def test_an_address_without_a_page_says_so(tab: Tab, path: str) -> None:
    page = await tab.open(path)

    await expect(page.get_by_text("There is no page at this address")).to_be_visible()
    await page.get_by_role("link", name="Go home").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()


# ---- under a prefix ----


async def test_everything_works_inside_another_application_under_a_prefix(server: Server, browser: Browser) -> None:
    dsn = await server.create(TEMPLATE)
    with DAG("sales", schedule=None) as dag:
        EmptyOperator(task_id="load")
    settings = Settings(web=WebSettings(auth="none"))
    app = FastAPI()
    async with Scheduler(dsn=dsn, dags=[dag], settings=settings) as scheduler:
        app.mount("/data/flows", scheduler.web_app())
        async with serving(app) as url:
            context = await browser.new_context()
            tab = Tab(await context.new_page(), f"{url}/data/flows")
            page = await tab.open("/dags")
            await page.get_by_role("link", name="sales").click()
            await expect(page).to_have_url(f"{url}/data/flows/dags/sales")
            await page.get_by_role("button", name="Trigger …").click()
            await page.get_by_label("Run id").fill("by-hand")
            await page.get_by_role("dialog").get_by_role("button", name="Trigger", exact=True).click()
            await expect(page.get_by_role("gridcell")).to_contain_text("manual run, success")  # news come, too
            await page.get_by_role("button", name="Open").click()
            await expect(page).to_have_url(f"{url}/data/flows/dags/sales/runs/by-hand")
            await page.get_by_role("link", name="load").click()
            await expect(page).to_have_url(f"{url}/data/flows/dags/sales/runs/by-hand/tasks/load")
            await expect(page.locator("header .state")).to_contain_text("success")
            await context.close()
            assert not tab.wrong
    await server.drop(dsn)


BACKGROUND = "Object.defineProperty(document, 'hidden', {get: () => window.inBackground ?? true})"


async def test_tabs_in_the_background_leave_a_connection_to_the_others(tab: Tab) -> None:
    """Each stream takes one, and without HTTP/2 a browser has six to a server."""
    others = [await tab.page.context.new_page() for _ in range(8)]
    for other in others:
        await other.add_init_script(BACKGROUND)
        await other.goto(f"{tab.url}/runs")
        await expect(other.get_by_role("row").first).to_be_visible()
    await expect((await tab.open("/runs")).get_by_role("row").first).to_be_visible()


async def test_a_tab_in_front_again_is_up_to_date_and_one_in_the_background_has_no_stream(
    service: Service, tab: Tab
) -> None:
    turn = "window.inBackground = {}; document.dispatchEvent(new Event('visibilitychange'))"
    await tab.page.add_init_script(BACKGROUND)
    page = await tab.open("/runs")
    await expect(page.get_by_role("row").first).to_be_visible()
    await service.run("making", "success", "in-the-background")
    async with page.expect_request("**/api/v1/stream*"):
        await page.evaluate(turn.format("false"))
    await expect(page.get_by_role("link", name="in-the-background")).to_be_visible()

    async with page.expect_event("requestfailed", lambda request: "/api/v1/stream" in request.url):
        await page.evaluate(turn.format("true"))
    await service.run("making", "success", "later")
    await page.evaluate(turn.format("false"))
    await expect(page.get_by_role("link", name="later", exact=True)).to_be_visible()
