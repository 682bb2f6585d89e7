"""Dialogs of pools, variables and connections in Chromium, on the real service: what they create, change and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def open_dialog(page: Page, button: str) -> Locator:
    await page.get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


async def save(dialog: Locator) -> None:
    await dialog.get_by_role("button", name="Save").click()


@pytest.mark.parametrize(
    ("place", "body", "page", "button", "fields"),
    [
        ("pools/taken", {"slots": 64}, "/pools", "New pool …", {"Name": "taken"}),
        ("variables/taken", {"value": "a"}, "/secrets", "New variable …", {"Key": "taken", "Value": "b"}),
        (
            "connections/taken",
            {"conn_type": "http"},
            "/secrets?tab=connections",
            "New connection …",
            {"Id": "taken", "Type": "ftp"},
        ),
        (
            "alert-rules/taken",
            {"kind": "run_failed", "notifier": "ops"},
            "/alerts?tab=rules",
            "New rule …",
            {"Name": "taken"},
        ),
    ],
)
async def test_new_does_not_overwrite_what_exists(
    service: Service, tab: Tab, place: str, body: Any, page: str, button: str, fields: dict[str, str]
) -> None:
    await service.api("PUT", place, json=body)
    dialog = await open_dialog(await tab.open(page), button)
    for label, text in fields.items():
        await dialog.get_by_label(label, exact=True).fill(text)

    await save(dialog)

    await expect(dialog.get_by_text("'taken' exists already")).to_be_visible()
    tab.expected.append("409")
    await service.api("DELETE", place)
