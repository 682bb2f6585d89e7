"""Pages while the database, the scheduler or the web server is away: each says so, none waits for ever, and all are
right again by themselves.

Chromium itself writes a line on its console for each request that fails; nothing else may be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from aiosched.db.statements.ownership import LOCK_CLASS
from tests.browser.conftest import Tab, told_url
from tests.suspending import OwnServer, own_server

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF_CHROMIUM: Final = "Failed to load resource"
DAG: Final = """
from aiosched import dag, task

@dag()
def sales():
    @task
    async def load(): ...
    load()

sales()
"""
PAGES: Final = [
    *("Home", "DAGs", "Runs", "Backfills", "Assets", "Input", "Pools", "Schedulers", "Import errors", "Requests"),
    *("Secrets", "Settings", "Users and tokens", "Audit"),
]
# Notes what a page asks for although it knows that the database is away. How much it asks before it knows, and after it
# has not heard for four seconds, depends on the machine.
NOTE_WHAT_IS_ASKED_IN_VAIN: Final = """async () => {
    const {knownOutage} = await import(new URL("ui/lib/freshness.js", document.baseURI));
    const ask = window.fetch;
    Object.assign(window, {knownOutage, inVain: []});
    window.fetch = (...given) => {
        if (knownOutage()) window.inVain.push(String(given[0]));
        return ask(...given);
    };
}"""


class Part:
    """A process of `aiosched serve` with some roles."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home, self.options = home, options
        self.url = ""
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[bytes] | None = None

    async def start(self) -> None:
        errors = self.home / f"errors-{self.options[1]}.log"
        with errors.open("ab") as file:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aiosched", "serve", "--home", str(self.home), *self.options),
                env=os.environ | {"AIOSCHED__WEB__LOOPBACK_LOGIN": "none"},
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
            )
        assert self._process.stdout is not None
        self.url = await told_url(self._process.stdout, errors, has_url="web" in self.options)
        self._reading = asyncio.create_task(self._process.stdout.read())

    async def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading


class Site:
    """A database, a scheduler and a web server, each of which can be taken away."""

    def __init__(self, postgres: OwnServer, scheduler: Part, web: Part) -> None:
        self.postgres, self.scheduler, self.web = postgres, scheduler, web


@pytest_asyncio.fixture(loop_scope="session")
async def site(short_path: Path) -> AsyncIterator[Site]:
    (short_path / "dags").mkdir()
    (short_path / "dags" / "sales.py").write_text(DAG)
    with own_server(short_path / "pg") as postgres:
        common = ["--dsn", postgres.start(), "--dags", str(short_path / "dags")]
        scheduler = Part(short_path, "--role", "scheduler,parser", *common, "--executor", "inline", "--migrate")
        web = Part(short_path, "--role", "web", *common, "--port", "0")
        try:
            await scheduler.start()
            await web.start()
            web.options = (*web.options[:-1], web.url.rpartition(":")[2])
            yield Site(postgres, scheduler, web)
        finally:
            postgres.resume()
            await scheduler.kill()
            await web.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def tabs(site: Site, browser: Browser) -> AsyncIterator[tuple[Tab, Tab]]:
    """Two open pages; what only Chromium says of failed requests is no complaint."""
    context = await browser.new_context()
    tabs = (Tab(await context.new_page(), site.web.url), Tab(await context.new_page(), site.web.url))
    yield tabs
    await context.close()
    wrong = [one for tab in tabs for one in tab.wrong if OF_CHROMIUM not in one]
    assert not wrong, "\n".join(wrong)


async def walk(page: Page) -> None:
    """Go to each page: it has its heading, and what it shows is there or said to be missing."""
    menu = page.get_by_role("navigation", name="Main")
    for name in PAGES:
        await menu.get_by_role("link", name=name, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("status", name="loading")).to_have_count(0)


async def says(page: Page, words: str | re.Pattern[str], foot: str) -> None:
    await expect(page.locator(".banner")).to_contain_text(words)
    await expect(page.locator(".side .foot")).to_contain_text(foot)


async def is_well(page: Page) -> None:
    await expect(page.locator(".banner")).to_have_text("")
    await expect(page.locator(".side .foot")).to_contain_text("Live")
    await expect(page.locator("main")).not_to_have_class(re.compile("stale"))
    await expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("how", ["suspended", "killed"])
async def test_a_database_that_is_away(site: Site, tabs: tuple[Tab, Tab], how: str) -> None:
    first, second = tabs
    home, pools = await first.open("/"), await second.open("/pools")
    await expect(home.get_by_role("region", name="Health")).to_contain_text("answers in")
    await expect(pools.get_by_role("region", name="Pool default_pool")).to_be_visible()
    await is_well(home)
    await home.evaluate(NOTE_WHAT_IS_ASKED_IN_VAIN)

    site.postgres.suspend() if how == "suspended" else site.postgres.kill()
    for page in (home, pools):
        words = re.compile(r"Database unreachable since \d\d:\d\d:\d\d UTC; showing data from \d\d:\d\d:\d\d\.")
        await says(page, words, "Database unreachable")
        await expect(page.locator("main")).to_have_class(re.compile("stale"))
    health = home.get_by_role("region", name="Health")
    await expect(health.get_by_role("link", name="database")).to_contain_text("unreachable")
    await expect(health.get_by_role("link", name="parser")).to_contain_text("unknown")
    await expect(pools.get_by_role("region", name="Pool default_pool")).to_be_visible()
    await first.check_access()
    await first.picture(f"database-{how}")
    await home.wait_for_function("knownOutage()")
    await walk(home)
    await expect(home.get_by_role("alert").first).to_contain_text("Database unavailable")
    assert await home.evaluate("inVain") == []

    site.postgres.resume() if how == "suspended" else site.postgres.start()
    for page in (home, pools):
        await is_well(page)
    await expect(pools.get_by_role("region", name="Pool default_pool")).to_be_visible()
    await walk(home)
    await is_well(home)


async def test_a_page_that_is_opened_while_the_database_hangs(site: Site, tabs: tuple[Tab, Tab]) -> None:
    site.postgres.suspend()
    page = await tabs[0].open("/runs")

    await expect(page.get_by_role("alert")).to_contain_text("Database unavailable")
    site.postgres.resume()

    await is_well(page)


async def test_a_scheduler_that_is_away(site: Site, tabs: tuple[Tab, Tab]) -> None:
    page = await tabs[0].open("/runs")
    await is_well(page)

    await site.scheduler.kill()
    await says(page, re.compile(r"No scheduler running since \d\d:\d\d:\d\d UTC"), "Live")
    await expect(page.locator("main")).not_to_have_class(re.compile("stale"))
    await tabs[0].check_access()
    await walk(page)
    await site.scheduler.start()

    await is_well(page)


async def test_machines_of_schedulers_that_differ(site: Site, tabs: tuple[Tab, Tab]) -> None:
    page = await tabs[0].open("/runs")
    await is_well(page)
    conn = await asyncpg.connect(site.web.options[3])
    try:
        number = await conn.fetchval(
            """INSERT INTO scheduler (name, hostname, pid, version, executor, slots, draining, started_at,
                                      lease_expires_at, figures)
               VALUES ('two', 'h', 1, '1', 'inline', 1, true, now(), now() + interval '1 h',
                       '{"remarks": ["lacks sales.py, which one has"]}') RETURNING incarnation"""
        )
        await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, number % 2**31)

        await says(page, "two lacks sales.py, which one has. aiosched doctor says more.", "Live")
        await expect(page.locator("main")).not_to_have_class(re.compile("stale"))
        await tabs[0].check_access()
    finally:
        await conn.close()

    await is_well(page)


async def test_a_web_server_that_is_away(site: Site, tabs: tuple[Tab, Tab]) -> None:
    page = await tabs[0].open("/runs")
    await is_well(page)

    await site.web.kill()
    await says(page, "Connection lost; data may be stale", "Disconnected")
    await expect(page.locator("main")).to_have_class(re.compile("stale"))
    await walk(page)
    await site.web.start()

    await is_well(page)
    await walk(page)
