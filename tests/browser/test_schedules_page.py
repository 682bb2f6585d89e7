"""The page of schedules that are data, in Chromium, on the real service."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_schedules_are_listed_filtered_paused_resumed_and_removed(service: Service, tab: Tab) -> None:
    page = await tab.open("/schedules")
    await expect(page.get_by_text("No schedules")).to_be_visible()
    await service.api("PUT", "dags/troubled/schedules/tenant-7", json={"cron": "0 6 1 1 *", "timezone": "Asia/Tokyo"})
    await service.api("PUT", "dags/stages/schedules/tenant-8", json={"cron": "@yearly"})
    await page.reload()

    seven = page.get_by_role("row", name="tenant-7")
    await expect(seven).to_contain_text("0 6 1 1 * (Asia/Tokyo)")
    await expect(seven.get_by_role("link", name="troubled")).to_have_attribute("href", "/dags/troubled")
    await expect(seven.get_by_role("link", name="tenant-7")).to_have_attribute(
        "href", "/runs?dag_id=troubled&search=tenant-7__"
    )
    await page.get_by_role("button", name="Add a filter").click()
    await page.get_by_role("searchbox", name="Filter or value …").fill("troubled")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("row", name="tenant-8")).to_have_count(0)

    await seven.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause schedule tenant-7 of troubled")
    await expect(dialog.locator("code")).to_have_text("aiosched schedules pause troubled tenant-7")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(seven).to_contain_text("paused")
    await tab.filter("State", "active")
    await expect(seven).to_have_count(0)
    await tab.filter("State", "paused")
    await seven.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await expect(seven).to_have_count(0)
    await tab.filter("State", "paused")

    await seven.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Remove schedule tenant-7 of troubled")
    await expect(dialog.get_by_text("Its runs stay")).to_be_visible()
    await dialog.get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("No matching schedules")).to_be_visible()
    left = (await service.api("GET", "schedules"))["items"]
    assert [one["name"] for one in left] == ["tenant-8"]
    await service.api("DELETE", "dags/stages/schedules/tenant-8")
