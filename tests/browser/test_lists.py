"""Lists in Chromium, on the real service: they fit, are filtered by one bar, and keep their place."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG: Final = "a_name_of_sixty_letters_that_says_all_of_it_and_does_not_end"
TAGS: Final = ("gold", "daily", "a-tag-that-says-more-than-a-tag-should", "pii", "eu")


async def many_long(route: Route) -> None:
    """A list with each row four times, all of them with the longest names that people have."""
    response = await route.fetch()
    found = await response.json()
    rows: list[dict[str, Any]] = found["items"] * 4
    for number, row in enumerate(rows):
        row["key"] = number
        row |= {name: f"{number:02}{LONG}"[:60] for name in ("dag_id", "run_id", "task_id", "name") if name in row}
        if "tags" in row:
            row |= {"owner": "data-platform-team@a-very-long-company-name.example.com", "tags": TAGS}
    await route.fulfill(response=response, json={"items": rows, "next_cursor": None})


async def box(page: Page, selector: str) -> dict[str, float]:
    found = await page.locator(selector).first.bounding_box()
    assert found is not None
    return dict(found)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["dags", "runs", "task-instances", "assets"])
async def test_lists_fit_with_the_longest_names(tab: Tab, path: str) -> None:
    page = await tab.open("/settings", width=1440)
    await page.route(f"**/api/v1/{path}?*", many_long)
    await page.goto(f"{tab.url}/{path}")
    rows = page.locator("tbody tr")
    await expect(rows.filter(has_text=LONG[:50]).first).to_be_visible()
    for width in (1440, 1280, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        await tab.fits(path, width)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        scrolled = await page.evaluate(
            "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
        )
        assert scrolled == [0], (path, width)
        if width > 390:
            heights = await rows.evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
            assert max(heights) < 42, "one line a row"
    await tab.check_access()


async def test_fourteen_dags_are_seen_at_once_and_their_name_and_actions_stay(tab: Tab) -> None:
    page = await tab.open("/settings", width=1440)
    await page.route("**/api/v1/dags?*", many_long)
    await page.goto(f"{tab.url}/dags")
    await expect(page.locator("tbody tr").first).to_be_visible()
    inside = "rows => rows.filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"
    assert await page.locator("tbody tr").evaluate_all(inside) >= 14

    await page.get_by_role("button", name="4 more tags").first.click()
    await expect(page.get_by_role("group", name="4 more tags").get_by_role("button")).to_have_text(list(TAGS[1:]))
    await page.keyboard.press("Escape")

    await page.set_viewport_size({"width": 800, "height": 900})
    scroll = page.locator(".dags .scroll")
    await scroll.evaluate("(box) => box.scrollLeft = 60")
    inner, name = await box(page, ".dags .scroll"), await box(page, "tbody .stays-left")
    action = await box(page, "tbody .stays-right")
    assert inner["x"] - 1 <= name["x"]
    assert action["x"] + action["width"] <= inner["x"] + inner["width"] + 1
    await scroll.evaluate("(box) => box.scrollLeft = 1000")
    name, action = await box(page, "tbody .stays-left"), await box(page, "tbody .stays-right")
    assert inner["x"] - 1 <= name["x"] <= inner["x"] + 1
    assert action["x"] + action["width"] <= inner["x"] + inner["width"] + 1
