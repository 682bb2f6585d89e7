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
        if "note" in row:
            row["note"] = "looked at by somebody who says\nmuch about it, on two lines"
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
            found = await rows.evaluate_all(
                "rows => rows.map(row => [row.getBoundingClientRect().height, row.innerText])"
            )
            assert [row for row in found if row[0] >= 42] == [], "one line a row"
    await tab.check_access()


MANUAL: Final = "manual__2026-11-30T22:13:14.424952+00:00_d4ab664a"
CHECKED: Final = {"name": "checked_orders", "check": "warn", "description": "paid " * 20, "owners": []}
USUAL: Final = {  # what an answer has in each row, and the name that has to be read
    "audit": (
        "audit",
        {"kind": "request.set_variable", "object": MANUAL, "dag_id": "troubled" * 4},
        "request.set_variable",
    ),
    "import-errors?tab=files": (
        "files",
        {"file": "mapped_failing.py", "dag_ids": ["one_of_many"] * 12},
        "mapped_failing.py",
    ),
    "assets": ("assets", CHECKED, "checked_orders"),
}
# Of the elements with just that text: whether they have one line, and all of it is seen.
_WHOLE: Final = """(found) => found.map((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const cell = one.closest("td").getBoundingClientRect();
    const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
    return lines.size === 1 && one.scrollWidth <= one.clientWidth && range.getBoundingClientRect().right <= cell.right;
})"""


@pytest.mark.parametrize("path", USUAL)
async def test_names_of_a_usual_length_are_neither_broken_nor_cut(tab: Tab, path: str) -> None:
    resource, change, name = USUAL[path]

    async def usual(route: Route) -> None:
        response = await route.fetch()
        rows = [row | change for row in (await response.json())["items"][:1]]
        await route.fulfill(response=response, json={"items": rows, "next_cursor": None})

    page = await tab.open("/settings", width=1440)
    await page.route(f"**/api/v1/{resource}?*", usual)
    await page.goto(f"{tab.url}/{path}")
    found = page.locator("tbody").get_by_text(name, exact=True)
    await expect(found.first).to_be_visible()
    assert await found.evaluate_all(_WHOLE) == [True]


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
    "/audit": ("Result", "refused", "result=refused"),
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
    await expect(page.get_by_role("searchbox", name="Filter or value …")).to_be_focused()
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
    await expect(page.get_by_role("searchbox", name="Conf …")).to_be_focused()
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


async def test_a_view_is_shared_replaced_and_removed(service: Service, tab: Tab) -> None:
    await service.api("POST", "teams", json={"name": "sales"})
    page = await tab.open("/runs?state=failed", width=1440)

    async def share(place: str, button: str) -> None:
        await page.get_by_role("button", name="Save view").click()
        await page.get_by_label("Name of the view").fill("late")
        await page.get_by_label("Kept").select_option(place)
        await page.get_by_role("button", name=button, exact=True).click()
        await expect(page.get_by_role("link", name="late")).to_have_attribute("aria-current", "page")

    await share("for team sales", "Save")
    await page.goto(f"{service.url}/runs?state=queued")
    await share("for team sales", "Replace")
    (view,) = (await service.api("GET", "views"))["items"]
    assert (view["team"], view["query"]) == ("sales", "state=queued")
    await page.get_by_role("link", name="All", exact=True).click()
    await page.get_by_role("link", name="late").click()
    await expect(page).to_have_url(re.compile("state=queued"))
    await tab.looks_well("shared-view")
    await page.get_by_role("button", name="Remove view …").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()

    await expect(page.get_by_role("link", name="late")).to_have_count(0)
    assert (await service.api("GET", "views"))["items"] == []
    await service.api("DELETE", "teams/sales")


async def test_back_keeps_the_place_the_pages_and_the_selection(tab: Tab) -> None:
    page = await tab.open("/runs?dag_id=wide&order=run_after", width=1440)
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Show more").click()
    await expect(rows.nth(75)).to_be_attached()
    loaded = await rows.count()
    await page.get_by_role("checkbox", name="Select wide day-060").check()
    link = page.get_by_role("link", name="day-070")
    await link.scroll_into_view_if_needed()
    place = await page.evaluate("scrollY")
    assert place > 500
    await link.click()
    await expect(page.locator(".run-id", has_text="day-070")).to_be_visible()
    assert await page.evaluate("scrollY") == 0

    await page.go_back()

    await expect(rows).to_have_count(loaded)
    await expect(page.get_by_role("checkbox", name="Select wide day-060")).to_be_checked()
    await page.wait_for_function("(place) => scrollY === place", arg=place)
    await page.reload()
    await expect(rows).to_have_count(loaded)
    await page.wait_for_function("(place) => scrollY === place", arg=place)
    await page.go_forward()
    await expect(page.locator(".run-id", has_text="day-070")).to_be_visible()


async def test_from_one_failure_to_the_next_in_the_list_one_came_from(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "walk-1")
    await service.run("troubled", "failed", "walk-2")
    await service.run("troubled", "failed", "other")
    page = await tab.open("/runs?search=walk", width=1440)
    await page.get_by_role("link", name="walk-2").click()
    await expect(page.get_by_role("link", name="Next failed")).to_have_attribute("href", re.compile("walk-1$"))
    await page.keyboard.press("n")
    await expect(page.locator(".run-id", has_text="walk-1")).to_be_visible()
    await expect(page.get_by_role("link", name="Next failed")).to_have_count(0)
    await expect(page.get_by_role("button", name="Rerun failed")).to_be_visible()
    await page.keyboard.press("r")
    await expect(page.get_by_role("dialog")).to_contain_text("Clear")
    await page.keyboard.press("Escape")

    await page.goto(f"{tab.url}/task-instances?dag_id=troubled&state=failed&run_type=manual")
    first = page.locator("tbody tr").filter(has_text="walk-2")
    await first.get_by_role("link", name="divide").click()
    await expect(page.get_by_role("link", name="Next failed")).to_be_visible()
    await page.keyboard.press("n")
    await expect(page).to_have_url(re.compile("walk-1/tasks/divide"))
    await page.get_by_role("link", name="XCom", exact=True).click()
    await page.keyboard.press("l")
    await expect(page).not_to_have_url(re.compile("tab="))


async def test_what_is_done_to_all_that_match_is_done_beyond_the_loaded_rows(tab: Tab) -> None:
    page = await tab.open("/runs?dag_id=wide", width=1440)
    await expect(page.locator("tbody tr")).to_have_count(50)
    await page.get_by_role("checkbox", name="Select all rows").check()
    await page.get_by_role("button", name="Select all that match").click()
    bar = page.get_by_role("group", name="Selected rows")
    await expect(bar.get_by_text("100 selected")).to_be_visible()
    await bar.get_by_role("button", name="Note").click()
    await expect(page.get_by_role("dialog", name="Note 100 runs")).to_contain_text("Notes in 100 runs of 1 DAG")
    await page.keyboard.press("Escape")


async def test_the_grid_of_many_tasks_is_folded_and_filtered(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "to-fold")
    page = await tab.open("/dags/stages", width=1440)
    grid = page.get_by_role("grid")
    rows = int(await grid.get_attribute("aria-rowcount") or 0)
    await page.get_by_role("button", name="Fold all").click()
    await expect(grid).not_to_have_attribute("aria-rowcount", str(rows))
    await page.get_by_role("button", name="Unfold all").click()
    await expect(grid).to_have_attribute("aria-rowcount", str(rows))
    await page.get_by_role("searchbox", name="Filter tasks").fill("greet")
    await expect(page).to_have_url(re.compile("tasks=greet"))
    await expect(grid).to_have_attribute("aria-rowcount", "3")


async def test_a_mapped_task_has_its_page_with_the_counts_of_all_and_actions_on_all(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-all")
    await service.execute("""
        INSERT INTO task_instance (run_id, task_index, map_index, state, try_number)
        SELECT i.run_id, i.task_index, i.map_index + n, CASE n WHEN 300 THEN 'failed' ELSE 'success' END, 1
          FROM task_instance AS i JOIN dag_run AS r ON r.id = i.run_id, generate_series(1, 300) AS n
         WHERE r.run_id = 'for-all' AND i.map_index = 2
    """)
    page = await tab.open("/dags/stages/runs/for-all", width=1440)
    await page.get_by_role("link", name="All 303 instances of people.greet").click()
    await expect(page.get_by_text("a mapped task with 303 instances")).to_be_visible()
    await expect(page.locator("header").get_by_text("302 success")).to_be_visible()
    await page.get_by_role("button", name="Rerun failed (1)").click()
    await expect(page.get_by_role("dialog")).to_contain_text("people.greet")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Clear all").click()
    await expect(page.get_by_role("button", name="Clear 303")).to_be_visible()
    await tab.check_access()
    await tab.fits()
