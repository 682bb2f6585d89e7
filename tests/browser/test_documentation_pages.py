"""The documentation site in Chromium, under the web server's policy: themes, navigation and search work offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, expect

import aiosched
from aiosched.web.server.guard import Guard
from aiosched.web.server.host_names import HostNames, Unnamed
from aiosched.web.views import documentation
from tests.browser.conftest import Tab, serving

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site that CI has built, or one that is built now."""
    place = ROOT / "build" / "docs"
    if not (place / "index.html").is_file():
        place = tmp_path / "site"
        where = ["--doctree-dir", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(place)]
        subprocess.run([sys.executable, "-m", "sphinx", "--quiet", *where], check=True)
    monkeypatch.setattr(documentation, "PLACES", (place,))


async def test_the_documentation_is_read_and_searched_without_a_network_under_the_policy(
    site: None, browser: Browser
) -> None:
    app = FastAPI(docs_url=None)
    app.include_router(documentation.router)
    app.add_middleware(Guard, hosts=HostNames(frozenset(), Unnamed.LOOPBACK))
    async with serving(app) as url:
        context = await browser.new_context()
        tab = Tab(await context.new_page(), url)  # notes what the policy blocks, and requests to other hosts

        page = await tab.open("/docs")
        await expect(page.get_by_role("heading", level=1, name="aiosched")).to_be_visible()
        assert await page.title() == f"aiosched {aiosched.__version__}"

        await page.get_by_role("link", name="First steps").first.click()
        await expect(page.get_by_role("img", name="The grid of hello")).to_be_visible()
        assert await page.evaluate("document.body.dataset.theme") == "auto"

        await page.get_by_role("searchbox").or_(page.get_by_placeholder("Search")).first.fill("quarantine")
        await page.keyboard.press("Enter")
        await expect(page.locator("ul.search li a").first).to_be_visible()
        await expect(page.locator("#search-results")).to_contain_text("found")
        await page.locator("ul.search li a").first.click()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()

        await context.close()
        assert tab.wrong == []
