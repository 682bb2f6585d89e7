"""The page of what tasks ask, in Chromium, on the real service."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_question_is_answered_on_its_page(service: Service, tab: Tab) -> None:
    page = await tab.open("/inputs")
    await expect(page.get_by_text("No open questions")).to_be_visible()
    await service.api("POST", "dags/asking/runs", json={"run_id": "on-the-page"})

    row = page.get_by_role("row", name="Which price?")
    await row.get_by_role("button", name="Answer …").click()
    dialog = page.get_by_role("dialog", name="Which price?")
    await expect(dialog.locator(".markdown strong")).to_have_text("cheap")
    await expect(dialog.get_by_text("price of asking, on-the-page asks:")).to_be_visible()
    submit = dialog.get_by_role("button", name="Answer")
    await expect(submit).to_be_disabled()
    await dialog.get_by_role("radio", name="change").check()
    await dialog.get_by_label("euros").fill("7")
    await expect(dialog.locator("code")).to_have_text(
        "aiosched inputs answer asking on-the-page price change -p euros=7"
    )
    await submit.click()

    await expect(page.get_by_text("No open questions")).to_be_visible()
    await page.get_by_role("link", name="All").click()
    await expect(page.get_by_role("row", name="Which price?")).to_contain_text("by api:local")
    (found,) = (await service.api("GET", "inputs", params={"run_id": "on-the-page"}))["items"]
    params = {"euros": 7, "note": "", "pin": "***"}
    assert (found["state"], found["answer"]) == ("answered", {"options": ["change"], "params": params})


async def test_a_question_is_answered_on_the_page_of_its_task(service: Service, tab: Tab) -> None:
    await service.api("POST", "dags/asking/runs", json={"run_id": "on-its-task"})
    page = await tab.open("/dags/asking/runs/on-its-task/tasks/price")
    await page.get_by_role("button", name="Answer …").click()
    await expect(page.get_by_text("waits for the answer of a person to 'Which price?'")).to_be_visible()
    dialog = page.get_by_role("dialog", name="Which price?")
    await dialog.get_by_role("radio", name="keep").check()
    await dialog.get_by_label("note").fill("5")
    await dialog.get_by_label("pin").fill("a secret pin")
    await expect(dialog.locator("code")).to_have_text(
        """aiosched inputs answer asking on-its-task price keep -p 'note="5"' -p 'pin=***'"""
    )
    await dialog.get_by_role("button", name="Answer").click()

    await expect(page.get_by_role("button", name="Answer …")).to_have_count(0)
    await expect(page.get_by_text("local chose keep")).to_be_visible()
    (found,) = (await service.api("GET", "inputs", params={"run_id": "on-its-task"}))["items"]
    assert found["answer"]["params"]["note"] == "5"
