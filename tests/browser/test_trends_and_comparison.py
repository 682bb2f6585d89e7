"""Is this DAG getting slower, what differs from the run before, and what a day's share of failures looks like."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_trends_lead_to_the_task_that_got_slower_and_to_the_run(tab: Tab) -> None:
    page = await tab.open("/dags/wide", width=1440)
    await page.get_by_role("link", name="Trends").click()
    await expect(page.get_by_text("Usually 1 m 25 s (p50)")).to_be_visible()
    await page.get_by_role("button", name="100 runs").click()
    await expect(page.get_by_text("Usually 50 s (p50)")).to_be_visible()
    await page.get_by_role("button", name="part_9.step_8", exact=True).click()
    await expect(page.get_by_role("heading", name="Duration of part_9.step_8")).to_be_visible()
    await expect(page).to_have_url(re.compile("runs=100&task=part_9.step_8"))
    chart = page.locator(".trend .u-over").first
    box = await chart.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 40)
    await expect(page).to_have_url(re.compile(r"/dags/wide/runs/day-100/tasks/part_9\.step_8"))


async def test_a_run_is_compared_with_the_one_before_it_and_another(service: Service, tab: Tab) -> None:
    await service.run("choices", "success", "first-of-two", {"days": 3}, "2031-01-01T00:00:00Z")
    await service.run("choices", "success", "second-of-two", {"days": 9}, "2031-01-02T00:00:00Z")
    page = await tab.open("/dags/choices/runs/second-of-two?tab=compare")
    await expect(page.get_by_title("first-of-two", exact=True)).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="days")).to_contain_text("39")
    await expect(page.get_by_role("row").filter(has_text="show")).to_contain_text("success")

    await page.goto(f"{tab.url}/dags/wide/runs/day-099?tab=compare")
    await expect(page.get_by_role("row").filter(has_text="part_5.step_0")).to_contain_text("upstream failed")
    await tab.looks_well("compare")
    await page.get_by_label("Compare with").select_option("day-090")
    await expect(page).to_have_url(re.compile("other=day-090"))
    await expect(page.get_by_title("day-090", exact=True)).to_be_visible()


async def test_what_failed_in_a_run_is_run_again_by_its_own_button(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-rerun")
    page = await tab.open("/dags/stages/runs/for-rerun")
    await page.get_by_role("button", name="Rerun failed (1)").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("2 instances in 1 run will run again")).to_be_visible()  # and what it held up
    await expect(dialog).to_contain_text("--only-failed")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("link", name="Graph").click()
    await expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("Graph of stages"))


async def test_the_calendar_colours_a_day_by_the_share_of_its_states(service: Service, tab: Tab) -> None:
    await service.execute("""
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                             run_after)
        SELECT dag_id, 'shared-' || n, partition, version_id, 'manual', 'test',
               CASE WHEN n < 3 THEN 'failed' ELSE 'success' END, at, at
          FROM dag, generate_series(0, 9) AS n, LATERAL (SELECT '2019-05-05Z'::timestamptz + n * interval '1 h' AS at)
         WHERE dag_id = 'yearly'
    """)
    page = await tab.open("/dags/yearly?tab=calendar&year=2019")
    day = page.get_by_role("link", name="2019-05-05: 3 failed (30 %), 7 success (70 %)")
    await expect(day).to_be_visible()
    assert "30%" in (await day.get_attribute("style") or "")
    await tab.looks_well("calendar-shares")


async def test_the_graph_opens_on_the_latest_run_folded_so_that_it_can_be_read(tab: Tab) -> None:
    page = await tab.open("/dags/wide?tab=graph", width=1440)
    await expect(page.locator("select.picker")).to_have_value("day-100")
    await expect(page.get_by_text("10 groups are folded, so that the text can be read.")).to_be_visible()
    graph = page.get_by_role("application")
    await expect(graph).to_have_attribute("aria-label", re.compile("10 nodes"))
    await page.get_by_role("button", name="Unfold all").click()
    await expect(graph).to_have_attribute("aria-label", re.compile("100 nodes"))
    await tab.picture("graph-minimap")
    await page.locator("select.picker").select_option("No run (structure only)")
    await expect(page).to_have_url(re.compile("run=-"))


async def test_the_grid_tells_what_is_selected_at_its_side(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "for-panel")
    page = await tab.open("/dags/troubled?run=for-panel&task=divide", width=1440)
    side = page.get_by_label("Selected", exact=True)
    await expect(side).to_contain_text("@task")
    await expect(side.get_by_label("End of the log")).to_contain_text("ZeroDivisionError")
    await expect(side.locator(".headline")).to_contain_text("ZeroDivisionError")
    await side.get_by_role("link", name="View the whole log").click()
    await page.get_by_label("Level").select_option("error")
    await expect(page.get_by_role("region", name="Log")).to_contain_text("ZeroDivisionError")
    await expect(page.get_by_text("about to divide")).to_have_count(0)
    await page.get_by_title("Show in the whole log").first.click()
    await expect(page.get_by_text("about to divide")).to_be_visible()
    await expect(page).to_have_url(re.compile(r"line=\d"))


async def test_mapped_instances_are_found_by_label_state_and_duration(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-labels")
    await service.execute("""
        INSERT INTO map_label SELECT i.run_id, task_index, map_index, 'person ' || (2 - map_index)
          FROM task_instance AS i JOIN dag_run ON dag_run.id = i.run_id
         WHERE dag_run.run_id = 'for-labels' AND map_index >= 0
    """)
    page = await tab.open("/dags/stages/runs/for-labels/tasks/people.greet", width=1440)
    rows = page.get_by_role("row")
    await expect(rows).to_have_count(4)
    await expect(rows.nth(1)).to_contain_text("person 2")
    await page.get_by_label("Order").select_option("label")
    await expect(rows.nth(1)).to_contain_text("person 0")
    await tab.looks_well("mapped")
    await tab.filter("State", "failed")
    await expect(page.get_by_text("No instances in this state")).to_be_visible()
    await tab.filter("State", "success")
    await page.get_by_role("link", name="people.greet[2]").click()
    await expect(page.locator("header").get_by_text("person 0")).to_be_visible()
    await page.get_by_role("link", name="Rendered").click()
    await page.get_by_role("button", name="Show the arguments of this instance").click()
    await expect(page.get_by_text("edsger")).to_be_visible()


async def test_a_backfill_begins_on_the_page_of_its_dag_and_runs_again_what_failed(service: Service, tab: Tab) -> None:
    await service.execute("""
        WITH made AS (
            INSERT INTO backfill (dag_id, partition, from_date, to_date, completed_at)
            SELECT 'daily', partition, '2026-01-01Z', '2026-01-02Z', now() FROM dag WHERE dag_id = 'daily'
            RETURNING id
        )
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                             run_after, backfill_id)
        SELECT dag_id, 'back-' || n, partition, version_id, 'backfill', 'test',
               CASE WHEN n = 1 THEN 'failed' ELSE 'success' END, at, at, made.id
          FROM made, dag, generate_series(1, 2) AS n,
               LATERAL (SELECT '2025-12-31Z'::timestamptz + n * interval '1 day' AS at) AS t
         WHERE dag_id = 'daily'
    """)
    page = await tab.open("/dags/daily", width=1440)
    await page.get_by_role("button", name="Backfill …").click()
    await expect(page.get_by_role("dialog").get_by_label("DAG", exact=True)).to_have_value("daily")
    page = await tab.open("/backfills?dag_id=daily", width=1440)
    await expect(page.get_by_role("link", name="1 failed")).to_be_visible()
    await page.get_by_role("button", name="Rerun failed (1)").click()
    await expect(page.get_by_role("dialog").get_by_label("Which dates")).to_have_value("failed")
