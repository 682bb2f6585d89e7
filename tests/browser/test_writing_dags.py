"""The DAGs of docs/writing-dags.md, all of them in one file, in a real `serve`; the pictures of that page."""

from __future__ import annotations

import httpx2
import pytest
from playwright.async_api import Browser, expect

from benchmarks.processes import temporary_folders
from benchmarks.stage import start_serve
from tests.browser.conftest import Tab, finished
from tests.databases import TEMPLATE, Server
from tests.docs.code_blocks import ROOT, blocks
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = ROOT / "docs" / "writing-dags.md"
TRIGGERED = ("sales", "orders", "delivery", "invoices", "cleaning")


async def test_the_dags_of_the_page_do_what_it_says(server: Server, browser: Browser) -> None:
    dsn = await server.create(TEMPLATE)
    with temporary_folders() as folders:
        written = [block.text for block in blocks("python") if block.page == PAGE]
        (folders.dags / "writing.py").write_text("\n".join(written), encoding="utf-8")
        serve = await start_serve(folders, dsn=dsn, web=True, settings={"AIOSCHED__WEB__LOOPBACK_LOGIN": "none"})
        try:
            await serve.wait_ready(PATIENCE)
            url = str(serve.facts["web"]["url"])
            async with httpx2.AsyncClient(base_url=f"{url}/api/v1/", timeout=PATIENCE, trust_env=False) as client:
                runs = {dag_id: await run(client, url, dag_id) for dag_id in TRIGGERED}
                assert await finished(url, "statistics")  # the outlet of cleaning has changed
                delivered = await instances(client, "delivery", runs["delivery"])
                assert delivered["by_sea"] == ("skipped", 0)
                assert delivered["tell"] == ("success", 2)
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            tab = Tab(await context.new_page(), url)
            for dag_id, address, shown in (
                ("sales", "/dags/sales?tab=graph", "Critical path"),
                ("delivery", f"/dags/delivery/runs/{runs['delivery']}", "skipped"),
                ("invoices", f"/dags/invoices/runs/{runs['invoices']}", "send"),
            ):
                await tab.page.goto(url + address)
                await expect(tab.page.get_by_role("main").get_by_text(shown).first).to_be_visible()
                await expect(tab.page.locator(".skeleton")).to_have_count(0)
                await tab.picture(f"writing-{dag_id}")
            await tab.page.goto(f"{url}/dags/orders")
            await tab.page.get_by_role("button", name="Trigger …").click()
            await expect(tab.page.get_by_role("dialog").get_by_label("country")).to_be_visible()
            await tab.picture("writing-params")
            await context.close()
            assert not tab.wrong
        finally:
            await serve.stop()
    await server.drop(dsn)


async def run(client: httpx2.AsyncClient, url: str, dag_id: str) -> str:
    """Trigger a DAG; the id of its run once it has succeeded."""
    answer = await client.post(f"dags/{dag_id}/runs", json={})
    assert answer.is_success, answer.text
    return await finished(url, dag_id)


async def instances(client: httpx2.AsyncClient, dag_id: str, run_id: str) -> dict[str, tuple[str, int]]:
    """State and try of each task of a run."""
    items = (await client.get(f"dags/{dag_id}/runs/{run_id}/tasks")).json()["items"]
    return {item["task_id"]: (item["state"], item["try_number"]) for item in items}
