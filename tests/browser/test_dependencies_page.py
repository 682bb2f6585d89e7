"""The page of dependencies, freshness of assets, and the neighbours in a DAG's graph, in Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_dependencies_across_dags_on_a_laptop_and_on_a_phone(service: Service, tab: Tab) -> None:
    await service.run("link_load", "success", "linked")
    page = await tab.open("/dependencies?search=link", width=1440)

    drawing = page.get_by_role("region", name="Dependencies")
    await expect(drawing.get_by_role("link", name="DAG link_load")).to_contain_text("success")
    await expect(drawing.get_by_role("link", name="asset stock")).to_contain_text("fresh")
    await expect(drawing.get_by_role("link", name="DAG link_report")).to_contain_text("paused")
    await expect(drawing.locator("g.unknown")).to_contain_text("unknown DAG")
    await expect(drawing.locator("path.edge")).to_have_count(5)
    await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("button", name="Fit").click()
    await tab.check_access()
    await tab.picture("dependencies")

    await page.get_by_role("combobox", name="Upstream and downstream of").select_option("dag:link_mail")
    await page.get_by_role("combobox", name="Direction").select_option("upstream")
    await expect(page).to_have_url(re.compile("around=dag%3Alink_mail&direction=upstream"))
    await expect(drawing.locator("path.edge")).to_have_count(1)
    await page.get_by_role("combobox", name="Direction").select_option("downstream")
    await expect(drawing.get_by_role("link", name="DAG link_report")).to_be_visible()
    await page.get_by_role("link", name="List").click()
    table = page.get_by_role("table", name="Dependencies")
    await expect(table.get_by_role("row").filter(has_text="waits for")).to_contain_text("link_mail")

    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(service.url + "/dependencies?search=link")
    await expect(table.get_by_role("row").filter(has_text="is scheduled on")).to_contain_text("stock")
    await expect(table.get_by_text("unknown DAG")).to_be_visible()
    await tab.fits()
    await tab.check_access()
    await tab.picture("dependencies-phone")
    await page.get_by_role("searchbox", name="Search DAGs and assets").fill("no such name")
    await expect(page.get_by_text("No dependencies match")).to_be_visible()
    await page.get_by_role("link", name="Graph", exact=True).click()
    await expect(page.get_by_text("No dependencies match")).to_be_visible()


async def test_assets_are_filtered_by_freshness_and_name_their_last_producer(service: Service, tab: Tab) -> None:
    await service.run("link_load", "success", "fresh-asset")
    page = await tab.open("/assets?freshness=fresh", width=1440)

    await expect(page.get_by_role("row").filter(has_text="stock")).to_contain_text("fresh expected in")
    await expect(page.get_by_role("link", name="report", exact=True)).to_have_count(0)
    await page.get_by_role("link", name="stock").click()
    await expect(page.get_by_role("link", name="link_load · fresh-asset · load").first).to_be_visible()
    await expect(page.get_by_role("link", name="DAG link_report")).to_be_visible()


async def test_the_graph_of_a_dag_shows_assets_and_other_dags(service: Service, tab: Tab) -> None:
    page = await tab.open("/dags/link_report?tab=graph&run=-", width=1440)

    graph = page.get_by_role("application")
    await expect(graph).to_have_attribute("aria-label", re.compile("2 nodes"))
    await page.get_by_label("Assets and other DAGs").check()
    await expect(graph).to_have_attribute("aria-label", re.compile("5 nodes"))
    await page.get_by_label("Find a task").fill("asset:stock:before")
    await expect(page.get_by_role("region", name="Selected")).to_contain_text("stock")
    await tab.picture("graph-neighbours")
    await page.get_by_role("region", name="Selected").get_by_role("link", name="Open").click()
    await expect(page).to_have_url(re.compile("/assets/stock$"))
