"""The search over everything: by keys and by a button, for screen readers, on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_ctrl_k_finds_dags_tasks_runs_pages_and_actions(service: Service, tab: Tab) -> None:
    page = await tab.open("/pools", "dark", 1440)
    await expect(page.get_by_role("heading", name="Pools", exact=True)).to_be_visible()
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    await expect(field).to_be_focused()
    await expect(page.get_by_role("listbox").get_by_role("option").filter(has_text="Import errors")).to_be_visible()
    await field.press_sequentially("wide")
    first = page.get_by_role("listbox").get_by_role("option").first
    await expect(first).to_have_text(re.compile("DAG.*wide"))
    await expect(first).to_have_attribute("aria-selected", "true")
    await tab.check_access()
    await tab.picture("search-dark")
    await field.press("Enter")
    await expect(page).to_have_url(re.compile("/dags/wide$"))
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await page.get_by_role("button", name="Search").click()  # a run, then what was visited
    await field.fill("wide day-099")
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="day-099").click()
    await expect(page.locator(".run-id", has_text="day-099")).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.get_by_role("listbox").get_by_role("option").first).to_have_text(re.compile("DAG.*wide"))

    await field.fill("pause the")  # an action, with what is open
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="Unpause the DAG").click()
    await expect(page.get_by_text("wide is unpaused.")).to_be_visible()
    await page.keyboard.press("Control+k")
    await field.fill("clear failed")
    await field.press("Enter")
    await expect(page.get_by_role("dialog", name="Clear the run")).to_be_visible()


async def test_on_a_phone_a_button_opens_the_search(tab: Tab) -> None:
    page = await tab.open("/runs", "light", 390)
    await page.get_by_role("button", name="Search").click()
    field = page.get_by_role("combobox", name="Search")
    await field.fill("nothing-has-this-name")
    await expect(page.get_by_text("Nothing found")).to_be_visible()
    await field.fill("import")
    await tab.check_access()
    await tab.picture("search-390")
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="Import errors").click()

    await expect(page.get_by_role("heading", name="Import errors")).to_be_visible()
