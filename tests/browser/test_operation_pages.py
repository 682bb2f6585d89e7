"""The pages of operations in Chromium, on the real service: pools, backfills, assets, secrets, people."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, expect

from tests.browser.conftest import Service, Tab
from tests.browser.test_run_pages import SIDEWAYS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD = "correct horse battery"


async def test_runs_are_filtered_by_the_address(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "in-the-list")
    await service.run("making", "success", "in-the-list")
    page = await tab.open("/runs?search=in-the-list")

    await expect(page.get_by_role("row")).to_have_count(3)
    await page.get_by_role("button", name="failed").click()
    await expect(page).to_have_url(re.compile("state=failed"))
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("link", name="in-the-list").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("in-the-list")


async def test_a_pool_is_changed_in_place_after_a_look(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/narrow", json={"slots": 2, "description": "a narrow bridge"})
    page = await tab.open("/pools?pool=narrow")
    card = page.get_by_role("region", name="Pool narrow")

    await expect(card.get_by_text("of 2 used, 2 open")).to_be_visible()
    await card.get_by_role("spinbutton", name="Slots").fill("5")
    await card.get_by_role("button", name="Set").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 slots become 5 slots")
    await expect(dialog.locator("code")).to_have_text("aiosched pools set narrow 5")
    await dialog.get_by_role("button", name="Set 5").click()

    await expect(card.get_by_text("of 5 used, 5 open")).to_be_visible()
    assert (await service.api("GET", "pools/narrow"))["slots"] == 5


async def test_a_backfill_is_looked_at_made_paused_and_ends(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/days", json={"slots": 0})
    page = await tab.open("/backfills?dag_id=daily&make=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From (UTC)").fill("2026-02-01")
    await dialog.get_by_label("To, inclusive (UTC)").fill("2026-02-03")

    await dialog.get_by_role("button", name="Show what it would do").click()
    await expect(dialog.get_by_text("a run is made")).to_have_count(3)
    await tab.check_access()
    await tab.picture("backfill-dialog")
    await dialog.get_by_role("button", name="Run 3 dates").click()

    row = page.get_by_role("row").filter(has_text="daily")
    await expect(row).to_contain_text("0 of 3")
    await row.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("dialog")).to_contain_text("3 of its 3 runs are not finished")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await service.api("PUT", "pools/days", json={"slots": 4})
    await expect(row).to_contain_text("3 of 3", timeout=20_000)
    await expect(row).to_contain_text("completed", timeout=20_000)


async def test_an_event_is_emitted_and_the_lineage_drawn(service: Service, tab: Tab) -> None:
    page = await tab.open("/assets/report")

    await page.get_by_role("button", name="Emit an event …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("link", name="waiting")).to_be_visible()
    await dialog.get_by_label("Extra").fill('{"rows": 3')
    await expect(dialog.get_by_role("button", name="Emit")).to_be_disabled()
    await dialog.get_by_label("Extra").fill('{"rows": 3}')
    await dialog.get_by_role("button", name="Emit").click()

    await expect(page.get_by_role("row").filter(has_text='{"rows":3}')).to_contain_text("a person")
    await page.goto(service.url + "/assets?tab=lineage")
    await expect(page.get_by_role("link", name="asset report")).to_be_visible()
    await page.get_by_role("link", name="DAG waiting").click()
    await expect(page).to_have_url(re.compile("/dags/waiting$"))


async def test_what_is_in_a_variable_or_a_connection_is_never_shown(service: Service, tab: Tab) -> None:
    heard: list[str] = []
    reading: list[asyncio.Future[str]] = []
    page = await tab.open("/secrets")

    page.on("request", lambda request: heard.append(request.url))
    page.on("requestfinished", lambda request: reading.append(asyncio.ensure_future(_body(request))))
    await page.get_by_role("button", name="New variable …").click()
    await page.get_by_label("Key").fill("token")
    await page.get_by_label("Value").fill("open-sesame")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("row").filter(has_text="token")).to_contain_text("••••••")

    await page.get_by_role("link", name="Connections").click()
    await page.get_by_role("button", name="New connection …").click()
    await page.get_by_label("Id").fill("warehouse")
    await page.get_by_label("Type").fill("postgres")
    await page.get_by_label("Password").fill("open-sesame")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("row").filter(has_text="warehouse")).to_contain_text("postgres")
    await page.get_by_role("button", name="Replace warehouse").click()
    await expect(page.get_by_label("Password")).to_have_value("")
    await page.keyboard.press("Escape")

    assert "open-sesame" not in await page.content()
    heard += await asyncio.gather(*reading)
    assert '"warehouse"' in "".join(heard)
    assert "open-sesame" not in "".join(heard)


async def _body(request: Request) -> str:
    response = await request.response()
    return "" if response is None or response.status == 204 else await response.text()


async def test_import_errors_point_at_the_line(service: Service, tab: Tab) -> None:
    frame = "broken.py:2:1\n  1 | import this\n> 2 | import that\n    | ^^^^^^^^^^^\n  3 |"
    conn = await asyncpg.connect(service.dsn)
    try:
        await conn.execute(
            "INSERT INTO dag_file (file, partition, parsed_at, error, error_line, code_frame, traceback)"
            " VALUES ('broken.py', 0, now(), 'ModuleNotFoundError: No module named ''that''', 2, $1, 'Traceback …')",
            frame,
        )
        for theme in ("light", "dark"):
            page = await tab.open("/import-errors", theme)
            await expect(page.locator(".frame .at")).to_have_text(re.compile("> 2 | import that"))
            await expect(page.get_by_text("Traceback …")).to_be_hidden()
            await tab.check_access()
        await page.get_by_text("Traceback", exact=True).click()
        await expect(page.get_by_text("Traceback …")).to_be_visible()
    finally:
        await conn.execute("DELETE FROM dag_file WHERE file = 'broken.py'")
        await conn.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_is_accessible_and_narrow_enough(service: Service, tab: Tab, theme: str) -> None:
    await service.run("making", "success", f"to-check-{theme}")
    for address, shown in (
        ("/runs", f"to-check-{theme}"),
        ("/pools?pool=default_pool", "Nobody waits."),
        ("/schedulers", "64 of 64 owned"),
        ("/backfills", "Backfills"),
        ("/assets?tab=lineage", "an asset"),
        ("/assets/report", "Events"),
        ("/audit", "trigger"),
        ("/secrets", "never shown"),
        ("/settings?search=parallelism", "core.parallelism"),
        ("/users", "needs no login"),
    ):
        page = await tab.open(address, theme)
        await expect(page.get_by_text(shown).first).to_be_visible()
        await tab.check_access()
        await tab.picture(f"{re.sub('[^a-z]+', '-', address).strip('-')}-{theme}")
        await page.set_viewport_size({"width": 420, "height": 900})
        assert not await page.evaluate(SIDEWAYS), f"{address} is wider than a phone"


# ---- people ----


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a second web server on the same database that wants a login."""
    home: Path = tmp_path_factory.mktemp("guarded")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosched", "serve", "--role", "web", "--dsn", service.dsn),
        *("--dags", str(service.dags), "--home", str(home), "--port", "0"),
        cwd=home,
        env=os.environ | {"AIOSCHED__WEB__AUTH": "password", "AIOSCHED__WEB__ADMIN_PASSWORD": PASSWORD},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    told = ""
    try:
        async with asyncio.timeout(60):
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
    await admin.goto(guarded + "/users?tab=tokens")
    await admin.get_by_role("button", name="New token …").click()
    await admin.get_by_label("What it is for").fill("a script")
    await admin.get_by_role("button", name="Make").click()
    await expect(admin.get_by_text("it is shown this once")).to_be_visible()
    await admin.context.close()

    viewer = await (await browser.new_context()).new_page()
    await viewer.goto(guarded + "/dags/troubled/runs/to-guard")
    await log_in(viewer, "vera", PASSWORD)
    await expect(viewer.get_by_role("heading", level=1)).to_have_text("to-guard")
    await expect(viewer.get_by_text("Read only: acting needs the role operator")).to_be_visible()
    for words in ("Clear …", "Mark …", "Write a note"):
        await expect(viewer.get_by_role("button", name=words)).to_have_count(0)
    for address, told in (
        ("/pools", "Read only"),
        ("/backfills", "Read only"),
        ("/secrets", "Read only"),
        ("/settings", "Only for administrators"),
    ):
        await viewer.goto(guarded + address)
        await expect(viewer.get_by_text(told).first).to_be_visible()
    await viewer.context.close()
