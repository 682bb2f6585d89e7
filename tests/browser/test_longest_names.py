"""Ids, display names and errors as long as they may be, in one word: they stay in their boxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from aiosched import DAG, Asset, task
from aiosched.config import Settings
from aiosched.scheduler import Scheduler
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.browser.conftest import Tab, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG: Final = "x" * 240
RUN: Final = f"/dags/dag_{LONG}/runs/one"
PAGES: Final = (
    "/", "/dags", "/runs", "/task-instances", "/assets", "/requests", "/audit", "/pools", f"/dags/dag_{LONG}",
    f"/dags/dag_{LONG}?run=one&task=task_{LONG}", f"/dags/dag_{LONG}?tab=runs", f"/dags/dag_{LONG}?tab=details", RUN,
    f"{RUN}?tab=details", f"{RUN}/tasks/task_{LONG}", f"{RUN}/tasks/task_{LONG}?tab=details",
)  # fmt: skip
# What sticks out of its card, or makes its table wider than the card.
_OUTSIDE: Final = """() => [...document.querySelectorAll(".card")].flatMap((card) => {
    const right = card.getBoundingClientRect().right + 1;
    const wide = [...card.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1);
    const out = [...card.querySelectorAll("*")].filter((one) => {
        const text = [...one.childNodes].find((node) => node.nodeType === 3 && node.data.trim());
        if (!text || one.closest(".scroll *, .gridbox *, .pane *, .log *, pre, pre *, .hidden-text")) return false;
        const range = document.createRange();
        range.selectNodeContents(text);
        return range.getBoundingClientRect().right > right && getComputedStyle(one).textOverflow !== "ellipsis";
    });
    return [...wide, ...out].map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 30)}`);
}).slice(0, 5).join("; ")"""


def longest(name: str | None) -> DAG:
    tags = [f"tag_{LONG[:90]}"]
    with DAG(f"dag_{LONG}", schedule=None, dag_display_name=name, tags=tags, default_args={"owner": LONG}) as dag:

        @task(task_id=f"task_{LONG}", task_display_name=name, outlets=[Asset(f"asset_{LONG}")])
        async def fail() -> None:
            raise ValueError(LONG * 3)

        fail()
    return dag


@pytest_asyncio.fixture(loop_scope="session", params=[None, LONG.upper()], ids=["ids", "display names"])
async def url(dsn: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A web server on a database with a failed run of that DAG."""
    settings = Settings.model_validate({"core": {"home": tmp_path}})
    async with Scheduler(dsn=dsn, dags=[longest(request.param)], settings=settings, executor="inline") as scheduler:
        run = await scheduler.trigger(f"dag_{LONG}", run_id="one")
        await run.wait()
        async with serving(make_app(RequestClient(scheduler.db, settings))) as found:
            yield found


async def test_the_longest_names_stay_in_their_boxes(browser: Browser, url: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), url)
    found = {}
    for path in PAGES:
        page = await tab.open(path)
        await page.wait_for_load_state("networkidle")
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            await expect(page.locator(".skeleton")).to_have_count(0)
            if outside := await page.evaluate(_OUTSIDE):
                found[path.replace(LONG, "x"), width] = outside
    await context.close()

    assert found == {}
