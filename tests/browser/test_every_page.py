"""A walk over every page: nothing sticks out, axe finds nothing serious, the console is silent, a picture of each.

The pages are those of the navigation and their tabs, and the tabs of a DAG, a run, a task and an asset; a page that is
added there is walked without a word here. Each is opened once and looked at in both themes and at each width.
"""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

PARTS: Final = 8  # of the navigation: on a busy machine a walk over all of it takes longer than a test may
LINKS: Final = "links => links.map(one => [one.textContent.trim(), one.getAttribute('href')])"

# By the name of their pictures: addresses of things, whose tabs are walked, too.
THINGS: Final = {
    "dag": "/dags/wide",
    "run": "/dags/troubled/runs/to-see",
    "task": "/dags/troubled/runs/to-see/tasks/divide",
    "mapped": "/dags/stages/runs/to-see/tasks/people.greet",
    "asset": "/assets/report",
}


def name_of(words: str) -> str:
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")


async def settled(page: Page) -> None:
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)


async def walk(tab: Tab, name: str, address: str) -> None:
    """A page, and each of its tabs."""
    page = await tab.open(address, width=1440)
    await settled(page)
    tabs = await page.locator(".tabs a").evaluate_all(LINKS)
    if not tabs:
        return await tab.looks_well(name)
    for words, _ in tabs:
        await page.get_by_role("navigation", name="Views").get_by_role("link", name=words, exact=True).click()
        await settled(page)
        await tab.looks_well(f"{name}-{name_of(words)}")
    return None


@pytest.fixture(scope="module")
def once() -> set[str]:
    return set()


async def something_to_see(service: Service, once: set[str]) -> None:
    if once:
        return
    once.add("begun")
    await service.run("troubled", "failed", "to-see")
    await service.run("stages", "failed", "to-see")
    await service.run("making", "success", "to-see")
    await service.api("PUT", "variables/city", json={"value": "Amsterdam"})


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_of_the_navigation(service: Service, tab: Tab, once: set[str], part: int) -> None:
    await something_to_see(service, once)
    page = await tab.open("/")
    await settled(page)
    links = await page.locator("nav.side a.item").evaluate_all(LINKS)
    assert len(links) > 10
    for words, address in links[part::PARTS]:
        await walk(tab, name_of(words), address)


@pytest.mark.parametrize("name", THINGS)
async def test_every_tab_of_a_thing(service: Service, tab: Tab, once: set[str], name: str) -> None:
    await something_to_see(service, once)
    await walk(tab, name, THINGS[name])
