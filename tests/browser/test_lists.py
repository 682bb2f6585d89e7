"""Lists in Chromium, on the real service: they fit, are filtered by one bar, and keep their place."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import Service, Tab

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


BARS: Final = {  # lists with the bar of filters: a filter of each, and what is in the address then
    "/dags": ("Status", "active", "status=active"),
    "/runs": ("State", "failed", "state=failed"),
    "/task-instances": ("State", "failed", "state=failed"),
    "/dags/wide?tab=runs": ("Type", "manual", "run_type=manual"),
    "/schedules": ("State", "paused", "paused=true"),
    "/requests": ("Outcome", "refused", "state=refused"),
}


@pytest.mark.parametrize("width", [1440, 390])
async def test_all_lists_are_filtered_by_the_same_bar(tab: Tab, width: int) -> None:
    for path, (field, value, query) in BARS.items():
        page = await tab.open(path, width=width)
        await tab.filter(field, value)
        await expect(page).to_have_url(re.compile(query))
        chip = page.get_by_role("button", name=f"{field} is {value}: change")
        await expect(chip).to_be_visible()
        await tab.fits(path, width)
        await chip.click()
        await tab.check_access()
        await tab.picture(f"bar{path.replace('/', '-').partition('?')[0]}-{width}")
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name=f"Remove filter {field} is {value}").click()
        await expect(page).not_to_have_url(re.compile(query))


async def test_typing_finds_values_of_every_filter_and_leaves_them_out(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-leave-out")
    page = await tab.open("/runs?search=to-leave-out", width=1440)
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.keyboard.press("f")
    await page.keyboard.type("troub")
    box = page.get_by_role("group", name="Add a filter")
    await expect(box.get_by_role("button", name="DAG: troubled (1)")).to_be_visible()
    await box.get_by_role("button", name="DAG is not troubled").click()
    await page.keyboard.press("Escape")
    await expect(page).to_have_url(re.compile("not_dag_id=troubled"))
    await expect(page.get_by_text("No runs match these filters")).to_be_visible()
    await expect(page.get_by_role("button", name="DAG is not troubled: change")).to_be_visible()
    await tab.filter("DAG", "troubled")
    await expect(page).to_have_url(re.compile("[&?]dag_id=troubled"))
    await expect(page).not_to_have_url(re.compile("not_dag_id"))
    await expect(page.get_by_role("row")).to_have_count(2)


async def test_one_finds_runs_by_what_is_in_their_conf(service: Service, tab: Tab) -> None:
    await service.run("making", "success", "by-conf-1", {"city": "Oslo"})
    await service.run("making", "success", "by-conf-2", {"city": "Bergen"})
    page = await tab.open("/dags/making?tab=runs&search=by-conf", width=1440)
    await expect(page.get_by_role("row")).to_have_count(3)
    await page.get_by_role("button", name="Add a filter").click()
    await page.get_by_role("button", name="Conf …").click()
    await page.keyboard.type("city=Oslo")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("row")).to_have_count(2)
    await expect(page.get_by_role("row").last).to_contain_text("by-conf-1")
    await expect(page.get_by_role("checkbox", name="Select making by-conf-1")).to_be_visible()


async def test_views_are_tabs_and_my_dags_are_one(tab: Tab) -> None:
    page = await tab.open("/dags?tag=shapes", width=1440)
    await page.get_by_role("button", name="Save view").click()
    await page.get_by_label("Name of the view").fill("the shapes")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="the shapes")).to_have_attribute("aria-current", "page")
    await page.get_by_role("link", name="My DAGs").click()
    await expect(page).to_have_url(re.compile("owner="))
    await expect(page.get_by_text("No matching DAGs")).to_be_visible()
    await page.get_by_role("link", name="the shapes").click()
    await expect(page.get_by_role("row")).to_have_count(4)
    await page.get_by_role("button", name="Remove view").click()
    await expect(page.get_by_role("link", name="the shapes")).to_have_count(0)
