"""The pages that a newcomer sees after `aiosched init` and `aiosched serve`; the pictures of docs/first-steps.md."""

from __future__ import annotations

import asyncio
import shutil
import sys

import pytest
from playwright.async_api import Browser, expect

from benchmarks.processes import temporary_folders
from benchmarks.stage import start_serve
from tests.browser.conftest import Tab, finished
from tests.databases import TEMPLATE, Server
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_first_dag_is_on_every_page(server: Server, browser: Browser) -> None:
    dsn = await server.create(TEMPLATE)
    with temporary_folders() as folders:
        init = ("-m", "aiosched", "init", "demo")
        await (await asyncio.create_subprocess_exec(sys.executable, *init, cwd=folders.root)).wait()
        shutil.copy(folders.root / "demo" / "dags" / "hello.py", folders.dags)
        settings = {"AIOSCHED__WEB__LOOPBACK_LOGIN": "none", "AIOSCHED__LOGS__LEVEL": "INFO"}
        serve = await start_serve(folders, dsn=dsn, web=True, settings=settings)
        try:
            await serve.wait_ready(PATIENCE)
            url = str(serve.facts["web"]["url"])
            run_id = await finished(url, "hello")
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            tab = Tab(await context.new_page(), url)
            for name, address, shown in (
                ("home", "/", "Nothing needs attention."),
                ("dags", "/dags", "hello"),
                ("graph", "/dags/hello?tab=graph", "Critical path"),
                ("grid", "/dags/hello", "opens,"),
                ("run", f"/dags/hello/runs/{run_id}", "skipped"),
                ("log", f"/dags/hello/runs/{run_id}/tasks/fetch?try=1", "Download"),
            ):
                await tab.page.goto(url + address)
                await expect(tab.page.get_by_role("main").get_by_text(shown).first).to_be_visible()
                await expect(tab.page.locator(".skeleton")).to_have_count(0)
                await tab.picture(f"first-steps-{name}")
            await context.close()
            assert not tab.wrong
        finally:
            await serve.stop()
    await server.drop(dsn)
