"""Dialogs of actions in Chromium: what closes them, what they keep, and what they report."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_text_selected_beyond_the_edge_of_a_dialog_does_not_close_it(tab: Tab) -> None:
    page = await tab.open("/pools")
    await page.get_by_role("button", name="New pool …").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("long name")

    await dialog.get_by_label("Name").hover()
    await page.mouse.down()
    await page.mouse.move(5, 5)
    await page.mouse.up()
    await expect(dialog.get_by_label("Name")).to_have_value("long name")
    await page.mouse.click(5, 5)

    await expect(dialog).to_have_count(0)
