"""A page that is read from a replica: what it is told of it shows, and how old it is it says."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from aiosched.config import DatabaseSettings, Settings
from aiosched.core.fleet import replicas
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from aiosched.db.statements.run_changes import publish_runs
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import replica_watch
from aiosched.web.views.replica_watch import HEADER, ReplicaWatch
from tests.browser.conftest import Tab, serving
from tests.cli.records import add_scheduler
from tests.faults.standby import Pair, a_pair
from tests.foreign_rows import DAG, POOL, RUN, seed
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Site:
    """A web server with a replica."""

    pair: Pair
    db: Database
    watch: ReplicaWatch
    url: str


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    with a_pair(binaries()) as pair:
        await migrate(pair.primary.dsn())
        await pair.start_standby()
        async with await Database.open(pair.primary.dsn(), application_name="web") as db:
            await seed(db)
            scheduler = await db.connect()
            await add_scheduler(db, "alive", lease=3600.0, locked=scheduler)
            settings = Settings(database=DatabaseSettings(read_dsn=pair.standby.dsn()))
            app = make_app(RequestClient(db, settings))
            async with serving(app) as url:
                watch: ReplicaWatch = app.state.replica
                await until(lambda: watch.state.trouble is None, "the replica to be read")
                yield Site(pair, db, watch, url)
            await scheduler.close()


async def test_a_page_shows_what_it_is_told_of_and_says_how_old_it_is(
    browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (replicas, replica_watch):
        monkeypatch.setattr(module, "MOST_BEHIND", 1e6)  # however long this takes, the replica is read
    context = await browser.new_context()
    tab = Tab(await context.new_page(), site.url)
    known: list[str | None] = []
    tab.page.on("request", lambda request: known.append(request.headers.get(HEADER.lower())))
    page = await tab.open(f"/dags/{DAG}/runs/{RUN}")
    await expect(page.get_by_text("success").first).to_be_visible()
    await until(lambda: any(known), "the page to know a position")

    # What somebody else has changed, and the replica has not, is shown when the page is told.
    await site.pair.hold_replay()
    answered = site.watch.answered
    async with site.db.acquire() as conn:
        run = await conn.fetchval("UPDATE dag_run SET note = 'not yet there' WHERE run_id = $1 RETURNING id", RUN)
        await publish_runs(conn, [run])
    await expect(page.get_by_text("not yet there").first).to_be_visible()

    # What the page itself has changed is shown, too, on any of its pages.
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Pools").click()
    pool = page.get_by_role("region", name=f"Pool {POOL}")
    await pool.get_by_role("button", name="Edit").click()
    await page.get_by_role("dialog").get_by_label("Description").fill("of today")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(pool).to_contain_text("of today")

    # It says how old it is, and when it is current again.
    banner = page.get_by_role("status").filter(has_text="the replica that pages are read from is behind")
    site.watch._monotonic = lambda: time.monotonic() + 5
    await expect(banner).to_be_visible()
    await tab.check_access()
    await tab.picture("replica-behind")
    await site.pair.replay()
    await expect(banner).to_have_count(0)
    await until(lambda: site.watch.answered > answered, "an answer of the replica")
    await context.close()
    assert not tab.wrong
